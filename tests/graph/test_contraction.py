"""Contraction of node sets, against the contracted graph of networkx."""

from __future__ import annotations

import random
from itertools import pairwise

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import dags
from hetsim.graph.dag import Contraction, Dag
from sweeps import examples, sweep


def acyclic_with(dag: Dag, sets: list[tuple[int, ...]]) -> bool:
    """Whether the graph with all sets contracted at once is a DAG."""
    of = list(range(dag.n))
    for nodes in sets:
        for node in nodes:
            of[node] = min(nodes)
    graph = nx.DiGraph()
    graph.add_edges_from((of[u], of[v]) for u, v in dag.edges() if of[u] != of[v])
    return nx.is_directed_acyclic_graph(graph)


def check_path(
    dag: Dag, sets: list[tuple[int, ...]], nodes: tuple[int, ...], path: tuple[int, ...]
) -> None:
    """The path leaves `nodes`, comes back, and takes only edges and sets on its way."""
    assert path[0] in nodes
    assert path[-1] in nodes
    assert len(path) > 2
    assert not set(path[1:-1]) & set(nodes)
    of = {node: index for index, added in enumerate(sets) for node in added}
    for u, v in pairwise(path):
        within = u in of and of[u] == of.get(v)
        assert within or v in dag.succs[u]


def contract_all(dag: Dag, offers: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Offer the sets one after another; check every answer."""
    state = Contraction(dag)
    added: list[tuple[int, ...]] = []
    for nodes in offers:
        if any(state.taken(node) for node in nodes):
            continue
        path = state.cycle(nodes)
        assert (path == ()) == acyclic_with(dag, [*added, nodes])
        if path:
            check_path(dag, added, nodes, path)
            assert not any(state.taken(node) for node in nodes)
        else:
            state.add(nodes)
            added.append(nodes)
            assert all(state.taken(node) for node in nodes)
    return added


@given(st.data())
@examples(quick=25, full=400)
def test_a_set_is_refused_exactly_where_contracting_it_closes_a_cycle(data: st.DataObject) -> None:
    dag = data.draw(dags(12))
    nodes = st.lists(st.integers(0, dag.n - 1), min_size=1, max_size=4, unique=True).map(tuple)
    contract_all(dag, data.draw(st.lists(nodes, max_size=8)))


@sweep("seed", quick=range(5), full=range(30))
def test_many_sets_on_larger_graphs(seed: int) -> None:
    chosen = random.Random(seed)
    n = 60
    reach = chosen.choice([3, 8, n])
    edges = {
        (u, v)
        for v in range(1, n)
        for u in chosen.choices(range(max(0, v - reach), v), k=chosen.randint(0, 2))
    }
    dag = Dag.from_edges(n, edges)
    span = chosen.choice([4, 15, n])
    offers = []
    for _ in range(150):
        low = chosen.randrange(n - 3)
        inside = range(low, min(n, low + span))
        size = min(len(inside), chosen.randint(2, 5))
        offers.append(tuple(chosen.sample(inside, size)))
    assert contract_all(dag, offers)


def test_a_node_is_in_one_set_at_most() -> None:
    state = Contraction(Dag.from_edges(3, [(0, 1), (1, 2)]))
    state.add((0, 1))
    assert [state.taken(node) for node in range(3)] == [True, True, False]
    with pytest.raises(ValueError, match="node 1 "):
        state.add((1, 2))
