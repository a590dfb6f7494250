"""How assignments become subgraphs: the best of the ways by the clock, and merges that pay."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from full_problems import full_problems
from hetsim.errors import OutOfMemory
from hetsim.graph.dag import topological_order
from hetsim.placement.grouping import best_grouping, groupings
from hetsim.placement.objective import latency_of, latency_of_groups
from hetsim.problem.groups import Group
from hetsim.problem.parts import FusedKernel, Staging
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.problem.validator import check
from oracles.every_plan import tight_problem
from sweeps import examples


@examples(quick=25, full=600)
@given(full_problems(max_nodes=6, max_devices=3), st.data())
def test_of_all_ways_the_quickest_with_the_fewest_groups_is_kept(
    problem: Problem, data: st.DataObject
) -> None:
    """Where nothing is to be gained, too: then single nodes are as quick as any way."""
    # A composite of which an assignment has a part alone runs nowhere.
    problem = replace(problem, fused=tuple(k for k in problem.fused if not k.pattern))
    able = [np.flatnonzero(row).tolist() for row in problem.supported]
    assignment = [data.draw(st.sampled_from(devices)) for devices in able]
    order = topological_order(problem.dag.succs, [data.draw(st.floats(0, 1)) for _ in able])
    assert order is not None
    groups, _ = best_grouping(problem, assignment, order)
    check(problem, groups)
    assert Plan(problem, "best", groups).assignment == tuple(assignment)
    latency_s = latency_of_groups(problem, groups, "best")
    ways = groupings(problem, assignment, order)
    assert ways[0][0] == "compact"
    assert len({made for _, made in ways}) == len(ways)
    for _, made in ways:
        check(problem, made)
        other_s = latency_of(Plan(problem, "other", made))
        assert latency_s <= other_s + 1e-12
        if other_s == latency_s and problem.dispatch_s[0]:
            assert len(groups) <= len(made)


MERGED: dict[str, dict[str, Any]] = {
    "dispatch": {"dispatch_s": 0.5},
    "contention": {"contention": "fifo"},
    "memory": {"weight_bytes": [1, 1], "capacity_bytes": [99, 99]},
    "staging": {"staging": Staging((0.5, 0.5), (0.5, 0.5))},
    "fusion": {},
}


@pytest.mark.parametrize("why", MERGED)
def test_all_ways_are_tried_where_one_may_be_better(why: str) -> None:
    problem = Problem.from_arrays([[1.0, 2.0]] * 2, [(0, 1, 4)], **MERGED[why])
    if why == "fusion":
        problem = replace(problem, fused=(FusedKernel(0, (0, 1), 1.0),))
    groups, name = best_grouping(problem, [0, 0], [0, 1])
    # Of ways that are as quick that with the fewest groups.
    assert groups == (Group("d0", (0, 1)),)
    assert name == "compact"
    free = Problem.from_arrays([[1.0, 2.0]] * 2, [(0, 1, 4)])
    assert best_grouping(free, [0, 0], [0, 1]) == (
        (Group("d0", (0,)), Group("d0", (1,))),
        "single nodes",
    )


def test_runs_join_what_no_later_run_feeds_and_are_cut_where_a_tensor_leaves() -> None:
    problem = Problem.from_arrays(
        np.ones((6, 2)), [(0, 1, 1), (1, 3, 1), (2, 4, 1), (4, 5, 1)], dispatch_s=1.0
    )
    assignment = [0, 1, 0, 0, 0, 0]
    ways = dict(groupings(problem, assignment, [0, 1, 2, 3, 4, 5]))
    # Node 3 waits for node 1 on the other device, and opens a run that 4 and 5 join.
    assert ways["runs"] == (Group("d0", (0, 2)), Group("d1", (1,)), Group("d0", (3, 4, 5)))
    # What node 0 makes leaves its device: 2 does not hold it up, and opens a run behind that of 1.
    assert [group.nodes for group in ways["eager runs"]] == [(0,), (1,), (2, 3, 4, 5)]
    assert [group.nodes for group in ways["single nodes"]] == [(v,) for v in range(6)]
    # By another order node 2 comes after the run that node 3 opened.
    later = dict(groupings(problem, assignment, [0, 1, 3, 2, 4, 5]))
    assert later["runs"] == (Group("d0", (0,)), Group("d1", (1,)), Group("d0", (2, 3, 4, 5)))


@pytest.mark.parametrize("seed", range(0, 60, 2))
def test_where_no_way_fits_the_one_that_misses_by_least_is_told(seed: int) -> None:
    problem = tight_problem(seed)
    assert problem.capacity_bytes is not None
    problem = replace(problem, capacity_bytes=tuple(c // 2 for c in problem.capacity_bytes))
    assignment = [int(row.argmax()) for row in problem.supported]
    order = range(problem.n)
    over: list[tuple[int, int, tuple[Group, ...]]] = []
    fits = False
    for at, (_, made) in enumerate(groupings(problem, assignment, order)):
        try:
            hetsim.simulate(Plan(problem, "any", made))
            fits = True
        except OutOfMemory as error:
            over.append((error.over_bytes, at, made))
    if fits:
        groups, _ = best_grouping(problem, assignment, order)
        hetsim.simulate(Plan(problem, "any", groups))
        return
    least, _, closest = min(over)
    with pytest.raises(OutOfMemory) as caught:
        best_grouping(problem, assignment, order)
    assert caught.value.over_bytes == least
    assert best_grouping(problem, assignment, order, may_miss=True)[0] == closest
