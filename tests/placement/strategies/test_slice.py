"""``slice`` comes near the optima of contiguous stages, and beats them where nodes move freely."""

from __future__ import annotations

import pytest

import hetsim
from hetsim.errors import UsageError
from hetsim.placement.objective import bottleneck
from hetsim.problem.problem import Problem
from sweeps import sweep
from tarnawski import paper_max_load, read

PUBLISHED = [
    ("throughput-layer-bert24_inference", 17.790),
    ("throughput-layer-gnmt_inference", 32.911),
    ("throughput-layer-resnet50_inference", 33.775),
    ("throughput-op-bert_l-3_inference", 27.919),
    ("throughput-op-bert_l-12_inference", 147.478),
    ("throughput-layer-inceptionv3_inference", 51.552),
]


@sweep("name, optimum", quick=PUBLISHED[:2], full=PUBLISHED)
def test_contiguous_within_five_percent(name: str, optimum: float) -> None:
    workload = read(name)
    plan = hetsim.plan(workload.problem, "slice", orders=10)
    reached = paper_max_load(workload.record, workload.spread(plan.assignment))
    assert optimum - 1e-3 <= reached <= 1.05 * optimum
    assert len(plan.groups) == len(plan.devices_used)


@pytest.mark.sweep
def test_free_moves_beat_contiguous_stages() -> None:
    workload = read("throughput-op-bert_l-3_inference")
    plan = hetsim.plan(workload.problem, "slice", contiguous=False)
    assert paper_max_load(workload.record, workload.spread(plan.assignment)) <= 23.0
    assert hetsim.simulate(plan).latency_s > 0
    again = hetsim.plan(workload.problem, "slice", contiguous=False)
    assert again.assignment == plan.assignment


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


def test_bad_options() -> None:
    with pytest.raises(UsageError, match="0 orders"):
        hetsim.plan(Problem.from_arrays([[1.0]]), "slice", orders=0)
