"""The patent's walk: its examples, its definition, and validity on any graph."""

from __future__ import annotations

import pytest
from hypothesis import given

from builders import colourings
from hetsim.graph.dag import Dag
from hetsim.partitioning.methods import convex
from hetsim.problem.groups import as_groups, order_groups
from hetsim.problem.validator import problems_of
from oracles.patent_walk import PatentWalk
from sweeps import examples

KINDS = ("a", "b", "c", "d")


@examples(quick=65, full=200)
@given(colourings(16))
def test_same_groups_as_the_walk_on_edge_lists(coloured: tuple[Dag, list[int]]) -> None:
    dag, device_of = coloured
    assert convex.merge(dag, device_of) == PatentWalk(dag, device_of).owner


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
