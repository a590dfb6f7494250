"""Where the order of tasks is certain, where it is watched, and when the recursion gives up."""

from __future__ import annotations

import numpy as np
import pytest

from hetsim.errors import PlanError, UsageError
from hetsim.simulation.clock.playing import Layout, laid_out, run
from hetsim.simulation.clock.templates import tasks_of_plan
from hetsim.simulation.orders import applies
from hetsim.simulation.recursion.playing import Recursion, finishes
from oracles.clock_plans import Stage, tandem
from oracles.random_layouts import Shape, layout_of


def both(
    layout: Layout, duration: list[float], arrival: list[float], template: list[int] | None = None
) -> list[float] | None:
    """What the recursion says; where it says anything, it is what the clock does."""
    chosen = np.array(template or [0] * len(arrival))
    question = layout, np.array(duration), np.array(arrival), chosen
    found = finishes(*question, machine_code=False)
    if found is None:
        return None
    assert found.tobytes() == run(*question, traced=False, machine_code=False).finish.tobytes()
    return [float(time) for time in found]


BUS = layout_of([Shape([0], [(0,), (0,)], [[1], [], [0]])], [1], 1)
"""A tensor in and one out over the same link."""


def test_a_tandem_is_certain() -> None:
    plan = tandem([Stage(1.0, 0.5), Stage(2.0, 0.0)], 0.5, streams=2)
    assert applies(laid_out(tasks_of_plan(plan, "fifo"))) is None
    assert applies(laid_out(tasks_of_plan(plan, "none"))) is None


def test_what_shares_a_link_both_ways_is_watched() -> None:
    reason = applies(BUS)
    assert reason == "link 'link0' moves values of a request that are there at unlike times"
    assert both(BUS, [2.0, 1.0, 1.0], [0.0, 10.0, 20.0]) == [4.0, 14.0, 24.0]
    # The second is in before the first is out.
    assert both(BUS, [2.0, 1.0, 1.0], [0.0, 1.0]) is None


def test_transfers_that_are_ready_at_one_time_queue_by_request() -> None:
    # The second comes when the first's result is there: an end is handled before an arrival.
    assert both(BUS, [2.0, 1.0, 1.0], [0.0, 3.0]) == [4.0, 8.0]
    # A subgraph that takes no time: what is there at one time is not told apart.
    assert both(BUS, [0.0, 1.0, 1.0], [0.0, 1.0]) is None
    assert both(BUS, [0.0, 1.0, 1.0], [0.0, 1.5]) == [2.0, 4.0]


def test_times_at_which_floats_cannot_tell_an_end_from_its_start() -> None:
    assert both(BUS, [2.0, 1.0, 1.0], [1e6, 2e6]) is not None
    assert both(BUS, [2.0, 1.0, 1.0], [1e17, 2e17]) is None


def test_subgraphs_one_after_another_on_a_stream_are_certain() -> None:
    row = Shape([0, 0], [], [[], [0]])
    assert applies(layout_of([row], [1], 0)) is None
    assert applies(layout_of([row], [2], 0)) is not None
    assert both(layout_of([row], [1], 0), [0.0, 2.0], [0.0, 0.0]) == [2.0, 4.0]


def test_a_device_that_is_come_back_to_is_watched() -> None:
    layout = layout_of([Shape([0, 1, 0], [], [[], [0], [1]])], [1, 1], 0)
    reason = applies(layout)
    assert reason == "device 'd0' runs a request's subgraphs with others between them"
    assert both(layout, [1.0, 1.0, 1.0], [0.0, 3.0]) == [3.0, 6.0]
    # The later request's first subgraph runs while the earlier one is away.
    assert both(layout, [1.0, 1.0, 1.0], [0.0, 1.0]) is None
    # Of what is there at one time the device takes the earlier request.
    assert both(layout, [2.0, 1.0, 1.0], [0.0, 3.0]) == [4.0, 8.0]


def test_the_turn_of_a_subgraph_comes_when_the_one_before_has_started() -> None:
    """The second subgraph needs nothing, the first a transfer: no later request overtakes."""
    layout = layout_of([Shape([0, 0], [()], [[2], [], []])], [2], 0)
    assert both(layout, [3.0, 1.0, 2.0], [0.0, 0.0]) == [5.0, 6.0]


def test_replicas_that_meet_are_watched() -> None:
    ways = [Shape([device], [(0,)], [[], [0]]) for device in (0, 1)]
    layout = layout_of(ways, [1, 1], 1)
    assert applies(layout) == "requests of several replicas meet at link 'link0'"
    template, arrival = np.array([0, 1]), np.zeros(2)
    assert finishes(layout, np.array([1.0, 1.0, 3.0, 1.0]), arrival, template) is not None
    assert finishes(layout, np.array([3.0, 1.0, 1.0, 1.0]), arrival, template) is None
    ways = [Shape([0], [()], [[1], []]) for _ in range(2)]
    reason = applies(layout_of(ways, [1], 0))
    assert reason == "requests of several replicas meet at device 'd0'"


def test_transfers_of_a_request_that_are_ready_at_one_time_queue_by_what_they_waited_for() -> None:
    """Alone the second subgraph ends first; with d1 taken both end at 2, and the first is told."""
    ends = Shape([0, 1, 2], [(0,), (0,)], [[], [], [4], [1], [0]])
    layout = layout_of([ends, Shape([1], [], [[]])], [1, 1, 1], 1)
    duration = [2.0, 1.0, 10.0, 1.0, 5.0, 1.0]
    assert both(layout, duration, [0.0]) == [17.0]
    assert both(layout, duration, [0.0, 0.0], [1, 0]) is None
    assert both(layout, duration, [0.0, 0.25], [1, 0]) == [1.0, 18.0]


def test_what_is_there_later_in_a_moment_is_overtaken() -> None:
    """A subgraph of no time comes before d0, to which later requests go at once."""
    layout = layout_of([Shape([1, 0], [], [[], [0]]), Shape([0], [], [[]])], [1, 1], 0)
    duration = [0.0, 1.0, 2.0]
    assert both(layout, duration, [0.0, 0.0], [0, 1]) is None
    assert both(layout, duration, [0.0, 0.5], [0, 1]) == [1.0, 3.0]
    assert both(layout, duration, [0.0, 2.0, 2.0], [1, 0, 1]) is None
    assert both(layout, duration, [0.0, 1.0, 2.0], [1, 0, 1]) == [2.0, 3.0, 5.0]


def test_what_all_requests_need_first_is_certain() -> None:
    ways = [Shape([device], [(0,), (0,)], [[1, 2], [], []]) for device in (0, 1)]
    assert applies(layout_of(ways, [1, 2], 1)) is None


def test_subgraphs_that_wait_for_each_other() -> None:
    layout = layout_of([Shape([0, 0], [], [[1], []])], [1], 0)
    assert applies(layout) == "its subgraphs wait for each other and never start"
    with pytest.raises(PlanError, match="plan 'random': its subgraphs wait for each other"):
        Recursion(layout, np.ones(2))


def test_bad_input() -> None:
    question = BUS, np.ones(3)
    with pytest.raises(UsageError, match="no routing 'random'"):
        Recursion(*question, routing="random")  # type: ignore[arg-type]
    for timeout_s in (-1.0, float("nan")):
        with pytest.raises(UsageError, match="a timeout of"):
            Recursion(*question, timeout_s=timeout_s)
    engine = Recursion(*question, machine_code=False)
    for template in ([1], [-1], [0, 0]):
        with pytest.raises(UsageError, match=r"not every request has a template.* 0 \.\. 0"):
            engine.serve(np.zeros(1), np.array(template))
    assert engine.serve(np.zeros(0)) is not None
    assert engine.serve(np.array([2.0])) is not None
    for arrival in ([3.0, 2.0], [1.0], [float("nan")]):
        with pytest.raises(UsageError, match="arrivals do not ascend"):
            engine.serve(np.array(arrival))
