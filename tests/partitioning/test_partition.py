"""The validator objects to what it should, and to nothing else."""

from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import dags
from hetsim.errors import PlanError
from hetsim.graph.dag import Dag, find_cycle, topological_order
from hetsim.problem.groups import Group, components, order_groups
from hetsim.problem.problem import Problem
from hetsim.problem.validator import check, problems_of

DIAMOND = Dag.from_edges(4, [(0, 1), (0, 2), (1, 3), (2, 3)])


def groups(*parts: tuple[str, tuple[int, ...]]) -> tuple[Group, ...]:
    return tuple(Group(device, nodes) for device, nodes in parts)


def test_valid_partition_has_no_problems() -> None:
    parts = groups(("a", (0, 1)), ("b", (2,)), ("a", (3,)))
    assert problems_of(DIAMOND, parts, ("a", "b"), connected=True) == []


@pytest.mark.parametrize(
    ("parts", "complaint"),
    [
        (groups(("a", (0, 1, 2))), "node 3 is in no group"),
        (groups(("a", (0, 1, 2)), ("a", (2, 3))), "node 2 is in groups 0 and 1"),
        (groups(("a", (0, 1, 2, 3)), ("a", ())), "group 1 is empty"),
        (groups(("c", (0, 1, 2, 3))), "unknown device 'c'"),
        (groups(("a", (0, 2, 1, 3))), "graph order"),
        (groups(("a", (0, 1, 2, 3, 4))), "node 4, which does not exist"),
        (groups(("a", (-1, 0, 1, 2, 3))), "node -1, which does not exist"),
        (groups(("a", (0, 1, 3)), ("b", (2,))), "cycle: group 0 (a) > group 1 (b) > group 0 (a)"),
        (groups(("a", (3,)), ("a", (0, 1, 2))), "group 0 stands before group 1"),
    ],
)
def test_each_fault_is_named(parts: tuple[Group, ...], complaint: str) -> None:
    found = problems_of(DIAMOND, parts, ("a", "b"))
    assert any(complaint in text for text in found), found


def test_mutual_dependence_of_convex_groups_is_a_cycle() -> None:
    # Two crossing chains: each pair is convex alone, and yet the pairs feed each other.
    dag = Dag.from_edges(4, [(0, 3), (1, 2)])
    parts = groups(("a", (0, 2)), ("b", (1, 3)))
    assert any("cycle" in text for text in problems_of(dag, parts, ("a", "b")))


def test_unsupported_and_unconnected() -> None:
    parts = groups(("a", (0, 1, 2, 3)))
    supported = [[True], [True], [False], [True]]
    assert problems_of(DIAMOND, parts, ("a",), supported, name=list("wxyz")) == [
        "'a' does not support 'y' (group 0)"
    ]
    arms = groups(("a", (0,)), ("a", (1, 2)), ("a", (3,)))
    assert problems_of(DIAMOND, arms, ("a",), connected=True) == ["group 1 is not connected"]


def test_check_counts_the_rest() -> None:
    problem = Problem.from_arrays([[1.0]] * 4)
    with pytest.raises(PlanError, match=r"here: not a valid partition: 'n0' .* \(and 3 more\)"):
        check(problem, (), where="here")


def test_a_composite_is_supported_whole_or_not_at_all() -> None:
    inf = float("inf")
    problem = Problem.from_arrays(
        [[inf, 1.0], [1.0, 1.0], [1.0, 1.0]],
        [(0, 1, 8), (1, 2, 8)],
        devices=("npu", "cpu"),
        composites=[(0, (0, 1), 0.5)],
    )
    check(problem, groups(("npu", (0, 1)), ("cpu", (2,))))
    with pytest.raises(PlanError, match="'npu' supports 'n0' only together with 'n1'"):
        check(problem, groups(("npu", (0,)), ("cpu", (1, 2))))
    check(problem, groups(("npu", (0,)), ("cpu", (1, 2))), supports=False)
    check(problem, groups(("cpu", (0,)), ("npu", (1, 2))))


def test_a_composite_of_another_device_ties_nothing() -> None:
    """What npu runs as one kernel holds no group of cpu's together, nor one that lacks a part."""
    dag = Dag.from_edges(3, [])
    for device, composites, connected in (
        ("npu", [(0, (0, 1, 2))], True),
        ("cpu", [(0, (0, 1, 2))], False),
        ("npu", [(0, (0, 1))], False),
    ):
        found = problems_of(
            dag, groups((device, (0, 1, 2))), ("npu", "cpu"), composites=composites, connected=True
        )
        assert found == ([] if connected else ["group 0 is not connected"])
    apart = groups(("npu", (0, 1)), ("npu", (2,)))
    composites = [(0, (0, 1, 2))]
    found = problems_of(dag, apart, ("npu", "cpu"), composites=composites, connected=True)
    assert found == ["group 0 is not connected"]


@given(dags(), st.data())
def test_of_the_groups_that_could_stand_next_the_least_rank_comes_first(
    dag: Dag, data: st.DataObject
) -> None:
    labels = data.draw(st.lists(st.integers(0, 4), min_size=dag.n, max_size=dag.n))
    ranks = data.draw(st.lists(st.integers(0, 5), min_size=dag.n, max_size=dag.n))
    for rank in (ranks, None):
        order = order_groups(dag, labels, rank)
        if order is None:
            return
        key = {
            label: min((ranks[v] if rank else v, v) for v in range(dag.n) if labels[v] == label)
            for label in labels
        }
        feeds = {(labels[u], labels[v]) for u, v in dag.edges() if labels[u] != labels[v]}
        left = set(labels)
        for nodes in order:
            able = [g for g in left if not any(b == g and a in left for a, b in feeds)]
            expected = min(able, key=lambda g: key[g])
            assert nodes == tuple(v for v in range(dag.n) if labels[v] == expected)
            left.remove(expected)
        assert not left


@given(dags(), st.data())
def test_validator_agrees_with_networkx(dag: Dag, data: st.DataObject) -> None:
    labels = data.draw(st.lists(st.integers(0, 3), min_size=dag.n, max_size=dag.n))
    condensed = nx.DiGraph()
    condensed.add_nodes_from(labels)
    condensed.add_edges_from(
        (labels[u], labels[v]) for u, v in dag.edges() if labels[u] != labels[v]
    )
    order = order_groups(dag, labels)
    assert (order is not None) == nx.is_directed_acyclic_graph(condensed)
    if order is not None:
        assert problems_of(dag, [Group("a", nodes) for nodes in order], ("a",)) == []
    used = sorted(set(labels))
    renamed = [used.index(label) for label in labels]
    parts = [
        Group("a", tuple(v for v in range(dag.n) if renamed[v] == g)) for g in range(len(used))
    ]
    cyclic = any("cycle" in text for text in problems_of(dag, parts, ("a",)))
    assert cyclic == (order is None)
    whole = nx.Graph()
    whole.add_nodes_from(range(dag.n))
    whole.add_edges_from((u, v) for u, v in dag.edges() if labels[u] == labels[v])
    assert len(set(components(dag, labels))) == nx.number_connected_components(whole)


@given(dags())
def test_topological_order_and_cycles(dag: Dag) -> None:
    order = topological_order(dag.succs)
    assert order == list(range(dag.n))
    assert find_cycle(dag.succs) == []
    reversed_rank = [-v for v in range(dag.n)]
    other = topological_order(dag.succs, reversed_rank)
    assert other is not None
    place = {v: index for index, v in enumerate(other)}
    assert all(place[u] < place[v] for u, v in dag.edges())


def test_find_cycle_returns_a_closed_walk() -> None:
    succs = [[1], [2], [3, 4], [1], []]
    assert topological_order(succs) is None
    cycle = find_cycle(succs)
    assert sorted(cycle) == [1, 2, 3]
    assert all(b in succs[a] for a, b in zip(cycle, [*cycle[1:], cycle[0]], strict=True))
