"""Every merge method is valid on every one of 20,000 random graphs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from importlib import import_module

import pytest

from hetsim.graph.dag import Dag
from hetsim.partitioning.methods import methods
from hetsim.partitioning.partition import as_groups, order_groups, problems_of

NAMES = ("a", "b", "c", "d")
GRAPHS = 20_000
BATCHES = 10


def random_graphs(batch: int) -> Iterator[tuple[Dag, list[int]]]:
    """Layered graphs, uniformly random ones, and mixes with long edges; 6 to 80 nodes."""
    rng = random.Random(f"batch {batch}")
    for _ in range(GRAPHS // BATCHES):
        n, kinds = rng.randint(6, 80), rng.randint(1, 4)
        reach = rng.choice((3, 8, n))
        edges = {
            (max(0, v - rng.randint(1, reach)), v)
            for v in range(1, n)
            for _ in range(rng.choice((0, 1, 1, 2, 3)))
        }
        share = rng.random()
        yield (
            Dag.from_edges(n, edges),
            [rng.randrange(kinds) if rng.random() < share else 0 for _ in range(n)],
        )


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(BATCHES))
def test_valid_every_time(batch: int) -> None:
    merges = {info.name: (import_module(info.module).merge, info.connected) for info in methods()}
    for dag, device_of in random_graphs(batch):
        supported = [[device_of[v] == p for p in range(4)] for v in range(dag.n)]
        for name, (merge, connected) in merges.items():
            parts = order_groups(dag, merge(dag, device_of))
            assert parts is not None, name
            groups = as_groups(parts, device_of, NAMES)
            assert problems_of(dag, groups, NAMES, supported, connected=connected) == [], name
