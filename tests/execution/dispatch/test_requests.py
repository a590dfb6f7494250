"""A request as its caller sees it, and what callers and devices are told of failures."""

from __future__ import annotations

import threading

import pytest

from hetsim.errors import ExecutionError, InvalidInput, OutOfRoom, TimedOut
from hetsim.execution.dispatch.requests import Request
from hetsim.execution.dispatch.transport import kernel_fault


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
