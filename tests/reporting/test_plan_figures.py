"""Figures that reports derive: against hand-worked cases."""

from __future__ import annotations

import pytest
from hypothesis import given

from builders import problems
from hetsim.partitioning.borders import crossings
from hetsim.placement.planning import plan
from hetsim.problem.groups import Group
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.reporting.tables.plan import critical_path, latency_spread
from hetsim.simulation.simulate import simulate
from sweeps import examples


def test_crossings_count_a_value_once_for_each_destination() -> None:
    problem = Problem.from_arrays(
        [[1.0] * 3] * 4,
        tensors=[(-1, 100, (0, 1)), (0, 10, (1, 2, 3)), (1, 5, ())],
        devices=("cpu", "gpu", "npu"),
        host=0,
    )
    groups = (Group("cpu", (0,)), Group("gpu", (1,)), Group("gpu", (2,)), Group("npu", (3,)))
    found = crossings(problem, groups)
    assert [c.sends_bytes for c in found] == [20, 5, 0, 0]
    assert [c.receives_bytes for c in found] == [0, 110, 10, 10]


def test_inputs_and_outputs_are_free_without_a_host() -> None:
    problem = Problem.from_arrays([[1.0]], tensors=[(-1, 100, (0,)), (0, 5, ())], host=None)
    (found,) = crossings(problem, (Group("d0", (0,)),))
    assert (found.receives_bytes, found.sends_bytes) == (0, 0)


@given(problems())
@examples(quick=15, full=60)
def test_sent_bytes_are_what_the_clock_moved(problem: Problem) -> None:
    made = plan(problem, "heft")
    timeline = simulate(made)
    inputs = sum(e.nbytes for e in timeline.events if e.kind == "transfer" and e.group == -1)
    sent = sum(crossing.sends_bytes for crossing in crossings(problem, made.groups))
    assert sent + inputs == timeline.transferred_bytes


@given(problems())
@examples(quick=15, full=60)
def test_the_critical_path_makes_up_the_latency(problem: Problem) -> None:
    timeline = simulate(plan(problem, "heft"))
    path = critical_path(timeline)
    assert path is not None
    assert path["compute_s"] + path["transfer_s"] == pytest.approx(timeline.latency_s)
    assert 0.0 <= path["transfer_share"] <= 1.0


def test_no_trace_no_critical_path() -> None:
    problem = Problem.from_arrays([[1.0]])
    made = Plan(problem, "by hand", (Group("d0", (0,)),))
    assert critical_path(simulate(made, trace=False)) is None


def test_percentiles_are_those_of_the_nearest_rank() -> None:
    problem = Problem.from_arrays([[1.0]])
    made = Plan(problem, "by hand", (Group("d0", (0,)),))
    spread = latency_spread(simulate(made, 10))
    assert spread == {"mean": 5.5, "p50": 5.0, "p90": 9.0, "p99": 10.0, "max": 10.0}
    assert set(latency_spread(simulate(made)).values()) == {1.0}
