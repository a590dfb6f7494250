"""Least bottlenecks by brute force: searches end there, and what is claimed is so."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from hetsim.errors import Infeasible
from hetsim.placement.objective import bottleneck, measure
from hetsim.placement.throughput.search import EQUAL, best_assignment
from hetsim.placement.throughput.stage_moves import StageMoves
from hetsim.problem.groups import Group
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from oracles.least_bottleneck import acyclic, busiest, least_bottlenecks
from sweeps import examples, sweep
from throughput_problems import small

seeds = st.integers(0, 10**6)
INF = float("inf")


@examples(quick=10, full=300)
@given(seeds, st.booleans())
def test_the_least_of_all_assignments_is_found(seed: int, contiguous: bool) -> None:
    problem = small(seed, 5)
    count = len(problem.devices)
    least = INF
    for assignment in itertools.product(range(count), repeat=problem.n):
        load_s = busiest(problem, assignment, range(count))
        if load_s < least and (not contiguous or acyclic(problem, assignment)):
            least = load_s
    found = best_assignment(problem, INF, 10**6, contiguous=contiguous)
    assert found.complete
    assert found.load_s == pytest.approx(least)
    if found.assignment is None:
        assert least == INF
        return
    assert busiest(problem, found.assignment, range(count)) == pytest.approx(least)
    assert acyclic(problem, found.assignment) or not contiguous
    # Nothing is below it, and what is just above is found again.
    below = best_assignment(problem, found.load_s, 10**6, contiguous=contiguous)
    assert below.complete
    assert (below.assignment, below.load_s) == (None, INF)
    if least > 0:
        ceiling_s = least * (1 + 3 * EQUAL)
        again = best_assignment(problem, ceiling_s, 10**6, contiguous=contiguous)
        assert again.load_s == pytest.approx(least)
    assert not best_assignment(problem, INF, 0, contiguous=contiguous).complete


@examples(quick=25, full=300)
@given(seeds, st.booleans())
def test_stages_that_moved_cost_what_the_records_say(seed: int, contiguous: bool) -> None:
    problem = small(seed, 6)
    if not problem.runnable.any(axis=1).all():
        return
    moves = StageMoves(problem, contiguous=contiguous)
    rng = np.random.default_rng(seed)
    able = [np.flatnonzero(row) for row in problem.runnable]
    start = moves.layout([int(rng.choice(row)) for row in able])
    found = moves.improved(start, 150, seed)
    assert found == moves.improved(start, 150, seed)
    assert found.device == start.device
    assert found.load_s <= start.load_s
    for layout in (start, found):
        if moves.apart:
            # Nodes that are free to start may as well be subgraphs of their own.
            owner, device = list(range(problem.n)), layout.assignment
        else:
            owner, device = list(layout.stage), list(layout.device)
        used = [device[stage] for stage in set(owner)]
        assert moves.apart or not contiguous or len(set(used)) == len(used)
        load_s = busiest(problem, owner, device)
        if load_s == INF or not acyclic(problem, owner):
            assert layout.load_s == INF
        elif layout.load_s < INF:
            assert layout.load_s == pytest.approx(load_s)
        else:
            assert layout is not start


SEEDS = range(100)
NEAR = 1.0 + 1e-9
CUT = (("zoo:vgg19", 23), ("zoo:resnet18", None), ("zoo:mobilenet_v2", None))


@cache
def least(seed: int) -> tuple[Problem, float, float]:
    problem = small(seed, 5)
    return problem, *least_bottlenecks(problem)


@sweep("first", quick=[0], full=range(0, len(SEEDS), 10))
def test_every_claimed_optimum_is_one(first: int) -> None:
    """The claim names its class: contiguous stages, or any plan that runs a node once."""
    claimed = 0
    for seed in SEEDS[first : first + 10]:
        problem, contiguous, anyhow = least(seed)
        assert hetsim.lower_bound(problem, "throughput") <= anyhow * NEAR
        try:
            plan = hetsim.plan(problem, "ideal-dp")
        except Infeasible:
            continue
        reached = bottleneck(plan)
        owner = [0] * problem.n
        for index, group in enumerate(plan.groups):
            for v in group.nodes:
                owner[v] = index
        device = [problem.devices.index(group.device) for group in plan.groups]
        assert reached == pytest.approx(busiest(problem, owner, device)), problem.name
        assert reached >= anyhow * (2.0 - NEAR)
        if plan.reason.startswith("least bottleneck of all plans"):
            claimed += 1
            assert reached <= anyhow * NEAR, problem.name
        elif plan.reason.startswith("least bottleneck of all contiguous stages"):
            claimed += 1
            assert reached <= contiguous * NEAR, problem.name
        else:
            assert plan.reason.startswith("not proven least"), problem.name
    assert claimed >= 5


@sweep("first", quick=[0], full=range(0, len(SEEDS), 10))
def test_the_best_of_all_is_found(first: int) -> None:
    """Against every assignment in every grouping; activations may not fit where weights do."""
    ratios = []
    for seed in SEEDS[first : first + 10]:
        problem, _, anyhow = least(seed)
        try:
            plan = hetsim.plan(problem, "local-search", objective="throughput", moves=20_000)
        except Infeasible:
            assert anyhow == float("inf") or problem.capacity_bytes is not None, problem.name
            continue
        reached = measure(plan, "throughput")
        assert reached >= anyhow * (2.0 - NEAR)
        ratios.append(reached / anyhow if anyhow > 0 else 1.0 + reached)
    assert sum(ratio > NEAR for ratio in ratios) <= 1, ratios


def test_no_sooner_request_than_the_bottleneck_allows() -> None:
    near = []
    for seed in range(30):
        problem, _, _ = least(seed)
        try:
            plan = hetsim.plan(problem, "chain-dp:throughput", orders=3)
        except Infeasible:
            continue
        load = measure(plan, "throughput")
        few, many = (hetsim.simulate(plan, k, trace=False).makespan_s for k in (40, 80))
        assert many >= 80 * load * (2.0 - NEAR)
        near.append(many - few <= 40 * load * 1.05 + 1e-9)
    # Turns at links and streams can keep the busiest from being always busy, but seldom do.
    assert sum(near) >= 0.9 * len(near)


def test_a_chain_of_like_nodes_is_halved_whatever_a_start_costs() -> None:
    # As one task it takes 12 + 0.25 on one device.
    problem = Problem.from_arrays(
        np.ones((12, 2)),
        edges=[(v, v + 1, 0) for v in range(11)],
        dispatch_s=0.25,
        contention="fifo",
    )
    for strategy in ("ideal-dp", "slice", "chain-dp:throughput"):
        assert measure(hetsim.plan(problem, strategy), "throughput") == 6.25
    found = hetsim.plan(problem, "local-search", objective="throughput")
    assert measure(found, "throughput") == 6.25
    # Copies take turns: half of 12.25.
    assert measure(hetsim.plan(problem, "auto", objective="throughput"), "throughput") == 6.125
    assert hetsim.plan(problem, "ideal-dp").reason.startswith("least bottleneck of all")


def test_links_of_their_own_are_not_added_up() -> None:
    # Two producers on devices of their own feed a third device, over a link each of 8 s: the
    # links carry 8 s side by side, where their sum would be 16.
    problem = Problem.from_arrays(
        [[10.0, np.inf, np.inf], [np.inf, 10.0, np.inf], [np.inf, np.inf, 10.0]],
        edges=[(0, 2, 8), (1, 2, 8)],
        bytes_per_s=1.0,
        contention="fifo",
    )
    for strategy in ("ideal-dp", "slice", "chain-dp:throughput"):
        assert measure(hetsim.plan(problem, strategy), "throughput") == 10.0
    assert "least bottleneck of all" in hetsim.plan(problem, "ideal-dp").reason


@sweep("model, border", quick=CUT[1:2], full=CUT)
def test_models_are_cut_within_what_latency_joins(model: str, border: int | None) -> None:
    platform = hetsim.load_platform("two-hosts")
    problem = hetsim.Problem.of(hetsim.load_model(model), platform, cost="roofline")
    plan = hetsim.plan(problem, "ideal-dp")
    reached = measure(plan, "throughput")
    assert plan.reason.startswith("least bottleneck of all contiguous stages")
    assert reached >= hetsim.lower_bound(problem, "throughput")
    moved = measure(hetsim.plan(problem, "slice", moves=20_000), "throughput")
    assert reached * (2.0 - NEAR) <= moved
    if border is not None:
        by_hand = Plan(
            problem,
            "by hand",
            (
                Group("gpu.0", tuple(range(border))),
                Group("gpu.1", tuple(range(border, problem.n))),
            ),
        )
        assert reached <= measure(by_hand, "throughput") == pytest.approx(3.511e-3, rel=1e-3)
    else:
        single = min(
            measure(hetsim.plan(problem, f"single:{name}"), "throughput")
            for name in problem.devices
        )
        assert reached < 0.85 * single


def test_nothing_is_claimed_over_nodes_that_are_not_priced() -> None:
    problem = Problem.from_arrays(np.ones((4, 2)), edges=[(v, v + 1, 0) for v in range(3)])
    assert hetsim.plan(problem, "ideal-dp").reason.startswith("least bottleneck of all plans")
    unpriced = replace(problem, unpriced={1: "no rule"})
    reason = hetsim.plan(unpriced, "ideal-dp").reason
    assert reason == "not proven least; for priced nodes only: 1 node is not priced"
