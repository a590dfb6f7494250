"""``chain-dp`` is exact on chains, and reaches the published latencies."""

from __future__ import annotations

import numpy as np
import pytest

import hetsim
from full_problems import every_plan
from hetsim.errors import UsageError
from hetsim.placement.objective import max_load
from hetsim.problem.problem import Problem
from sweeps import sweep
from tarnawski import paper_latency, read

PUBLISHED = [
    ("latency-layer-bert24_inference", 100.23),
    ("latency-op-bert_l-3_inference", 420.0),
    ("latency-op-bert_l-12_inference", 868.0),
]


@sweep("name, most", quick=PUBLISHED[:1], full=PUBLISHED)
def test_published_latencies(name: str, most: float) -> None:
    workload = read(name)
    plan = hetsim.plan(workload.problem, "chain-dp")
    reached = paper_latency(workload.record, workload.spread(plan.assignment))
    assert reached <= most
    # One contiguous block an accelerator, within its memory.
    blocks = [group.device for group in plan.groups if group.device.startswith("acc")]
    assert len(blocks) == len(set(blocks))
    limit = workload.record["devices"][0]["memory_bytes"]
    used = dict.fromkeys(blocks, 0.0)
    for group in plan.groups:
        if group.device in used:
            for task in group.nodes:
                used[group.device] += sum(
                    workload.record["nodes"][v][2] for v in workload.members[task]
                )
    assert all(nbytes <= limit for nbytes in used.values())
    # Processors of the clock start groups in plan order, those of the paper do not.
    assert hetsim.simulate(plan).latency_s >= reached - 1e-6
    assert hetsim.lower_bound(workload.problem) <= hetsim.simulate(plan).latency_s


def chain(rng: np.random.Generator, count: int) -> Problem:
    n = int(rng.integers(1, 6))
    return Problem.from_arrays(
        rng.integers(1, 20, (n, count)) / 4,
        tensors=[
            (-1, int(rng.integers(0, 9)), (0,)),
            *((u, int(rng.integers(0, 9)), (u + 1,)) for u in range(n - 1)),
            (n - 1, int(rng.integers(0, 9)), ()),
        ],
        latency_s=rng.integers(0, 4, (count, count)) / 4,
        bytes_per_s=2.0 ** rng.integers(0, 3, (count, count)),
        dispatch_s=rng.integers(0, 3, count) / 4,
        host=0,
    )


@sweep("count", quick=[20], full=[20, 80])
def test_chains_equal_brute_force(count: int) -> None:
    rng = np.random.default_rng(count)
    for _ in range(count):
        problem = chain(rng, int(rng.integers(1, 4)))
        best = min(hetsim.simulate(plan).latency_s for plan in every_plan(problem))
        assert hetsim.simulate(hetsim.plan(problem, "chain-dp")).latency_s == best


@pytest.mark.group("machine_code")
def test_throughput_gives_each_device_one_run() -> None:
    problem = Problem.from_arrays(
        [[4.0, 2.0, 4.0]] * 8, edges=[(v, v + 1, 0) for v in range(7)], contention="none"
    )
    plan = hetsim.plan(problem, "chain-dp:throughput")
    assert max_load(problem, plan.assignment) == 8.0
    assert len(plan.groups) == 3
    assert plan.assignment.count(1) == 4


def test_bad_options() -> None:
    problem = Problem.from_arrays([[1.0]])
    with pytest.raises(UsageError, match="did you mean 'latency'"):
        hetsim.plan(problem, "chain-dp:latncy")
    with pytest.raises(UsageError, match="0 orders"):
        hetsim.plan(problem, "chain-dp", orders=0)
