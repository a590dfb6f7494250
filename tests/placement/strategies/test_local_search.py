"""How often the clock judges a search, which of equal plans stays, and what options say."""

from __future__ import annotations

from dataclasses import replace

import pytest

import hetsim
from hetsim.errors import OutOfMemory
from hetsim.placement.initial_plans import prepared, starts_that_fit
from hetsim.placement.objective import measure
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
