"""What a stage costs at least, and nodes that cost nothing joined, against plain sums."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsim.placement.throughput.costs import Costs, contract, costs_of
from hetsim.problem.problem import Problem
from oracles.least_bottleneck import busiest
from sweeps import examples
from throughput_problems import small, stage_load

INF = float("inf")
seeds = st.integers(0, 10**6)


@examples(quick=60, full=600)
@given(seeds)
def test_stages_cost_what_the_clock_says_where_nothing_is_left_open(seed: int) -> None:
    """Staged tensors, no contention, or one way between two devices."""
    problem = small(seed, 6)
    staged = problem.staging is not None and problem.contention == "none"
    count = len(problem.devices)
    if not (staged or (problem.staging is None and (count == 2 or problem.contention == "none"))):
        return
    costs = costs_of(problem)
    kind_of = {device: k for k, devices in enumerate(costs.kinds) for device in devices}
    rng = np.random.default_rng(seed)
    for _ in range(12):
        assignment = rng.integers(0, count, problem.n).tolist()
        load_s = max(
            stage_load(costs, kind_of[p], {v for v, q in enumerate(assignment) if q == p})
            for p in set(assignment)
        )
        assert load_s == pytest.approx(busiest(problem, assignment, range(count)))


def least(costs: Costs) -> float:
    """The least of the largest loads, over all contiguous assignments."""
    devices = [kind for kind, those in enumerate(costs.kinds) for _ in those]
    found = INF
    for assignment in itertools.product(range(len(devices)), repeat=costs.n):
        edges = {(assignment[u], assignment[v]) for u, v in costs.dag.edges()}
        edges = {(p, q) for p, q in edges if p != q}
        left = set(assignment)
        while free := {p for p in left if not any(q == p and o in left for o, q in edges)}:
            left -= free
        if not left:
            loads = (
                stage_load(costs, devices[p], {v for v, q in enumerate(assignment) if q == p})
                for p in set(assignment)
            )
            found = min(found, max(loads, default=0.0))
    return found


def with_idle(seed: int) -> Problem:
    """A small problem in which many nodes take no time."""
    problem, rng = small(seed, 5), np.random.default_rng(seed)
    seconds = problem.seconds.copy()
    seconds[rng.random(problem.n) < 0.5] = 0.0
    return replace(problem, seconds=seconds, fused=(), constants=(), capacity_bytes=None)


@examples(quick=25, full=300)
@given(seeds)
def test_joining_idle_nodes_loses_no_stages(seed: int) -> None:
    problem = with_idle(seed)
    costs = costs_of(problem)
    made = contract(costs)
    for size in range(1, made.costs.n + 1):
        for parts in itertools.combinations(range(made.costs.n), size):
            nodes = set(made.spread(parts))
            assert len(nodes) == sum(len(made.members[part]) for part in parts)
            for kind in range(len(costs.kinds)):
                load_s = stage_load(made.costs, kind, set(parts))
                assert load_s == pytest.approx(stage_load(costs, kind, nodes))
    assert least(made.costs) == pytest.approx(least(costs))
