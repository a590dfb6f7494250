"""Devices that die, hang, run out of memory or fail: detected, got over, recorded, bits kept."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from itertools import product
from typing import Any, Literal

import numpy as np
import onnx
import pytest

import hetsim
from execution.conftest import BRANCHES, Cut, Executor
from hetsim.device.kernels.onnx_runtime import CompiledSubgraph
from hetsim.errors import DeviceLost, ExecutionError, Infeasible
from hetsim.execution.dispatch.device_states import Recovery
from hetsim.execution.program import Program
from hetsim.execution.session import Session
from hetsim.execution.worker import DeviceWorker
from hetsim.graph.inputs.samples import random_inputs
from onnx_builders import assert_bitwise_equal, run_whole
from sweeps import sweep


def check(session: Session, seeds: range) -> None:
    """Requests in flight give the bits of the whole model."""
    model = session.plan.problem.model
    assert model is not None
    requests = [session.run_async(seed=seed, timeout_s=100) for seed in seeds]
    for seed, request in zip(seeds, requests, strict=True):
        assert_bitwise_equal(request.result(), run_whole(model, random_inputs(model, seed)))


def only(session: Session) -> Recovery:
    (recovery,) = session.recoveries
    assert recovery.seconds > 0
    assert recovery.at_s >= 0
    return recovery


@sweep(
    "executor, device",
    quick=[("threads", "cpu"), ("threads", "gpu"), ("ray", "gpu")],
    full=product(["threads", "ray"], ["cpu", "gpu"]),
    indirect=["executor"],
)
def test_a_device_that_dies_is_started_again(
    cut: Cut, diamond: onnx.ModelProto, executor: Executor, device: str
) -> None:
    with Session(cut(diamond, BRANCHES), executor) as session:
        check(session, range(2))
        if executor != "threads":
            before = session.processes()
            os.kill(before[device], signal.SIGKILL)
        else:
            session.inject([hetsim.Failure(device, 0.0, "kill", 0.0)])
        check(session, range(2, 12))
        found = only(session)
        assert (found.device, found.kind, found.how) == (device, "died", "restarted")
        assert found.requests != ()
        if executor != "threads":
            assert session.processes().keys() == before.keys()
            assert session.processes()[device] != before[device]


@sweep(
    "executor, kind",
    quick=[
        ("threads", "kill"),
        ("threads", "hang"),
        ("ray", "hang"),
    ],
    full=product(["threads", "ray"], ["kill", "hang"]),
    indirect=["executor"],
)
def test_others_take_over_where_it_does_not_come_back(
    cut: Cut, diamond: onnx.ModelProto, executor: Executor, kind: Literal["kill", "hang"]
) -> None:
    with Session(cut(diamond, BRANCHES), executor) as session:
        session.inject([hetsim.Failure("gpu", 0.0, kind, {"kill": None, "hang": 0.2}[kind])])
        check(session, range(8))
        found = only(session)
        seen = {"kill": "died", "hang": "hang"}[kind]
        assert (found.device, found.kind, found.how) == ("gpu", seen, "replanned")
        assert "gpu" not in session.processes()
        check(session, range(8, 12))
        assert len(session.recoveries) == 1


def test_another_is_lost_before_others_have_taken_over(
    cut: Cut, diamond: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = DeviceWorker.load

    def slow(worker: DeviceWorker, version: int, program: Program) -> int:
        time.sleep(0.2 * version)
        return load(worker, version, program)

    monkeypatch.setattr(DeviceWorker, "load", slow)
    with Session(cut(diamond, BRANCHES), "threads") as session:
        session.inject([hetsim.Failure("gpu", 0.0), hetsim.Failure("npu", 0.1)])
        check(session, range(8))
        assert {(one.device, one.how) for one in session.recoveries} == {
            ("gpu", "replanned"), ("npu", "replanned")
        }  # fmt: skip


@sweep("executor", quick=["threads"], full=["threads", "ray"], indirect=True)
def test_a_call_that_takes_too_long_is_a_device_that_hangs(
    cut: Cut, diamond: onnx.ModelProto, executor: Executor
) -> None:
    with Session(cut(diamond, BRANCHES), executor, hang_s=0.3) as session:
        session.inject([hetsim.Failure("npu", 0.0, "hang", 1000.0)])
        check(session, range(4))
        found = only(session)
        assert (found.device, found.kind, found.how) == ("npu", "hang", "replanned")


class Faulty:
    """Makes the runs of one subgraph raise, as often as asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, output: str, what: str, times: int) -> None:
        self.left = times
        run = CompiledSubgraph.run

        def failing(compiled: CompiledSubgraph, inputs: Any) -> Any:
            if compiled.output_names == (output,) and self.left:
                self.left -= 1
                raise ExecutionError(what)
            return run(compiled, inputs)

        monkeypatch.setattr(CompiledSubgraph, "run", failing)


MEMORY = "Failed to allocate memory for requested buffer of size 123456789"


@pytest.mark.parametrize(
    ("what", "kind", "how"),
    [("a passing fault", "kernel", "repeated"), (MEMORY, "out of memory", "restarted")],
)
def test_an_exception_that_passes_is_got_over(
    cut: Cut, diamond: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch,
    what: str, kind: str, how: str,
) -> None:  # fmt: skip
    Faulty(monkeypatch, "d", what, 1)
    with Session(cut(diamond, BRANCHES), "threads") as session:
        check(session, range(6))
        found = only(session)
        assert (found.device, found.kind, found.how) == ("npu", kind, how)


@pytest.mark.parametrize("what", ["a lasting fault", MEMORY])
def test_an_exception_that_lasts_is_the_requests(
    cut: Cut, diamond: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    # Twice for an exception, three times for a device: then the request has had its chances.
    Faulty(monkeypatch, "d", what, 3 if what == MEMORY else 2)
    with Session(cut(diamond, BRANCHES), "threads") as session:
        with pytest.raises(ExecutionError, match=what) as caught:
            session.run()
        if what == MEMORY:
            assert isinstance(caught.value, DeviceLost)
            assert (caught.value.device, caught.value.kind) == ("npu", "out of memory")
        check(session, range(4))


@sweep("executor", quick=["threads"], full=["threads", "ray"], indirect=True)
def test_where_nobody_can_take_over_the_error_says_so(
    cut: Cut, diamond: onnx.ModelProto, executor: Executor
) -> None:
    plan = cut(diamond, BRANCHES)
    seconds = np.array(plan.problem.seconds)
    seconds[2, :2] = np.inf
    names = tuple(f"n{k}" for k in range(plan.problem.n))
    plan = replace(plan, problem=replace(plan.problem, seconds=seconds, node_names=names))
    with Session(plan, executor) as session:
        session.inject([hetsim.Failure("npu", 0.0)])
        for _ in range(2):
            with pytest.raises(Infeasible, match="no remaining device can run it") as caught:
                session.run()
            assert caught.value.exit_code == 4
            assert caught.value.where == "node 'n2' (Task)"


@sweep("executor", quick=["threads"], full=["threads", "ray"], indirect=True)
def test_a_run_can_be_given_failures(
    cut: Cut, diamond: onnx.ModelProto, executor: Executor
) -> None:
    result = hetsim.run(
        cut(diamond, BRANCHES), executor=executor, failures=[hetsim.Failure("gpu", 0.0)]
    )
    assert result.bitwise_equal is True
    assert [recovery.how for recovery in result.recoveries] == ["replanned"]
    assert [event.name for event in result.timeline.events if event.kind == "failure"] == ["kill"]
