"""Contraction keeps the graph of groups acyclic; repair splits only what is on a cycle."""

from __future__ import annotations

import random

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from builders import dags
from hetsim.graph.dag import Dag
from hetsim.partitioning.scans import repair
from hetsim.problem.groups import components, condense, order_groups
from merge_graphs import Condensed
from sweeps import examples


@examples(quick=100, full=300)
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


@examples(quick=100, full=300)
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


def test_acyclic_groups_are_left_as_they_are() -> None:
    dag = Dag.from_edges(3, [(0, 1), (1, 2)])
    assert repair(dag, [7, 7, 5]) == ([7, 7, 5], ())
