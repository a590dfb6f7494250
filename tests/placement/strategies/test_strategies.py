"""Strategies give valid plans, published makespans, and clear refusals."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given

import hetsim
from builders import placement_case, problems
from hetsim.errors import UnsupportedNode, UsageError
from hetsim.placement.bounds.lower_bound import area_bound, critical_path_bound, lower_bound
from hetsim.placement.listing.ranks import upward_ranks
from hetsim.placement.strategies.list_scheduling import Heft
from hetsim.problem.groups import Group, as_groups, order_groups
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.problem.validator import problems_of
from sweeps import examples


def check_valid(plan: Plan) -> None:
    problem = plan.problem
    for one in plan.replicas:
        found = problems_of(problem.dag, one.groups, problem.devices, problem.supported.tolist())
        assert found == []


@examples(quick=30, full=150)
@given(problems(max_nodes=12))
def test_every_plan_is_valid_and_above_the_bound(problem: Problem) -> None:
    bound = lower_bound(problem)
    for strategy in ("hetero", "heft", f"single:{problem.devices[0]}"):
        plan = hetsim.plan(problem, strategy)
        check_valid(plan)
        latency = hetsim.simulate(plan).latency_s
        assert latency >= bound


@examples(quick=25, full=60)
@given(problems(max_nodes=5, max_devices=2))
def test_bound_holds_for_every_plan_there_is(problem: Problem) -> None:
    bound = lower_bound(problem)
    best = float("inf")
    choices = [
        [p for p in range(len(problem.devices)) if problem.supported[v, p]]
        for v in range(problem.n)
    ]
    for assignment in itertools.product(*choices):
        for grouping in ("single", "compact"):
            labels = list(range(problem.n))
            parts = order_groups(problem.dag, labels)
            assert parts is not None
            groups = (
                as_groups(parts, assignment, problem.devices)
                if grouping == "single"
                else hetsim.partition(problem, assignment=assignment).groups
            )
            best = min(best, hetsim.simulate(Plan(problem, "any", groups)).latency_s)
    assert bound <= best


def test_bound_of_one_node_is_exact() -> None:
    problem = Problem.from_arrays(
        [[8.0, 2.0]],
        tensors=[(-1, 4, (0,)), (0, 2, ())],
        latency_s=0.5,
        bytes_per_s=4.0,
        dispatch_s=[0.25, 1.0],
        host=0,
    )
    # On d1: input 1.5, dispatch 1, run 2, output 1; on d0: dispatch 0.25, run 8.
    assert critical_path_bound(problem) == 5.5
    assert hetsim.simulate(hetsim.plan(problem, "heft")).latency_s == 5.5


def test_area_bound_reaches_the_balanced_load() -> None:
    problem = Problem.from_arrays(np.full((12, 3), 2.0))
    assert area_bound(problem) == pytest.approx(8.0, rel=1e-9)
    unrelated = Problem.from_arrays([[1.0, 10.0], [10.0, 1.0]] * 4)
    assert area_bound(unrelated) == pytest.approx(4.0, rel=0.02)
    assert area_bound(unrelated) <= 4.0
    assert lower_bound(Problem.from_arrays([[np.inf, np.inf]])) == np.inf


def test_heft_reproduces_the_published_schedule() -> None:
    problem, record = placement_case("topcuoglu2002")
    ranks = upward_ranks(problem)
    published = [108.0, 77.0, 80.0, 80.0, 69.0, 63.333, 42.667, 35.667, 44.333, 14.667]
    assert ranks == pytest.approx(published, abs=1e-3)
    assert Heft().schedule(problem).makespan_s == record["reference"]["published"]["HEFT"] == 80
    plan = hetsim.plan(problem, "heft")
    assert hetsim.simulate(plan).latency_s == 80
    assert lower_bound(problem) <= record["reference"]["optimum"]


@examples(quick=40, full=100)
@given(problems(max_nodes=12, overheads=False))
def test_heft_schedule_is_a_schedule(problem: Problem) -> None:
    made = Heft().schedule(problem)
    assignment, start, finish = made.assignment, made.start_s, made.end_s
    for v in range(problem.n):
        assert finish[v] == start[v] + problem.seconds[v, assignment[v]]
    for value in problem.values:
        for v in value.consumers:
            if value.producer >= 0:
                u = value.producer
                travel = 0.0
                if assignment[u] != assignment[v]:
                    travel = problem.routes[assignment[u]][assignment[v]].seconds(value.nbytes)
                assert start[v] >= finish[u] + travel - 1e-9
    for device in range(len(problem.devices)):
        busy = sorted(
            (start[v], finish[v])
            for v in range(problem.n)
            if assignment[v] == device and finish[v] > start[v]
        )
        assert all(a[1] <= b[0] + 1e-9 for a, b in itertools.pairwise(busy))
    # With free dispatch and links the clock must not need longer than the schedule.
    latency = hetsim.simulate(hetsim.plan(problem, "heft")).latency_s
    assert latency <= max(finish) + 1e-9


def test_single_picks_the_fastest_and_lists_missing_ops() -> None:
    problem = Problem.from_arrays(
        [[4.0, 1.0, 1.0], [4.0, 2.0, np.inf]],
        edges=[(0, 1, 0)],
        devices=("cpu", "gpu", "npu"),
        host=0,
    )
    assert hetsim.plan(problem, "single").strategy == "single:gpu"
    with pytest.raises(UnsupportedNode, match=r"'npu' does not support: Task \(1\)"):
        hetsim.plan(problem, "single:npu")
    with pytest.raises(UsageError, match="did you mean 'gpu'"):
        hetsim.plan(problem, "single:gpuu")
    hopeless = Problem.from_arrays([[1.0, np.inf], [np.inf, 1.0]])
    with pytest.raises(UnsupportedNode, match="no device can run the whole model"):
        hetsim.plan(hopeless, "single")


def test_hetero_follows_the_priority() -> None:
    problem = Problem.from_arrays(
        [[1.0, 9.0, 9.0], [1.0, 9.0, np.inf], [1.0, np.inf, np.inf]],
        edges=[(0, 1, 8), (1, 2, 8)],
        devices=("cpu", "gpu", "npu"),
        host=0,
    )
    plan = hetsim.plan(problem, "hetero:npu,gpu,cpu")
    assert plan.groups == (Group("npu", (0,)), Group("gpu", (1,)), Group("cpu", (2,)))
    assert hetsim.plan(problem, "hetero").assignment == (1, 1, 0)
    with pytest.raises(UnsupportedNode, match="gpu: inf in seconds"):
        hetsim.plan(problem, "hetero:npu,gpu")
    for text, complaint in (
        ("hetero:npu,,cpu", "not a list of different devices"),
        ("hetero:npu,npu", "not a list of different devices"),
        ("hetero:tpu", "did you mean"),
        ("heft:x", "takes no argument"),
        ("hefd", "did you mean 'heft'"),
    ):
        with pytest.raises(UsageError, match=complaint):
            hetsim.plan(problem, text)
    with pytest.raises(UsageError, match="no option 'methd'; did you mean 'method'"):
        hetsim.plan(problem, "hetero", methd="stage")
    assert hetsim.plan(problem, "hetero", method="stage").options == {"method": "stage"}


def test_registry_lists_what_plan_takes() -> None:
    names = [info.name for info in hetsim.strategies()]
    assert names == sorted(names)
    problem = Problem.from_arrays([[1.0, 2.0]], capacity_bytes=[10, 10])
    for name in names:
        check_valid(hetsim.plan(problem, name))
