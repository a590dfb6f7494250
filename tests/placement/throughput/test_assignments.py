"""Exhaustive search and moves of stages against every assignment, counted from the records."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from hetsim.placement.throughput.assignments import EQUAL, Searched, best_assignment, twins
from hetsim.placement.throughput.stage_moves import StageMoves
from hetsim.problem.problem import Problem
from oracles.least_bottleneck import acyclic, busiest
from sweeps import examples
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


def test_a_search_of_no_nodes_ends_at_once() -> None:
    empty = Problem.from_arrays(np.zeros((0, 2)))
    assert best_assignment(empty, INF, 10, contiguous=True) == Searched(True, [], 0.0)
    plan = hetsim.plan(empty, "local-search", objective="throughput", moves=10)
    assert plan.groups == ()


@examples(quick=20, full=200)
@given(seeds)
def test_twins_change_places_with_all_before_them(seed: int) -> None:
    """No load changes where two that nothing tells apart are given each other's nodes."""
    problem = small(seed, 5)
    count = len(problem.devices)
    found = twins(problem)
    rng = np.random.default_rng(seed)
    for q, p in enumerate(found):
        assert p < q
        before = [p]
        while before[-1] >= 0:
            before.append(found[before[-1]])
        for other in before[:-1]:
            swap = {other: q, q: other}
            for _ in range(4):
                assignment = rng.integers(0, count, problem.n).tolist()
                changed = [swap.get(device, device) for device in assignment]
                loads = [busiest(problem, one, range(count)) for one in (assignment, changed)]
                assert loads[0] == pytest.approx(loads[1])


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


def test_copies_of_a_device_are_stages_it_may_have() -> None:
    row = Problem.from_arrays(np.ones((3, 2)), [(0, 1, 1), (1, 2, 1)], dispatch_s=0.5)
    assert StageMoves(row, contiguous=True).device == (0, 1)
    assert StageMoves(row, contiguous=False).device == (0, 1) * 3
    # Where a start is free nodes may be apart, and one stage a device is enough.
    free = replace(row, dispatch_s=(0.0, 0.0))
    assert StageMoves(free, contiguous=False).device == (0, 1)
    assert StageMoves(free, contiguous=False).apart
    assert not StageMoves(free, contiguous=True).apart
    many = Problem.from_arrays(np.ones((2, 25)), [(0, 1, 1)], dispatch_s=0.5)
    assert len(StageMoves(many, contiguous=False).device) == 50
    more = Problem.from_arrays(np.ones((2, 70)), [(0, 1, 1)], dispatch_s=0.5)
    assert len(StageMoves(more, contiguous=False).device) == 70
