"""Sessions: many requests in flight, in order, right to the last bit, and nothing left behind."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import onnx
import pytest

import hetsim
from execution.conftest import BRANCHES, Cut, Executor
from hetsim.errors import (
    Cancelled,
    ExecutionError,
    RequestError,
    TimedOut,
    TooManyInFlight,
    UsageError,
)
from hetsim.execution.session import Session
from hetsim.graph.inputs.samples import random_inputs
from onnx_builders import assert_bitwise_equal, run_whole
from sweeps import sweep


def threads() -> list[str]:
    names = [thread.name for thread in threading.enumerate()]
    # One watches the Ray of all tests.
    return [name for name in names if name.startswith("hetsim") and name != "hetsim ray watch"]


@sweep("executor", quick=["threads"], full=["threads", "ray"], indirect=True)
def test_requests_in_flight_get_their_own_outputs(
    cut: Cut, diamond: onnx.ModelProto, executor: Executor
) -> None:
    plan = cut(diamond, BRANCHES)
    model = plan.problem.model
    assert model is not None
    with hetsim.Session(plan, executor, max_in_flight=4) as session:
        requests = [session.run_async(seed=seed) for seed in range(20)]
        assert [request.request_id for request in requests] == list(range(20))
        for seed, request in enumerate(requests):
            assert_bitwise_equal(request.result(60), run_whole(model, random_inputs(model, seed)))
            assert request.done()
            assert request.wall_s is not None
        assert list(session.run(seed=3)) == ["y", "b"]
        assert session.steps == 5
        assert session.compile_s > 0
        assert session.recoveries == ()
        assert set(session.processes()) == {"cpu", "gpu", "npu"}
    assert threads() == []


def test_there_is_room_for_so_many_and_no_more(cut: Cut, endless: onnx.ModelProto) -> None:
    plan = cut(endless, [("cpu", [0]), ("gpu", [1]), ("cpu", [2])])
    with Session(plan, "threads", max_in_flight=2) as session:
        first, second = session.run_async(), session.run_async()
        with pytest.raises(TooManyInFlight, match="2 requests are in flight") as many:
            session.run_async(wait=False)
        assert many.value.max_in_flight == 2
        entered = threading.Event()
        third: list[Any] = []

        def submit() -> None:
            entered.set()
            third.append(session.run_async())

        thread = threading.Thread(target=submit)
        thread.start()
        entered.wait()
        thread.join(0.2)
        assert third == []
        second.cancel()
        thread.join(30)
        assert third[0].request_id == 2
        with pytest.raises(Cancelled, match="request 1 was cancelled"):
            second.result()
        with pytest.raises(TimedOut, match=r"request 0 is not done after 0\.1 s") as slow:
            first.result(0.1)
        assert slow.value.timeout_s == 0.1
        assert not first.done()
    for request in (first, third[0]):
        with pytest.raises(UsageError, match="closed"):
            request.result()
    assert threads() == []


def test_wrong_use_is_refused(cut: Cut, diamond: onnx.ModelProto) -> None:
    plan = cut(diamond, BRANCHES)
    with pytest.raises(UsageError, match="max_in_flight is 0"):
        Session(plan, "threads", max_in_flight=0)
    with pytest.raises(UsageError, match="hang_s is 0"):
        Session(plan, "threads", hang_s=0)
    with Session(plan, "threads") as session:
        with pytest.raises(RequestError, match="no input 'X'; choose from: x"):
            session.run({"X": np.ones((8, 64), np.float32)})
        with pytest.raises(UsageError, match="timeout"):
            session.run(timeout_s=0)
        with pytest.raises(UsageError, match="did you mean 'gpu'"):
            session.inject([hetsim.Failure("gpus", 0.0)])
    with pytest.raises(UsageError, match="closed"):
        session.run()
    session.close()


def test_a_session_that_cannot_start_leaves_nothing(cut: Cut, diamond: onnx.ModelProto) -> None:
    plan = cut(diamond, BRANCHES)
    assert plan.problem.model is not None
    plan.problem.model.proto.graph.node[3].op_type = "NoSuchOp"
    with pytest.raises(ExecutionError, match="NoSuchOp"):
        Session(plan, "threads")
    deadline = time.monotonic() + 10
    while threads() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert threads() == []
