"""``slice`` comes near the optima of contiguous stages, and beats them where nodes move freely."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from tarnawski import paper_max_load, read

import hetsim
from builders import dags, problems
from hetsim.errors import UsageError
from hetsim.graph.dag import Dag
from hetsim.placement.slice import depth_first
from hetsim.placement.slice_moves import spread_freely
from hetsim.placement.throughput import max_load
from hetsim.placement.throughput_costs import costs_of
from hetsim.placement.throughput_slices import MOST_BORDERS, cut, segment_loads
from hetsim.problem import Problem, Staging


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
@given(problems(max_nodes=9, max_devices=2))
def test_segment_loads_are_those_of_the_definition(problem: Problem) -> None:
    costs = costs_of(problem)
    order = depth_first(problem.dag.preds, problem.dag.succs)
    table = segment_loads(costs, order)
    for first in range(problem.n):
        for end in range(first + 1, problem.n + 1):
            inside = set(order[first:end])
            for kind in range(len(costs.kinds)):
                fetch = sum(
                    costs.fetch_s[kind, index]
                    for index, (producer, consumers, _) in enumerate(costs.values)
                    if producer not in inside and inside & set(consumers)
                )
                store = sum(
                    costs.store_s[kind, index]
                    for index, (producer, consumers, leaves) in enumerate(costs.values)
                    if producer in inside and (leaves or not inside >= set(consumers))
                )
                compute = costs.dispatch_s[kind] + sum(costs.compute_s[v, kind] for v in inside)
                expected = costs.load(np.array(compute), np.array(fetch), np.array(store))
                assert table[kind, first, end] == pytest.approx(float(expected), abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(problems(max_nodes=10))
def test_free_moves_never_make_the_load_larger(problem: Problem) -> None:
    costs = costs_of(problem)
    found = cut(costs, range(problem.n))
    if found is None:
        return
    left = [list(devices) for devices in costs.kinds]
    start = [0] * problem.n
    for first, end, kind in found.segments:
        device = left[kind].pop(0)
        start[first:end] = [device] * (end - first)
    moved = spread_freely(costs, start, 2000, 1)
    assert all(problem.supported[v, p] for v, p in enumerate(moved))
    if problem.contention == "none":
        assert max_load(problem, moved) <= max_load(problem, start) + 1e-9


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
    plan = hetsim.plan(problem, "slice", orders=1)
    assert len(plan.groups) == 4
    reached = max_load(problem, plan.assignment)
    # A quarter of the work, 7 tensors in and out, and a place that is at most 3 nodes off.
    assert n / 4 <= reached <= n / 4 + 7 * 3 * 0.75 + 3
    costs = costs_of(problem)
    found = cut(costs, range(n))
    assert found is not None
    assert found.bottleneck_s == pytest.approx(reached)


def test_bad_options() -> None:
    with pytest.raises(UsageError, match="0 orders"):
        hetsim.plan(Problem.from_arrays([[1.0]]), "slice", orders=0)
