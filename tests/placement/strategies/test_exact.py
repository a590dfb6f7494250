"""Proofs of ``exact`` hold where memory is tight, and in what little time is given."""

from __future__ import annotations

from dataclasses import replace

import pytest

import hetsim
from hetsim.core import deadline
from hetsim.errors import Infeasible, OutOfMemory
from hetsim.placement.coarsening import uncoarsened
from hetsim.placement.strategies.exact import _laid_out, load_cp_model
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from oracles.every_plan import every_plan, tight_problem
from sweeps import sweep


@sweep("seed", quick=range(2), full=range(60))
def test_what_is_proven_is_so_where_memory_is_tight(seed: int) -> None:
    problem = tight_problem(seed, most_nodes=4)
    free = (0.0,) * len(problem.devices)
    problem = replace(problem, contention="none", dispatch_s=free)
    least = float("inf")
    for groups in every_plan(problem):
        try:
            latency_s = hetsim.simulate(Plan(problem, "any", groups), trace=False).latency_s
        except Infeasible:
            continue
        least = min(least, latency_s)
    try:
        plan = hetsim.plan(problem, "exact")
    except OutOfMemory:
        assert least == float("inf")
        return
    cost_s = hetsim.simulate(plan).latency_s
    if plan.reason == "proven optimal":
        assert cost_s == pytest.approx(least)
    elif plan.reason.startswith("at most"):
        stated = plan.reason.partition("at most ")[2].partition("%")[0]
        assert cost_s <= least * (1 + float(stated) / 100 + 0.0006)


def test_a_second_is_enough_for_what_is_small_once_the_solver_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    load_cp_model()
    # Steps take no time, however busy the machine is.
    monkeypatch.setattr(deadline, "now_s", lambda: 0.0)
    problem = Problem.from_arrays([[3.0, 1.0], [1.0, 3.0]], [(0, 1, 1)], bytes_per_s=1.0)
    plan = hetsim.plan(problem, "exact", time_limit_s=0.9)
    assert plan.reason == "proven optimal"
    assert hetsim.simulate(plan).latency_s == 3.0


def test_an_assignment_is_laid_out_in_every_way() -> None:
    # In one subgraph all three tensors lie there at once; cut, two of them.
    problem = Problem.from_arrays(
        [[1.0, 1.0]] * 3,
        [(0, 1, 4), (1, 2, 4)],
        weight_bytes=[1] * 3,
        capacity_bytes=[11, 99],
    )
    found = _laid_out(uncoarsened(problem), (0, 0, 0))
    assert found.groups is not None
    assert Plan(problem, "found", found.groups).assignment == (0, 0, 0)
    tight = replace(problem, capacity_bytes=(10, 99))
    found = _laid_out(uncoarsened(tight), (0, 0, 0))
    assert found.complete
    assert found.groups is None
    assert _laid_out(uncoarsened(tight), (1, 1, 1)).groups is not None
