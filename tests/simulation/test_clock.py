"""The clock on a published schedule, and on what no second clock tells."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from builders import placement_case
from hetsim.problem.problem import Problem
from hetsim.problem.timeline import Timeline
from hetsim.simulation.simulate import simulate
from oracles.clock_plans import on


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
