"""A plan replayed with factors costs what it costs on the problem scaled by them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsim.placement.objective import bottleneck
from hetsim.problem.parts import Contention, scaled
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.runs import bottlenecks, finishes, play
from hetsim.simulation.clock.templates import tasks_of_plan
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


@examples(quick=15, full=300)
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
        costs = bottlenecks(plan, devices, routes)
        assert costs == pytest.approx([bottleneck(p) for p in by_hand(plan, devices, routes)])
