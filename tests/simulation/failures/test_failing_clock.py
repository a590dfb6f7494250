"""The clock with failures: the clock's own times without any, and sound work with some."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from hetsim.errors import Infeasible
from hetsim.placement.planning import replan
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.plan import Plan
from hetsim.simulation.failures.clock import FailingClock
from hetsim.simulation.failures.recovery import RecoveryTask
from hetsim.simulation.simulate import simulate
from hetsim.workload.failure import Failure
from oracles.clock_plans import arrivals, dealt_plans
from simulation.failures.conftest import failures_of
from sweeps import examples

Case = tuple[Plan, list[float], tuple[Failure, ...]]


class Ran(NamedTuple):
    """What started: a task of a request."""

    request: int
    task: RecoveryTask
    start: float
    end: float
    stream: int
    lost: bool


def log_of(played: FailingClock) -> list[Ran]:
    started = played.started
    columns = (started.start, started.end, started.stream, started.lost)
    return [
        Ran(request, started.tasks[task], *line)
        for request, task, *line in zip(
            started.request.tolist(),
            started.task.tolist(),
            *(column.tolist() for column in columns),
            strict=True,
        )
    ]


@st.composite
def failing(draw: st.DrawFn) -> Case:
    """A plan, arrivals, and failures that leave one device at least."""
    plan = draw(dealt_plans())
    times = draw(arrivals())
    return plan, times, tuple(draw(failures_of(plan.problem.devices, again=False)))


@examples(quick=15, full=250)
@given(failing())
def test_every_request_ends_and_nothing_reads_what_is_not_there(case: Case) -> None:
    plan, times, failures = case
    played = FailingClock(plan, times, failures, plan.problem.contention, replan)
    played.play()
    assert not any(math.isnan(end) for end in played.finish)
    check_occupation(played, failures)
    for request, came in enumerate(times):
        check_lineage(played, request, came, failures)
    timeline = simulate(plan, arrivals_s=times, failures=failures or [Failure("d0", 1e9)])
    assert timeline.makespan_s == max(played.finish)
    assert [e.kind for e in timeline.events].count("failure") == len(played.happened)


@examples(quick=15, full=250)
@given(failing())
def test_the_figures_are_those_of_what_happened(case: Case) -> None:
    """Each is counted again from the events: until the last request ends, of lost work, too."""
    plan, times, failures = case
    problem = plan.problem
    timeline = simulate(plan, arrivals_s=times, failures=failures or [Failure("d0", 1e9)])
    played = FailingClock(plan, times, failures, problem.contention, replan)
    played.play()
    events, over = timeline.events, timeline.makespan_s
    assert timeline.latencies_s == tuple(
        end - came for came, end in zip(times, played.finish, strict=True)
    )
    assert all(one.start_s <= other.start_s for one, other in pairwise(events))
    assert all(event.start_s <= over for event in events if event.kind != "failure")
    lines = [ran for ran in log_of(played) if ran.start <= over]
    assert len(lines) == sum(event.kind != "failure" for event in events)
    names = [value.name for value in problem.values]
    sizes = {value.name: value.nbytes for value in problem.values}
    busy, carried = dict.fromkeys(problem.devices, 0.0), dict.fromkeys(timeline.link_busy_s, 0.0)
    for event in events:
        spent = min(event.end_s, over) - event.start_s
        if event.kind == "compute":
            busy[event.device] += spent
        for link in event.tracks if event.kind == "transfer" else ():
            carried[link] += spent
    assert timeline.device_busy_s == busy
    assert timeline.link_busy_s == carried
    assert list(carried) == list(problem.link_names if problem.contention == "fifo" else ())
    moves = [event for event in events if event.kind == "transfer"]
    assert timeline.transfers == len(moves)
    assert timeline.transferred_bytes == sum(sizes[event.name] for event in moves)
    assert timeline.transfer_s == sum(event.end_s - event.start_s for event in moves)
    assert all(event.nbytes == sizes[event.name] for event in moves)
    for name, width in zip(problem.devices, problem.streams, strict=True):
        share = busy[name] / (over * width) if over else 0.0
        assert timeline.device_utilization[name] == pytest.approx(share, abs=1e-12)
        assert busy[name] / width <= timeline.device_computing_s[name] + 1e-12
        assert timeline.device_computing_s[name] <= min(busy[name], over) + 1e-12
    for name, spent in carried.items():
        share = spent / over if over else 0.0
        assert timeline.link_utilization[name] == pytest.approx(share, abs=1e-12)
    assert timeline.energy_j == pytest.approx(
        sum(
            over + 2 * busy[name] / width
            for name, width in zip(problem.devices, problem.streams, strict=True)
        )
    )
    whole = simulate(plan, arrivals_s=times)
    assert timeline.weight_bytes == whole.weight_bytes
    assert (timeline.peak_memory_bytes, timeline.critical_path) == ({}, ())
    # Each task by its names, those of the plan that was asked for by its own numbers.
    seen = sorted(
        (
            ran.start, ran.end, ran.request, ran.lost,
            problem.devices[ran.task.device] if ran.task.device >= 0 else names[ran.task.value],
            ran.task.group if ran.task.version == 0 else -1,
        )
        for ran in lines
    )  # fmt: skip
    assert seen == sorted(
        (
            event.start_s, event.end_s, event.request, event.lost,
            event.device if event.kind == "compute" else event.name, event.group,
        )
        for event in events
        if event.kind != "failure"
    )  # fmt: skip
    for event in events:
        if event.kind == "compute":
            later = event.name.partition(" of plan ")[2]
            assert (event.group < 0) == bool(later)
            assert later or event.name == f"g{event.group}"
            assert not later or 2 <= int(later) <= len(played.versions)
            assert later or plan.groups[event.group].device == event.device
    # What is cut off ends as its device, or one of its ends, stops or is known to be lost.
    moments = {moment for failure in failures for moment in (failure.at_s, failure.known_s)}
    assert all(event.end_s in moments for event in events if event.lost)
    failed = [event for event in events if event.kind == "failure"]
    assert [(event.start_s, event.name, event.device) for event in failed] == [
        (failure.at_s, failure.kind, failure.device) for failure in played.happened
    ]
    for event, failure in zip(failed, played.happened, strict=True):
        never = math.isinf(failure.back_s)
        assert event.end_s == (max(over, failure.at_s) if never else failure.back_s)
        width = problem.streams[problem.devices.index(failure.device)]
        assert event.tracks == tuple(f"{failure.device}/{k}" for k in range(width))
    lean = simulate(plan, arrivals_s=times, failures=failures or [Failure("d0", 1e9)], trace=False)
    assert lean == dataclasses.replace(timeline, events=())


@pytest.mark.group("machine_code")
@examples(quick=10, full=60)
@given(failing(), st.sampled_from([0, 17, 40]))
def test_machine_code_gives_the_same_bits(case: Case, more: int) -> None:
    plan, times, failures = case
    times = sorted(times + [turn / 4 for turn in range(more)])
    plain, compiled = (
        FailingClock(plan, times, failures, plan.problem.contention, replan, machine_code=how)
        for how in (False, True)
    )
    plain.play()
    compiled.play()
    assert plain.finish == compiled.finish
    assert log_of(plain) == log_of(compiled)
    check_occupation(plain, failures)
    for request in range(0, len(times), 7):
        check_lineage(plain, request, times[request], failures)


def check_occupation(played: FailingClock, failures: tuple[Failure, ...]) -> None:
    """No stream runs two things at once, nor a link; nothing runs on a device that is gone."""
    problem = played.versions[0].plan.problem
    streams: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    links: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for ran in log_of(played):
        if ran.task.device >= 0:
            streams[ran.task.device, ran.stream].append((ran.start, ran.end))
            assert ran.stream < problem.streams[ran.task.device]
        for link in ran.task.resources:
            links[link].append((ran.start, ran.end))
    for spans in [*streams.values(), *links.values()]:
        for (_, end), (start, _) in pairwise(sorted(spans)):
            assert end <= start
    for failure in failures:
        device = problem.devices.index(failure.device)
        for ran in log_of(played):
            if ran.task.device == device:
                assert ran.end <= failure.at_s or ran.start >= failure.back_s


def check_lineage(
    played: FailingClock, request: int, came: float, failures: tuple[Failure, ...]
) -> None:
    """What a task reads is on its device when it starts; at the end all outputs have arrived."""
    problem = played.versions[0].plan.problem
    host = problem.host
    there: dict[int, set[int]] = defaultdict(set)
    computed: set[int] = set()
    for index, value in enumerate(problem.values):
        if value.producer == GRAPH_INPUT:
            there[index] = set(range(len(problem.devices))) if host is None else {host}
    log = [ran for ran in log_of(played) if ran.request == request]
    # At one instant: what ends, then what is lost, then what starts, in the order of the log.
    happenings: list[tuple[float, int, int]] = []
    for at, ran in enumerate(log):
        happenings.append((ran.start, 2 * at + 1, at))
        if not ran.lost and ran.end <= played.finish[request]:
            happenings.append((ran.end, 2 * at + 2, at))
    order = sorted(happenings)
    losses = sorted((f.known_s, problem.devices.index(f.device)) for f in failures)

    def lose_until(now: float) -> None:
        while losses and losses[0][0] <= now:
            _, device = losses.pop(0)
            for index, places in there.items():
                value = problem.values[index]
                ours = host is None and value.producer == GRAPH_INPUT
                safe = device == host and (value.producer == GRAPH_INPUT or value.is_output)
                if not ours and not safe:
                    places.discard(device)

    for now, what, at in order:
        task = log[at].task
        lose_until(now)
        groups = played.versions[task.version].plan.groups
        if what % 2 == 0:
            for value, device in task.gives:
                there[value].add(device)
            if task.device >= 0:
                computed.update(groups[task.group].nodes)
        elif task.device >= 0:
            inside = set(groups[task.group].nodes)
            for index, value in enumerate(problem.values):
                if value.producer not in inside and inside.intersection(value.consumers):
                    assert task.device in there[index]
        else:
            assert task.source in there[task.value]
        assert log[at].start >= came
    assert computed == set(range(problem.n)) or any(f.known_s <= now for f in failures)
    for index, value in enumerate(problem.values):
        if value.is_output and host is not None:
            assert host in there[index]
        if not value.consumers and value.producer != GRAPH_INPUT and not value.is_output:
            assert value.producer in computed


def chain(seconds: list[list[float]], **options: object) -> hetsim.Problem:
    """Nodes in a row on a host, d0, and another device, d1; a value of 1 byte between them."""
    n = len(seconds)
    return hetsim.Problem.from_arrays(
        np.array(seconds),
        tensors=[(-1, 1, [0]), *((v, 1, [v + 1]) for v in range(n - 1)), (n - 1, 1, [])],
        latency_s=1.0,
        host=0,
        **options,  # type: ignore[arg-type]
    )


def by_hand(problem: hetsim.Problem, *groups: tuple[int, list[int]]) -> Plan:
    return Plan(
        problem,
        "by hand",
        tuple(hetsim.Group(problem.devices[d], tuple(nodes)) for d, nodes in groups),
    )


def test_a_device_that_comes_back_does_its_work_again() -> None:
    # Input to d1 at 1, node 0 from 1 to 4, node 1 (d0) from 5 to 6.
    plan = by_hand(chain([[9.0, 3.0], [1.0, 9.0]]), (1, [0]), (0, [1]))
    assert hetsim.simulate(plan).latency_s == 6.0
    timeline = simulate(plan, failures=[Failure("d1", 2.0, "kill", 5.0)])
    # Back, and empty, at 7: the input again by 8, node 0 until 11, over by 12, node 1 until 13.
    assert timeline.latency_s == 13.0
    assert [(e.kind, e.name, e.start_s, e.end_s, e.lost) for e in timeline.events] == [
        ("transfer", "t0", 0.0, 1.0, False),
        ("compute", "g0", 1.0, 2.0, True),
        ("failure", "kill", 2.0, 7.0, False),
        ("transfer", "t0", 7.0, 8.0, False),
        ("compute", "g0", 8.0, 11.0, False),
        ("transfer", "t1", 11.0, 12.0, False),
        ("compute", "g1", 12.0, 13.0, False),
    ]
    assert timeline.device_busy_s == {"d0": 1.0, "d1": 4.0}


def test_others_take_over_from_what_is_left() -> None:
    # Node 0 on d0 until 1, over at 2, node 1 on d1 until 5: killed at 3, d0 has what it needs.
    plan = by_hand(chain([[1.0, 9.0], [4.0, 3.0], [1.0, 9.0]]), (0, [0]), (1, [1]), (0, [2]))
    assert hetsim.simulate(plan).latency_s == 7.0
    timeline = simulate(plan, failures=[Failure("d1", 3.0)])
    assert timeline.latency_s == 8.0
    computed = [e for e in timeline.events if e.kind == "compute"]
    assert [(e.start_s, e.device, e.group, e.lost) for e in computed] == [
        (0.0, "d0", 0, False), (2.0, "d1", 1, True), (3.0, "d0", -1, False), (7.0, "d0", -1, False)
    ]  # fmt: skip


def test_outputs_that_have_arrived_are_with_the_caller() -> None:
    # Node 0 on d0 until 1, an output; node 1 on d1 from 1 to 7, its output over at 8.
    problem = hetsim.Problem.from_arrays(
        np.array([[1.0, 9.0], [9.0, 6.0]]),
        tensors=[(-1, 1, [0, 1]), (0, 1, []), (1, 1, [])],
        latency_s=1.0,
        host=0,
    )
    plan = by_hand(problem, (0, [0]), (1, [1]))
    assert hetsim.simulate(plan).latency_s == 8.0
    # The host is away from 3 to 4, and all that was in its memory is gone.
    timeline = simulate(plan, failures=[Failure("d0", 3.0, "kill", 1.0)])
    assert timeline.latency_s == 8.0
    ran = [(e.name, e.start_s, e.end_s) for e in timeline.events if e.kind != "failure"]
    assert ran == [("g0", 0.0, 1.0), ("t0", 0.0, 1.0), ("g1", 1.0, 7.0), ("t2", 7.0, 8.0)]


def test_a_hang_is_noticed_late() -> None:
    plan = by_hand(chain([[1.0, 9.0], [4.0, 3.0], [1.0, 9.0]]), (0, [0]), (1, [1]), (0, [2]))
    assert simulate(plan, failures=[Failure("d1", 3.0, "hang", 2.0)]).latency_s == 10.0


def test_a_failure_after_the_end_changes_nothing() -> None:
    plan = by_hand(chain([[1.0, 9.0]]), (0, [0]))
    timeline = simulate(plan, failures=[Failure("d1", 50.0)])
    assert timeline.latencies_s == hetsim.simulate(plan).latencies_s
    assert [event.kind for event in timeline.events] == ["compute"]


def test_no_device_is_left() -> None:
    inf = math.inf
    plan = by_hand(chain([[1.0, 1.0], [inf, 1.0]]), (0, [0]), (1, [1]))
    with pytest.raises(Infeasible, match="no remaining device") as caught:
        simulate(plan, failures=[Failure("d1", 1.0)])
    assert caught.value.exit_code == 4


@pytest.mark.parametrize("machine_code", [False, True])
def test_more_was_under_way_than_can_be_from_then_on(machine_code: bool) -> None:
    # Without links any number of transfers go at once: 40 inputs are on their way to d1 as it is
    # lost, and d0, which has them, needs none.
    plan = by_hand(chain([[1.0, 1.0]]), (1, [0]))
    played = FailingClock(
        plan, [0.0] * 40, [Failure("d1", 0.5)], "none", replan, machine_code=machine_code
    )
    played.play()
    assert played.finish == [0.5 + turn for turn in range(1, 41)]
