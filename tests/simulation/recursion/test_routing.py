"""Replicas chosen as requests come, and late requests dropped, against the clock asked anew."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from hetsim.simulation.clock.playing import run
from hetsim.simulation.orders import order_of
from hetsim.simulation.recursion import playing
from hetsim.simulation.recursion.least import replicas_of
from hetsim.simulation.recursion.playing import Recursion, Routing
from oracles.random_layouts import Case, Shape, layout_of, random_case
from sweeps import sweep


def played(case: Case, ran: Sequence[tuple[float, int]]) -> tuple[list[float], list[float]]:
    """When requests, given as (arrival, template), start and end by the clock."""
    if not ran:
        return [], []
    arrival, template = (np.array(part) for part in zip(*ran, strict=True))
    clock = run(case.layout, case.duration, arrival, template, traced=True, machine_code=False)
    starts = [
        clock.start[at:end].min(initial=math.inf) if end > at else came
        for at, end, came in zip(clock.entry_at, clock.entry_at[1:], arrival, strict=False)
    ]
    return starts, clock.finish.tolist()


def expected(
    case: Case, routing: Routing, timeout_s: float
) -> tuple[list[int], list[float], list[float]]:
    """Template, start and end of each request, the clock asked again for each."""
    templates = range(len(case.layout.first) - 1)
    ran: list[tuple[float, int]] = []
    chosen = []
    for came, given in zip(case.arrival.tolist(), case.template.tolist(), strict=True):
        best = given
        if routing == "shortest_queue":
            _, ends = played(case, ran)
            inside = [
                sum(end > came for end, (_, t) in zip(ends, ran, strict=True) if t == template)
                for template in templates
            ]
            best = inside.index(min(inside))
        elif routing == "least_finish":
            there = [played(case, [*ran, (came, template)])[1][-1] for template in templates]
            best = there.index(min(there))
        begun, _ = played(case, [*ran, (came, best)])
        if begun[-1] > came + timeout_s:
            best = -1
        else:
            ran.append((came, best))
        chosen.append(best)
    starts, ends = (iter(times) for times in played(case, ran))
    return (
        chosen,
        [next(starts) if best >= 0 else math.nan for best in chosen],
        [next(ends) if best >= 0 else math.nan for best in chosen],
    )


@sweep("chunk", quick=[0], full=range(15))
@pytest.mark.parametrize("routing", ["given", "shortest_queue", "least_finish"])
def test_routed_and_dropped_as_the_clock_would(chunk: int, routing: Routing) -> None:
    for seed in range(40 * chunk, 40 * (chunk + 1)):
        route_and_drop(seed, routing)


def route_and_drop(seed: int, routing: Routing) -> None:
    case = random_case(seed, most_requests=12)
    timeout_s = (math.inf, 0.0, 0.5, 2.0)[seed % 4]
    engine = Recursion(
        case.layout,
        case.duration,
        routing=routing,
        timeout_s=timeout_s,
        machine_code=seed % 2 == 0,
    )
    served = engine.serve(case.arrival, case.template)
    if served is None:
        assert engine.doubt is not None
        return
    if routing == "shortest_queue" and case.duration.min(initial=1.0) == 0.0:
        # What takes no time ends when its device looks next, not before the next arrival.
        return
    template, begun, finish = expected(case, routing, timeout_s)
    assert served.template.tolist() == template
    assert served.begun.tobytes() == np.array(begun).tobytes()
    assert served.finish.tobytes() == np.array(finish).tobytes()
    assert engine.ran.sum() == sum(best >= 0 for best in template)


@pytest.mark.parametrize("machine_code", [False, True])
@sweep("seed", quick=range(3), full=range(30))
def test_shortest_queue_over_many_requests(
    seed: int, machine_code: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three replicas of unlike speed, more requests than they can serve, in small blocks."""
    monkeypatch.setattr(playing, "BLOCK", 64)
    replicas = [Shape([k], [()], [[1], []]) for k in range(3)]
    layout = layout_of(replicas, [1, 2, 1], 0)
    duration = np.array([1.0, 0.25, 1.5, 0.25, 2.25, 0.25])
    arrival = np.random.default_rng(seed).exponential(0.3, 2000).cumsum()
    engine = Recursion(layout, duration, routing="shortest_queue", machine_code=machine_code)
    served = engine.serve(arrival)
    assert served is not None
    ends: list[list[float]] = [[], [], []]
    for came, template, finish in zip(arrival, served.template, served.finish, strict=True):
        inside = [sum(end > came for end in mine[-1500:]) for mine in ends]
        assert template == inside.index(min(inside))
        ends[template].append(finish)
    clock = run(layout, duration, arrival, served.template, traced=False, machine_code=True)
    assert served.finish.tobytes() == clock.finish.tobytes()


def test_late_requests_never_enter() -> None:
    layout = layout_of([Shape([0], [], [[]])], [1], 0)
    engine = Recursion(layout, np.array([2.0]), timeout_s=1.0, machine_code=False)
    served = engine.serve(np.array([0.0, 0.5, 1.0, 4.0]))
    assert served is not None
    assert served.template.tolist() == [0, -1, 0, 0]
    assert served.finish[[0, 2, 3]].tolist() == [2.0, 4.0, 6.0]
    assert np.isnan([served.begun[1], served.finish[1]]).all()


@sweep("chunk", quick=[0], full=range(10))
def test_where_it_ends_first_told_without_trying_is_where_trying_says(chunk: int) -> None:
    """A timeout that nothing reaches lets every replica be tried."""
    told = 0
    for seed in range(150 * chunk, 150 * (chunk + 1)):
        case = random_case(seed, most_requests=60)
        served = [
            Recursion(
                case.layout,
                case.duration,
                routing="least_finish",
                timeout_s=timeout_s,
                machine_code=machine_code,
            )
            for timeout_s, machine_code in ((1e300, False), (math.inf, False), (math.inf, True))
        ]
        order = order_of(case.layout, case.duration)
        assert order is not None
        if replicas_of(order, case.duration[order.of_layout]) is None:
            continue
        told += len(case.layout.first) > 2
        tried, *others = (one.serve(case.arrival) for one in served)
        assert tried is not None
        for other in others:
            assert other is not None
            assert all(a.tobytes() == b.tobytes() for a, b in zip(tried, other, strict=True))
    assert told >= 5


def test_replicas_of_unlike_speed_under_load_end_each_request_where_it_ends_first() -> None:
    """A chain, a fork that joins, and one that holds nothing in between; some of them alike."""
    chain = Shape([0, 1], [(0,)], [[], [2], [0]])
    fork = Shape([2, 3, 4], [(1,), ()], [[], [3], [4], [0], [0]])
    also = Shape([5, 6, 7], [(2,), ()], [[], [3], [4], [0], [0]])
    layout = layout_of([chain, fork, also], [1] * 8, 3)
    duration = np.array([1.0, 1 / 3, 0.1, *[0.7, 0.9, 1.1, 0.1, 0.3] * 2])
    arrival = np.random.default_rng(1).exponential(0.45, 3000).cumsum()
    tried, told = (
        Recursion(layout, duration, routing="least_finish", timeout_s=timeout_s).serve(arrival)
        for timeout_s in (1e300, math.inf)
    )
    assert tried is not None
    assert told is not None
    assert set(told.template.tolist()) == {0, 1, 2}
    assert all(a.tobytes() == b.tobytes() for a, b in zip(tried, told, strict=True))
    assert (told.finish - arrival).max() > 5
