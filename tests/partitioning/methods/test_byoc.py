"""Method ``byoc``: TVM's merging taken literally, its parts alone, and its default target."""

from __future__ import annotations

from collections.abc import Sequence

import networkx as nx
import pytest
from hypothesis import given

import hetsim
from builders import colourings
from hetsim.graph.dag import Dag
from hetsim.partitioning.methods import byoc
from hetsim.problem.problem import Problem
from sweeps import examples

INF = float("inf")


def literal(dag: Dag, device_of: Sequence[int]) -> list[int]:
    """Merge each region with its input regions; what restricts it is sought anew every time."""
    region = list(range(dag.n))
    for node in range(dag.n):
        for feeding in dag.preds[node]:
            a, b = region[feeding], region[node]
            if a == b or device_of[feeding] != device_of[node]:
                continue
            graph = nx.DiGraph(
                (region[u], region[v]) for u, v in dag.edges() if region[u] != region[v]
            )
            graph.remove_edge(a, b)
            if not nx.has_path(graph, a, b):
                region = [a if r == b else r for r in region]
    return region


@examples(quick=35, full=100)
@given(colourings(14, 3))
def test_merges_what_the_source_merges(coloured: tuple[Dag, list[int]]) -> None:
    dag, device_of = coloured
    found = byoc.merge(dag, device_of)
    wanted = literal(dag, device_of)
    pairs = set(zip(found, wanted, strict=True))
    assert len(pairs) == len(set(found)) == len(set(wanted))


def test_a_budget_that_runs_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byoc, "VISITS_PER_EDGE", 0)
    labels, notes = byoc.merge_with_notes(Dag.from_edges(3, [(0, 1), (1, 2)]), [0, 0, 0])
    assert len(labels) == 3
    assert notes == ("the search budget ended before all regions were visited",)


def two_targets() -> Problem:
    return Problem.from_arrays(
        [[1.0, INF, 5.0], [1.0, 2.0, 5.0], [INF, 2.0, 5.0], [INF, INF, 5.0]],
        [(0, 1, 4), (1, 2, 4), (2, 3, 4)],
        devices=("acl", "dnnl", "tvm"),
        host=2,
    )


def test_several_targets_and_the_default() -> None:
    made = hetsim.partition(two_targets(), "byoc", priority="acl >> dnnl >> tvm")
    assert [(g.device, g.nodes) for g in made.groups] == [
        ("acl", (0, 1)),
        ("dnnl", (2,)),
        ("tvm", (3,)),
    ]
    assert made.left == {3: "acl: inf in seconds; dnnl: inf in seconds"}
