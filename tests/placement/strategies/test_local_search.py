"""How often the clock judges a search, which of equal plans stays, and what options say."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

import pytest

import hetsim
from hetsim.core import deadline
from hetsim.errors import OutOfMemory
from hetsim.placement.initial_plans import prepared, starts_that_fit
from hetsim.placement.objective import measure
from hetsim.placement.strategies import local_search
from hetsim.placement.strategies.local_search import MANY, LocalSearch
from hetsim.problem.problem import Problem
from oracles.every_plan import tight_problem


def test_where_there_is_one_device_and_starts_are_free_nothing_is_searched() -> None:
    one = Problem.from_arrays([[1.0], [2.0]], [(0, 1, 1)])
    assert hetsim.plan(one, "local-search").reason.startswith("0 moves from")
    dear = replace(one, dispatch_s=(0.5,))
    assert not hetsim.plan(dear, "local-search").reason.startswith("0 moves from")


@pytest.mark.parametrize("seed", range(100, 106))
def test_searches_in_tight_memory_end_with_what_fits(seed: int) -> None:
    problem = tight_problem(seed, most_nodes=5)
    try:
        plan = hetsim.plan(problem, "local-search", moves=60)
    except OutOfMemory:
        return
    start = min(starts_that_fit(prepared(problem), "latency")[1], key=lambda start: start.cost)
    assert measure(plan, "latency") <= start.cost
    plan.validate()


def branching(stages: int, blocks: int) -> Problem:
    """Two branches a stage, each a row of blocks with a shortcut; transfers cost more than a block.

    Moved to the other device alone, no block of a branch gains anything.
    """
    rows, edges = [[0.2, 0.24]], []
    for _ in range(stages):
        fork, ends = len(rows) - 1, []
        for _ in range(2):
            end = fork
            for _ in range(blocks):
                kernel = len(rows)
                rows += [[1.0, 1.2], [0.5, 0.6]]
                edges += [(end, kernel, 1), (end, kernel + 1, 1), (kernel, kernel + 1, 1)]
                end = kernel + 1
            ends.append(end)
        edges += [(end, len(rows), 1) for end in ends]
        rows.append([0.2, 0.24])
    problem = Problem.from_arrays(rows, edges, latency_s=4.0, bytes_per_s=1e3, host=0)
    return replace(problem, dispatch_s=(0.05, 0.05))


def test_branches_of_many_tasks_move_as_a_whole() -> None:
    problem = branching(stages=4, blocks=14)
    coarse, starts = starts_that_fit(prepared(problem), "latency")
    assert coarse.problem.n >= MANY
    search = LocalSearch()
    begun = search.begun(coarse, starts)
    without = min(measure(search.improved(*one), "latency") for one in begun)
    few = search.of_few(coarse, without)
    assert few is not None
    assert few.cost == pytest.approx(measure(few.plan, "latency"), rel=1e-12)
    assert coarse.spread(few.groups) == few.plan.groups
    plan = hetsim.plan(problem, "local-search")
    plan.validate()
    assert plan.reason.endswith("from a plan of few tasks")
    assert measure(plan, "latency") < without
    # Nothing is searched on from what is far above the best plan known.
    assert search.of_few(coarse, few.cost / 2) is None


def test_time_that_ends_amid_moves_of_few_tasks_keeps_what_was_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fewer(*_: object) -> NoReturn:
        raise deadline.OutOfTime

    monkeypatch.setattr(local_search, "fewer", fewer)
    coarse, starts = starts_that_fit(prepared(branching(stages=4, blocks=14)), "latency")
    plan = LocalSearch(moves=50).best_from([(coarse, starts[0])])
    assert measure(plan, "latency") <= starts[0].cost


def test_moves_that_are_given_are_shared_with_those_of_few_tasks() -> None:
    problem = branching(stages=4, blocks=14)
    coarse, starts = starts_that_fit(prepared(problem), "latency")
    plan = hetsim.plan(problem, "local-search", moves=500)
    assert measure(plan, "latency") <= starts[0].cost
    assert plan.groups == hetsim.plan(problem, "local-search", moves=500).groups
    limited = hetsim.plan(problem, "local-search", time_limit_s=0.5)
    limited.validate()
    assert measure(limited, "latency") <= starts[0].cost
    assert LocalSearch(moves=0).of_few(coarse, starts[0].cost) is None
