"""Cuts of orders, ideals and runs against every way there is to cut a few nodes."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsim.placement.throughput.costs import Costs, costs_of
from hetsim.placement.throughput.search import cut_stages
from hetsim.placement.throughput.slices import (
    Orders,
    States,
    changed,
    cut,
    depth_first,
    fastest_staged_runs,
)
from hetsim.placement.throughput.stage_moves import LONGEST, MOST_STAGES, Layout, StageMoves
from hetsim.problem.groups import Group
from hetsim.problem.parts import Staging
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from sweeps import examples
from throughput_problems import small, stage_load

INF = float("inf")
seeds = st.integers(0, 10**6)


def segmentations(n: int, kinds: int) -> Iterator[list[tuple[int, int, int]]]:
    """Every way to cut n places into segments, each of a kind."""
    for size in range(1, n + 1):
        for borders in itertools.combinations(range(1, n), size - 1):
            ends = list(itertools.pairwise([0, *borders, n]))
            for chosen in itertools.product(range(kinds), repeat=size):
                yield [(*end, kind) for end, kind in zip(ends, chosen, strict=True)]


def within(segments: list[tuple[int, int, int]], costs: Costs) -> bool:
    used = Counter(kind for *_, kind in segments)
    return all(count <= len(costs.kinds[kind]) for kind, count in used.items())


def loads(segments: list[tuple[int, int, int]], order: list[int], costs: Costs) -> list[float]:
    return [stage_load(costs, kind, set(order[a:b])) for a, b, kind in segments]


@examples(quick=40, full=400)
@given(seeds)
def test_no_way_to_cut_an_order_is_better(seed: int) -> None:
    problem = small(seed, 5)
    costs = costs_of(problem)
    order = depth_first(problem.dag.preds, problem.dag.succs)
    least = min(
        (
            max(loads(segments, order, costs))
            for segments in segmentations(costs.n, len(costs.kinds))
            if within(segments, costs)
        ),
        default=INF,
    )
    found = cut(costs, order)
    if least == INF:
        assert found is None
        return
    assert found is not None
    assert found.bottleneck_s == pytest.approx(least)
    segments = list(found.segments)
    assert [a for a, _, _ in segments] == [0, *(b for _, b, _ in segments[:-1])]
    assert segments[-1][1] == costs.n
    assert within(segments, costs)
    assert max(loads(segments, order, costs)) == pytest.approx(least)
    # A ceiling may be met, not exceeded.
    assert cut(costs, order, None, least * (1 + 1e-12)) is not None
    assert cut(costs, order, None, least * (1 - 1e-9) - 1e-12) is None


def test_states_number_the_multisets_of_kinds() -> None:
    kinds = ((0, 3), (1,), (2, 4, 5))
    states = States.of(kinds)
    assert states.count == States.number(kinds) == 3 * 2 * 4
    seen = set()
    for used in itertools.product(range(3), range(2), range(4)):
        state = sum(count * step for count, step in zip(used, states.stride, strict=True))
        seen.add(state)
        room = [count < len(kind) for count, kind in zip(used, kinds, strict=True)]
        assert states.room[state].tolist() == room
    assert seen == set(range(states.count))
    # Where they would be too many, the last kinds count fewer, or none.
    few = States.of(kinds, 7)
    assert few.count == 6
    assert few.room.any(axis=0).tolist() == [True, True, False]
    fewer = States.of(((0, 1, 2), (3, 4)), 8)
    assert fewer.count == 8
    assert fewer.room[4:, 1].tolist() == [False] * 4
    assert fewer.room[:4, 1].tolist() == [True] * 4


@examples(quick=25, full=250)
@given(seeds)
def test_stages_that_are_cut_cover_all_and_no_worse_than_the_order_of_ids(seed: int) -> None:
    costs = costs_of(small(seed, 6))
    one, more = (cut_stages(costs, count, 7) for count in (1, 9))
    if one is None:
        return
    assert more is not None
    for stages in (one, more):
        assert sorted(v for nodes, _ in stages for v in nodes) == list(range(costs.n))
        devices = [p for _, p in stages]
        assert len(set(devices)) == len(devices)
    kind_of = {p: k for k, devices in enumerate(costs.kinds) for p in devices}
    worst = [max(stage_load(costs, kind_of[p], set(nodes)) for nodes, p in s) for s in (one, more)]
    assert worst[1] <= worst[0] * (1 + 1e-12)
    assert cut_stages(costs, 9, 7) == more


def staged(seed: int) -> Problem:
    """A few nodes on up to three devices that hand tensors over by storing and fetching them."""
    rng = np.random.default_rng(seed)
    n, count = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    seconds = rng.integers(0, 12, (n, count)) / 4
    seconds[:, 1:][rng.random((n, count - 1)) < 0.2] = INF
    tensors = [
        (u, int(rng.integers(0, 9)), [v for v in range(u + 1, n) if rng.random() < 0.5])
        for u in range(n)
    ]
    weights = rng.integers(0, 5, n).tolist()
    total = sum(weights) + sum(nbytes for _, nbytes, _ in tensors)
    room = [total if rng.random() < 0.5 else int(rng.integers(total + 1)) for _ in range(count)]
    return Problem.from_arrays(
        seconds,
        tensors=tensors,
        staging=Staging(
            tuple((rng.integers(0, 3, count) / 8).tolist()),
            tuple((rng.integers(0, 3, count) / 8).tolist()),
        ),
        dispatch_s=(rng.integers(0, 3, count) / 4).tolist(),
        weight_bytes=weights,
        capacity_bytes=[total, *room[1:]],
        host=0 if rng.random() < 0.5 else None,
    )


@examples(quick=40, full=400)
@given(seeds)
def test_no_runs_of_staged_tensors_take_less(seed: int) -> None:
    """A kind that holds all constants may run often on its first device, others once a device."""
    problem = staged(seed)
    costs = costs_of(problem)
    order = list(range(problem.n))
    total = sum(nbytes for nbytes, _ in costs.constants)
    again = [bool(limit >= total) for limit in costs.capacity_bytes]
    least = INF
    for segments in segmentations(problem.n, len(costs.kinds)):
        used = Counter(kind for *_, kind in segments if not again[kind])
        if all(count <= len(costs.kinds[kind]) for kind, count in used.items()):
            least = min(least, sum(loads(segments, order, costs)))
    found = fastest_staged_runs(problem, order)
    if least == INF:
        assert found is None
        return
    assert found is not None
    kind_of = {p: k for k, devices in enumerate(costs.kinds) for p in devices}
    runs = [(a, b, kind_of[p]) for a, b, p in found]
    assert sum(loads(runs, order, costs)) == pytest.approx(least)
    assert [a for a, _, _ in runs] == [0, *(b for _, b, _ in runs[:-1])]
    once = [p for *_, p in found if not again[kind_of[p]]]
    assert len(set(once)) == len(once)
    assert all(p == costs.kinds[kind_of[p]][0] for *_, p in found if again[kind_of[p]])


def test_streams_run_what_does_not_wait_side_by_side() -> None:
    """A run takes its longest path, or what the streams need for all of it."""
    for edges, seconds in (
        ([(0, 1, 0), (1, 2, 0), (2, 3, 0)], 4.0),
        ([(0, 3, 0), (1, 3, 0), (2, 3, 0)], 2.0),
        ([], 2.0),
    ):
        problem = Problem.from_arrays(
            [[1.0, 9.0]] * 4, edges, streams=[2, 1], staging=Staging((0.0, 0.0), (0.0, 0.0))
        )
        assert fastest_staged_runs(problem, range(4)) == [(0, 4, 0)]
        other = Problem.from_arrays(
            [[1.0, seconds / 4 - 1e-3]] * 4, edges, streams=[2, 1],
            staging=Staging((0.0, 0.0), (0.0, 0.0)),
        )  # fmt: skip
        # A second device that is a little quicker for all of it takes it.
        assert fastest_staged_runs(other, range(4)) == [(0, 4, 1)]


def test_orders_keep_kernels_together_and_follow_keys_as_far_as_edges_allow() -> None:
    problem = Problem.from_arrays(
        np.ones((5, 2)),
        [(0, 2, 1), (1, 3, 1), (2, 4, 1), (3, 4, 1)],
        composites=[(0, (0, 2), 0.5), (1, (1, 3), 0.5)],
    )
    orders = Orders(costs_of(problem))
    assert orders.dag.n == 3
    found = [orders.spread(parts) for parts in orders.by_rule()]
    assert len(found) == 3
    for order in found:
        place = {v: at for at, v in enumerate(order)}
        assert all(place[u] < place[v] for u, v in problem.dag.edges())
        assert abs(place[0] - place[2]) == abs(place[1] - place[3]) == 1
    # Parts by id: first that of 0 and 2, then of 1 and 3.
    assert found[0] == [0, 2, 1, 3, 4]
    assert orders.spread(orders.by_keys([0.5, 0.2, 0.0])) == [1, 3, 0, 2, 4]
    assert orders.spread(orders.by_keys([0.1, 0.2, 0.0])) == [0, 2, 1, 3, 4]


def test_a_change_gives_few_parts_another_key_and_the_others_keep_theirs() -> None:
    keys = [part / 40 for part in range(40)]
    counts = []
    for seed in range(60):
        made = changed(keys, Random(seed))
        assert made == changed(keys, Random(seed))
        assert len(made) == 40
        differ = [part for part in range(40) if made[part] != keys[part]]
        counts.append(len(differ))
        assert 1 <= len(differ) <= 8
    assert keys == [part / 40 for part in range(40)]
    assert max(counts) > 4
    assert changed([0.5], Random(1)) != [0.5]


def test_chains_that_move_together_overlap_by_half_and_double_in_length() -> None:
    n = 40
    problem = Problem.from_arrays(np.ones((n, 2)), [(v, v + 1, 1) for v in range(n - 1)])
    at, nodes = StageMoves(problem, contiguous=True)._bundles
    found = [tuple(nodes[a:b].tolist()) for a, b in itertools.pairwise(at.tolist())]
    expected = []
    length = 2
    while length <= min(LONGEST, n // 2):
        expected += [
            tuple(range(first, first + length))
            for first in range(0, n, length // 2)
            if first + length <= n
        ]
        length *= 2
    assert found == expected


def test_a_plan_of_too_many_subgraphs_is_no_layout() -> None:
    n = MOST_STAGES
    problem = Problem.from_arrays(
        np.ones((n, 2)), [(v, v + 1, 1) for v in range(n - 1)], dispatch_s=0.25
    )
    moves = StageMoves(problem, contiguous=False)
    for count, there in ((n - 2, True), (n - 1, False)):
        ends = [*range(1, count), n]
        groups = tuple(
            Group(f"d{k % 2}", tuple(range(first, end)))
            for k, (first, end) in enumerate(itertools.pairwise([0, *ends]))
        )
        layout = moves.of_plan(Plan(problem, "many", groups))
        assert (layout is not None) == there
        if layout is not None:
            assert layout.assignment == [k % 2 for k in range(count) for _ in groups[k].nodes]
    one = Plan(problem, "one", (Group("d1", tuple(range(n))),))
    layout = moves.of_plan(one)
    assert layout is not None
    assert set(layout.assignment) == {1}
    assert layout.load_s == n + 0.25
    empty = StageMoves(Problem.from_arrays(np.zeros((0, 2))), contiguous=True)
    assert empty.layout([]) == Layout((), (0, 1), 0.0)
