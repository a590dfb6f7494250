"""Memory: nothing that has a plan is refused, and no plan is returned that does not fit."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from hetsim.errors import Infeasible, OutOfMemory
from hetsim.placement import planning
from hetsim.placement.feasibility import (
    fitted,
    plan_that_fits,
    relieved,
    search_all,
    spilled,
    squeezed,
)
from hetsim.placement.footprint import Filling, Footprint, weights_that_fit
from hetsim.placement.grouping import groupings
from hetsim.problem.groups import Group
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.runs import once
from oracles.every_plan import any_plan, every_plan, tight_problem
from sweeps import examples, sweep

FEW = (0, 50)
"""Each time; at 50 a plan is found only where the bytes that are over are annealed away."""
SEEDS = (FEW, tuple(range(60)))

COMPLETE: dict[str, dict[str, Any]] = {
    "auto": {"search": False},
    "heft": {},
    "cpop": {},
    "peft": {},
    "lookahead": {},
    "dls": {},
    "etf": {},
    "mincut": {},
    "hetero": {},
}
"""Strategies that refuse no small problem that has a plan."""

SEARCHES: list[tuple[str, dict[str, Any], range]] = [
    ("local-search", {"moves": 100}, range(100, 103)),
    ("exact", {}, range(100, 101)),
    ("local-search", {"moves": 100}, range(103, 140)),
    ("exact", {}, range(101, 112)),
    ("auto", {}, range(100, 104)),
]
"""Those that search, and on which problems."""


@cache
def has_plan(seed: int) -> bool:
    return any_plan(tight_problem(seed, most_nodes=5)) is not None


def fits(plan: Plan) -> bool:
    try:
        hetsim.simulate(plan)
    except OutOfMemory:
        return False
    return True


@sweep("seeds", quick=[FEW], full=SEEDS, ids=["some", "all"])
@pytest.mark.parametrize("strategy", COMPLETE)
def test_what_has_a_plan_is_not_refused(strategy: str, seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        problem = tight_problem(seed, most_nodes=5)
        refused = ""
        try:
            assert fits(hetsim.plan(problem, strategy, **COMPLETE[strategy])), (strategy, seed)
        except OutOfMemory as error:
            refused = str(error)
        if refused:
            assert not has_plan(seed), (strategy, seed)
            assert "(proven)" in refused


@sweep(
    "strategy, options, seeds",
    quick=SEARCHES[:2],
    full=SEARCHES,
)
def test_searches_refuse_nothing_either(
    strategy: str, options: dict[str, Any], seeds: range
) -> None:
    for seed in seeds:
        problem = tight_problem(seed, most_nodes=4)
        try:
            assert fits(hetsim.plan(problem, strategy, **options)), seed
        except OutOfMemory:
            assert any_plan(problem) is None, seed


STAGED = [
    (strategy, seeds)
    for strategy in ("pipeline", "slice", "ideal-dp", "chain-dp", "chain-dp:throughput")
    for seeds in (FEW[:1], SEEDS[1])
]


@sweep(
    "strategy, seeds",
    quick=STAGED[::2],
    full=STAGED,
    ids=[f"{strategy}-{len(seeds)}" for strategy, seeds in STAGED],
)
def test_a_plan_that_is_returned_fits(strategy: str, seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        try:
            made = hetsim.plan(tight_problem(seed, most_nodes=5), strategy)
        except Infeasible:
            continue
        assert fits(made), (strategy, seed)


@sweep("seeds", quick=[range(20)], full=[range(20), range(20, 200)])
def test_every_plan_is_looked_at(seeds: range) -> None:
    for seed in seeds:
        problem = tight_problem(seed, most_nodes=4)
        found = search_all(problem)
        assert found.complete
        assert (found.groups is None) == (any_plan(problem) is None), seed
        if found.groups is not None:
            assert fits(Plan(problem, "memory", found.groups))


def test_a_shared_link_breaks_ties_by_plan_order() -> None:
    """Two devices send to a third over one bus: what comes first decides what is held there."""
    problem = Problem.from_arrays(
        [[1.0, np.inf, np.inf], [np.inf, 1.0, np.inf], [np.inf, np.inf, 0.5], [np.inf, np.inf, 4]],
        tensors=[(0, 8, (3,)), (1, 4, (2,)), (2, 0, ()), (3, 0, ())],
        bytes_per_s=4.0,
        weight_bytes=[0] * 4,
        capacity_bytes=[99, 99, 8],
        contention="fifo",
    )
    routes = tuple(tuple(replace(route, resources=(0,)) for route in row) for row in problem.routes)
    shared = replace(problem, routes=routes, link_names=("bus",))
    found = search_all(shared)
    assert (found.groups is None) == (any_plan(shared) is None)


def test_more_nodes_than_are_all_looked_at() -> None:
    """Two packings of 30 nodes: one that is full to the last byte, one that misses by one."""
    weights = [7, 5, 9, 3, 11, 6, 4, 8, 2, 10] * 3
    half = sum(weights) // 2
    for spare, feasible in ((0, sum(weights) % 2 == 0), (1, True), (-1, False)):
        problem = Problem.from_arrays(
            np.ones((30, 2)),
            edges=[(v, v + 1, 0) for v in range(29)],
            weight_bytes=weights,
            capacity_bytes=[half + spare] * 2,
        )
        if feasible:
            assert fits(hetsim.plan(problem, "heft"))
            continue
        with pytest.raises(OutOfMemory, match="proven"):
            hetsim.plan(problem, "heft")


def test_weights_against_every_assignment() -> None:
    for seed in range(150):
        problem = tight_problem(seed)
        footprint = Footprint.of(problem)
        able = [np.flatnonzero(row).tolist() for row in problem.supported]
        there_is = any(not any(Filling(footprint, a).over()) for a in itertools.product(*able))
        try:
            found = weights_that_fit(problem, footprint, problem.supported)
        except OutOfMemory:
            assert not there_is
        else:
            assert there_is
            assert found is not None
            assert not any(Filling(footprint, found).over())


def test_a_plan_is_changed_no_more_than_it_must_be() -> None:
    problem = Problem.from_arrays(
        [[4.0, 1.0]] * 4,
        edges=[(0, 1, 1), (1, 2, 1), (2, 3, 1)],
        weight_bytes=[8, 8, 8, 8],
        capacity_bytes=[40, 27],
    )
    plan = Plan(problem, "mine", (Group("d1", (0, 1, 2, 3)),), "all on d1")
    made = fitted(plan)
    assert fits(made)
    assert made.assignment.count(1) == 3
    assert "1 node moved" in made.reason
    assert fitted(made) is made
    # A list of devices is the strategy's own wish: nothing moves off it.
    with pytest.raises(OutOfMemory):
        hetsim.plan(problem, "hetero:d1")


def test_nodes_that_were_cut_apart_to_fit_are_joined_again() -> None:
    ample = hetsim.Problem.of(hetsim.load_model("zoo:squeezenet"), hetsim.load_platform("laptop"))
    weights = sum(constant.nbytes for constant in ample.constants)
    buffer = max(value.nbytes for value in ample.values)
    problem = replace(ample, capacity_bytes=(weights // 3 + 3 * buffer // 2,) * 3)
    plan = hetsim.plan(problem, "heft")
    apart = [Group(group.device, (node,)) for group in plan.groups for node in group.nodes]
    assert fits(plan)
    assert once(plan).latency_s < once(replace(plan, groups=tuple(apart))).latency_s / 2


@sweep("searched", quick=[False], full=[False, True])
def test_limits_hold_for_what_is_moved(searched: bool) -> None:
    problem = Problem.from_arrays(
        [[4.0, 1.0, 4.0]] * 3, weight_bytes=[8] * 3, capacity_bytes=[30, 30, 30]
    )
    limits: dict[str, Any] = {"pins": {"n0": "d1"}, "capacity_bytes": {"d1": 8}, "max_devices": 2}
    for strategy in ("hetero", "mincut", "heft", "auto"):
        made = hetsim.plan(problem, strategy, **limits, **({} if searched else COMPLETE[strategy]))
        assert made.assignment[0] == 1
        assert made.assignment.count(1) == 1
        assert len(made.devices_used) <= 2
    with pytest.raises(OutOfMemory, match="proven"):
        hetsim.plan(problem, "auto", pins={"n0": "d1"}, capacity_bytes={"d1": 7})


@dataclass(frozen=True, slots=True)
class Careless:
    """Everything on the first device."""

    def solve(self, problem: Problem) -> Plan:
        return Plan(problem, "careless", (Group("d0", tuple(range(problem.n))),))


def test_no_strategy_can_return_what_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem.from_arrays([[1.0, 1.0]] * 2, weight_bytes=[6, 6], capacity_bytes=[6, 6])
    monkeypatch.setattr(planning, "resolve", lambda *_: Careless())
    with pytest.raises(OutOfMemory, match="device 'd0': needs 12 B"):
        hetsim.plan(problem, "careless")


seeds = st.integers(0, 10**6)


def lies(problem: Problem, footprint: Footprint, nodes: set[int], p: int) -> int:
    """Bytes that lie on a device with these nodes at least: weights, and what one needs beside."""
    weights = sum(c.nbytes for c in problem.constants if nodes & set(c.consumers))
    return weights + max((footprint.beside[v][p] for v in nodes), default=0)


def drawn(seed: int) -> tuple[Problem, Footprint, list[int]]:
    """A problem whose memory hardly suffices, and devices that take its nodes."""
    problem, random = tight_problem(seed, most_nodes=8), Random(seed)
    devices = [random.choice(np.flatnonzero(row).tolist()) for row in problem.supported]
    return problem, Footprint.of(problem), devices


@examples(quick=15, full=600)
@given(seeds)
def test_no_plan_holds_less_than_its_footprint(seed: int) -> None:
    problem = tight_problem(seed, most_nodes=3)
    footprint = Footprint.of(problem)
    for groups in every_plan(replace(problem, capacity_bytes=None)):
        plan = Plan(problem, "any", groups)
        peaks = once(plan).peaks
        for p in range(len(problem.devices)):
            there = {v for v, q in enumerate(plan.assignment) if q == p}
            assert peaks[p] >= lies(problem, footprint, there, p)
        capacity = problem.capacity_bytes
        assert capacity is not None
        assert Filling(footprint, plan.assignment).over() == [
            max(
                0,
                lies(problem, footprint, {v for v, q in enumerate(plan.assignment) if q == p}, p)
                - c,
            )
            for p, c in enumerate(capacity)
        ]


@examples(quick=8, full=250)
@given(seeds)
def test_squeezing_ends_where_all_fits_and_never_makes_it_worse(seed: int) -> None:
    problem, _, devices = drawn(seed)
    groups = tuple(Group(problem.devices[p], (v,)) for v, p in enumerate(devices))
    before = once(Plan(problem, "drawn", groups))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hetsim.placement.feasibility.PLAYS", 60)
        moved, over = squeezed(problem, groups, seed)
        assert (moved, over) == squeezed(problem, groups, seed)
    assert over.lacking <= before.lacking
    assert over == once(Plan(problem, "squeezed", moved))
    if before.lacking == 0:
        assert moved == groups


def test_squeezing_finds_the_cut_by_which_it_fits() -> None:
    # Both weights fit neither device with both tensors; apart, each has room for its own.
    problem = Problem.from_arrays(
        [[1.0, 2.0]] * 4,
        [(0, 1, 4), (2, 3, 4)],
        weight_bytes=[3] * 4,
        capacity_bytes=[11, 11],
        dispatch_s=0.5,
    )
    together = (Group("d0", (0, 1, 2, 3)),)
    assert once(Plan(problem, "one", together)).lacking > 0
    moved, over = squeezed(problem, together)
    assert over.lacking == 0
    assert once(Plan(problem, "two", moved)).lacking == 0


@examples(quick=3, full=100)
@given(seeds)
def test_of_what_fits_near_a_plan_the_quickest_is_taken(seed: int) -> None:
    problem, footprint, devices = drawn(seed)
    groups = tuple(Group(problem.devices[p], (v,)) for v, p in enumerate(devices))
    near = Plan(problem, "near", groups)
    found = [devices, relieved(footprint, devices), spilled(footprint, devices)]
    quickest = float("inf")
    for assignment in found:
        if assignment is None:
            continue
        layouts = [groups] if assignment == devices else []
        layouts += [made for _, made in groupings(problem, assignment, range(problem.n))]
        for made in layouts:
            over = once(Plan(problem, "near", made))
            if over.lacking == 0:
                quickest = min(quickest, over.latency_s)
    try:
        plan = plan_that_fits(problem, (near,))
    except Infeasible:
        assert quickest == float("inf")
        return
    over = once(plan)
    assert over.lacking == 0
    assert over.latency_s <= quickest
