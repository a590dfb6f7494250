"""Borders refined node by node: valid, never worse, and better where a chain was cut badly."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hetsim
from builders import problems
from hetsim.placement.grouping import refine
from hetsim.placement.objective import Objective, measure
from hetsim.problem.groups import Group
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem


@settings(max_examples=60)
@given(problems(max_nodes=10), st.sampled_from(["latency", "throughput"]))
def test_never_worse_and_valid(problem: Problem, objective: Objective) -> None:
    plan = hetsim.plan(problem, "hetero")
    cost = measure(plan, objective)
    refined = refine(plan, objective, cost)
    refined.validate()
    assert measure(refined, objective) <= cost
    assert (refined.strategy, refined.reason) == (plan.strategy, plan.reason)


def chain(nbytes: list[int]) -> Problem:
    """Four nodes in a row; the last two are much faster on d1, the second runs anywhere."""
    return Problem.from_arrays(
        [[1.0, 9.0], [1.0, 1.0], [9.0, 1.0], [9.0, 1.0]],
        edges=[(v, v + 1, size) for v, size in enumerate(nbytes)],
        bytes_per_s=1.0,
    )


def test_the_border_moves_to_where_little_crosses() -> None:
    problem = chain([1, 20, 1])
    plan = Plan(problem, "own", (Group("d0", (0, 1)), Group("d1", (2, 3))), "cut at the wide one")
    assert measure(plan, "latency") == 24.0
    refined = refine(plan, "latency", 24.0)
    assert refined.groups == (Group("d0", (0,)), Group("d1", (1, 2, 3)))
    assert measure(refined, "latency") == 5.0
    # Where it is right already nothing changes.
    assert refine(refined, "latency", 5.0).groups == refined.groups


def test_composites_go_whole() -> None:
    inf = float("inf")
    problem = Problem.from_arrays(
        [[1.0, inf], [1.0, inf], [9.0, inf], [9.0, 1.0]],
        edges=[(0, 1, 20), (1, 2, 1), (2, 3, 1)],
        bytes_per_s=1.0,
        composites=[(1, (1, 2), 1.0)],
    )
    plan = Plan(problem, "own", (Group("d0", (0,)), Group("d1", (1, 2, 3))))
    # Without node 2, node 1 would do well on d0.
    cost = measure(plan, "latency")
    assert refine(plan, "latency", cost).groups == plan.groups


def test_trials_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    import hetsim.placement.grouping as module

    n = 300
    problem = Problem.from_arrays(
        [[1.0, 1.0]] * n, edges=[(v, v + 1, 1) for v in range(n - 1)], dispatch_s=[0.1, 0.1]
    )
    groups = tuple(Group(f"d{v % 2}", (v,)) for v in range(n))
    calls: list[float] = []
    real = module.measure

    def counted(plan: Plan, objective: Objective) -> float:
        calls.append(real(plan, objective))
        return calls[-1]

    monkeypatch.setattr(module, "measure", counted)
    monkeypatch.setattr(module, "TRIALS", 20)
    plan = Plan(problem, "own", groups)
    refined = refine(plan, "latency", real(plan, "latency"))
    assert len(calls) == 20
    assert min(calls) == real(refined, "latency")
