"""Copies, sets of like devices and mixtures: valid, within memory, and what can be worked out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import hetsim
from hetsim.errors import Infeasible, OutOfMemory, UnsupportedNode, UsageError
from hetsim.placement.initial_plans import whole_models
from hetsim.placement.objective import check_room, kept_s, measure
from hetsim.placement.replicas import fitting, on_sets, replicated, with_columns
from hetsim.problem.problem import Problem


def server(gpus: int = 4, **changes: object) -> Problem:
    """A slow host and like GPUs, three nodes of 1 ms in a row."""
    seconds = np.full((3, 1 + gpus), 1e-3)
    seconds[:, 0] = 40e-3
    options: dict[str, object] = {
        "tensors": [(-1, 1000, (0,)), (0, 10**5, (1,)), (1, 10**5, (2,)), (2, 1000, ())],
        "devices": ("cpu", *(f"gpu.{index}" for index in range(gpus))),
        "latency_s": 1e-5,
        "bytes_per_s": 1e10,
        "host": 0,
        "contention": "fifo",
    } | changes
    return Problem.from_arrays(seconds, **options)  # type: ignore[arg-type]


def test_copies_divide_the_time_of_one() -> None:
    problem = server()
    plan = hetsim.plan(problem, "multi")
    assert [replica.devices_used for replica in plan.replicas] == [
        ("gpu.0",), ("gpu.1",), ("gpu.2",), ("gpu.3",),
    ]  # fmt: skip
    assert plan.deal == (0, 1, 2, 3)
    assert measure(plan, "throughput") == pytest.approx(3e-3 / 4)
    best = hetsim.plan(problem, "auto", objective="throughput")
    assert measure(best, "throughput") <= measure(plan, "throughput") * (1 + 1e-12)
    requests = 400
    makespan_s = hetsim.simulate(best, requests, trace=False).makespan_s
    assert makespan_s / requests == pytest.approx(measure(best, "throughput"), rel=0.05)


def test_devices_are_named_as_elsewhere() -> None:
    problem = server()
    assert hetsim.plan(problem, "multi:gpu").devices_used == problem.devices[1:]
    assert hetsim.plan(problem, "multi:gpu.2,gpu.0").devices_used == ("gpu.0", "gpu.2")
    assert hetsim.plan(problem, "multi:gpu.1").replicas[0].devices_used == ("gpu.1",)
    assert hetsim.plan(problem, "multi", max_devices=2).shares == (1, 1)
    for text in ("multi:tpu", "multi:gpu.0,gpu.0", "multi:gpu.0,,cpu"):
        with pytest.raises(UsageError):
            hetsim.plan(problem, text)


def test_a_device_that_lacks_an_op_or_memory_is_left_out_unless_named() -> None:
    seconds = [[4.0, 1.0, np.inf, 1.0]]
    problem = Problem.from_arrays(
        seconds, weight_bytes=[10], capacity_bytes=[10, 10, 10, 9], devices=("a", "b", "c", "d")
    )
    plan = hetsim.plan(problem, "multi")
    assert plan.devices_used == ("a", "b")
    assert dict(zip(plan.devices_used, plan.shares, strict=True)) == {"a": 1, "b": 4}
    with pytest.raises(UnsupportedNode, match="'c' does not support"):
        hetsim.plan(problem, "multi:b,c")
    with pytest.raises(OutOfMemory, match="device 'd'"):
        hetsim.plan(problem, "multi:b,d")
    with pytest.raises(Infeasible):
        hetsim.plan(replace(problem, capacity_bytes=(9, 9, 9, 9)), "multi")


def test_a_model_too_large_for_one_device_runs_on_sets_of_two() -> None:
    """Two pipelines of two, where each device holds two thirds of the weights.

    Two ways to cut among the same two devices do better: the middle node is on both.
    """
    problem = server(weight_bytes=[10**6] * 3, capacity_bytes=[10**4, *[2_400_000] * 4])
    ((size, members),) = on_sets(problem, [])
    assert size == 2
    assert [plan.devices_used for plan in members] == [("gpu.0", "gpu.1"), ("gpu.2", "gpu.3")]
    two = fitting(members, strategy="two", what="")
    assert measure(two, "throughput") == pytest.approx(1e-3, rel=0.01)
    plan = hetsim.plan(problem, "auto", objective="throughput")
    assert len(plan.devices_used) == 4
    assert measure(plan, "throughput") < 0.8e-3
    check_room(plan)


def test_a_device_that_cannot_run_all_helps_beside_copies() -> None:
    """The third device runs the last two nodes of every request that the second cannot take."""
    problem = Problem.from_arrays(
        [[3.0, np.inf], [3.0, 1.0], [3.0, 1.0]], edges=[(0, 1, 0), (1, 2, 0)]
    )
    alone = measure(hetsim.plan(problem, "single"), "throughput")
    plan = hetsim.plan(problem, "auto", objective="throughput")
    assert alone == 9.0
    # A third of the requests whole on the first device would be slower than none.
    assert measure(plan, "throughput") == pytest.approx(3.0)


@pytest.mark.sweep
def test_the_clock_keeps_the_rate_that_is_stated() -> None:
    """Here plans made for prices would block each other's transfers, which cross three links."""
    model = hetsim.load_model("zoo:vgg19")
    problem = hetsim.Problem.of(model, hetsim.load_platform("two-hosts"), cost="roofline")
    copies, _ = whole_models(problem, range(len(problem.devices)))
    pool = [*copies, hetsim.plan(problem, "slice")]
    found = replicated(problem, pool)
    assert found is not None
    requests = 100 * len(found.plan.deal)
    played_s = [
        hetsim.simulate(found.plan, n, trace=False).makespan_s for n in (requests // 2, requests)
    ]
    assert (played_s[1] - played_s[0]) / (requests / 2) <= 1.03 * found.cost
    blocked = fitting(with_columns(problem, pool), strategy="blocked", what="")
    assert kept_s(blocked) > 1.2 * measure(blocked, "throughput")


def test_nodes_that_are_taken_in_a_composite_alone() -> None:
    """No cut knows them, and still there are replicas."""
    inf = float("inf")
    problem = Problem.from_arrays(
        [[1.0, 2.0, 9.0], [inf, inf, inf], [1.0, 1.0, 9.0]],
        edges=[(0, 1, 8), (1, 2, 8)],
        devices=("a", "b", "c"),
        latency_s=0.1,
        bytes_per_s=1e3,
        contention="fifo",
        composites=[(0, (0, 1), 2.0), (1, (0, 1), 3.0)],
    )
    found = hetsim.plan(problem, "auto", objective="throughput")
    found.validate()
    # a and b each run all of it: 3 and 4 seconds a request alone.
    assert measure(found, "throughput") <= 1 / (1 / 3 + 1 / 4) * 1.02
