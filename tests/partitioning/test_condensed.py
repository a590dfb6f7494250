"""Contraction keeps the graph of groups acyclic; repair splits only what is on a cycle."""

from __future__ import annotations

import random
from itertools import pairwise

import networkx as nx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from builders import dags
from hetsim.graph.dag import Dag
from hetsim.partitioning.condensed import WIDTH, move, standing
from hetsim.partitioning.scans import repair
from hetsim.problem.groups import components, condense, order_groups
from merge_graphs import Condensed
from sweeps import examples


@examples(quick=30, full=300)
@given(dags(16), st.randoms(use_true_random=False))
def test_contraction_is_refused_exactly_where_it_closes_a_cycle(
    dag: Dag, rng: random.Random
) -> None:
    groups = Condensed(dag)
    edges = list(dag.edges())
    rng.shuffle(edges)
    for u, v in edges:
        a, b = groups.find(u), groups.find(v)
        before = [groups.find(x) for x in range(dag.n)]
        possible = order_groups(dag, [a if x == b else x for x in before]) is not None
        assert groups.contract(u, v) == possible
        after = [groups.find(x) for x in range(dag.n)]
        assert after == ([a if x == b else x for x in before] if possible else before)
        for x, y in dag.edges():
            if after[x] != after[y]:
                assert groups.position[after[x]] < groups.position[after[y]]


@examples(quick=40, full=300)
@given(dags(20), st.data())
def test_repair_splits_only_groups_on_cycles(dag: Dag, data: st.DataObject) -> None:
    drawn = data.draw(st.lists(st.integers(0, 3), min_size=dag.n, max_size=dag.n))
    labels = components(dag, drawn)
    fixed, splits = repair(dag, labels)
    assert order_groups(dag, fixed) is not None
    assert components(dag, fixed) == [fixed.index(x) for x in fixed]

    used = sorted(set(labels))
    succs = condense(dag, [used.index(x) for x in labels], len(used))
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(used)))
    graph.add_edges_from((a, b) for a, targets in enumerate(succs) for b in targets)
    on_cycles = [part for part in nx.strongly_connected_components(graph) if len(part) > 1]
    split = {used.index(labels[x.nodes[0]]) for x in splits}
    assert split <= set().union(*on_cycles)
    for cycle in on_cycles:
        sizes = {a: labels.count(used[a]) for a in cycle}
        # Ties: the one with the earliest node.
        largest = min(cycle, key=lambda a: (-sizes[a], labels.index(used[a])))
        alone = [-1 if x == used[largest] else v for v, x in enumerate(labels)]
        is_convex = order_groups(dag, alone) is not None
        assert is_convex == (largest not in split)
        assert split & cycle or order_groups(dag, labels) is not None

    whole = {x for s in splits for x in s.nodes}
    assert {x: labels[x] for x in range(dag.n) if x not in whole} == {
        x: labels[fixed.index(fixed[x])] for x in range(dag.n) if x not in whole
    }
    for record in splits:
        assert sorted(x for part in record.parts for x in part) == list(record.nodes)
        assert len({labels[x] for x in record.nodes}) == 1
        assert all(len({fixed[x] for x in part}) == 1 for part in record.parts)
        assert len({fixed[part[0]] for part in record.parts}) == len(record.parts) > 1


def listed(following: list[int]) -> list[int]:
    """The nodes from the first to the last."""
    n = len(following) - 1
    found: list[int] = []
    node = following[n]
    while node != n:
        found.append(node)
        node = following[node]
    return found


def moved_about(n: int, moves: list[tuple[int, list[int]]]) -> None:
    """Move nodes behind the place-th of the rest, and hold every step to a plain list."""
    plain = list(range(n))
    position, following, leading = (each.tolist() for each in standing(np.array(plain)))
    for place, chosen in moves:
        nodes = [node for node in plain if node in set(chosen)]
        rest = [node for node in plain if node not in nodes]
        before = rest[place - 1] if place % (len(rest) + 1) and place <= len(rest) else n
        at = rest.index(before) + 1 if before != n else 0
        plain = rest[:at] + nodes + rest[at:]
        if nodes:
            move(position, following, leading, before, [-1, *nodes, -1], 1, 1 + len(nodes))
        assert listed(following) == plain
        assert listed(leading) == plain[::-1]
        numbers = [position[node] for node in plain]
        assert all(one < other for one, other in pairwise([-1, *numbers, WIDTH]))


def test_room_is_made_where_all_go_to_one_place() -> None:
    """Halved a thousand times, no room of 62 bits is left."""
    for place in (0, 1, 7, 19):
        rng = random.Random(place)
        moved_about(
            40, [(place, rng.sample(range(40), rng.choice((1, 1, 3)))) for _ in range(1000)]
        )
