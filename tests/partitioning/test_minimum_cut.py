"""Minimum cuts against every set of nodes, and against networkx."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsim.core import compile_threshold
from hetsim.graph.dag import Ints
from hetsim.partitioning.minimum_cut import (
    HOST,
    Terms,
    expand,
    least_serial,
    serial_latency,
    source_side,
)
from hetsim.problem.problem import Problem
from sweeps import examples, sweep
from throughput_problems import serial_problem

seeds = st.integers(0, 10**6)


def drawn(seed: int, most_nodes: int = 6) -> Problem:
    rng = np.random.default_rng(seed)
    return serial_problem(rng, int(rng.integers(2, 5)), most_nodes)


def charged(terms: Terms, assignment: list[int], changing: frozenset[int], target: int) -> float:
    """What a cut charges where these nodes change: dearer ways of a producer in both cases."""

    def device(v: int) -> int:
        return terms.host if v == HOST else assignment[v]

    def after(v: int) -> int:
        return target if v in changing else device(v)

    total = sum(float(terms.seconds[v, after(v)]) for v in range(len(assignment)))
    for at, producer in enumerate(terms.producer.tolist()):
        home, source, matrix = device(producer), after(producer), terms.travel[terms.size[at]]
        readers = terms.readers[terms.reader_at[at] : terms.reader_at[at + 1]]
        for q in {after(v) for v in readers.tolist()}:
            cost = matrix[source][q]
            if source != home and q != target:
                cost = max(cost, matrix[home][q])
            total += cost
    return total


@examples(quick=30, full=800)
@given(seeds)
def test_no_set_of_nodes_could_change_for_less(seed: int) -> None:
    problem = drawn(seed)
    terms = Terms.of(problem)
    rng = np.random.default_rng(seed)
    n, count = problem.n, len(problem.devices)
    assignment = [int(rng.choice(np.flatnonzero(row))) for row in problem.supported]
    target = int(rng.integers(count))
    made = expand(terms, assignment, target)
    changed = frozenset(v for v in range(n) if made[v] != assignment[v])
    assert all(made[v] == target for v in changed)
    free = [v for v in range(n) if assignment[v] != target]
    least = min(
        charged(terms, assignment, frozenset(some), target)
        for size in range(len(free) + 1)
        for some in itertools.combinations(free, size)
    )
    assert charged(terms, assignment, changed, target) == least
    # Never too low, and right where nothing changes.
    assert serial_latency(problem, made) <= least <= serial_latency(problem, assignment)


@examples(quick=10, full=250)
@given(seeds)
def test_no_change_to_one_device_is_left_that_gains(seed: int) -> None:
    problem = drawn(seed, 5)
    terms = Terms.of(problem)
    found = least_serial(problem, rounds=50)
    total = terms.total(found)
    for p in range(len(problem.devices)):
        assert total <= terms.total([p] * problem.n)
        assert terms.total(expand(terms, found, p)) >= total * (1 - 1e-9)
    assert terms.total(least_serial(problem, rounds=1)) >= total


FULL = 2**30


@pytest.mark.group("machine_code")
@sweep("seed", quick=range(15), full=range(1000))
def test_the_side_of_the_source_is_that_of_a_least_cut(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size, arcs = int(rng.integers(2, 12)), int(rng.integers(1, 40))
    tails, heads = rng.integers(0, size, (2, arcs))
    apart = (tails != heads) & ~((tails == 0) & (heads == 1))
    tails, heads = np.append(tails[apart], 0), np.append(heads[apart], 1)
    # Small whole numbers tie often; what costs without end may not be cut.
    capacities = rng.choice([1, 2, 3, FULL], len(tails), p=(0.4, 0.25, 0.25, 0.1))
    capacities[-1] = 1
    kept = source_side(size, tails, heads, capacities, 0, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compile_threshold, "pays", lambda *_: True)
        assert source_side(size, tails, heads, capacities, 0, 1).tolist() == kept.tolist()
    least = least_cut(size, tails, heads, capacities)
    if least < FULL:
        assert kept[0]
        assert not kept[1]
        assert capacities[kept[tails] & ~kept[heads]].sum() == least


def least_cut(size: int, tails: Ints, heads: Ints, capacities: Ints) -> int:
    """By trying every set of nodes."""
    found = []
    for inner in range(2 ** (size - 2)):
        kept = np.array([True, False, *(bool(inner >> k & 1) for k in range(size - 2))])
        found.append(int(capacities[kept[tails] & ~kept[heads]].sum()))
    return min(found)
