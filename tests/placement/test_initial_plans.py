"""What searches start from: every device alone, the constructive plans, or one that fits."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

import hetsim
from builders import problems
from hetsim.errors import Infeasible, OutOfMemory, UnsupportedNode, UsageError
from hetsim.placement.coarsening import coarsen
from hetsim.placement.initial_plans import (
    CONSTRUCTIVE,
    constructive,
    expand,
    plan_alone,
    prepared,
    starting_plans,
    starts_that_fit,
)
from hetsim.placement.objective import measure
from hetsim.problem.groups import Group
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from placement_instances import model_like
from sweeps import examples


@examples(quick=5, full=80)
@given(model_like(problems(max_nodes=8)))
def test_they_are_all_plans_there_are_the_best_first(problem: Problem) -> None:
    coarse = prepared(problem)
    try:
        found = starting_plans(coarse, "throughput")
    except Infeasible:
        return
    costs = [start.cost for start in found]
    assert costs == sorted(costs)
    for start in found:
        assert start.cost == measure(start.plan, "throughput")
        assert start.plan.groups == coarse.spread(start.groups)
    known = {start.name: start.cost for start in found}
    for device, name in enumerate(expand(problem)):
        with suppress(Infeasible):
            cost = measure(plan_alone(problem, device), "throughput")
            assert known[name] == cost
    least = min(costs)
    for name in CONSTRUCTIVE:
        with suppress(Infeasible):
            groups, _ = constructive(name).groups(coarse)
            plan = Plan(problem, name, coarse.spread(groups))
            cost = measure(plan, "throughput")
            # Of strategies that make the same plan the first stands for all.
            assert any(start.groups == groups and start.cost == cost for start in found)
            assert cost >= least


def test_where_no_start_fits_one_is_looked_for() -> None:
    problem = Problem.from_arrays(
        [[1.0, 1.0]] * 4,
        [(0, 1, 0), (1, 2, 0), (2, 3, 0)],
        weight_bytes=[9, 9, 9, 9],
        capacity_bytes=[18, 18],
        dispatch_s=9.0,
    )
    # All nodes are one task, which fits nowhere: the plan is of nodes.
    coarse = coarsen(problem)
    assert coarse.problem.n == 1
    with pytest.raises(OutOfMemory):
        starting_plans(coarse, "latency")
    found, (start,) = starts_that_fit(coarse, "latency")
    assert found.problem is problem
    assert start.name == "the search for memory"
    assert start.cost == hetsim.simulate(start.plan).latency_s
    assert start.groups == start.plan.groups
    roomy = replace(problem, capacity_bytes=(99, 99))
    coarse = coarsen(roomy)
    same, several = starts_that_fit(coarse, "latency")
    assert same is coarse
    assert len(several) > 1
    with pytest.raises(UnsupportedNode):
        starts_that_fit(coarsen(replace(problem, seconds=np.full((4, 2), np.inf))), "latency")


def test_a_device_alone_runs_everything_or_says_what_it_lacks() -> None:
    problem = Problem.from_arrays([[1.0, np.inf], [1.0, np.inf], [1.0, 1.0], [1.0, np.inf]])
    problem = replace(
        problem, op_types=("Relu", "Conv", "Add", "Relu"), node_names=("a", "b", "c", "d")
    )
    assert plan_alone(problem, 0).groups == (Group("d0", (0, 1, 2, 3)),)
    assert plan_alone(problem, 0).reason == "everything on d0"
    with pytest.raises(
        UnsupportedNode, match=r"'d1' does not support: Conv \(1\), Relu \(2\)"
    ) as caught:
        plan_alone(problem, 1)
    assert caught.value.nodes == ("a", "b", "d")
    assert caught.value.ops == ("Conv", "Relu")
    assert caught.value.devices == ("d1",)
    assert expand(problem) == ("single:d0", "single:d1")
    with pytest.raises(UsageError, match="no device"):
        expand(replace(problem, devices=(), seconds=np.zeros((4, 0))))


@pytest.mark.parametrize("strategy", ["heft", "etf", "dls", "lookahead", "peft"])
def test_a_full_device_keeps_what_loses_most_elsewhere(strategy: str) -> None:
    """The first three nodes lose 1 s on the CPU, the last three 49 s, and the GPU holds three."""
    problem = Problem.from_arrays(
        [[2.0, 1.0]] * 3 + [[50.0, 1.0]] * 3,
        [(v, v + 1, 1) for v in range(5)],
        devices=("cpu", "gpu"),
        weight_bytes=[10] * 6,
        capacity_bytes=[100, 35],
    )
    plan = hetsim.plan(problem, strategy)
    assert plan.assignment == (0, 0, 0, 1, 1, 1)
    assert hetsim.simulate(plan).latency_s == 9.0
