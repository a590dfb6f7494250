"""The clock against a second one written from the rules, on random problems and plans."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsim.errors import OutOfMemory
from hetsim.problem.parts import Contention
from hetsim.problem.plan import Plan
from hetsim.problem.timeline import Event, Timeline
from hetsim.simulation.clock.runs import once, play
from hetsim.simulation.clock.templates import Template, tasks_of_plan, template_of
from hetsim.simulation.simulate import simulate
from oracles.clock_plans import arrivals, dealt_plans, plans
from oracles.memory_over_time import memory_profile
from oracles.virtual_clock import Replay, Task, bytes_at, replay
from sweeps import examples


def task_of(plan: Plan, event: Event) -> tuple[int, Task]:
    if event.kind == "compute":
        first = plan.offsets[plan.replica_of(event.request)]
        return event.request, Task("g", event.group - first, -1)
    names = [value.name for value in plan.problem.values]
    target = plan.problem.devices.index(event.device)
    return event.request, Task("t", names.index(event.name), target)


def both(plan: Plan, times: list[float]) -> tuple[Timeline, Replay]:
    timeline = simulate(plan, arrivals_s=times)
    return timeline, replay(plan, times, plan.problem.contention)


@examples(quick=15, full=400)
@given(dealt_plans(), arrivals(), st.sampled_from(["fifo", "none", None]))
def test_same_times(plan: Plan, times: list[float], contention: Contention | None) -> None:
    timeline = simulate(plan, arrivals_s=times, contention=contention)
    expected = replay(plan, times, contention or plan.problem.contention)
    assert {task_of(plan, event): event.start_s for event in timeline.events} == expected.start
    assert {task_of(plan, event): event.end_s for event in timeline.events} == expected.end
    assert timeline.latencies_s == tuple(
        end - arrival for end, arrival in zip(expected.finish, times, strict=True)
    )
    assert timeline.makespan_s == max(expected.finish)


@examples(quick=15, full=300)
@given(dealt_plans(), arrivals(most=6), st.data())
def test_ranks(plan: Plan, times: list[float], data: st.DataObject) -> None:
    rank = data.draw(st.lists(st.integers(0, 2), min_size=len(times), max_size=len(times)))
    expected = replay(plan, times, plan.problem.contention, rank)
    recording = play(
        tasks_of_plan(plan, plan.problem.contention),
        np.array(times),
        rank=np.array(rank, dtype=np.int8),
        traced=True,
    )
    assert recording.finish.tolist() == expected.finish
    assert sorted(recording.start.tolist()) == sorted(expected.start.values())


@examples(quick=15, full=300)
@given(dealt_plans(), arrivals())
def test_memory_is_what_a_count_at_every_moment_gives(plan: Plan, times: list[float]) -> None:
    timeline, replayed = both(plan, times)
    profile = memory_profile(plan, timeline)
    instants = sorted({0.0, *times, *replayed.start.values(), *replayed.end.values()})
    moments = [(a + b) / 2 for a, b in pairwise([*instants, instants[-1] + 1])]
    counted = [bytes_at(plan, replayed, times, moment) for moment in moments]
    for device, name in enumerate(plan.problem.devices):
        at, held = profile[name]
        seen = held[np.searchsorted(at, moments, side="right") - 1]
        assert seen.tolist() == [amounts[device] for amounts in counted]
        assert timeline.peak_memory_bytes[name] == max(amounts[device] for amounts in counted)
        assert timeline.weight_bytes[name] == held[-1]


@examples(quick=15, full=200)
@given(dealt_plans())
def test_what_one_request_holds_is_told_whatever_the_devices_have(plan: Plan) -> None:
    """Of several replicas the first request's, on an instance of the problem without room."""
    expected = replay(plan, [0.0], plan.problem.contention)
    moments = sorted({0.0, *expected.start.values(), *expected.end.values()})
    counted = [bytes_at(plan, expected, [0.0], (a + b) / 2) for a, b in pairwise([*moments, 1e9])]
    none = (0,) * len(plan.problem.devices)
    tight = dataclasses.replace(plan.problem, capacity_bytes=none)
    told = once(dataclasses.replace(plan, problem=tight))
    assert told.latency_s == expected.finish[0]
    assert told.peaks == tuple(max(amounts) for amounts in zip(*counted, strict=True))
    assert told.lacks == told.peaks
    assert told.lacking == sum(told.peaks)


@examples(quick=15, full=100)
@given(dealt_plans(), arrivals(), st.data())
def test_capacity_is_the_line_between_running_and_not(
    plan: Plan, times: list[float], data: st.DataObject
) -> None:
    peaks = list(simulate(plan, arrivals_s=times).peak_memory_bytes.values())
    fits = dataclasses.replace(plan.problem, capacity_bytes=tuple(peaks))
    simulate(dataclasses.replace(plan, problem=fits), arrivals_s=times)
    device = data.draw(st.sampled_from(range(len(peaks))))
    if peaks[device] > 0:
        peaks[device] -= 1
        tight = dataclasses.replace(plan.problem, capacity_bytes=tuple(peaks))
        with pytest.raises(OutOfMemory, match=f"device 'd{device}': needs"):
            simulate(dataclasses.replace(plan, problem=tight), arrivals_s=times)


@examples(quick=15, full=200)
@given(plans(), arrivals())
def test_what_holds_always(plan: Plan, times: list[float]) -> None:
    problem = plan.problem
    timeline = simulate(plan, arrivals_s=times, contention="fifo")
    events = timeline.events
    assert len(events) == len(times) * template_of(plan, "fifo").tasks
    assert all(a.start_s <= b.start_s for a, b in pairwise(events))
    assert all(times[e.request] <= e.start_s <= e.end_s <= timeline.makespan_s for e in events)

    tracks: dict[str, list[Event]] = {}
    for event in events:
        for track in event.tracks:
            tracks.setdefault(track, []).append(event)
    for name, carried in tracks.items():
        ordered = sorted(carried, key=lambda event: (event.start_s, event.end_s))
        assert all(a.end_s <= b.start_s for a, b in pairwise(ordered)), name
    for device, width in zip(problem.devices, problem.streams, strict=True):
        used = {track for track in tracks if track.startswith(f"{device}/")}
        assert used <= {f"{device}/{stream}" for stream in range(width)}

    ended = {(e.request, e.name, e.device): e.end_s for e in events if e.kind == "transfer"}
    group_end = {(e.request, e.group): e.end_s for e in events if e.kind == "compute"}
    group_start = {(e.request, e.group): e.start_s for e in events if e.kind == "compute"}
    assignment = plan.assignment
    owner = {node: index for index, group in enumerate(plan.groups) for node in group.nodes}
    for r in range(len(times)):
        for value in problem.values:
            for node in value.consumers:
                device = problem.devices[assignment[node]]
                arrived = ended.get((r, value.name, device))
                if arrived is not None:
                    assert arrived <= group_start[r, owner[node]]
                elif value.producer >= 0 and owner[value.producer] != owner[node]:
                    assert assignment[value.producer] == assignment[node]
                    assert group_end[r, owner[value.producer]] <= group_start[r, owner[node]]

    assert timeline.device_busy_s == {
        name: sum(e.end_s - e.start_s for e in events if e.kind == "compute" and e.device == name)
        for name in problem.devices
    }
    assert timeline.link_busy_s == {
        name: sum(e.end_s - e.start_s for e in tracks.get(name, ())) for name in problem.link_names
    }
    moves = [event for event in events if event.kind == "transfer"]
    assert timeline.transfers == len(moves)
    assert timeline.transferred_bytes == sum(event.nbytes for event in moves)
    assert timeline.transfer_s == sum(event.end_s - event.start_s for event in moves)
    shares = [*timeline.device_utilization.values(), *timeline.link_utilization.values()]
    assert all(0 <= share <= 1 for share in shares)
    assert timeline.energy_j == pytest.approx(
        sum(
            timeline.makespan_s + 2 * timeline.device_busy_s[name] / width
            for name, width in zip(problem.devices, problem.streams, strict=True)
        )
    )


@examples(quick=15, full=300)
@given(dealt_plans(), arrivals())
def test_critical_path_has_no_gap_and_ends_last(plan: Plan, times: list[float]) -> None:
    timeline = simulate(plan, arrivals_s=times)
    path = [timeline.events[index] for index in timeline.critical_path]
    assert len(set(timeline.critical_path)) == len(path) > 0
    assert path[-1].end_s == max(event.end_s for event in timeline.events)
    assert path[0].start_s == times[path[0].request]
    assert all(a.end_s == b.start_s for a, b in pairwise(path))
    tasks = tasks_of(plan, timeline)
    for before, event in pairwise(path):
        assert before in causes(plan, tasks, event)


Tasks = dict[tuple[int, int], Event]
"""Events by request and task of its template."""


def tasks_of(plan: Plan, timeline: Timeline) -> Tasks:
    names = [value.name for value in plan.problem.values]
    found: Tasks = {}
    for event in timeline.events:
        template = template_for(plan, event.request)
        task = event.group - template.first_group
        if event.kind == "transfer":
            task = template.groups + next(
                at
                for at, transfer in enumerate(template.transfers)
                if names[transfer.value] == event.name
                and plan.problem.devices[transfer.target] == event.device
            )
        found[event.request, task] = event
    return found


def template_for(plan: Plan, request: int) -> Template:
    return tasks_of_plan(plan, plan.problem.contention).templates[plan.replica_of(request)]


def causes(plan: Plan, tasks: Tasks, event: Event) -> list[Event]:
    """What ended as it started: what it waited for, else who had its device or links.

    Where the subgraph before it on its device, which it may not overtake, started then as well,
    what kept that one.
    """
    template = template_for(plan, event.request)
    task = next(task for (r, task), e in tasks.items() if e == event and r == event.request)
    while True:
        waited = [tasks[event.request, before] for before in template.predecessors[task]]
        ended = [before for before in waited if before.end_s == event.start_s]
        if ended:
            return ended
        earlier = [
            g for g in range(min(task, template.groups))
            if task < template.groups and template.group_device[g] == template.group_device[task]
        ]  # fmt: skip
        if not earlier or tasks[event.request, earlier[-1]].start_s != event.start_s:
            break
        task = earlier[-1]
    kept = tasks[event.request, task]
    held = {kept.device} if kept.kind == "compute" else set(kept.tracks)
    return [
        other
        for other in tasks.values()
        if other != event
        and other.kind == kept.kind
        and other.end_s == event.start_s
        and held & ({other.device} if other.kind == "compute" else set(other.tracks))
    ]


@examples(quick=15, full=60)
@given(dealt_plans(), arrivals(most=8), st.booleans())
def test_machine_code_gives_the_same_bits(plan: Plan, times: list[float], traced: bool) -> None:
    # Thirds make every sum round, so that another order of operations would show.
    uneven = dataclasses.replace(plan.problem, seconds=plan.problem.seconds / 3)
    template = tasks_of_plan(dataclasses.replace(plan, problem=uneven), plan.problem.contention)
    arrival = np.array(times) / 7
    plain = play(template, arrival, traced=traced, machine_code=False)
    compiled = play(template, arrival, traced=traced, machine_code=True)
    for field in dataclasses.fields(plain):
        a, b = getattr(plain, field.name), getattr(compiled, field.name)
        assert a.shape == b.shape
        assert a.tobytes() == b.tobytes(), field.name


@examples(quick=15, full=100)
@given(dealt_plans(), arrivals())
def test_without_trace_the_figures_are_the_same(plan: Plan, times: list[float]) -> None:
    full = simulate(plan, arrivals_s=times)
    lean = simulate(plan, arrivals_s=times, trace=False)
    peaks = full.peak_memory_bytes if len(times) == 1 else {}
    # Of a device of several streams only events tell when any of them computes.
    streams = dict(zip(plan.problem.devices, plan.problem.streams, strict=True))
    computing = {
        name: seconds for name, seconds in full.device_computing_s.items() if streams[name] == 1
    }
    assert lean.device_computing_s == pytest.approx(computing)
    assert lean == dataclasses.replace(
        full,
        events=(),
        critical_path=(),
        peak_memory_bytes=peaks,
        device_computing_s=lean.device_computing_s,
    )
