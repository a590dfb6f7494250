"""Published makespan instances, and what every plan on any problem must hold."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

import numpy as np
from hypothesis import strategies as st

import hetsim
from builders import CASES, placement_case
from hetsim.graph.dag import topological_order
from hetsim.placement.initial_plans import Constructive
from hetsim.placement.registry import resolve
from hetsim.problem.parts import FusedKernel, StoredConstant
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem

CONSTRUCTIVE = ("heft", "cpop", "peft", "lookahead", "dls", "etf")
RANDOM20 = sorted(f"random20/{path.stem}" for path in (CASES / "placement/random20").glob("*.json"))
DAGBENCH = sorted(path.stem for path in (CASES / "placement/dagbench").glob("*.json"))


def constructive(name: str) -> Constructive:
    """The strategy called `name`."""
    made = resolve(name)
    assert isinstance(made, Constructive)
    return made


def dagbench(name: str) -> Problem:
    """A workflow on devices that differ in speed alone."""
    record: dict[str, Any] = json.loads((CASES / "placement/dagbench" / f"{name}.json").read_text())
    succs: list[list[int]] = [[] for _ in record["nodes"]]
    for u, v, _ in record["edges"]:
        succs[u].append(v)
    order = topological_order(succs)
    assert order is not None
    place = {v: index for index, v in enumerate(order)}
    work = np.array([record["nodes"][v] for v in order], dtype=float)
    speeds = np.array([device["speed"] for device in record["devices"]])
    bandwidth = np.array(record["bandwidth"], dtype=float)
    if bandwidth.ndim:
        np.fill_diagonal(bandwidth, np.inf)
    return Problem.from_arrays(
        work / speeds,
        edges=[(place[u], place[v], round(nbytes)) for u, v, nbytes in record["edges"]],
        devices=[device["name"] for device in record["devices"]],
        latency_s=record["latency"],
        bytes_per_s=bandwidth,
        name=record["name"],
    )


def played(problem: Problem, strategy: str, **options: Any) -> tuple[Plan, float]:
    """Plan, simulate and check; the plan and its latency."""
    plan = hetsim.plan(problem, strategy, **options)
    timeline = hetsim.simulate(plan)
    hetsim.check_timeline(problem, plan, timeline, bound_s=_bound(Asked(problem)))
    return plan, timeline.latency_s


def rows(n: int, seed: int, *, reach: int = 9, reads: int = 1, **given: Any) -> Problem:
    """Nodes on three devices, of which each reads up to `reads` of the `reach` before it."""
    rng = np.random.default_rng(seed)
    edges = {
        (int(rng.integers(max(0, v - reach), v)), v) for v in range(1, n) for _ in range(reads)
    }
    return Problem.from_arrays(
        rng.uniform(1.0, 20.0, (n, 3)),
        edges=[(u, v, int(rng.integers(1, 20))) for u, v in sorted(edges)],
        **{"latency_s": 0.5, "bytes_per_s": 1.0, **given},
    )


class Asked:
    """A problem that is equal to itself alone, so that its bound is found once."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Asked) and self.problem is other.problem

    def __hash__(self) -> int:
        return hash(self.problem.name)


@lru_cache(maxsize=4)
def _bound(asked: Asked) -> float:
    return hetsim.lower_bound(asked.problem)


@cache
def case(name: str) -> tuple[Problem, float]:
    """An instance and its proven optimum."""
    problem, record = placement_case(name)
    return problem, float(record["reference"]["optimum"])


@st.composite
def model_like(draw: st.DrawFn, made: st.SearchStrategy[Problem]) -> Problem:
    """A problem with weights, memory, streams and kernels that fuse, as models have."""
    problem = draw(made)
    n, count = problem.n, len(problem.devices)
    constants = tuple(
        StoredConstant(f"w{v}", draw(st.integers(1, 50)), tuple({v, draw(st.integers(v, n - 1))}))
        for v in range(n)
        if draw(st.booleans())
    )
    constants = tuple(replace(c, consumers=tuple(sorted(c.consumers))) for c in constants)
    fused: list[FusedKernel] = []
    for device in range(count):
        taken: set[int] = set()
        for u, v in problem.dag.edges():
            free = not taken & {u, v}
            if free and problem.supported[[u, v], device].all() and draw(st.booleans()):
                total = float(problem.seconds[[u, v], device].sum())
                fused.append(FusedKernel(device, (u, v), total / 2))
                taken |= {u, v}
    room = sum(c.nbytes for c in constants) + sum(value.nbytes for value in problem.values)
    return replace(
        problem,
        constants=constants,
        fused=tuple(fused),
        streams=tuple(draw(st.integers(1, 2)) for _ in range(count)),
        # The host holds everything; the others perhaps not.
        capacity_bytes=(room, *(draw(st.integers(0, max(room, 1))) for _ in range(count - 1))),
    )
