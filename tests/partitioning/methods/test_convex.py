"""The patent's walk: its examples, its definition, and validity on any graph."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import dags
from hetsim.graph.dag import Dag
from hetsim.partitioning.methods import convex
from hetsim.problem.groups import as_groups, order_groups
from hetsim.problem.validator import problems_of
from oracles.patent_walk import PatentWalk
from sweeps import examples

KINDS = ("a", "b", "c", "d")


@st.composite
def colourings(draw: st.DrawFn, max_nodes: int) -> tuple[Dag, list[int]]:
    """A DAG, and one of 1 to 4 kinds by node."""
    dag = draw(dags(max_nodes))
    kinds = draw(st.integers(1, len(KINDS)))
    return dag, draw(st.lists(st.integers(0, kinds - 1), min_size=dag.n, max_size=dag.n))


def named(text: str, host: str, *, kinds: str = "") -> set[str]:
    """Run the walk on edges like ``FG GJ`` and return the groups off the host, as words."""
    names = sorted(set(text) - {" "}, key=text.index)
    order = "FGHLIJK"
    names.sort(key=order.index)
    dag = Dag.from_edges(
        len(names), [(names.index(u), names.index(v)) for u, v in map(tuple, text.split())]
    )
    device_of = [1 if name in host else 2 if name in kinds else 0 for name in names]
    groups: dict[int, str] = {}
    for name, label in zip(names, convex.merge(dag, device_of), strict=True):
        groups[label] = groups.get(label, "") + name
    return {group for group in groups.values() if group[0] not in host}


EXAMPLE_1 = "FG FH GJ HI IJ JK"
EXAMPLE_2 = "FG FH GJ HL LI IJ JK"


def test_example_1() -> None:
    assert named(EXAMPLE_1, host="I") == {"FGH", "JK"}


def test_example_2() -> None:
    assert named(EXAMPLE_2, host="I") == {"FGHL", "JK"}


def test_example_1_on_one_processor_kind_fuses_whole() -> None:
    assert named(EXAMPLE_1, host="") == {"FGHIJK"}


def test_another_processor_kind_blocks_as_the_host_does() -> None:
    assert named(EXAMPLE_1, host="", kinds="I") == {"FGH", "I", "JK"}
    assert named(EXAMPLE_1, host="", kinds="JK") == {"FGHI", "JK"}


def test_groups_that_would_feed_each_other_are_kept_apart() -> None:
    # Nodes 0, 3 and 1, 2 are joined by one edge each: no path in the graph of nodes objects.
    dag = Dag.from_edges(4, [(0, 3), (1, 2), (0, 2), (1, 3)])
    labels = convex.merge(dag, [0, 1, 1, 0])
    assert len(set(labels)) == 3
    assert order_groups(dag, labels) is not None


@examples(quick=80, full=300)
@given(colourings(30))
def test_valid_and_deterministic(coloured: tuple[Dag, list[int]]) -> None:
    dag, device_of = coloured
    labels = convex.merge(dag, device_of)
    parts = order_groups(dag, labels)
    assert parts is not None
    supported = [[device_of[v] == p for p in range(len(KINDS))] for v in range(dag.n)]
    groups = as_groups(parts, device_of, KINDS)
    assert problems_of(dag, groups, KINDS, supported, connected=True) == []
    assert convex.merge(dag, device_of) == labels


@examples(quick=80, full=200)
@given(colourings(16))
def test_same_groups_as_the_walk_on_edge_lists(coloured: tuple[Dag, list[int]]) -> None:
    dag, device_of = coloured
    assert convex.merge(dag, device_of) == PatentWalk(dag, device_of).owner


@examples(quick=80, full=200)
@given(colourings(20))
def test_no_edge_is_left_to_contract(coloured: tuple[Dag, list[int]]) -> None:
    dag, device_of = coloured
    labels, notes = convex.merge_with_notes(dag, device_of)
    assert notes == ()
    for u, v in dag.edges():
        a, b = labels[u], labels[v]
        if a != b and device_of[u] == device_of[v]:
            assert order_groups(dag, [a if x == b else x for x in labels]) is None


def test_what_stands_when_the_budget_runs_out_is_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    dag = Dag.from_edges(60, [(v, v + k) for k in (1, 3, 7) for v in range(60 - k)])
    device_of = [v * v % 5 % 2 for v in range(60)]
    whole, notes = convex.merge_with_notes(dag, device_of)
    assert notes == ()
    monkeypatch.setattr(convex, "VISITS_PER_EDGE", 1)
    cut, notes = convex.merge_with_notes(dag, device_of)
    assert notes == ("the search budget ended before the walk did",)
    parts = order_groups(dag, cut)
    assert parts is not None
    assert problems_of(dag, as_groups(parts, device_of, KINDS), KINDS, connected=True) == []
    assert len(parts) > len(set(whole))


def test_empty_graph() -> None:
    assert convex.merge_with_notes(Dag.from_edges(0, []), []) == ([], ())
