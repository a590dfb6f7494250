"""Traces and events out of arrays are, byte by byte, what plain loops make of events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsim.plans.events import Events
from hetsim.plans.plan import Plan
from hetsim.plans.timeline import Event, Timeline
from hetsim.reporting import trace_entries
from hetsim.reporting.trace import trace_json, trace_pieces
from hetsim.reporting.trace_counters import all_microseconds, microseconds
from hetsim.simulation.clock.metrics import (
    build_events,
    critical_path,
    event_order,
    request_of,
    tasks_of,
)
from hetsim.simulation.clock.playing import play
from hetsim.simulation.clock.templates import tasks_of_plan
from hetsim.simulation.simulate import simulate
from hetsim.workloads.failure import Failure
from oracles import plain_timeline, plain_trace
from oracles.clock_plans import arrivals, dealt_plans
from sweeps import examples


def both(
    plan: Plan,
    timeline: Timeline,
    real: Sequence[Event] = (),
    arrivals_s: Sequence[float] | None = None,
) -> None:
    text = trace_json(plan, timeline, real, arrivals_s)
    plain = replace(timeline, events=tuple(timeline.events))
    assert text == plain_trace.trace_json(plan, plain, tuple(real), arrivals_s)


@examples(quick=20, full=250)
@given(dealt_plans(), arrivals(), st.sampled_from(["fifo", "none"]), st.booleans(), st.data())
def test_traces_are_the_same_bytes(
    plan: Plan, times: list[float], contention: str, powered: bool, data: st.DataObject
) -> None:
    n = plan.problem.n
    problem = replace(
        plan.problem,
        contention=contention,
        node_names=tuple(f"node é {v}" for v in range(n)),
        op_types=tuple("AB"[v % 2] for v in range(n)),
    )
    if powered:
        watts = tuple(3.0 + 1 / 3 * p for p in range(len(problem.devices)))
        problem = replace(problem, idle_w=watts, busy_w=tuple(7.7 * one for one in watts))
    plan = replace(plan, problem=problem)
    timeline = simulate(plan, arrivals_s=times)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace_entries, "AT_A_TIME", data.draw(st.integers(1, 40)))
        both(plan, timeline, arrivals_s=times)
        both(plan, timeline)
        # Any events do for the real ones: others of the same plan, and one lost call.
        done = simulate(plan, arrivals_s=[*times, times[-1]]).events
        first = done[0]
        lost = replace(first, start_s=first.end_s + 1.0, end_s=first.end_s + 2.5, lost=True)
        both(plan, timeline, (*done, lost), times)
        failure = Failure("d0", data.draw(st.integers(0, 9)) / 2 + 1 / 8, "kill", 2.0)
        both(plan, simulate(plan, arrivals_s=times, failures=[failure]), arrivals_s=times)
    assert "".join(trace_pieces(plan, timeline)) == trace_json(plan, timeline)


@examples(quick=40, full=250)
@given(dealt_plans(), arrivals())
def test_events_and_the_critical_path_are_the_same(plan: Plan, times: list[float]) -> None:
    laid_out = tasks_of_plan(plan, plan.problem.contention)
    recording = play(laid_out, np.array(times), traced=True)
    order, owner = event_order(recording), request_of(recording)
    task = tasks_of(laid_out, recording, owner)
    plain_owner = plain_timeline.request_of(recording)
    made = build_events(laid_out, recording, order, owner, task)
    plain = plain_timeline.build_events(laid_out, recording, order, plain_owner)
    assert made == plain
    assert tuple(made) == plain
    path = critical_path(laid_out, recording, order, owner, task)
    assert path == plain_timeline.critical_path(laid_out, recording, order, plain_owner)
    # And as the sequence that the tuple is.
    assert [made[at] for at in range(-len(plain), len(plain))] == [*plain, *plain]
    assert made[1:] == plain[1:]
    assert made[::-2] == plain[::-2]
    assert made == Events.of(plain) == Events.of(made)
    assert hash(made) == hash(plain)
    assert repr(made) == repr(plain)
    assert made != plain[1:]
    assert made != (*plain[1:], replace(plain[0], request=7))
    assert made != list(plain)
    for at in (len(plain), -len(plain) - 1):
        with pytest.raises(IndexError):
            made[at]


@given(st.lists(st.one_of(st.integers(0, 2**53), st.integers(0, 2**62)), max_size=6))
def test_many_microseconds_are_those_of_each(nanoseconds: list[int]) -> None:
    found = all_microseconds(np.array(nanoseconds, dtype=np.int64))
    assert found == [microseconds(one) for one in nanoseconds]
