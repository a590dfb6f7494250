"""A request as its caller sees it, and what callers and devices are told of failures."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import pytest

from hetsim.errors import ExecutionError, InvalidInput, OutOfRoom, TimedOut
from hetsim.execution.dispatch.loop import Request
from hetsim.execution.dispatch.transport import kernel_fault, unanswered


def request_of(cancelled: list[int]) -> Request:
    return Request(7, cancelled.append, lambda outputs: {**outputs, "const": 0})


def test_outputs_come_with_what_its_session_knows() -> None:
    cancelled: list[int] = []
    request = request_of(cancelled)
    called: list[str] = []
    request.when_done(lambda: called.append("before"))
    assert not request.done()
    assert request.wall_s is None
    assert called == []
    request.succeed({"y": 1}, 2.5)
    assert request.done()
    assert called == ["before"]
    request.when_done(lambda: called.append("after"))
    assert called == ["before", "after"]
    assert request.wall_s == 2.5
    for timeout_s in (None, 0, 0.0, 1, threading.TIMEOUT_MAX):
        assert request.result(timeout_s) == {"y": 1, "const": 0}
    # There is nothing left to cancel.
    request.cancel()
    assert cancelled == []


def test_a_request_that_is_over_holds_its_inputs_no_more() -> None:
    class Inputs:
        """Many bytes."""

    inputs = Inputs()
    held = weakref.ref(inputs)

    def finish(outputs: dict[str, Any], kept: Inputs = inputs) -> dict[str, Any]:
        return outputs

    request = Request(0, [].append, finish)
    del inputs, finish
    assert held() is not None
    request.succeed({"y": 1}, 1.0)
    gc.collect()
    assert held() is None
    assert request.result() == {"y": 1}


def test_one_that_failed_raises_its_error_and_has_no_time() -> None:
    cancelled: list[int] = []
    request = request_of(cancelled)
    request.cancel()
    assert cancelled == [7]
    error = ExecutionError("it failed")
    request.fail(error)
    with pytest.raises(ExecutionError, match="it failed") as caught:
        request.result(1.0)
    assert caught.value is error
    assert request.wall_s is None
    assert request.done()


def test_waiting_ends_though_the_request_goes_on() -> None:
    request = request_of([])
    with pytest.raises(TimedOut, match=r"request 7 is not done after 0\.01 s") as caught:
        request.result(0.01)
    assert caught.value.timeout_s == 0.01
    assert not request.done()
    with pytest.raises(TimedOut) as caught:
        request.result(0)
    assert caught.value.timeout_s == 0
    for timeout_s in (-1e-9, float("nan"), float("inf"), "soon", 2 * threading.TIMEOUT_MAX):
        with pytest.raises(InvalidInput, match="timeout_s"):
            request.result(timeout_s)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("devices", "said"),
    [
        (["a"], "device 'a' did not answer within 1.5 s while sleeping"),
        (["a", "b"], "devices 'a', 'b' did not answer within 1.5 s while sleeping"),
    ],
)
def test_devices_that_do_not_answer_are_named(devices: list[str], said: str) -> None:
    error = unanswered(devices, "sleeping", 1.5)
    assert error.what == said
    assert (error.devices, error.timeout_s) == (tuple(devices), 1.5)
    assert error.hint == "allow a longer timeout"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ExecutionError("a node divides by zero"), "kernel"),
        (ExecutionError("memory is read only"), "kernel"),
        (ExecutionError("Failed to allocate memory for requested buffer"), "out of memory"),
        (ExecutionError("std::BAD_ALLOC"), "out of memory"),
        (ExecutionError("CUDA out of memory. Tried to"), "out of memory"),
        (ExecutionError("[Errno 12] Cannot allocate 5 GB"), "out of memory"),
        (OutOfRoom("no room", short_of="memory"), "out of memory"),
        # Whatever it says: it knows what it is short of.
        (OutOfRoom("out of memory", short_of="threads"), "kernel"),
        (OutOfRoom("out of memory", short_of="disk"), "kernel"),
    ],
)
def test_memory_that_ran_out_is_told_apart(error: ExecutionError, kind: str) -> None:
    fault = kernel_fault(error)
    assert (fault.kind, fault.error, fault.values_lost, fault.lost) == (kind, error, False, ())
