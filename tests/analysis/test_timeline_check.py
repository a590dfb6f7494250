"""``check_timeline`` takes what the clock gives, and names what is broken in what it does not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

import hetsim
from builders import problems
from hetsim.errors import InvalidInput
from hetsim.problem.groups import Group
from hetsim.problem.parts import StoredConstant
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.problem.timeline import Event, Timeline
from oracles.clock_plans import arrivals, dealt_plans
from placement_instances import model_like
from sweeps import examples


@examples(quick=15, full=60)
@given(dealt_plans(), arrivals())
def test_what_the_clock_gives_of_replicas_passes(plan: Plan, times: list[float]) -> None:
    timeline = hetsim.simulate(plan, arrivals_s=times)
    peaks = tuple(timeline.peak_memory_bytes[name] for name in plan.problem.devices)
    problem = replace(plan.problem, capacity_bytes=peaks)
    hetsim.check_timeline(problem, plan, timeline)
    if len(times) > 1 and len(set(plan.deal)) > 1:
        shifted = replace(plan, deal=(*plan.deal[1:], plan.deal[0]))
        other = hetsim.simulate(shifted, arrivals_s=times)
        if other.events != timeline.events:
            with pytest.raises(InvalidInput):
                hetsim.check_timeline(plan.problem, plan, other)


@examples(quick=15, full=40)
@given(model_like(problems(max_nodes=10)))
def test_memory_is_told_to_the_byte(problem: Problem) -> None:
    """The capacity that the clock's peaks just fit passes; one byte less does not."""
    plan = hetsim.plan(replace(problem, capacity_bytes=None), "hetero")
    timeline = hetsim.simulate(plan)
    peaks = [timeline.peak_memory_bytes[name] for name in problem.devices]
    fits = replace(problem, capacity_bytes=tuple(peaks))
    hetsim.check_timeline(fits, plan, timeline)
    for device, peak in enumerate(peaks):
        if peak:
            less = tuple(p - (index == device) for index, p in enumerate(peaks))
            tight = replace(problem, capacity_bytes=less)
            with pytest.raises(InvalidInput, match=f"'{problem.devices[device]}' holds"):
                hetsim.check_timeline(tight, plan, timeline)


def _example() -> tuple[Problem, Plan, Timeline]:
    """Two nodes on d1 and one on d0, inputs and outputs on d0, one link each way."""
    problem = Problem.from_arrays(
        [[4.0, 1.0], [4.0, 1.0], [2.0, 9.0]],
        tensors=[(-1, 4, (0, 1)), (0, 4, (2,)), (1, 4, (2,)), (2, 4, ())],
        latency_s=0.5,
        bytes_per_s=8.0,
        dispatch_s=[0.25, 0.5],
        host=0,
        contention="fifo",
    )
    groups = (Group("d1", (0,)), Group("d1", (1,)), Group("d0", (2,)))
    plan = Plan(problem, "by hand", groups)
    return problem, plan, hetsim.simulate(plan)


def _changed(timeline: Timeline, index: int, **change: object) -> Timeline:
    events = list(timeline.events)
    events[index] = replace(events[index], **change)
    return replace(timeline, events=tuple(events))


def _at(timeline: Timeline, name: str) -> int:
    return next(i for i, event in enumerate(timeline.events) if event.name == name)


def test_broken_timelines_are_refused() -> None:
    problem, plan, timeline = _example()
    hetsim.check_timeline(problem, plan, timeline)
    compute = [i for i, event in enumerate(timeline.events) if event.kind == "compute"]
    moves = [i for i, event in enumerate(timeline.events) if event.kind == "transfer"]
    assert len(compute) == 3
    assert len(moves) == 3
    first, second, last = (timeline.events[i] for i in compute)
    move = timeline.events[moves[0]]
    later = timeline.events[moves[2]]

    def without(index: int) -> Timeline:
        events = timeline.events[:index] + timeline.events[index + 1 :]
        return replace(timeline, events=events)

    def shifted(event: Event, by: float) -> dict[str, float]:
        return {"start_s": event.start_s + by, "end_s": event.end_s + by}

    broken = {
        "no events": replace(timeline, events=()),
        "never runs": without(compute[0]),
        "runs twice": replace(timeline, events=(*timeline.events, first)),
        "moved there twice": replace(timeline, events=(*timeline.events, move)),
        "never gets to 'd1'": without(moves[0]),
        "there is no request 3": _changed(timeline, compute[0], request=3),
        r"it lasts from 2.0 to 1.0": _changed(timeline, compute[0], start_s=2.0, end_s=1.0),
        "the plan has it on 'd1'": _changed(timeline, compute[0], device="d0"),
        "in one of": _changed(timeline, compute[0], tracks=("d1/1",)),
        r"it takes 0.5 s, not 1.5 s": _changed(timeline, compute[0], end_s=first.start_s + 0.5),
        "starts before one that the plan has first": _changed(
            _changed(timeline, compute[0], **shifted(second, 0.0)),
            compute[1],
            **shifted(first, 0.0),
        ),
        "the plan has no subgraph 7": replace(
            timeline, events=(*timeline.events, replace(last, group=7))
        ),
        "its input 'x0|its input": _changed(timeline, compute[0], **shifted(first, -0.5)),
        "before its tensor exists": _changed(timeline, moves[2], **shifted(later, -1.0)),
        "not 4 from 'd0'": _changed(timeline, moves[0], nbytes=5),
        r"it takes 2.0 s, not 1.0 s": _changed(timeline, moves[2], end_s=later.start_s + 2.0),
        "its route is": _changed(timeline, moves[0], tracks=()),
        "nothing needs": replace(timeline, events=(*timeline.events, replace(move, name="other"))),
        "it takes 7": replace(timeline, latencies_s=(1.0,)),
    }
    for complaint, wrong in broken.items():
        with pytest.raises(InvalidInput, match=complaint):
            hetsim.check_timeline(problem, plan, wrong)


def test_overlaps_are_refused() -> None:
    problem = Problem.from_arrays([[2.0], [2.0]])
    plan = Plan(problem, "by hand", (Group("d0", (0,)), Group("d0", (1,))))
    timeline = hetsim.simulate(plan)
    second = _at(timeline, timeline.events[1].name)
    with pytest.raises(InvalidInput, match="overlaps"):
        hetsim.check_timeline(problem, plan, _changed(timeline, second, start_s=1.0, end_s=3.0))


def test_links_carry_one_thing_at_a_time() -> None:
    problem = Problem.from_arrays(
        [[1.0, 1.0], [1.0, 1.0]],
        tensors=[(-1, 8, (0,)), (-1, 8, (1,))],
        bytes_per_s=8.0,
        streams=[1, 2],
        host=0,
        contention="fifo",
    )
    plan = Plan(problem, "by hand", (Group("d1", (0,)), Group("d1", (1,))))
    hetsim.check_timeline(problem, plan, hetsim.simulate(plan))
    free = hetsim.simulate(plan, contention="none")
    held = tuple(
        replace(event, tracks=("d0>d1",)) if event.kind == "transfer" else event
        for event in free.events
    )
    with pytest.raises(InvalidInput, match="overlaps"):
        hetsim.check_timeline(problem, plan, replace(free, events=held))


def test_plans_that_miss_nodes_are_refused() -> None:
    problem, plan, timeline = _example()
    for groups, complaint in (
        (plan.groups[:2], "node 2 never runs"),
        ((*plan.groups, Group("d0", (2,))), "node 2 runs twice"),
        ((*plan.groups, Group("d0", (9,))), "does not exist"),
        ((*plan.groups[:2], Group("d7", (2,))), "unknown device 'd7'"),
    ):
        with pytest.raises(InvalidInput, match=complaint):
            hetsim.check_timeline(problem, Plan(problem, "wrong", groups), timeline)
    lacking = problem.seconds.copy()
    lacking[0, 1] = float("inf")
    with pytest.raises(InvalidInput, match="'d1' does not support node 0"):
        hetsim.check_timeline(replace(problem, seconds=lacking), plan, timeline)


def test_a_latency_below_the_bound_is_refused() -> None:
    problem = Problem.from_arrays([[1.0], [1.0]], edges=[(0, 1, 0)])
    plan = Plan(problem, "by hand", (Group("d0", (0, 1)),))
    timeline = replace(hetsim.simulate(plan), latencies_s=(0.5,))
    quick = replace(problem, seconds=problem.seconds / 4)
    found = replace(hetsim.simulate(Plan(quick, "by hand", plan.groups)), latencies_s=(0.5,))
    assert found.events[0].end_s == 0.5
    with pytest.raises(InvalidInput, match=r"it takes 2.0 s"):
        hetsim.check_timeline(problem, plan, timeline)
    with pytest.raises(InvalidInput, match=r"it takes 0.5 s, not 2.0 s"):
        hetsim.check_timeline(problem, plan, found)


def test_weights_beyond_the_memory_are_refused() -> None:
    problem = Problem.from_arrays([[1.0]], weight_bytes=[10], capacity_bytes=[10])
    plan = Plan(problem, "by hand", (Group("d0", (0,)),))
    timeline = hetsim.simulate(plan)
    hetsim.check_timeline(problem, plan, timeline)
    heavier = replace(problem, constants=(StoredConstant("w", 11, (0,)),))
    with pytest.raises(InvalidInput, match=r"'d0' holds 11 bytes at 0.0 s and has 10"):
        hetsim.check_timeline(heavier, plan, timeline)
