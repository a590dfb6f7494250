"""Subgraphs of an assignment: the best of the ways by the clock, merged and refined."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from builders import layered, problems
from full_problems import full_problems
from hetsim.core import compile_threshold, deadline
from hetsim.errors import OutOfMemory
from hetsim.graph.dag import topological_order
from hetsim.placement import grouping as merging
from hetsim.placement.grouping import (
    Owned,
    best_grouping,
    groupings,
    merge_where_it_pays,
    refine,
    runs,
)
from hetsim.placement.objective import Objective, latency_of, latency_of_groups, measure
from hetsim.problem.groups import Group
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.problem.validator import check
from oracles.every_plan import tight_problem
from placement_instances import model_like, rows
from sweeps import examples


@examples(quick=20, full=600)
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


pytestmark = pytest.mark.group("machine_code")


def drawn(problem: Problem, data: st.DataObject) -> tuple[Problem, list[int], list[int]]:
    """The problem with room for all, an assignment and an order."""
    problem = replace(problem, capacity_bytes=None, fused=(), staging=None)
    able = [np.flatnonzero(row).tolist() for row in problem.supported]
    assignment = [data.draw(st.sampled_from(devices)) for devices in able]
    order = topological_order(problem.dag.succs, [data.draw(st.floats(0, 1)) for _ in able])
    assert order is not None
    return problem, assignment, order


@examples(quick=15, full=400)
@given(model_like(problems(max_nodes=14)), st.data())
def test_groups_as_arrays_are_those_of_records(problem: Problem, data: st.DataObject) -> None:
    problem, assignment, order = drawn(problem, data)
    groups, _ = best_grouping(problem, assignment, order)
    for thorough in (False, True):
        merged = merge_where_it_pays(problem, groups, thorough=thorough)
        assert latency_of_groups(problem, merged, "") <= latency_of_groups(problem, groups, "")
    owned = Owned.of(problem, groups)
    assert owned.groups(problem) == groups
    assert owned.first_nodes() == [group.nodes[0] for group in groups]
    assert owned.latency_s(problem, "same") == latency_of_groups(problem, groups, "same")
    assert owned.seconds(problem).tolist() == [
        problem.group_seconds(problem.device_index(group.device), group.nodes) for group in groups
    ]


@examples(quick=15, full=200)
@given(problems(max_nodes=14), st.data())
def test_runs_are_the_same_by_machine_code(problem: Problem, data: st.DataObject) -> None:
    problem, assignment, order = drawn(problem, data)
    for cut_at_exits in (True, False):
        found = []
        for which in (True, False):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(compile_threshold, "pays", lambda *_, way=which: way)
                found.append(runs(problem.dag, assignment, order, cut_at_exits=cut_at_exits))
        assert found[0].tolist() == found[1].tolist()


@examples(quick=20, full=60)
@given(problems(max_nodes=10), st.sampled_from(["latency", "throughput"]))
def test_never_worse_and_valid(problem: Problem, objective: Objective) -> None:
    plan = hetsim.plan(problem, "hetero")
    cost = measure(plan, objective)
    refined = refine(plan, objective, cost)
    refined.validate()
    assert measure(refined, objective) <= cost
    assert (refined.strategy, refined.reason) == (plan.strategy, plan.reason)


def chain(nbytes: list[int]) -> Problem:
    """Four nodes in a row; the last two are much faster on d1, the second runs anywhere."""
    return Problem.from_arrays(
        [[1.0, 9.0], [1.0, 1.0], [9.0, 1.0], [9.0, 1.0]],
        edges=[(v, v + 1, size) for v, size in enumerate(nbytes)],
        bytes_per_s=1.0,
    )


def test_the_border_moves_to_where_little_crosses() -> None:
    problem = chain([1, 20, 1])
    plan = Plan(problem, "own", (Group("d0", (0, 1)), Group("d1", (2, 3))), "cut at the wide one")
    assert measure(plan, "latency") == 24.0
    refined = refine(plan, "latency", 24.0)
    assert refined.groups == (Group("d0", (0,)), Group("d1", (1, 2, 3)))
    assert measure(refined, "latency") == 5.0
    # Where it is right already nothing changes.
    assert refine(refined, "latency", 5.0).groups == refined.groups


def test_composites_go_whole() -> None:
    inf = float("inf")
    problem = Problem.from_arrays(
        [[1.0, inf], [1.0, inf], [9.0, inf], [9.0, 1.0]],
        edges=[(0, 1, 20), (1, 2, 1), (2, 3, 1)],
        bytes_per_s=1.0,
        composites=[(1, (1, 2), 1.0)],
    )
    plan = Plan(problem, "own", (Group("d0", (0,)), Group("d1", (1, 2, 3))))
    # Without node 2, node 1 would do well on d0.
    cost = measure(plan, "latency")
    assert refine(plan, "latency", cost).groups == plan.groups


@examples(quick=15, full=400)
@given(model_like(problems(max_nodes=5)), st.integers(2, 4), st.randoms(use_true_random=False))
def test_equal_layers_are_never_slower_and_fit_the_memory(
    problem: Problem, times: int, rng: random.Random
) -> None:
    problem = layered(replace(problem, capacity_bytes=None), times)
    groups = tuple(
        Group(problem.devices[rng.choice(np.flatnonzero(able).tolist())], (v,))
        for v, able in enumerate(problem.supported)
    )
    plan = Plan(problem, "own", groups)
    peaks = hetsim.simulate(plan).peak_memory_bytes
    for room in (None, tuple(peaks[name] for name in problem.devices)):
        plan = replace(plan, problem=replace(problem, capacity_bytes=room))
        cost = measure(plan, "latency")
        begun = Owned.of(plan.problem, groups)
        owned, found = merging._with_equal_layers(plan.problem, begun, cost)
        made = replace(plan, groups=owned.groups(plan.problem))
        made.validate()
        # With less memory than it needs it could not be measured.
        assert measure(made, "latency") == found <= cost


def _layers(count: int) -> Problem:
    """Two branches a layer, each quicker on a device of its own; what joins them is for the host.

    The branch for d1 is worth its transfers, which cross twice.
    """
    rows, edges = [[1.0, 1.0]], []
    for _ in range(count):
        before = len(rows) - 1
        rows += [[6.0, 9.0], [9.0, 2.0], [1.0, 5.0]]
        edges += [(before, before + 1, 1), (before, before + 2, 1)]
        edges += [(before + 1, before + 3, 1), (before + 2, before + 3, 1)]
    return Problem.from_arrays(rows, edges=edges, latency_s=0.5, bytes_per_s=2.0, host=0)


@pytest.mark.parametrize("good", range(4))
def test_all_layers_become_as_the_best_of_them(good: int) -> None:
    problem = _layers(4)
    other = 3 * good + 2
    rest = [tuple(range(other)), tuple(range(other + 1, problem.n))]
    groups = Group("d0", rest[0]), Group("d1", (other,)), Group("d0", rest[1])
    plan = Plan(problem, "own", groups)
    cost = measure(plan, "latency")
    refined = refine(plan, "latency", cost)
    refined.validate()
    # What comes before all layers may go to either device.
    assert [v for v, p in enumerate(refined.assignment) if p == 1 and v] == [2, 5, 8, 11]
    # Each layer takes the longer branch and the join, not both branches.
    assert measure(refined, "latency") < cost
    # There is nothing left to gain.
    assert refine(refined, "latency", measure(refined, "latency")).groups == refined.groups


def test_layers_are_left_as_they_are_where_all_are_alike_or_time_is_up() -> None:
    problem = _layers(3)
    plan = Plan(problem, "own", (Group("d0", tuple(range(problem.n))),))
    cost = measure(plan, "latency")
    alike = merging._with_equal_layers(problem, Owned.of(problem, plan.groups), cost)
    assert alike[0].is_like(Owned.of(problem, plan.groups))
    assert alike[1] == cost
    mixed = Plan(
        problem, "own", (Group("d0", (0, 1)), Group("d1", (2,)), Group("d0", tuple(range(3, 10))))
    )
    own = Owned.of(problem, mixed.groups)
    with deadline.until(deadline.now_s()):
        assert merging._with_equal_layers(problem, own, 9.0)[0] is own


@pytest.mark.parametrize("many", [0, 10_000], ids=["batches", "pairs"])
@pytest.mark.parametrize("seed", range(3))
def test_merging_never_hurts(seed: int, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = rows(120, seed, dispatch_s=0.5, contention="fifo")
    groups = tuple(
        Group(f"d{p}", (v,)) for v, p in enumerate(random.Random(seed).choices((0, 1, 2), k=120))
    )
    monkeypatch.setattr(merging, "MANY", many)
    merged = merge_where_it_pays(problem, groups)
    check(problem, merged)
    before = latency_of_groups(problem, groups, "drawn")
    assert latency_of_groups(problem, merged, "merged") <= before
    assert len(merged) < len(groups)
