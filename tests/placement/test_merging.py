"""Subgraphs are merged one by one where they are few, in batches where they are many."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import hetsim
from hetsim.placement import grouping as merging
from hetsim.placement.grouping import merge_where_it_pays
from hetsim.placement.objective import latency_of_groups
from hetsim.placement.starts import constructive
from hetsim.problem.groups import Group
from hetsim.problem.problem import Problem
from hetsim.problem.validator import check


def _lanes(n: int, seed: int) -> tuple[Problem, tuple[Group, ...]]:
    """Nodes on three devices with few edges between them, each a subgraph of its own."""
    rng = random.Random(seed)
    edges = {(max(0, v - rng.randint(1, 9)), v) for v in range(1, n)}
    problem = hetsim.Problem.from_arrays(
        np.random.default_rng(seed).uniform(1.0, 9.0, (n, 3)),
        edges=[(u, v, rng.randint(1, 4)) for u, v in sorted(edges)],
        latency_s=0.25,
        bytes_per_s=8.0,
        dispatch_s=0.5,
        contention="fifo",
    )
    return problem, tuple(Group(f"d{rng.randrange(3)}", (v,)) for v in range(n))


@pytest.mark.parametrize("many", [0, 10_000], ids=["batches", "pairs"])
@pytest.mark.parametrize("seed", range(3))
def test_merging_never_hurts(seed: int, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, groups = _lanes(120, seed)
    monkeypatch.setattr(merging, "MANY", many)
    merged = merge_where_it_pays(problem, groups)
    check(problem, merged)
    before = latency_of_groups(problem, groups, "drawn")
    assert latency_of_groups(problem, merged, "merged") <= before
    assert len(merged) < len(groups)


def test_batches_merge_more_of_what_a_scheduler_made(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(0)
    edges = {(rng.randrange(v // 100 * 100 - 100, v // 100 * 100), v) for v in range(100, 900)}
    problem = hetsim.Problem.from_arrays(
        np.random.default_rng(0).uniform(1.0, 20.0, (900, 4)),
        edges=[(u, v, rng.randint(1, 20)) for u, v in sorted(edges)],
        latency_s=0.5,
        bytes_per_s=1.0,
        dispatch_s=0.7,
        contention="fifo",
    )
    made = constructive("heft").schedule(problem)
    groups = tuple(Group(f"d{made.assignment[v]}", (v,)) for v in made.order)
    played: list[int] = []

    def counted(*given: Any) -> float:
        played.append(len(given[1]))
        return latency_of_groups(*given)

    monkeypatch.setattr(merging, "latency_of_groups", counted)
    batches = merge_where_it_pays(problem, groups)
    assert len(played) <= 1 + merging.MERGES
    monkeypatch.setattr(merging, "MANY", 10_000)
    pairs = merge_where_it_pays(problem, groups)
    assert len(batches) < len(pairs)
    assert latency_of_groups(problem, batches, "a") < latency_of_groups(problem, pairs, "b")
