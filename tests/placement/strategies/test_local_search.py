"""How often the clock judges a search, which of equal plans stays, and what options say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import hetsim
from hetsim.errors import OutOfMemory
from hetsim.placement.coarsening import uncoarsened
from hetsim.placement.initial_plans import Start, prepared, starts_that_fit
from hetsim.placement.objective import measure
from hetsim.placement.strategies import auto, local_search
from hetsim.problem.groups import Group
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from oracles.every_plan import tight_problem


def layers() -> Problem:
    """Four layers of three nodes that read all of the layer before."""
    rng = np.random.default_rng(5)
    edges = [(3 * k + a, 3 * k + 3 + b, 2) for k in range(3) for a in range(3) for b in range(3)]
    return Problem.from_arrays(rng.uniform(1.0, 9.0, (12, 3)), edges, bytes_per_s=1.0)


def test_of_plans_that_keep_the_same_rate_the_cheapest_stays() -> None:
    problem = Problem.from_arrays([[1.0, 1.0], [1.0, 1.0]], [(0, 1, 1)], bytes_per_s=2.0)
    both = hetsim.plan(problem, "slice")
    alone = hetsim.plan(problem, "single")
    starts = [
        auto.Start(plan.strategy, plan, (), measure(plan, "throughput")) for plan in (alone, both)
    ]
    assert [start.cost for start in starts] == [2.0, 1.0]
    least = auto.Auto(objective="throughput")._least
    assert least(starts)[0] is starts[1]
    assert least(starts[:1])[0] is starts[0]


def test_where_there_is_one_device_and_starts_are_free_nothing_is_searched() -> None:
    one = Problem.from_arrays([[1.0], [2.0]], [(0, 1, 1)])
    assert hetsim.plan(one, "local-search").reason.startswith("0 moves from")
    dear = replace(one, dispatch_s=(0.5,))
    assert not hetsim.plan(dear, "local-search").reason.startswith("0 moves from")


def test_drafts_that_do_not_fit_are_held_back() -> None:
    # A wide tensor between tasks of two nodes: both on one device fill it.
    problem = Problem.from_arrays(
        [[1.0, 1.0]] * 3,
        [(0, 1, 40), (1, 2, 4)],
        weight_bytes=[10] * 3,
        capacity_bytes=[60, 60],
        dispatch_s=0.25,
    )
    coarse = uncoarsened(problem)
    apart = (Group("d0", (0,)), Group("d1", (1,)), Group("d0", (2,)))
    assert local_search._holds(coarse, apart)
    assert not local_search._holds(coarse, (Group("d0", (0, 1, 2)),))
    start = Start("mine", Plan(problem, "mine", apart), apart, 99.0)
    judge = local_search._Judge(problem, start, 9)
    judge((Group("d0", (0, 1, 2)),), last=False)
    assert (judge.groups, judge.cost) == (apart, 99.0)
    judge(apart, last=False)
    assert judge.cost == measure(start.plan, "latency")


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
