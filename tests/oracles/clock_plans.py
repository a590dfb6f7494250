"""Problems with every feature of the clock, and valid plans for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from hetsim.hardware.spec import Route
from hetsim.problem.groups import Group
from hetsim.problem.parts import GRAPH_INPUT, StoredConstant, Value
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.workload.failure import Failure


@st.composite
def rich_problems(draw: st.DrawFn, max_nodes: int = 8) -> Problem:
    """Small whole numbers for times, zero among them, so that ties are common and exact."""
    n = draw(st.integers(1, max_nodes))
    count = draw(st.integers(1, 3))
    small = st.integers(0, 4)
    host = draw(st.sampled_from([None, *range(count)]))
    values: list[Value] = []
    for producer in [GRAPH_INPUT, GRAPH_INPUT, *range(n)]:
        later = st.integers(max(producer + 1, 0), n - 1)
        consumers = draw(st.sets(later, max_size=3)) if producer + 1 < n else set()
        for copy in range(draw(st.integers(1, 2))):
            name = f"v{len(values)}.{producer}.{copy}"
            is_output = draw(st.booleans())
            values.append(Value(name, draw(small), producer, tuple(sorted(consumers)), is_output))
    links = [f"link{k}" for k in range(draw(st.integers(1, 4)))]
    routes = tuple(
        tuple(
            Route(
                float(draw(small)),
                draw(st.sampled_from([0.5, 1.0, 2.0])),
                tuple(sorted(draw(st.sets(st.integers(0, len(links) - 1), max_size=2)))),
            )
            for _ in range(count)
        )
        for _ in range(count)
    )
    everyone = st.sets(st.integers(0, n - 1), min_size=1, max_size=3)
    return Problem(
        name="random",
        devices=tuple(f"d{p}" for p in range(count)),
        seconds=np.array([[float(draw(small)) for _ in range(count)] for _ in range(n)]),
        values=tuple(draw(st.permutations(values))),
        constants=tuple(
            StoredConstant(f"w{k}", draw(small), tuple(sorted(draw(everyone))))
            for k in range(draw(st.integers(0, 3)))
        ),
        routes=routes,
        dispatch_s=tuple(float(draw(st.integers(0, 1))) for _ in range(count)),
        streams=tuple(draw(st.integers(1, 3)) for _ in range(count)),
        host=host,
        contention=draw(st.sampled_from(["fifo", "fifo", "none"])),
        link_names=tuple(links),
        idle_w=(1.0,) * count,
        busy_w=(3.0,) * count,
    )


@st.composite
def plans(draw: st.DrawFn, max_nodes: int = 8) -> Plan:
    """Any valid plan of one replica."""
    return one_plan(draw, draw(rich_problems(max_nodes)))


@st.composite
def dealt_plans(draw: st.DrawFn, max_nodes: int = 6) -> Plan:
    """Any valid plan: one replica, or up to three, on whatever devices, in any deal."""
    problem = draw(rich_problems(max_nodes))
    replicas = [one_plan(draw, problem) for _ in range(draw(st.integers(1, 3)))]
    deal = [*range(len(replicas)), *draw(st.lists(st.sampled_from(range(len(replicas)))))]
    return Plan.dealt(replicas, draw(st.permutations(deal)), strategy="manual")


def one_plan(draw: st.DrawFn, problem: Problem) -> Plan:
    return plan_of_pieces(
        problem, lambda among: draw(st.sampled_from(among)), lambda: draw(st.booleans())
    )


def plan_of_pieces(
    problem: Problem, pick: Callable[[Sequence[Any]], Any], joins: Callable[[], bool]
) -> Plan:
    """Pieces of a random topological order, so the graph of groups is acyclic."""
    waiting = list(range(problem.n))
    order: list[int] = []
    while waiting:
        able = [v for v in waiting if not set(problem.dag.preds[v]) & set(waiting)]
        order.append(pick(able))
        waiting.remove(order[-1])
    groups: list[Group] = []
    for node in order:
        device = pick(problem.devices)
        if groups and groups[-1].device == device and joins():
            groups[-1] = Group(device, tuple(sorted((*groups[-1].nodes, node))))
        else:
            groups.append(Group(device, (node,)))
    return Plan(problem, "manual", tuple(groups))


def with_a_spare(plan: Plan) -> Plan:
    """Return the same plan where there is one device more, the last, which has nothing to do.

    All routes are alike and without contention: from wherever a value is taken that is in several
    places, and in whatever order values leave, it takes as long.
    """
    problem = plan.problem
    count = len(problem.devices) + 1
    wider = replace(
        problem,
        devices=(*problem.devices, "spare"),
        seconds=np.column_stack((problem.seconds, np.ones(problem.n))),
        routes=((Route(1.0, 0.5),) * count,) * count,
        contention="none",
        dispatch_s=(*problem.dispatch_s, 0.0),
        streams=(*problem.streams, 1),
        idle_w=(*problem.idle_w, 0.0),
        busy_w=(*problem.busy_w, 0.0),
    )
    return replace(plan, problem=wider)


@st.composite
def failures_of_a_spare(draw: st.DrawFn) -> tuple[Failure, ...]:
    """One after another, as far as it is there again."""
    half = st.integers(0, 40).map(lambda k: k / 2)
    found: list[Failure] = []
    now = 0.0
    for _ in range(draw(st.integers(1, 3))):
        # At times that nothing else happens at.
        now += draw(half) + 1 / 8
        for_s = draw(half)
        match draw(st.sampled_from(["kill", "back", "hang"])):
            case "kill":
                return (*found, Failure("spare", now))
            case "hang":
                return (*found, Failure("spare", now, "hang", for_s))
        found.append(Failure("spare", now, "kill", for_s))
        now += for_s
    return tuple(found)


@st.composite
def arrivals(draw: st.DrawFn, most: int = 4) -> list[float]:
    """Ascending whole times, equal ones among them."""
    gaps = draw(st.lists(st.integers(0, 5), min_size=1, max_size=most))
    return [float(t) for t in np.cumsum(gaps)]


@dataclass(frozen=True)
class Stage:
    """A device that takes `seconds`, reached over a link that takes `move_s`."""

    seconds: float
    move_s: float


def tandem(stages: Sequence[Stage], back_s: float, streams: int = 1) -> Plan:
    """A chain of one node a device; the host neither computes nor waits."""
    count = len(stages) + 1
    names = ("host", *(f"stage{k}" for k in range(len(stages))))
    links: list[str] = []
    routes = [[Route(0.0, float("inf")) for _ in range(count)] for _ in range(count)]
    hops = [stage.move_s for stage in stages] + [back_s]
    for k, move_s in enumerate(hops):
        target = (k + 1) % count
        routes[k][target] = Route(move_s, float("inf"), (len(links),))
        links.append(f"{names[k]}>{names[target]}")
    n = len(stages)
    seconds = np.array([[stage.seconds] * count for stage in stages])
    problem = Problem(
        name="tandem",
        devices=names,
        seconds=seconds,
        values=(
            Value("in", 8, GRAPH_INPUT, (0,)),
            *(Value(f"v{k}", 8, k, (k + 1,)) for k in range(n - 1)),
            Value("out", 8, n - 1, (), is_output=True),
        ),
        constants=(),
        routes=tuple(tuple(row) for row in routes),
        dispatch_s=(0.0,) * count,
        streams=(streams,) * count,
        host=0,
        link_names=tuple(links),
    )
    groups = tuple(Group(names[k + 1], (k,)) for k in range(n))
    return Plan(problem, "manual", groups)


def on(problem: Problem, *groups: tuple[str, tuple[int, ...]]) -> Plan:
    """A plan from (device, nodes) pairs."""
    return Plan(problem, "manual", tuple(Group(device, nodes) for device, nodes in groups))


def two_devices(**changes: object) -> Problem:
    """Two nodes in a row, a on the host, b on the other; 4 s and 2 s."""
    options: dict[str, object] = {
        "tensors": [(-1, 3, (0,)), (0, 6, (1,)), (1, 9, ())],
        "devices": ("cpu", "gpu"),
        "latency_s": 0.5,
        "bytes_per_s": 3.0,
        "host": 0,
        "contention": "fifo",
    }
    options.update(changes)
    return Problem.from_arrays([[4.0, 4.0], [2.0, 2.0]], **options)  # type: ignore[arg-type]
