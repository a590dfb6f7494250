"""Devices as threads of this process."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from hetsim.core.process import begun
from hetsim.errors import DeviceLost, ExecutionError, OutOfRoom
from hetsim.execution.dispatch.dispatcher import Call
from hetsim.execution.dispatch.transport import (
    CallEnded,
    Fault,
    Fetched,
    Loaded,
    Post,
    kernel_fault,
)
from hetsim.execution.program import Program, Step, Timing
from hetsim.execution.worker import DeviceWorker, error_of_device

_GRACE_S = 5.0
"""Seconds for a cancelled thread to end before it is abandoned."""


class ThreadTransport:
    """Workers, one per device, with one thread per stream; values are their own handles."""

    def __init__(self, post: Post, streams: Mapping[str, int]) -> None:
        self._post = post
        self._streams = streams
        self._crews: dict[str, _Crew] = {}
        self._ended: list[_Crew] = []

    def load(self, device: str, incarnation: int, version: int, program: Program) -> None:
        crew = self._crews.get(device)
        if crew is None:
            # Registered before its threads start: an interrupt in between would leave them behind.
            crew = self._crews[device] = _Crew(device, self._streams.get(device, 1))
            crew.begin()
        worker = crew.worker

        def work() -> None:
            error: ExecutionError | None = None
            try:
                worker.load(version, program)
            except Exception as fault:
                error = error_of_device(fault, device)
            self._post(Loaded(device, incarnation, version, error, os.getpid()))

        crew.start(work, "compiling")

    def call(self, call: Call, incarnation: int, step: Step, received: Sequence[Any]) -> None:
        crew, post = self._crews[call.device], self._post

        def work() -> None:
            fault: Fault | None = None
            sent: Mapping[str, Any] = {}
            timing: Timing | None = None
            try:
                found = crew.worker.run(call.version, call.request, call.step, *received)
                timing, sent = found[0], dict(zip(step.sends, found[1:], strict=True))
            except Exception as error:
                fault = kernel_fault(error_of_device(error, call.device))
            if crew.dead:
                where = f"device '{call.device}'"
                died = DeviceLost("its threads died", where=where, device=call.device)
                fault, sent = Fault("died", died), {}
            post(CallEnded(call, incarnation, sent, fault, timing))

        crew.tasks.put(work)

    def forget(self, device: str, version: int, request: int) -> None:
        crew = self._crews.get(device)
        if crew is not None:
            crew.worker.forget(version, request)

    def discard(self, device: str) -> None:
        crew = self._crews.pop(device, None)
        if crew is not None:
            crew.stop()
            self._ended = [old for old in self._ended if old.alive()]
            self._ended.append(crew)

    def harm(self, device: str, kind: Literal["kill", "hang"]) -> None:
        """Make a device die, with its values, or hang."""
        crew = self._crews[device]
        if kind == "hang":
            crew.worker.freeze()
        else:
            crew.dead = True
            crew.worker.cancel()

    def hand(self, value: Any) -> Any:
        return value

    def fetch(self, request: int, handles: Mapping[str, Any]) -> None:
        self._post(Fetched(request, handles))

    def close(self) -> None:
        """End all threads; one in a kernel that does not end is abandoned."""
        for device in tuple(self._crews):
            self.discard(device)
        deadline = time.monotonic() + _GRACE_S
        for crew in self._ended:
            crew.join(deadline)


class _Crew:
    """Worker and its threads."""

    def __init__(self, device: str, streams: int) -> None:
        self.worker = DeviceWorker(device)
        self.tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self.dead = False
        self._device = device
        self._streams = streams
        self._threads: list[threading.Thread] = []

    def begin(self) -> None:
        try:
            for stream in range(self._streams):
                self.start(self._work, str(stream))
        except OutOfRoom as error:
            self.stop()
            raise replace(
                error,
                what=f"cannot start a thread for each of its {self._streams} streams: {error.what}",
                hint=f"{error.hint}, or describe the device with fewer streams",
            ) from error

    def start(self, work: Callable[[], None], what: str) -> None:
        thread = threading.Thread(
            target=work, name=f"hetsim device {self._device} {what}", daemon=True
        )
        self._threads = [old for old in self._threads if old.is_alive()]
        self._threads.append(thread)
        begun(thread, f"device '{self._device}'")

    def stop(self) -> None:
        self.worker.cancel()
        for _ in range(self._streams):
            self.tasks.put(None)

    def alive(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def join(self, deadline: float) -> None:
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, deadline - time.monotonic()))

    def _work(self) -> None:
        while (task := self.tasks.get()) is not None:
            task()
            # A live name would keep the last call's values in memory.
            del task
