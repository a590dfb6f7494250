"""A plan replayed with factors costs what it costs on the problem scaled by them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from builders import problems
from hetsim.core import left_to_python
from hetsim.errors import Infeasible
from hetsim.placement.objective import bottleneck, latency_of
from hetsim.problem.groups import Group
from hetsim.problem.parts import Contention, scaled
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.simulation.clock import runs, virtual_time
from hetsim.simulation.clock.runs import bottlenecks, finishes, latencies, play
from hetsim.simulation.clock.templates import tasks_of_plan
from hetsim.simulation.clock.virtual_time import VirtualTime
from oracles.clock_plans import arrivals, dealt_plans
from sweeps import examples


def factors(problem: Problem, seed: int, count: int = 5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    size = len(problem.devices)
    return rng.uniform(0.2, 5, (count, size)), rng.uniform(0.2, 5, (count, size, size))


def by_hand(plan: Plan, devices: np.ndarray, routes: np.ndarray) -> list[Plan]:
    """The plan on each scaled problem."""
    return [
        replace(plan, problem=scaled(plan.problem, row, along))
        for row, along in zip(devices, routes, strict=True)
    ]


@examples(quick=40, full=200)
@given(problems(), st.integers(0, 9), st.sampled_from(["heft", "single", "chain-dp"]))
def test_latency_is_that_of_the_scaled_problem(problem: Problem, seed: int, strategy: str) -> None:
    name = f"single:{problem.devices[0]}" if strategy == "single" else strategy
    try:
        plan = hetsim.plan(problem, name)
    except Infeasible:
        return
    devices, routes = factors(problem, seed)
    found = latencies(plan, devices, routes)
    assert found == pytest.approx([latency_of(p) for p in by_hand(plan, devices, routes)])
    assert found == pytest.approx(latencies(plan, devices, routes, machine_code=True), abs=0)


@examples(quick=40, full=200)
@given(problems(), st.integers(0, 9))
def test_bottleneck_is_that_of_the_scaled_problem(problem: Problem, seed: int) -> None:
    for name in ("multi", "heft"):
        try:
            plan = hetsim.plan(problem, name, objective="throughput" if name == "multi" else None)
        except Infeasible:
            continue
        devices, routes = factors(problem, seed)
        found = bottlenecks(plan, devices, routes)
        assert found == pytest.approx([bottleneck(p) for p in by_hand(plan, devices, routes)])
        ones = np.ones((1, len(problem.devices)))
        same = bottlenecks(plan, ones, np.ones((1, *routes.shape[1:])))
        assert same == pytest.approx([bottleneck(plan)])


@examples(quick=25, full=300)
@given(
    dealt_plans(),
    arrivals(most=6),
    st.sampled_from(["fifo", "none", None]),
    st.integers(0, 99),
    st.booleans(),
)
def test_each_request_ends_as_on_the_scaled_problem(
    plan: Plan, times: list[float], contention: Contention | None, seed: int, machine_code: bool
) -> None:
    """Of any deal, wherever the host is, with shared links; by halves, so that sums are exact."""
    rng = np.random.default_rng(seed)
    size = len(plan.problem.devices)
    devices, routes = rng.integers(1, 5, (3, size)) / 2, rng.integers(1, 5, (3, size, size)) / 2
    arrival = np.array(times)
    found = finishes(
        plan, devices, routes, arrival, contention=contention, machine_code=machine_code
    )
    rule = contention or plan.problem.contention
    for row, scaled_plan in zip(found, by_hand(plan, devices, routes), strict=True):
        expected = play(tasks_of_plan(scaled_plan, rule), arrival, traced=False)
        assert row.tolist() == expected.finish.tolist()
    if contention is None:
        first = latencies(plan, devices, routes, machine_code=machine_code)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(runs, "LEAST_ALIKE", 1)
            alone = finishes(plan, devices, routes, np.zeros(1))
        assert first.tolist() == alone[:, 0].tolist()
        costs = bottlenecks(plan, devices, routes)
        assert costs == pytest.approx([bottleneck(p) for p in by_hand(plan, devices, routes)])


@pytest.mark.parametrize(("rows", "compiled"), [(2, False), (3, True)])
def test_machine_code_is_taken_where_the_work_of_all_rows_is_large(
    rows: int, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tasks of each of five requests in each row."""
    problem = Problem.from_arrays([[1.0], [1.0]], edges=[(0, 1, 0)])
    plan = Plan(problem, "manual", (Group("d0", (0,)), Group("d0", (1,))))
    asked: list[bool] = []

    class Noted(VirtualTime):
        def __init__(self, *given: Any, arrays: bool, **more: Any) -> None:
            asked.append(arrays)
            super().__init__(*given, arrays=False, **more)

    for name in ("COMPILE_FROM", "LEAST"):
        monkeypatch.setattr(virtual_time, name, 30)
    new = SimpleNamespace(plain=virtual_time.advance, loaded=False, kept=False)
    monkeypatch.setattr(virtual_time, "compiled", lambda: new)
    for noted in ("_done", "_kept"):
        monkeypatch.setattr(left_to_python, noted, {})
    monkeypatch.setattr(runs, "VirtualTime", Noted)
    finishes(plan, np.ones((rows, 1)), np.ones((rows, 1, 1)), np.zeros(5))
    assert asked == [compiled]
