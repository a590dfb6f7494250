"""The clock on cases small enough to follow by hand."""

from __future__ import annotations

import dataclasses
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import placement_case
from hetsim.problem.parts import Contention
from hetsim.problem.problem import Problem
from hetsim.problem.timeline import Timeline
from hetsim.simulation.simulate import simulate
from oracles.clock_plans import on, two_devices
from sweeps import examples


def spans(timeline: Timeline, kind: str) -> dict[tuple[int, str, str], tuple[float, float]]:
    return {
        (event.request, event.name, event.device): (event.start_s, event.end_s)
        for event in timeline.events
        if event.kind == kind
    }


def test_a_published_schedule_replays_to_its_published_makespan() -> None:
    """The HEFT schedule of Topcuoglu et al. 2002, figure 3a: makespan 80."""
    problem, record = placement_case("topcuoglu2002")
    order = [(0, "p3"), (3, "p2"), (2, "p3"), (1, "p1"), (4, "p3"), (5, "p2"), (6, "p3"),
             (8, "p2"), (7, "p1"), (9, "p2")]  # fmt: skip
    timeline = simulate(on(problem, *((device, (node,)) for node, device in order)))
    computed = {
        order[e.group][0]: (e.start_s, e.end_s) for e in timeline.events if e.kind == "compute"
    }
    assert computed == {
        0: (0, 9), 2: (9, 28), 3: (18, 26), 5: (26, 42), 1: (27, 40), 4: (28, 38),
        6: (38, 49), 8: (56, 68), 7: (57, 62), 9: (73, 80),
    }  # fmt: skip
    assert timeline.latency_s == record["reference"]["published"]["HEFT"] == 80
    # n1, its tensor, n4, n6, its tensor, n8, its tensor, n10.
    path = [timeline.events[index].name for index in timeline.critical_path]
    assert path == ["g0", "n0:n3", "g1", "g5", "n5:n7", "g8", "n7:n9", "g9"]


def test_inputs_leave_the_host_and_outputs_return() -> None:
    timeline = simulate(on(two_devices(), ("gpu", (0,)), ("cpu", (1,))))
    assert spans(timeline, "transfer") == {
        (0, "t0", "gpu"): (0.0, 1.5),
        (0, "t1", "cpu"): (5.5, 8.0),
    }
    assert spans(timeline, "compute") == {(0, "g0", "gpu"): (1.5, 5.5), (0, "g1", "cpu"): (8, 10)}
    assert timeline.latency_s == 10
    away = simulate(on(two_devices(), ("gpu", (0, 1))))
    assert away.latency_s == 1.5 + 6 + 3.5
    assert (away.transfers, away.transferred_bytes, away.transfer_s) == (2, 12, 5.0)
    assert away.device_utilization == {"cpu": 0.0, "gpu": 6 / 11}
    assert away.link_busy_s == {"cpu>gpu": 1.5, "gpu>cpu": 3.5}


@examples(quick=15, full=50)
@given(st.lists(st.floats(0, 1e3), min_size=1, max_size=8), st.floats(0, 1), st.integers(1, 20))
def test_one_device_takes_exactly_the_sum(
    seconds: list[float], dispatch_s: float, requests: int
) -> None:
    problem = Problem.from_arrays(
        [[s] for s in seconds],
        edges=[(u, u + 1, 8) for u in range(len(seconds) - 1)],
        host=0,
        dispatch_s=dispatch_s,
    )
    whole = simulate(on(problem, ("d0", tuple(range(len(seconds))))))
    assert whole.latency_s == problem.group_seconds(0, range(len(seconds)))
    each = simulate(on(problem, *(("d0", (v,)) for v in range(len(seconds)))), requests)
    steps = [dispatch_s + s for s in seconds] * requests
    assert each.makespan_s == list(accumulate(steps))[-1]
    assert each.latency_s == list(accumulate(steps[: len(seconds)]))[-1]
    assert [e.request for e in each.events] == sorted(e.request for e in each.events)


def fan(streams: int) -> Problem:
    """Four nodes that need nothing, 1, 2, 3 and 4 s."""
    return Problem.from_arrays([[1.0], [2.0], [3.0], [4.0]], streams=[streams])


@pytest.mark.parametrize(
    ("streams", "starts"),
    [(1, [0, 1, 3, 6]), (2, [0, 0, 1, 2]), (3, [0, 0, 0, 1]), (4, [0, 0, 0, 0])],
)
def test_streams_run_side_by_side_and_start_in_order(streams: int, starts: list[int]) -> None:
    timeline = simulate(on(fan(streams), *(("d0", (v,)) for v in range(4))))
    assert [e.start_s for e in sorted(timeline.events, key=lambda e: e.group)] == starts
    tracks = {e.tracks for e in timeline.events}
    assert tracks == {(f"d0/{stream}",) for stream in range(streams)}
    assert timeline.device_utilization["d0"] == 10 / (timeline.makespan_s * streams)
    # One of its streams computes at any time.
    assert timeline.device_busy_share == {"d0": 1.0}


@pytest.mark.parametrize("streams", [1, 3])
def test_a_device_that_computes_all_the_time_is_busy_all_the_time(streams: int) -> None:
    chain = Problem.from_arrays([[1.0], [2.0]], edges=[(0, 1, 8)], streams=[streams])
    timeline = simulate(on(chain, ("d0", (0,)), ("d0", (1,))))
    assert timeline.device_computing_s == {"d0": 3.0}
    assert timeline.device_busy_share == {"d0": 1.0}
    assert timeline.device_utilization == {"d0": 1 / streams}
    untraced = simulate(on(chain, ("d0", (0, 1))), trace=False)
    assert untraced.device_computing_s == ({"d0": 3.0} if streams == 1 else {})


def test_a_later_subgraph_does_not_overtake_within_a_request() -> None:
    """g1 waits for a slow tensor; g2 has its input but stands after g1 on the same device."""
    problem = Problem.from_arrays(
        [[1.0, 1.0]] * 3, edges=[(0, 1, 10)], bytes_per_s=1.0, streams=[1, 2]
    )
    plan = on(problem, ("d0", (0,)), ("d1", (1,)), ("d1", (2,)))
    timeline = simulate(plan)
    assert spans(timeline, "compute") == {
        (0, "g0", "d0"): (0, 1), (0, "g1", "d1"): (11, 12), (0, "g2", "d1"): (11, 12),
    }  # fmt: skip
    # What kept the one before it is why it starts no sooner.
    last = on(
        dataclasses.replace(problem, seconds=np.array([[1.0, 1], [1, 1], [1, 5]])),
        *((group.device, group.nodes) for group in plan.groups),
    )
    late = simulate(last)
    assert [late.events[at].name for at in late.critical_path] == ["g0", "n0:n1", "g2"]
    # Between requests the device does not wait: nothing of the later one stands before it.
    swapped = on(problem, ("d1", (2,)), ("d0", (0,)), ("d1", (1,)))
    later = spans(simulate(swapped, 2), "compute")
    assert later[1, "g0", "d1"] == (0, 1)


def bus(shared: bool, contention: Contention = "fifo") -> Problem:
    """a on d0 feeds b on d1 and c on d2, over links that may share a bus."""
    problem = Problem.from_arrays(
        [[1.0] * 3] * 3, tensors=[(0, 4, (1, 2))], bytes_per_s=1.0, contention=contention
    )
    if not shared:
        return problem
    names = (*problem.link_names, "bus")
    routes = tuple(
        tuple(dataclasses.replace(r, resources=(*r.resources, len(names) - 1)) for r in row)
        for row in problem.routes
    )
    return dataclasses.replace(problem, routes=routes, link_names=names)


@pytest.mark.parametrize(
    ("problem", "starts"),
    [(bus(False), [1, 1]), (bus(True), [1, 5]), (bus(True, "none"), [1, 1])],
)
def test_links_of_one_bus_take_turns(problem: Problem, starts: list[float]) -> None:
    timeline = simulate(on(problem, ("d0", (0,)), ("d1", (1,)), ("d2", (2,))))
    moves = [event for event in timeline.events if event.kind == "transfer"]
    assert [(e.device, e.start_s) for e in moves] == list(zip(("d1", "d2"), starts, strict=True))
    if problem.contention == "none":
        assert timeline.link_busy_s == {}
        assert all(event.tracks == () for event in moves)
    else:
        assert all(event.tracks[0] == f"d0>{event.device}" for event in moves)
        assert sum(timeline.link_busy_s[f"d0>{e.device}"] for e in moves) == 8


def test_contention_may_be_overridden() -> None:
    plan = on(bus(True), ("d0", (0,)), ("d1", (1,)), ("d2", (2,)))
    assert simulate(plan).latency_s == 10
    assert simulate(plan, contention="none").latency_s == 6


def test_energy_counts_idle_and_busy() -> None:
    problem = dataclasses.replace(fan(2), idle_w=(10.0,), busy_w=(30.0,))
    timeline = simulate(on(problem, *(("d0", (v,)) for v in range(4))))
    assert timeline.makespan_s == 6
    assert timeline.energy_j == 10 * 6 + 20 * 10 / 2
