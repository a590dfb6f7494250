"""A coarse problem stands for the fine one: the same plan costs the same on both."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hetsim
from builders import problems
from hetsim.placement.coarsening import Coarse, coarsen, pays_to_coarsen, uncoarsened
from hetsim.problem.groups import Group, as_groups, order_groups
from hetsim.problem.parts import FusedKernel
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from placement_instances import model_like


def check_coarse(coarse: Coarse) -> None:
    """Tasks cover the nodes once; values, weights and support are those of the members."""
    fine, problem = coarse.fine, coarse.problem
    assert sorted(v for nodes in coarse.members for v in nodes) == list(range(fine.n))
    assert all(coarse.task_of[v] == t for t, nodes in enumerate(coarse.members) for v in nodes)
    for u, v in fine.dag.edges():
        a, b = coarse.task_of[u], coarse.task_of[v]
        assert a == b or (a < b and b in problem.dag.succs[a])
    assert sum(map(len, problem.dag.succs)) <= sum(map(len, fine.dag.succs))
    for task, nodes in enumerate(coarse.members):
        for device in range(len(fine.devices)):
            whole = not fine.unsupported(device, nodes)
            assert bool(problem.supported[task, device]) is whole
        assert problem.supported[task].any() or not fine.runnable[list(nodes)].any(axis=1).all()
    weights = [(c.name, c.nbytes) for c in problem.constants]
    assert weights == [(c.name, c.nbytes) for c in fine.constants]


@settings(max_examples=60, deadline=None)
@given(model_like(problems(max_nodes=12)), st.integers(1, 12))
def test_tasks_stand_for_their_members(problem: Problem, most: int) -> None:
    check_coarse(coarsen(problem))
    few = coarsen(problem, most)
    check_coarse(few)
    assert few.problem.n <= coarsen(problem).problem.n


@settings(max_examples=60, deadline=None)
@given(model_like(problems(max_nodes=12)), st.integers(1, 12), st.data())
def test_a_plan_costs_the_same_on_both(problem: Problem, most: int, data: st.DataObject) -> None:
    problem = replace(problem, capacity_bytes=None, contention="none")
    coarse = coarsen(problem, most)
    tasks = coarse.problem
    assignment = [
        data.draw(st.sampled_from(np.flatnonzero(row).tolist())) for row in tasks.supported
    ]
    parts = order_groups(tasks.dag, range(tasks.n))
    assert parts is not None
    candidates = [
        as_groups(parts, assignment, tasks.devices),
        hetsim.partition(tasks, assignment=assignment).groups,
    ]
    for groups in candidates:
        on_tasks = hetsim.simulate(Plan(tasks, "coarse", groups))
        spread = Plan(problem, "fine", coarse.spread(groups))
        assert coarse.gathered(spread.groups) == groups
        on_nodes = hetsim.simulate(spread)
        hetsim.check_timeline(problem, spread, on_nodes, bound_s=0.0)
        if tasks.fused:
            # Of kernels that span tasks the coarse problem knows the union alone.
            assert on_nodes.latency_s <= on_tasks.latency_s + 1e-9
        else:
            assert on_nodes.latency_s == pytest.approx(on_tasks.latency_s, rel=1e-12)
            assert on_nodes.transferred_bytes == on_tasks.transferred_bytes


def test_a_plan_that_cuts_a_task_is_none_of_tasks() -> None:
    problem = Problem.from_arrays([[1.0], [1.0]], edges=[(0, 1, 1)], dispatch_s=0.5)
    coarse = coarsen(problem)
    assert coarse.problem.n == 1
    assert coarse.gathered((Group("d0", (0,)), Group("d0", (1,)))) is None
    assert coarse.gathered((Group("d0", (0, 1)),)) == (Group("d0", (0,)),)


def test_chains_are_joined_where_a_split_cannot_pay() -> None:
    seconds = np.array([[2.0, 1.0], [2.0, 1.0], [2.0, 1.0]])
    edges = [(0, 1, 10), (1, 2, 10)]
    problem = Problem.from_arrays(seconds, edges, bytes_per_s=100.0, dispatch_s=0.1)
    assert coarsen(problem).members == ((0, 1, 2),)
    # Node 1 is ten times as quick on the other device: that may be worth the transfers.
    unlike = seconds.copy()
    unlike[1] = (0.2, 3.0)
    problem = Problem.from_arrays(unlike, edges, bytes_per_s=100.0, dispatch_s=0.1)
    assert coarsen(problem).members == ((0,), (1,), (2,))
    # Where the transfer costs more than is gained, it is not.
    problem = Problem.from_arrays(unlike, edges, bytes_per_s=1.0, dispatch_s=0.1)
    assert coarsen(problem).members == ((0, 1, 2),)
    # One device takes all, the other only the ends: the middle has its own choice to make.
    unlike[1] = (2.0, np.inf)
    problem = Problem.from_arrays(unlike, edges, bytes_per_s=100.0, dispatch_s=0.1)
    assert coarsen(problem).members == ((0,), (1,), (2,))


def test_what_moves_between_two_tasks_is_the_sum_of_what_both_read() -> None:
    """At the very byte where a split begins to pay, by what the transfer takes."""
    seconds = np.array([[1.0, 4.0], [4.0, 1.0]])
    for nbytes, tasks in ((7, 2), (8, 1)):
        # Apart 2 + 8/4 + 1, together 5: no gain left.
        problem = Problem.from_arrays(
            seconds,
            tensors=[(0, nbytes - 3, [1]), (0, 3, [1])],
            bytes_per_s=4.0,
            dispatch_s=1.0,
        )
        assert coarsen(problem).problem.n == tasks


def test_forks_are_left_alone_until_there_are_too_many() -> None:
    edges = [(0, 1, 1), (0, 2, 1), (1, 3, 1), (2, 3, 1)]
    problem = Problem.from_arrays(np.ones((4, 2)), edges, dispatch_s=0.1)
    assert coarsen(problem).problem.n == 4
    for most in (3, 2, 1):
        assert coarsen(problem, most).problem.n == most


def test_composites_become_one_task() -> None:
    seconds = np.array([[1.0, np.inf], [1.0, np.inf], [1.0, 1.0]])
    problem = Problem.from_arrays(
        seconds, [(0, 1, 9), (1, 2, 9)], composites=[(1, (0, 1), 0.25)], dispatch_s=0.1
    )
    coarse = coarsen(problem)
    assert coarse.members[0][:2] == (0, 1)
    assert coarse.problem.supported[0].all()
    plan = hetsim.plan(problem, "heft")
    assert plan.devices_used == ("d1",)
    hetsim.check_timeline(problem, plan, hetsim.simulate(plan))


def test_kernels_that_cannot_be_joined_still_fuse_when_they_meet() -> None:
    # 0 > 1 > 2 and 0 > 2: joining 0 and 2 would close a cycle.
    problem = replace(
        Problem.from_arrays(np.full((3, 1), 2.0), [(0, 1, 1), (0, 2, 1), (1, 2, 1)]),
        fused=(FusedKernel(0, (0, 2), 1.0),),
    )
    coarse = coarsen(problem)
    assert coarse.problem.n == 3
    assert coarse.problem.fused == (FusedKernel(0, (0, 2), 1.0),)


def test_what_costs_nothing_to_start_is_not_coarsened() -> None:
    problem = Problem.from_arrays([[1.0], [1.0]], edges=[(0, 1, 1)])
    assert not pays_to_coarsen(problem)
    assert pays_to_coarsen(replace(problem, dispatch_s=(0.5,)))
    assert uncoarsened(problem).problem is problem


def test_models_shrink_to_tens_of_tasks() -> None:
    problem = Problem.of(hetsim.load_model("zoo:resnet50"), hetsim.load_platform("laptop"))
    coarse = coarsen(problem)
    check_coarse(coarse)
    assert coarse.problem.n <= 60
