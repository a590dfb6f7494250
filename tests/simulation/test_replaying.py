"""A plan replayed with factors costs what it costs on the problem scaled by them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from builders import problems
from hetsim.errors import Infeasible
from hetsim.placement.objective import bottleneck, latency_of
from hetsim.plans.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.problem.scaled import scaled
from hetsim.simulation.clock.replaying import bottlenecks, latencies
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
