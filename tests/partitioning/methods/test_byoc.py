"""Method ``byoc``: TVM's merging taken literally, its parts alone, and its default target."""

from __future__ import annotations

from collections.abc import Sequence

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from builders import dags
from hetsim.graph.dag import Dag
from hetsim.partitioning.deconflict import deconflict
from hetsim.partitioning.methods import byoc
from hetsim.partitioning.regions import annotate
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
@given(dags(), st.data())
def test_merges_what_the_source_merges(dag: Dag, data: st.DataObject) -> None:
    device_of = data.draw(st.lists(st.integers(0, 2), min_size=dag.n, max_size=dag.n))
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


def test_steps_can_be_run_apart() -> None:
    problem = two_targets()
    regions = annotate(problem)
    assert [r.nodes for r in regions.of_device("dnnl")] == [(1,), (2,)]
    solved = deconflict(regions, "dnnl >> acl >> tvm")
    assert solved.assignment == (0, 1, 1, 2)
    whole = hetsim.partition(problem, "byoc", priority="dnnl >> acl >> tvm")
    assert hetsim.partition(problem, "byoc", resolution=solved).groups == whole.groups
    by_hand = hetsim.partition(problem, "byoc", assignment=[0, 1, 1, 2])
    assert by_hand.groups == whole.groups
