"""Whether a tiny problem has any plan at all: every grouping, order and device, by the clock."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import numpy as np

import hetsim
from hetsim.errors import Infeasible
from hetsim.problem.groups import Group
from hetsim.problem.parts import StoredConstant, Value
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem


def every_plan(problem: Problem) -> Iterator[tuple[Group, ...]]:
    """Give every sequence of subgraphs in which each stands after all that feed it.

    Those whose weights alone do not fit are left out.
    """
    yield from _longer(problem, (), frozenset(range(problem.n)))


def any_plan(problem: Problem) -> Plan | None:
    """The first plan that the clock accepts; None where there is none."""
    for groups in every_plan(problem):
        plan = Plan(problem, "any", groups)
        try:
            hetsim.simulate(plan)
        except Infeasible:
            continue
        return plan
    return None


def _longer(
    problem: Problem, made: tuple[Group, ...], left: frozenset[int]
) -> Iterator[tuple[Group, ...]]:
    if not left:
        yield made
        return
    nodes = sorted(left)
    for size in range(len(nodes), 0, -1):
        for chosen in itertools.combinations(nodes, size):
            inside = set(chosen)
            if any(u in left and u not in inside for v in chosen for u in problem.dag.preds[v]):
                continue
            for device, name in enumerate(problem.devices):
                longer = (*made, Group(name, chosen))
                if problem.supported[list(chosen), device].all() and _weights_fit(problem, longer):
                    yield from _longer(problem, longer, left - inside)


def _weights_fit(problem: Problem, groups: tuple[Group, ...]) -> bool:
    if problem.capacity_bytes is None:
        return True
    for name, capacity in zip(problem.devices, problem.capacity_bytes, strict=True):
        there = {v for group in groups if group.device == name for v in group.nodes}
        held = sum(c.nbytes for c in problem.constants if there.intersection(c.consumers))
        if held > capacity:
            return False
    return True


def tight_problem(seed: int, most_nodes: int = 6, most_devices: int = 3) -> Problem:
    """A random problem whose memory hardly suffices, or does not.

    Capacities are those of a random plan of single nodes, some with a little more or less.
    """
    random = Random(seed)
    n = random.randint(2, most_nodes)
    count = random.randint(2, most_devices)
    seconds = np.array(
        [[random.choice((0.5, 1.0, 2.0, 4.0, np.inf)) for _ in range(count)] for _ in range(n)]
    )
    for v in range(n):
        if not np.isfinite(seconds[v]).any():
            seconds[v, random.randrange(count)] = 1.0
    values: list[Value] = []
    for u in range(n):
        readers = tuple(v for v in range(u + 1, n) if random.random() < 2.0 / n)
        values.append(Value(f"t{u}", random.randint(0, 12), u, readers, not readers))
    sources = tuple(v for v in range(n) if all(v not in value.consumers for value in values))
    values.append(Value("x", random.randint(0, 12), -1, sources))
    overheads = random.random() < 0.5
    problem = Problem.from_arrays(
        seconds,
        tensors=[(value.producer, value.nbytes, value.consumers) for value in values],
        latency_s=random.choice((0.0, 0.25)),
        bytes_per_s=random.choice((4.0, 16.0)),
        weight_bytes=[random.randint(0, 20) for _ in range(n)],
        capacity_bytes=[1] * count,
        dispatch_s=0.5 if overheads else 0.0,
        host=0 if random.random() < 0.5 else None,
        contention=random.choice(("none", "fifo")),
        streams=[random.choice((1, 1, 2)) for _ in range(count)],
        name=f"tight{seed}",
    )
    if random.random() < 0.4 and n > 1:
        u, v = sorted(random.sample(range(n), 2))
        shared = (*problem.constants, StoredConstant("shared", random.randint(1, 20), (u, v)))
        problem = replace(problem, constants=shared)
    return replace(problem, capacity_bytes=_capacities(problem, random))


def _capacities(problem: Problem, random: Random) -> tuple[int, ...]:
    ample = replace(problem, capacity_bytes=None)
    devices = [random.choice(np.flatnonzero(row).tolist()) for row in problem.supported]
    groups = tuple(Group(problem.devices[p], (v,)) for v, p in enumerate(devices))
    peaks = hetsim.simulate(Plan(ample, "any", groups)).peak_memory_bytes
    slack = random.choice((-6, -3, 0, 0, 2, 5))
    return tuple(max(0, peaks[name] + random.choice((0, slack))) for name in problem.devices)
