"""The boundary method equals its rule taken literally, and is valid."""

from __future__ import annotations

import math
import random

import hetsim
from hetsim.graph.dag import Dag
from hetsim.partitioning.methods import boundary
from hetsim.partitioning.methods.boundary import Wiring
from hetsim.problem.groups import as_groups, order_groups
from hetsim.problem.validator import problems_of
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


def test_readers_of_one_input_or_constant_are_joined_on_its_device() -> None:
    # Values 0 and 1: an input that all read, a value of node 0. The first device that is asked and
    # has a reader of the input gets it: 1 and 2 are joined there, 0 and 3 on the other are not.
    free = [[1.0, math.inf], [math.inf, 1.0], [math.inf, 1.0], [1.0, math.inf]]
    problem = hetsim.Problem.from_arrays(free, tensors=[(-1, 4, (0, 1, 2, 3))])
    order = ("d1", "d0")
    made = hetsim.partition(problem, "boundary", priority=order)
    assert {group.nodes for group in made.groups} == {(0,), (1, 2), (3,)}
    made = hetsim.partition(problem, "boundary", priority=order[::-1])
    assert {group.nodes for group in made.groups} == {(0, 3), (1,), (2,)}
    # Other methods join by what nodes make alone.
    assert len(hetsim.partition(problem, "compact").groups) == 4


def test_sets_that_are_kept_whole_are_one_op() -> None:
    # 1 and 2 run as one on d0 alone; the input that 0 and 2 read joins 0 to both.
    free = [[1.0, 9.0], [math.inf, math.inf], [math.inf, math.inf], [math.inf, 1.0]]
    problem = hetsim.Problem.from_arrays(
        free,
        tensors=[(-1, 4, (0, 2)), (0, 4, (3,)), (1, 4, (2,)), (2, 4, ()), (3, 4, ())],
        composites=[(0, (1, 2), 1.0)],
    )
    made = hetsim.partition(problem, "boundary", priority=("d0", "d1"))
    assert [(group.device, group.nodes) for group in made.groups] == [
        ("d0", (0, 1, 2)),
        ("d1", (3,)),
    ]
