"""Exhaustive search and moves of stages against every assignment, counted from the records."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsim.placement.throughput.assignments import EQUAL, best_assignment
from hetsim.placement.throughput.stage_moves import StageMoves
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
