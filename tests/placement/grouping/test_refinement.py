"""Which border is tried next: the widest first, but those like a refused one later."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hetsim.errors import Infeasible
from hetsim.placement import grouping as refinement
from hetsim.placement.grouping import refine
from hetsim.placement.objective import Objective, measure
from hetsim.problem.groups import Group
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem


def pairs(nbytes: list[int]) -> tuple[Problem, Plan]:
    """Pairs of nodes, one on each device, with so many bytes from the first to the second."""
    edges = [(2 * k, 2 * k + 1, size) for k, size in enumerate(nbytes)]
    problem = Problem.from_arrays(np.ones((2 * len(nbytes), 2)), edges)
    groups = tuple(Group(f"d{v % 2}", (v,)) for v in range(problem.n))
    return problem, Plan(problem, "own", groups)


def tried(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, gains: int = -1, fails: int = -1
) -> list[int]:
    """The nodes that are moved, in turn; the move of `gains` gains once, that of `fails` raises."""
    nodes: list[int] = []
    known = list(plan.assignment)

    def counted(trial: Plan, objective: Objective) -> float:
        (node,) = (v for v, p in enumerate(trial.assignment) if p != known[v])
        nodes.append(node)
        if node == fails:
            raise Infeasible("no room")
        if node == gains and nodes.count(node) == 1:
            known[:] = trial.assignment
            return 1.0
        return 99.0

    monkeypatch.setattr(refinement, "measure", counted)
    refine(plan, "latency", 50.0)
    return nodes


def test_the_widest_border_first_and_what_is_like_a_refused_one_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, plan = pairs([30, 30, 20, 40])
    # Of the pairs with 30 bytes the second is like the first, which was refused.
    assert tried(plan, monkeypatch) == [6, 7, 0, 1, 4, 5, 2, 3]
    other = replace(plan.problem, op_types=("A", "A", "B", "B", "A", "A", "A", "A"))
    assert tried(replace(plan, problem=other), monkeypatch) == [6, 7, 0, 1, 2, 3, 4, 5]


def test_after_a_gain_those_are_tried_that_are_new(monkeypatch: pytest.MonkeyPatch) -> None:
    _, plan = pairs([30, 30, 20])
    # What gained may be repeated by those like it, at once.
    assert tried(plan, monkeypatch, gains=0) == [0, 2, 3, 4, 5]
    # What does not fit is no end.
    assert tried(plan, monkeypatch, fails=0) == [0, 1, 4, 5, 2, 3]


def test_as_many_moves_are_tried_as_the_clock_may_be_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem, plan = pairs([30, 20])
    monkeypatch.setattr(refinement, "TRIALS", 3)
    assert tried(plan, monkeypatch) == [0, 1, 2]
    monkeypatch.setattr(refinement, "WORK", 2 * problem.n)
    assert tried(plan, monkeypatch) == [0, 1]
    monkeypatch.setattr(refinement, "WORK", problem.n - 1)
    assert tried(plan, monkeypatch) == []


def test_nodes_stay_where_no_other_device_takes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, plan = pairs([30, 20])
    seconds = problem.seconds.copy()
    seconds[0, 1] = seconds[3, 0] = np.inf
    assert tried(replace(plan, problem=replace(problem, seconds=seconds)), monkeypatch) == [1, 2]


def test_a_node_joins_the_subgraph_across_where_no_circle_closes() -> None:
    # Node 1 between two of the other device: with them it would be one subgraph.
    problem = Problem.from_arrays(
        [[1.0, 9.0], [1.0, 2.0], [1.0, 9.0]], [(0, 1, 8), (1, 2, 8)], bytes_per_s=8.0
    )
    plan = Plan(problem, "own", (Group("d0", (0,)), Group("d1", (1,)), Group("d0", (2,))))
    refined = refine(plan, "latency", measure(plan, "latency"))
    assert set(refined.assignment) == {0}
    assert measure(refined, "latency") == 3.0
