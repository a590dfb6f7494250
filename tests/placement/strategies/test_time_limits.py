"""Limits of time are kept, on a clock that goes on with the work and not with the machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import hetsim
from hetsim.core import compile_threshold, deadline
from hetsim.placement import grouping as best
from hetsim.placement import initial_plans
from hetsim.placement.bounds import lower_bound
from hetsim.placement.bounds.lower_bound import bound_of
from hetsim.placement.listing import list_schedule
from hetsim.placement.objective import Objective, measure
from hetsim.placement.search import annealing, estimates
from hetsim.placement.strategies import exact, local_search
from hetsim.placement.throughput import search, slices
from hetsim.placement.throughput.stage_moves import StageMoves
from hetsim.problem.problem import Problem
from hetsim.simulation.clock import virtual_time
from placement_instances import rows
from sweeps import sweep

OBJECTIVES: tuple[Objective, ...] = ("latency", "throughput")


def drawn(n: int, *, dispatch_s: float = 0.0) -> Problem:
    contention = "fifo" if dispatch_s else "none"
    return rows(n, n, latency_s=0.0, dispatch_s=dispatch_s, contention=contention)


class Work:
    """Seconds that steps of a search are taken to last, added up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        self._patch = monkeypatch
        monkeypatch.setattr(deadline, "now_s", self._look)

    def _look(self) -> float:
        self.now_s += 1e-5
        return self.now_s

    def takes(self, owner: Any, name: str, seconds: Callable[..., float]) -> None:
        own = getattr(owner, name)

        def slow(*given: Any, **named: Any) -> Any:
            self.now_s += seconds(*given)
            return own(*given, **named)

        self._patch.setattr(owner, name, slow)


def plain_walk(*given: Any) -> annealing.Walk:
    """What anneals as it stands, whatever the budget."""
    return annealing.Walk(*given[:4], compiled=False)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("n", [1, 600])
def test_without_time_there_is_a_quick_plan_that_says_so(objective: Objective, n: int) -> None:
    for dispatch_s in (0.0, 0.5):
        problem = drawn(n, dispatch_s=dispatch_s)
        made = hetsim.plan(problem, "local-search", objective=objective, time_limit_s=0.0)
        assert made.reason.endswith("time_limit_s left no time for the search")
        assert len(made.devices_used) == 1


def test_where_no_device_runs_all_each_node_goes_where_it_takes_least() -> None:
    problem = Problem.from_arrays(
        [[1.0, np.inf], [np.inf, 2.0], [3.0, 1.0]], [(0, 1, 1), (1, 2, 1)]
    )
    made = hetsim.plan(problem, "local-search", time_limit_s=0.0)
    assert (
        made.reason == "each node on its fastest device: time_limit_s left no time for the search"
    )
    assert made.assignment == (0, 1, 1)


def test_a_plan_that_fits_the_memory_comes_before_the_limit() -> None:
    made = Problem.from_arrays(
        [[1.0, 2.0]] * 2, tensors=[(0, 10, (1,)), (1, 10, ())], capacity_bytes=(25, 25)
    )
    for objective in OBJECTIVES:
        plan = hetsim.plan(made, "local-search", objective=objective, time_limit_s=0.0)
        measure(plan, objective)


@sweep(
    "objective, dispatch_s, limit_s",
    quick=zip(OBJECTIVES, (0.0, 0.5), (2.0, 2.0), strict=True),
    full=product(OBJECTIVES, (0.0, 0.5), (2.0, 10.0)),
)
def test_every_loop_looks_at_the_limit(
    objective: Objective, dispatch_s: float, limit_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = drawn(600, dispatch_s=dispatch_s)
    monkeypatch.setattr(local_search, "walk", plain_walk)
    work = Work(monkeypatch)
    # As if there were tens of thousands of nodes.
    for module in (annealing, estimates):
        work.takes(module, "cost", lambda *_: 0.06)
    work.takes(list_schedule, "place_all", lambda _lists, _ahead, order, _only: 0.001 * len(order))
    work.takes(slices, "segment_loads", lambda *_: 0.1)
    work.takes(StageMoves, "improved", lambda _self, _start, moves, _seed: 0.02 + 1e-4 * moves)
    work.takes(initial_plans, "measure", lambda *_: 0.02)
    work.takes(search, "costs_of", lambda *_, **__: 0.15)
    work.takes(search, "as_plan", lambda *_: 0.08)
    work.takes(search, "measure", lambda *_: 0.2)
    work.takes(local_search, "measure", lambda *_: 0.2 if objective == "throughput" else 0.02)
    made = hetsim.plan(problem, "local-search", objective=objective, time_limit_s=limit_s)
    assert made.groups
    assert work.now_s <= 1.2 * limit_s
    # What is left after the start goes to the search.
    assert work.now_s >= 0.5 * limit_s


@pytest.mark.parametrize("limit_s", [1.0, 1e-6])
def test_an_exact_plan_counts_the_search_before_the_solver(
    limit_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ortools")
    monkeypatch.setattr(local_search, "walk", plain_walk)
    work = Work(monkeypatch)
    for module in (annealing, estimates):
        work.takes(module, "cost", lambda *_: 0.06)
    made = hetsim.plan(drawn(12), "exact", time_limit_s=limit_s)
    assert made.groups
    assert work.now_s <= 0.6 * limit_s + 0.1


@sweep("dispatch_s, limit_s", quick=[(0.5, 2.0)], full=product((0.0, 0.5), (0.5, 2.0, 5.0)))
def test_every_step_of_exact_looks_at_one_limit(
    limit_s: float, dispatch_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ortools")
    exact.load_cp_model()
    monkeypatch.setattr(local_search, "walk", plain_walk)
    work = Work(monkeypatch)
    for module in (annealing, estimates):
        work.takes(module, "cost", lambda *_: 0.01)
    work.takes(lower_bound, "refuted", lambda *_: 0.05)
    work.takes(exact._Model, "_down", lambda *_: 0.001)
    work.takes(exact, "_solved", lambda solver, _: solver.parameters.max_time_in_seconds)
    work.takes(best, "latency_of_groups", lambda *_: 0.005)
    work.takes(exact, "measure", lambda *_: 0.005)
    made = hetsim.plan(drawn(12, dispatch_s=dispatch_s), "exact", time_limit_s=limit_s)
    assert made.groups
    assert work.now_s <= 1.2 * limit_s
    if limit_s > 1.0:
        # What is left after the search and the bound goes to the solver, and it proves something.
        assert work.now_s >= 0.5 * limit_s
        assert "no time" not in made.reason
        assert "nothing proven" not in made.reason


def test_an_exact_plan_without_time_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ortools")
    Work(monkeypatch)
    made = hetsim.plan(drawn(12), "exact", time_limit_s=1e-9)
    assert made.reason.endswith("time_limit_s left no time for the search")
    monkeypatch.setattr(deadline, "may_load", lambda _: False)
    made = hetsim.plan(drawn(12), "exact", time_limit_s=1.0)
    assert made.reason.endswith("; time_limit_s left no time to load the solver")
    # One task has one plan, which meets the bound: no solver has anything to prove.
    assert hetsim.plan(drawn(1), "exact", time_limit_s=1.0).reason == exact.PROVEN


def test_a_bound_that_is_cut_short_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = drawn(40, dispatch_s=0.5)
    objective: Objective
    for objective in OBJECTIVES:
        whole = bound_of(problem, objective)
        work = Work(monkeypatch)
        work.takes(lower_bound, "refuted", lambda *_: 1.0)
        found = []
        for seconds in (0.0, 1e-4, 1.5, 3.5, 100.0):
            with deadline.until(work.now_s + seconds):
                # Of the problem itself the bound is known.
                found.append(bound_of(replace(problem), objective))
        assert found == sorted(found)
        assert found[0] == 0.0
        assert found[-1] == whole > 0.0


def test_libraries_are_loaded_where_there_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    Work(monkeypatch)
    assert deadline.may_load("no_such_library")
    with deadline.until(deadline.now_s() + deadline.LOAD_S / 2):
        assert not deadline.may_load("no_such_library")
        assert deadline.may_load("numpy")
    with deadline.until(deadline.now_s() + deadline.LOAD_S * 2):
        assert deadline.may_load("no_such_library")


def test_a_deadline_goes_by_one_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)
    monkeypatch.setattr(deadline, "_stopped_s", [0.0])
    with deadline.until(deadline.now_s() + 50.0), deadline.by_wall_clock():
        assert deadline.now_s() == 1000.0
        assert 0.0 < deadline.left_s() <= 50.0
    with deadline.by_wall_clock():
        assert not deadline.is_set()
        with deadline.until(1010.0):
            assert deadline.left_s() == 10.0
    assert not deadline.is_set()


def test_nothing_is_compiled_shortly_before_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    new = SimpleNamespace(plain=virtual_time.advance, loaded=False, kept=False)
    monkeypatch.setattr(virtual_time, "compiled", lambda: new)
    monkeypatch.setattr(compile_threshold, "_kept", {})
    many = 10 * virtual_time.COMPILE_FROM
    assert virtual_time.pays(many)
    with deadline.until(deadline.now_s() + deadline.COMPILE_S / 2):
        assert not virtual_time.pays(many)
        with deadline.until(deadline.now_s() + 100.0):
            # The earlier of two deadlines counts.
            assert not deadline.may_compile()
    with deadline.until(deadline.now_s() + 2 * deadline.COMPILE_S):
        assert virtual_time.pays(many)
    assert not deadline.is_set()


def test_moves_of_stages_as_they_stand_are_those_of_machine_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = drawn(40, dispatch_s=0.5)
    moves = StageMoves(problem, contiguous=False)
    start = moves.layout([v % 3 for v in range(problem.n)])
    compiled = moves.improved(start, 300, 1)
    from hetsim.placement.throughput import stage_moves as module

    monkeypatch.setattr(module, "_fitting", lambda: module.anneal)
    assert moves.improved(start, 300, 1) == compiled
