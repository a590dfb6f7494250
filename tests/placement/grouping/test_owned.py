"""Groups as arrays are those of records; runs are the same by machine code."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import problems
from hetsim.graph.dag import topological_order
from hetsim.placement import grouping
from hetsim.placement.grouping import (
    Owned,
    best_grouping,
    merge_where_it_pays,
    runs,
)
from hetsim.placement.objective import latency_of_groups
from hetsim.problem.groups import Group
from hetsim.problem.problem import Problem
from placement_instances import model_like
from sweeps import examples

pytestmark = pytest.mark.group("machine_code")


def drawn(problem: Problem, data: st.DataObject) -> tuple[Problem, list[int], list[int]]:
    """The problem with room for all, an assignment and an order."""
    problem = replace(problem, capacity_bytes=None, fused=(), staging=None)
    able = [np.flatnonzero(row).tolist() for row in problem.supported]
    assignment = [data.draw(st.sampled_from(devices)) for devices in able]
    order = topological_order(problem.dag.succs, [data.draw(st.floats(0, 1)) for _ in able])
    assert order is not None
    return problem, assignment, order


@examples(quick=30, full=400)
@given(model_like(problems(max_nodes=14)), st.data())
def test_the_best_grouping_and_its_merges_are_the_same(
    problem: Problem, data: st.DataObject
) -> None:
    problem, assignment, order = drawn(problem, data)
    found: list[tuple[Group, ...]] = []
    for which in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(grouping, "are_for", lambda _, way=which: way)
            groups, _ = best_grouping(problem, assignment, order)
            found += groups, merge_where_it_pays(problem, groups)
    assert found[:2] == found[2:]
    owned = Owned.of(problem, found[0])
    assert owned.groups(problem) == found[0]
    assert owned.first_nodes() == [group.nodes[0] for group in found[0]]
    assert owned.latency_s(problem, "same") == latency_of_groups(problem, found[0], "same")
    assert owned.seconds(problem).tolist() == [
        problem.group_seconds(problem.device_index(group.device), group.nodes) for group in found[0]
    ]


@examples(quick=20, full=200)
@given(problems(max_nodes=14), st.data())
def test_runs_are_the_same_by_machine_code(problem: Problem, data: st.DataObject) -> None:
    problem, assignment, order = drawn(problem, data)
    for cut_at_exits in (True, False):
        found = []
        for which in (True, False):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(grouping, "pays", lambda _, way=which: way)
                found.append(runs(problem.dag, assignment, order, cut_at_exits=cut_at_exits))
        assert found[0].tolist() == found[1].tolist()
