"""``slice`` comes near the optima of contiguous stages, and beats them where nodes move freely."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hetsim
from builders import dags
from hetsim.errors import UsageError
from hetsim.graph.dag import Dag
from hetsim.placement.listing.ranks import depth_first
from hetsim.placement.objective import bottleneck, max_load
from hetsim.placement.throughput.costs import costs_of
from hetsim.placement.throughput.search import as_plan
from hetsim.placement.throughput.slices import MOST_BORDERS, States, cut, segment_loads
from hetsim.placement.throughput.stage_moves import StageMoves
from hetsim.problem.parts import Staging
from hetsim.problem.problem import Problem
from sweeps import examples
from tarnawski import paper_max_load, read
from throughput_problems import small, stage_load


@pytest.mark.parametrize(
    ("name", "optimum"),
    [
        ("throughput-layer-bert24_inference", 17.790),
        ("throughput-layer-gnmt_inference", 32.911),
        ("throughput-layer-resnet50_inference", 33.775),
        ("throughput-op-bert_l-3_inference", 27.919),
        ("throughput-op-bert_l-12_inference", 147.478),
        ("throughput-layer-inceptionv3_inference", 51.552),
    ],
)
def test_contiguous_within_five_percent(name: str, optimum: float) -> None:
    workload = read(name)
    plan = hetsim.plan(workload.problem, "slice", orders=10)
    reached = paper_max_load(workload.record, workload.spread(plan.assignment))
    assert optimum - 1e-3 <= reached <= 1.05 * optimum
    assert len(plan.groups) == len(plan.devices_used)


def test_free_moves_beat_contiguous_stages() -> None:
    workload = read("throughput-op-bert_l-3_inference")
    plan = hetsim.plan(workload.problem, "slice", contiguous=False)
    assert paper_max_load(workload.record, workload.spread(plan.assignment)) <= 23.0
    assert hetsim.simulate(plan).latency_s > 0
    again = hetsim.plan(workload.problem, "slice", contiguous=False)
    assert again.assignment == plan.assignment


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_segment_loads_are_those_of_the_definition(seed: int) -> None:
    problem = small(seed, 8)
    costs = costs_of(problem)
    order = depth_first(problem.dag.preds, problem.dag.succs)
    table = segment_loads(costs, order)
    for first, end in itertools.combinations(range(problem.n + 1), 2):
        for kind in range(len(costs.kinds)):
            expected = stage_load(costs, kind, set(order[first:end]))
            assert table[kind, first, end] == pytest.approx(expected, abs=1e-9)


@examples(quick=30, full=60)
@given(st.integers(0, 10**6))
def test_no_stage_costs_less_than_its_segment(seed: int) -> None:
    """Of the clock's load of a device and of the links at its door, whatever the others are."""
    problem = small(seed, 7)
    costs = costs_of(problem)
    moves = StageMoves(problem, contiguous=True)
    rng = np.random.default_rng(seed)
    kind_of = {device: k for k, devices in enumerate(costs.kinds) for device in devices}
    for _ in range(20):
        border = np.sort(rng.integers(0, problem.n + 1, len(problem.devices) - 1))
        ends = [0, *(int(b) for b in border), problem.n]
        assignment = np.zeros(problem.n, dtype=np.int64)
        table = segment_loads(costs, range(problem.n))
        least = 0.0
        for p, (first, end) in enumerate(itertools.pairwise(ends)):
            assignment[first:end] = p
            if first < end:
                least = max(least, float(table[kind_of[p], first, end]))
        assert least <= moves.layout([int(p) for p in assignment]).load_s * (1 + 1e-12)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_moves_count_as_the_clock_does_and_never_lose(seed: int, contiguous: bool) -> None:
    problem = small(seed, 9)
    moves = StageMoves(problem, contiguous=contiguous)
    start = moves.layout([int(row.argmax()) for row in problem.runnable])
    found = moves.improved(start, 500, seed)
    assert found.load_s <= start.load_s
    for layout in (start, found):
        if layout.load_s == float("inf"):
            continue
        plan = as_plan(moves, "moved", layout, "")
        plan.validate()
        assert all(problem.runnable[v, p] for v, p in enumerate(plan.assignment))
        roomy = replace(problem, capacity_bytes=None)
        assert bottleneck(replace(plan, problem=roomy)) == pytest.approx(layout.load_s)


@pytest.mark.group("machine_code")
def test_stages_may_return_to_a_device() -> None:
    # The ends suit d0, the middle d1: contiguous stages take 24 or more, others 9.
    problem = Problem.from_arrays(
        [[3.0, 20.0], [20.0, 8.0], [3.0, 20.0]],
        edges=[(0, 1, 1), (1, 2, 1)],
        bytes_per_s=1.0,
        dispatch_s=1.0,
        contention="fifo",
    )
    plan = hetsim.plan(problem, "slice", contiguous=False)
    assert plan.assignment == (0, 1, 0)
    assert bottleneck(plan) == 9.0
    assert bottleneck(hetsim.plan(problem, "slice")) == 24.0


@settings(max_examples=100, deadline=None)
@given(dags())
def test_depth_first_is_a_topological_order(dag: Dag) -> None:
    for order in (
        depth_first(dag.preds, dag.succs),
        depth_first(dag.succs, dag.preds)[::-1],
    ):
        place = {node: at for at, node in enumerate(order)}
        assert sorted(order) == list(range(dag.n))
        assert all(place[u] < place[v] for u, v in dag.edges())


def test_long_orders_are_cut_at_fewer_places() -> None:
    n = 2 * MOST_BORDERS + 37
    problem = Problem.from_arrays(
        np.ones((n, 4)),
        tensors=[(v, 3, (v + 1, min(v + 7, n - 1))) for v in range(n - 1)],
        staging=Staging((0.5,) * 4, (0.25,) * 4),
    )
    plan = hetsim.plan(problem, "slice", orders=1, moves=0)
    assert len(plan.groups) == 4
    reached = max_load(problem, plan.assignment)
    # A quarter of the work, 7 tensors in and out, and a place that is at most 3 nodes off.
    assert n / 4 <= reached <= n / 4 + 7 * 3 * 0.75 + 3
    costs = costs_of(problem)
    found = cut(costs, range(n))
    assert found is not None
    assert found.bottleneck_s == pytest.approx(reached)


def test_very_many_unlike_devices_are_counted_in_part() -> None:
    kinds = [(p,) for p in range(40)]
    states = States.of(kinds)
    assert States.number(kinds) == 2**40
    assert states.count == 1024
    assert states.room.any(axis=0).tolist() == [p < 10 for p in range(40)]
    rng = np.random.default_rng(5)
    problem = Problem.from_arrays(rng.uniform(1.0, 9.0, (30, 40)))
    plan = hetsim.plan(problem, "slice", orders=2, moves=20_000)
    assert max_load(problem, plan.assignment) < max_load(problem, [0] * 30) / 4


def test_bad_options() -> None:
    with pytest.raises(UsageError, match="0 orders"):
        hetsim.plan(Problem.from_arrays([[1.0]]), "slice", orders=0)
