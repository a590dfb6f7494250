"""Plans in real time: nothing is faster than its model, and outputs are those of the model."""

from __future__ import annotations

import pytest

import hetsim
from builders import BOX
from hetsim.errors import ExecutionError, UsageError
from hetsim.execution.emulation import emulate
from hetsim.execution.transports.ray_connection import RayConnection
from hetsim.problem.plan import Plan


def split_plan(model: str = "zoo:squeezenet") -> Plan:
    problem = hetsim.Problem.of(hetsim.load_model(model), hetsim.load_platform(BOX))
    return hetsim.plan(problem, "hetero:npu,dsp,cpu")


def test_requests_overlap_and_none_is_early() -> None:
    plan = split_plan()
    scale = 0.2 / hetsim.simulate(plan).latency_s
    done = emulate(plan, executor="threads", requests=4, time_scale=scale)
    assert done.time_scale == scale
    assert done.bitwise_equal
    assert len(done.outputs) == len(done.wall_s) == 4
    for measured, predicted in zip(done.wall_s, done.predicted.latencies_s, strict=True):
        assert measured >= 0.999 * predicted * scale
    assert done.latency_s == pytest.approx(done.wall_s[0] / scale)


@pytest.mark.sweep
def test_links_hold_their_time_too() -> None:
    plan = split_plan("zoo:bert_small")
    slow = emulate(plan, executor="threads", time_scale=0.1 / hetsim.simulate(plan).latency_s)
    assert slow.bitwise_equal
    assert slow.predicted.transfer_s > 0
    assert slow.latency_s >= 0.999 * slow.predicted.latency_s


def test_a_scale_is_found_where_none_is_given() -> None:
    plan = split_plan()
    done = emulate(plan, executor="threads", verify=False)
    assert done.bitwise_equal is None
    assert done.wall_s[0] >= 0.999
    assert done.time_scale * done.predicted.latency_s >= 0.999


@pytest.mark.sweep
def test_on_ray(ray_connection: RayConnection) -> None:
    plan = split_plan()
    scale = 0.3 / hetsim.simulate(plan).latency_s
    done = emulate(plan, requests=2, time_scale=scale)
    assert done.bitwise_equal
    assert done.makespan_s >= 0.999 * done.predicted.makespan_s


@pytest.mark.parametrize("scale", [0.0, -1.0, float("inf"), float("nan")])
def test_a_scale_that_makes_no_sense(scale: float) -> None:
    with pytest.raises(UsageError, match=r"time_scale is .*; use a positive number"):
        emulate(split_plan(), time_scale=scale)


def test_a_run_that_takes_longer_than_its_timeout() -> None:
    plan = split_plan()
    with pytest.raises(ExecutionError, match=r"longer than its timeout of 5 s"):
        emulate(plan, executor="threads", time_scale=1e6, timeout_s=5.0)


def test_a_device_that_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    from hetsim.execution.worker import DeviceWorker

    def refuse(*_: object) -> int:
        raise ExecutionError("no")

    monkeypatch.setattr(DeviceWorker, "load", refuse)
    with pytest.raises(ExecutionError, match="no"):
        emulate(split_plan(), executor="threads", time_scale=1.0)
