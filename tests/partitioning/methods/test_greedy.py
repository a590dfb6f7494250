"""Greedy selection: the design page's example, a literal version of the page, validity."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import dags
from hetsim.graph.dag import Dag
from hetsim.partitioning.growing.repair import Split
from hetsim.partitioning.methods import greedy
from hetsim.problem.groups import as_groups, order_groups
from hetsim.problem.validator import problems_of
from oracles.hetero_greedy import PageGreedy
from sweeps import examples

KINDS = ("a", "b", "c", "d")

PAGE = Dag.from_edges(7, [(0, 1), (1, 2), (1, 3), (2, 4), (3, 4), (4, 5), (5, 6)])
PAGE_DEVICES = [0, 0, 0, 1, 0, 0, 0]
PAGE_NAMES = [str(v + 1) for v in range(7)]

# (action, node, subgraph, rejected, condition), in the page's numbers: "" is ok, "4?" a
# possible and "4!" a found self-reference through node 4.
FROM_1 = [
    ("select", "1", "1", "", ""),
    ("merge", "2", "12", "", ""),
    ("merge", "3", "123", "", ""),
    ("merge", "5", "1235", "", "4?"),
    ("merge", "6", "12356", "", "4?"),
    ("merge", "7", "123567", "", "4?"),
    ("fail", "4", "123567", "4", "4!"),
    ("rollback", "7", "12356", "47", "4!"),
    ("rollback", "6", "1235", "467", "4!"),
    ("rollback", "5", "123", "4567", ""),
]
FROM_5 = [
    ("select", "5", "5", "", ""),
    ("merge", "6", "56", "", ""),
    ("merge", "7", "567", "", ""),
    ("merge", "3", "3567", "", ""),
    ("merge", "2", "23567", "", "4?"),
    ("fail", "4", "23567", "4", "4!"),
    ("rollback", "2", "3567", "24", ""),
]


def joined(nodes: tuple[int, ...]) -> str:
    return "".join(PAGE_NAMES[v] for v in nodes)


def test_trace_of_the_page() -> None:
    trace = greedy.trace(PAGE, PAGE_DEVICES)
    first, second, third = trace.rounds
    assert [joined(candidate.roots) for candidate in first.candidates] == ["123567", "567"]
    for candidate, steps in zip(first.candidates, (FROM_1, FROM_5), strict=True):
        assert [
            (
                step.action,
                PAGE_NAMES[step.node],
                joined(step.subgraph),
                joined(step.rejected),
                f"{joined(step.through)}!"
                if step.through
                else f"{joined(step.possible)}?"
                if step.possible
                else "",
            )
            for step in candidate.steps
        ] == steps
    assert [joined(candidate.nodes) for candidate in first.candidates] == ["123", "3567"]
    assert [(r.device, joined(r.selected)) for r in trace.rounds] == [
        (0, "3567"),
        (0, "12"),
        (1, "4"),
    ]
    assert [joined(candidate.roots) for candidate in second.candidates] == ["12"]
    assert [joined(candidate.roots) for candidate in third.candidates] == ["4"]
    assert trace.repaired == ()


def test_groups_of_the_page() -> None:
    assert greedy.merge(PAGE, PAGE_DEVICES) == [0, 0, 2, 3, 2, 2, 2]


def test_printed_trace_of_the_page() -> None:
    text = greedy.explain(PAGE, PAGE_DEVICES, PAGE_NAMES, ["first", "second"])
    lines = [line.strip() for line in text.splitlines()]
    assert lines[:4] == [
        "first, round 1",
        "Possible roots: [1, 2, 3, 5, 6, 7]",
        "1. Select root [1]",
        "subgraph [1], rejected [], condition ok",
    ]
    at = lines.index("7. Failed to merge [4]")
    assert lines[at + 1] == (
        "subgraph [1, 2, 3, 5, 6, 7], rejected [4], condition broken by self-references through [4]"
    )
    assert "9. Rollback [6]" in lines
    assert lines[-3:] == ["Subgraphs", "first: [3, 5, 6, 7], [1, 2]", "second: [4]"]
    assert "device 1: [3]" in greedy.explain(PAGE, PAGE_DEVICES)


def test_first_of_equally_large_candidates_is_selected() -> None:
    # A cycle test of the library in which the page's algorithm was written.
    edges = [(0, 1), (1, 2), (1, 3), (2, 4), (3, 5), (4, 6), (5, 7), (6, 8), (7, 8), (8, 9)]
    dag = Dag.from_edges(10, edges)
    trace = greedy.trace(dag, [0, 0, 0, 0, 0, 1, 0, 0, 0, 0])
    first = trace.rounds[0]
    assert [candidate.nodes for candidate in first.candidates] == [
        (0, 1, 2, 3, 4, 6),
        (2, 4, 6, 7, 8, 9),
    ]
    assert [r.selected for r in trace.rounds] == [(0, 1, 2, 3, 4, 6), (7, 8, 9), (5,)]


def test_mutually_dependent_subgraphs_are_split_and_named() -> None:
    # p(0) u(1) v(2) a1(3) b1(4) b2(5) a2(6) r(7): {u, a1, a2, r} feeds {v, b1, b2} by a1 > b1
    # and is fed by it through b2 > a2.
    edges = [(0, 1), (0, 2), (1, 3), (3, 4), (2, 4), (2, 5), (5, 6), (1, 6), (6, 7)]
    dag = Dag.from_edges(8, edges)
    device_of = [0, 0, 1, 0, 1, 1, 0, 0]
    page = PageGreedy(dag, device_of)
    assert page.selected == [(1, 3, 6, 7), (0,), (2, 4, 5)]
    assert order_groups(dag, page.labels()) is None
    solved = greedy.solve(dag, device_of)
    assert solved.repaired == (Split((2, 4, 5), ((2, 5), (4,))),)
    assert order_groups(dag, solved.labels) is not None
    assert "Repaired: [2, 4, 5]" in greedy.explain(dag, device_of)
    assert greedy.merge_with_notes(dag, device_of) == (list(solved.labels), (
        "1 group of the published method depended on each other in a circle and was split",
    ))  # fmt: skip
    twice = Dag.from_edges(16, edges + [(u + 8, v + 8) for u, v in edges])
    assert greedy.merge_with_notes(twice, device_of * 2)[1] == (
        "2 groups of the published method depended on each other in a circle and were split",
    )
    assert greedy.merge_with_notes(dag, [0] * 8) == ([0] * 8, ())


@st.composite
def colourings(draw: st.DrawFn, max_nodes: int) -> tuple[Dag, list[int]]:
    """A DAG, and one of 1 to 4 kinds by node."""
    dag = draw(dags(max_nodes))
    kinds = draw(st.integers(1, len(KINDS)))
    return dag, draw(st.lists(st.integers(0, kinds - 1), min_size=dag.n, max_size=dag.n))


@examples(quick=80, full=300)
@given(colourings(30))
def test_valid_and_deterministic(coloured: tuple[Dag, list[int]]) -> None:
    dag, device_of = coloured
    labels = greedy.merge(dag, device_of)
    parts = order_groups(dag, labels)
    assert parts is not None
    supported = [[device_of[v] == p for p in range(len(KINDS))] for v in range(dag.n)]
    groups = as_groups(parts, device_of, KINDS)
    assert problems_of(dag, groups, KINDS, supported, connected=True) == []
    assert greedy.merge(dag, device_of) == labels


def published(dag: Dag, solved: greedy.GreedyResult) -> list[int]:
    """The labels before repair."""
    labels = list(solved.labels)
    for split in solved.repaired:
        for node in split.nodes:
            labels[node] = split.nodes[0]
    return labels


@examples(quick=80, full=300)
@given(colourings(18))
def test_same_subgraphs_as_the_page_read_literally(coloured: tuple[Dag, list[int]]) -> None:
    dag, device_of = coloured
    page = PageGreedy(dag, device_of)
    solved = greedy.solve(dag, device_of)
    assert published(dag, solved) == page.labels()
    trace = greedy.trace(dag, device_of)
    assert [current.selected for current in trace.rounds] == page.selected
    assert trace.repaired == solved.repaired
    assert bool(solved.repaired) == (order_groups(dag, page.labels()) is None)


def residual(blocks: int, body: int) -> Dag:
    """Blocks of `body` nodes in a row, each bypassed by a skip edge into its last node."""
    edges = [(v, v + 1) for v in range(blocks * body)]
    edges += [(b * body, (b + 1) * body) for b in range(blocks)]
    return Dag.from_edges(blocks * body + 1, edges)


@pytest.mark.parametrize("at", [1, 2, 3])
def test_same_subgraphs_on_residual_graphs(at: int) -> None:
    dag = residual(blocks=9, body=4)
    device_of = [int(v % 4 == at) for v in range(dag.n)]
    page = PageGreedy(dag, device_of)
    assert published(dag, greedy.solve(dag, device_of)) == page.labels()


def test_thousands_of_nodes() -> None:
    dag = residual(blocks=400, body=5)
    device_of = [int(v % 5 == 2) for v in range(dag.n)]
    solved = greedy.solve(dag, device_of)
    assert solved.repaired == ()
    parts = order_groups(dag, solved.labels)
    assert parts is not None
    # Every block's second node is alone on its device; what is left falls into chains.
    assert sum(device_of[part[0]] == 1 for part in parts) == 400


def test_empty_graph() -> None:
    empty = Dag.from_edges(0, [])
    assert greedy.solve(empty, []) == greedy.GreedyResult((), ())
    assert greedy.explain(empty, []) == "Subgraphs\n"
