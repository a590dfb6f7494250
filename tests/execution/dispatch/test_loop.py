"""The loop of a session, on a transport that answers at once or not at all: what an event does."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from hetsim.errors import ExecutionError, TimedOut, UsageError
from hetsim.execution.dispatch.device_states import RecoveryPolicy
from hetsim.execution.dispatch.dispatcher import Call
from hetsim.execution.dispatch.loop import SessionLoop
from hetsim.execution.dispatch.requests import Request
from hetsim.execution.dispatch.transport import CallEnded, Fetched, Loaded, Lost, Post
from hetsim.execution.program import ProgramSubgraph, Step, Timing, steps_of
from session_parts import PARTS, program

_LONG_S = 60.0


class Devices:
    """A transport whose devices double what they are given, on the thread that calls it."""

    def __init__(self, post: Post) -> None:
        self.post = post
        self.quiet: set[str] = set()
        self.held: list[CallEnded] = []
        self.holds = False
        self.error: Exception | None = None
        self.told: list[tuple[object, ...]] = []
        self.harmed = threading.Event()
        self.called = threading.Event()
        self.closed = 0

    def load(self, device: str, incarnation: int, version: int, program: object) -> None:
        self.told.append(("load", device, incarnation, version))
        if device not in self.quiet:
            self.post(Loaded(device, incarnation, version, process=7 + incarnation))

    def call(self, call: Call, incarnation: int, step: Step, received: Sequence[Any]) -> None:
        if self.error is not None:
            raise self.error
        made = dict.fromkeys(step.sends, 2 * sum(received))
        ended = CallEnded(call, incarnation, made, None, Timing(0.0, ((0.0, 1.0),)))
        if self.holds:
            self.held.append(ended)
        else:
            self.post(ended)
        self.called.set()

    def forget(self, device: str, version: int, request: int) -> None: ...

    def discard(self, device: str) -> None:
        self.told.append(("discard", device))

    def harm(self, device: str, kind: str) -> None:
        self.told.append(("harm", device, kind))
        self.harmed.set()

    def hand(self, value: Any) -> Any:
        return value

    def fetch(self, request: int, handles: Mapping[str, Any]) -> None:
        self.post(Fetched(request, dict(handles)))

    def close(self) -> None:
        self.closed += 1


class Running:
    """A loop with its devices, and requests to it."""

    def __init__(
        self,
        parts: Sequence[ProgramSubgraph],
        outputs: Sequence[str],
        policy: RecoveryPolicy,
        before: Callable[[Devices], object],
    ) -> None:
        made = program(steps_of(parts, outputs), outputs)
        self.loop = SessionLoop(made, self._connect, dict.fromkeys("abc", 1), policy)  # type: ignore[arg-type]
        before(self.devices)
        self._next = 0

    def _connect(self, post: Post) -> Devices:
        self.devices = Devices(post)
        return self.devices

    def submit(self, value: int, timeout_s: float = _LONG_S) -> Request:
        request = Request(self._next, self.loop.cancel, dict)
        self._next += 1
        self.loop.submit(request, {"in0": value}, timeout_s)
        return request


@contextlib.contextmanager
def running(
    before: Callable[[Devices], object] = lambda devices: None,
    *,
    parts: Sequence[ProgramSubgraph] = PARTS,
    outputs: Sequence[str] = ("y",),
    policy: RecoveryPolicy | None = None,
) -> Iterator[Running]:
    made = Running(parts, outputs, policy or RecoveryPolicy(timeout_s=_LONG_S), before)
    try:
        made.loop.start()
        yield made
    finally:
        made.loop.close()
        assert made.devices.closed == 1
        assert not made.loop._thread.is_alive()


def test_a_device_that_does_not_start_is_named() -> None:
    with (
        pytest.raises(TimedOut, match=r"'b' did not answer within 0\.5 s") as caught,
        running(lambda devices: devices.quiet.add("b"), policy=RecoveryPolicy(timeout_s=0.5)),
    ):
        pass
    assert "compiling subgraphs" in str(caught.value)
    assert caught.value.devices[-1] == "b"


@pytest.mark.parametrize("how", ["lost", "raised", "no memory"])
def test_what_ends_a_session_is_what_all_requests_are_told(how: str) -> None:
    with running() as session:
        session.devices.holds = True
        waiting = session.submit(1)
        assert session.devices.called.wait(_LONG_S)
        said = {"lost": "all is gone", "raised": "the session ended: ValueError: odd"}
        if how == "lost":
            session.loop._events.put(Lost(ExecutionError("all is gone")))
        else:
            session.devices.error = ValueError("odd") if how == "raised" else MemoryError()
            session.submit(2)
            session.loop._events.put(session.devices.held[0])
        with pytest.raises(ExecutionError, match=said.get(how, "memory")):
            waiting.result(_LONG_S)
        # Those that come after that are told the same.
        with pytest.raises(ExecutionError, match=said.get(how, "memory")):
            session.submit(3).result(_LONG_S)


def test_requests_under_way_end_with_the_session() -> None:
    with running() as session:
        session.devices.holds = True
        waiting = session.submit(1)
        assert session.devices.called.wait(_LONG_S)
        session.loop.close()
        session.devices.closed -= 1
    with pytest.raises(UsageError, match="the session is closed"):
        waiting.result(_LONG_S)
