"""The boundary method equals its rule taken literally, and is valid."""

from __future__ import annotations

import random

from hetsim.graph.dag import Dag
from hetsim.partitioning.groups import as_groups, order_groups
from hetsim.partitioning.methods.boundary import method as boundary
from hetsim.partitioning.methods.boundary.cuts import Wiring
from hetsim.partitioning.validator import problems_of
from oracles.boundary_rule import boundary_groups

NAMES = ("a", "b", "c", "d")


def parts(labels: list[int]) -> set[frozenset[int]]:
    found: dict[int, set[int]] = {}
    for node, label in enumerate(labels):
        found.setdefault(label, set()).add(node)
    return {frozenset(nodes) for nodes in found.values()}


def test_equals_the_literal_rule() -> None:
    for seed in range(1500):
        rng = random.Random(seed)
        n, kinds, reach = rng.randint(2, 24), rng.randint(1, 4), rng.choice((3, 8, 24))
        dag = Dag.from_edges(
            n,
            {
                (max(0, v - rng.randint(1, reach)), v)
                for v in range(1, n)
                for _ in range(rng.choice((0, 1, 1, 2, 3)))
            },
        )
        device_of = [rng.randrange(kinds) for _ in range(n)]
        labels = boundary.merge(dag, device_of)
        expected, _ = boundary_groups(Wiring.of_dag(dag), device_of)
        assert parts(labels) == parts(expected), seed
        ordered = order_groups(dag, labels)
        assert ordered is not None
        groups = as_groups(ordered, device_of, NAMES)
        assert problems_of(dag, groups, NAMES, connected=True) == []


def test_diverging_paths_stay_whole() -> None:
    # Data that leaves a group and does not come back cuts nothing.
    dag = Dag.from_edges(4, [(0, 1), (0, 2), (2, 3)])
    assert parts(boundary.merge(dag, [0, 1, 0, 0])) == {frozenset({0, 2, 3}), frozenset({1})}


def test_re_entry_cuts() -> None:
    # 0 feeds 1 on the other device, which feeds 2: 2 cannot wait for its own group.
    dag = Dag.from_edges(3, [(0, 1), (0, 2), (1, 2)])
    assert parts(boundary.merge(dag, [0, 1, 0])) == {frozenset({0}), frozenset({1}), frozenset({2})}
