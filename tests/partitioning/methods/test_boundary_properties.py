"""Properties of the boundary method on graphs with parameters, constants and several ports."""

from __future__ import annotations

import random

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from builders import dags
from hetsim.graph.dag import Dag
from hetsim.partitioning.methods import boundary
from hetsim.partitioning.methods.boundary import Cuts, GroupGraph, Port, Wiring
from hetsim.problem.groups import as_groups, components, order_groups
from hetsim.problem.validator import problems_of
from oracles.boundary_rule import boundary_groups
from sweeps import examples, sweep

NAMES = ("a", "b", "c")


@st.composite
def wirings(draw: st.DrawFn, max_nodes: int = 16) -> tuple[Wiring, list[int]]:
    """Graphs in which nodes have two outputs and read up to three, one of them twice; devices."""
    n = draw(st.integers(1, max_nodes))
    ports: list[list[Port]] = []
    kinds: list[str] = []
    for v in range(n):
        reach = st.integers(max(0, v - draw(st.sampled_from((3, n)))), v - 1)
        sources = st.lists(st.tuples(reach, st.integers(0, 1)))
        ports.append(list(draw(sources)[:3]) if v and draw(st.integers(0, 3)) else [])
        kinds.append("op" if ports[-1] or draw(st.booleans()) else "constant")
    device_of = draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    for v in draw(st.lists(st.integers(0, n - 1), max_size=4)):
        ports.append([(v, draw(st.integers(0, 1)))])
        kinds.append("result")
        device_of.append(device_of[v])
    return Wiring.of_ports(ports, kinds), device_of


def blocks(labels: list[int]) -> list[int]:
    first: dict[int, int] = {}
    return [first.setdefault(label, node) for node, label in enumerate(labels)]


@examples(quick=80, full=400)
@given(wirings())
def test_groups_and_boundaries_are_those_of_the_literal_rule(
    case: tuple[Wiring, list[int]],
) -> None:
    wiring, device_of = case
    cuts = boundary.groups_of(wiring, device_of)
    labels, boundaries = boundary_groups(wiring, device_of)
    assert blocks(cuts.label) == blocks(labels)
    ports = [(v, k) for v, sources in enumerate(wiring.inputs) for k in range(len(sources))]
    assert {port for port, cut in zip(ports, cuts.cut, strict=True) if cut} == boundaries


@sweep("seeds", quick=[range(600)], full=[range(600), range(600, 3000)], ids=["some", "more"])
def test_the_same_on_thousands_of_random_graphs(seeds: range) -> None:
    for seed in seeds:
        rng = random.Random(seed)
        n, reach, bare = rng.randint(2, 26), rng.choice((3, 6, 26)), rng.choice((0.0, 0.2, 0.4))
        ports: list[list[Port]] = [[]]
        for v in range(1, n):
            count = 0 if rng.random() < bare else rng.choice((1, 2, 2, 3))
            sources = [rng.randrange(max(0, v - reach), v) for _ in range(count)]
            ports.append([(source, rng.random() < 0.2) for source in sources])
        kinds = ["op" if row or rng.random() < 0.3 else "constant" for row in ports]
        share = rng.random()
        device_of = [0 if rng.random() < share else rng.randrange(4) for _ in range(n)]
        for v in rng.sample(range(n), rng.randint(0, 2)):
            ports.append([(v, False)])
            kinds.append("result")
            device_of.append(device_of[v])
        wiring = Wiring.of_ports(ports, kinds)
        cuts = boundary.groups_of(wiring, device_of)
        assert blocks(cuts.label) == blocks(boundary_groups(wiring, device_of)[0]), seed


@examples(quick=80, full=300)
@given(dags(60), st.data())
def test_merge_is_valid_and_groups_are_connected(dag: Dag, data: st.DataObject) -> None:
    device_of = data.draw(st.lists(st.integers(0, 2), min_size=dag.n, max_size=dag.n))
    labels = boundary.merge(dag, device_of)
    assert labels == boundary.merge(dag, device_of)
    parts = order_groups(dag, labels)
    assert parts is not None
    supported = [[device_of[v] == p for p in range(3)] for v in range(dag.n)]
    groups = as_groups(parts, device_of, NAMES)
    assert problems_of(dag, groups, NAMES, supported, connected=True) == []
    # Where what the edges inside devices connect can run as it is, nothing more is cut.
    whole = components(dag, device_of)
    if order_groups(dag, whole) is not None:
        assert blocks(labels) == blocks(whole)


@given(dags(40))
def test_one_device_is_never_cut(dag: Dag) -> None:
    assert blocks(boundary.merge(dag, [0] * dag.n)) == blocks(components(dag, [0] * dag.n))


def test_long_chains() -> None:
    n = 10_000
    chain = Dag.from_edges(n, [(v, v + 1) for v in range(n - 1)])
    assert len(set(boundary.merge(chain, [v % 2 for v in range(n)]))) == n
    blocks_of_ten = [v // 10 % 2 for v in range(n)]
    assert len(set(boundary.merge(chain, blocks_of_ten))) == n // 10
    skips = [(v, v + 2) for v in range(n - 2)]
    ladder = Dag.from_edges(n, [(v, v + 1) for v in range(n - 1)] + skips)
    assert len(set(boundary.merge(ladder, [v % 2 for v in range(n)]))) == n


@given(wirings(24), st.data())
def test_a_split_leaves_the_connected_parts(
    case: tuple[Wiring, list[int]], data: st.DataObject
) -> None:
    wiring, _ = case
    cuts = Cuts(wiring, [0] * wiring.n)
    for _ in range(3):
        inner = [(u, v, e) for v, ins in enumerate(cuts.ins) for u, e in ins if not cuts.cut[e]]
        if not inner:
            return
        u, v, _ = data.draw(st.sampled_from(inner))
        edges = [edge for edge in inner if edge[:2] == (u, v)]
        for edge in edges:
            cuts.promote(*edge)
        before = list(cuts.label)
        parts = cuts.split([u, v])
        plain = nx.Graph()
        plain.add_nodes_from(range(wiring.n))
        plain.add_edges_from(edge[:2] for edge in inner if not cuts.cut[edge[2]])
        expected = [0] * wiring.n
        for component in nx.connected_components(plain):
            for node in component:
                expected[node] = min(component)
        assert blocks(cuts.label) == blocks(expected)
        moved = [node for part in parts for node in part]
        assert sorted(moved) == [w for w in range(wiring.n) if cuts.label[w] != before[w]]


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=40),
    st.lists(st.tuples(st.integers(0, 39), st.integers(0, 9)), max_size=30),
)
def test_cycles_stay_known_while_edges_go(
    edges: list[tuple[int, int]], steps: list[tuple[int, int]]
) -> None:
    left = list(edges)
    groups = GroupGraph(edges)
    for gone, asked in steps:
        assert groups.on_cycle(asked) == (asked in on_cycles(left))
        if left:
            groups.drop(*left.pop(gone % len(left)))
        assert on_cycles(left) <= groups.succs.keys()
    assert {label for label in range(10) if groups.on_cycle(label)} == on_cycles(left)


def test_a_group_taken_out_of_a_cycle_breaks_it() -> None:
    # 0 and 1 feed each other; 1 is split so that what 0 feeds no longer feeds 0.
    groups = GroupGraph([(0, 1), (1, 0), (1, 2)])
    assert sorted(groups.succs) == [0, 1]
    groups.enter([3])
    groups.drop(1, 0)
    groups.add(3, 0)
    assert not any(groups.on_cycle(label) for label in (0, 1, 3))
    assert (groups.succs, groups.preds) == ({}, {})


def on_cycles(edges: list[tuple[int, int]]) -> set[int]:
    plain = nx.DiGraph([(u, v) for u, v in edges if u != v])
    parts = nx.strongly_connected_components(plain)
    return {label for part in parts if len(part) > 1 for label in part}
