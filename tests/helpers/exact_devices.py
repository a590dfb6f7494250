"""Devices without time of their own and a clock that is exactly as late as it is told to be."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import pytest

from hetsim.execution.dispatch.dispatcher import Call
from hetsim.execution.dispatch.transport import CallEnded, Fetched, Loaded, Post, Transport
from hetsim.execution.program import Program, Step
from hetsim.execution.worker import DeviceWorker


class ExactClock:
    """Time that stands still until somebody waits."""

    def __init__(self) -> None:
        self._now_s = 0.0
        self._events: collections.deque[tuple[float, object]] = collections.deque()

    def begin(self, scale: float) -> None:
        self._now_s = 0.0

    def now_s(self) -> float:
        return self._now_s

    def post(self, event: object) -> None:
        self._events.append((self._now_s, event))

    def next(self, until_s: float) -> tuple[float, object] | None:
        if self._events:
            return self._events.popleft()
        self._now_s = max(self._now_s, until_s)
        return None

    def await_event(self, deadline_s: float) -> tuple[float, object] | None:
        return self._events.popleft() if self._events else None


class ExactDevices:
    """Real kernels, run as they are called, in no time; fails where a device holds too little."""

    def __init__(self, post: Post, log: list[tuple[str, int]]) -> None:
        self._post = post
        self._log = log
        self._workers: dict[str, DeviceWorker] = {}
        self._open: set[tuple[str, int, int]] = set()

    def load(self, device: str, incarnation: int, version: int, program: Program) -> None:
        worker = self._workers.setdefault(device, DeviceWorker(device))
        worker.load(version, program)
        self._post(Loaded(device, incarnation, version))

    def call(self, call: Call, incarnation: int, step: Step, received: Sequence[Any]) -> None:
        self._open.add((call.device, call.version, call.request))
        self._log.append((call.device, call.request))
        found = self._workers[call.device].run(call.version, call.request, call.step, *received)
        sent = dict(zip(step.sends, found[1:], strict=True))
        self._post(CallEnded(call, incarnation, sent, timing=found[0]))

    def forget(self, device: str, version: int, request: int) -> None:
        self._open.discard((device, version, request))
        self._workers[device].forget(version, request)

    def hand(self, value: Any) -> Any:
        return value

    def fetch(self, request: int, handles: Mapping[str, Any]) -> None:
        self._post(Fetched(request, dict(handles)))

    def discard(self, device: str) -> None:
        raise AssertionError("no device is lost here")

    def harm(self, device: str, kind: Literal["kill", "hang"]) -> None:
        raise AssertionError("no device is harmed here")

    def close(self) -> None:
        assert not self._open, "devices hold what nobody asks for any more"


def exact(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Let workloads be served on exact devices; return device and batch of each call, as it is."""
    from hetsim.execution.serving import player

    log: list[tuple[str, int]] = []

    @contextmanager
    def transports(*_: object) -> Iterator[Callable[[Post], Transport]]:
        yield lambda post: ExactDevices(post, log)

    monkeypatch.setattr(player, "transports", transports)
    monkeypatch.setattr(player, "WallClock", ExactClock)
    return log
