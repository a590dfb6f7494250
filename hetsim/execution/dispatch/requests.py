"""Requests of a session, events of its loop, and timers."""

from __future__ import annotations

import heapq
import itertools
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from hetsim.core import checks
from hetsim.core.process import refuse_child
from hetsim.errors import (
    HetsimError,
    TimedOut,
)
from hetsim.execution.dispatch.dispatcher import Call

Item = TypeVar("Item")


def next_of(events: queue.SimpleQueue[Item], wait_s: float) -> Item:
    """Return the next event, within `wait_s` seconds. Raises ``Empty`` without one.

    CPython's ``get`` with a timeout waits in full if its lock is free, as after each event, and
    does not run until its time is over. A non-blocking attempt first leaves the lock taken.
    """
    try:
        return events.get_nowait()
    except queue.Empty:
        if wait_s <= 0:
            raise
    return events.get(timeout=min(wait_s, threading.TIMEOUT_MAX))


class Request:
    """Future of ``run_async``: the outputs of a request.

    Attributes
    ----------
    request_id : int
        Number, ascending in order of submission.
    wall_s : float or None
        Real seconds from submission to the outputs; None before, and if it failed.
    """

    def __init__(
        self,
        request_id: int,
        cancel: Callable[[int], None],
        finish: Callable[[dict[str, Any]], dict[str, Any]],
    ) -> None:
        self.request_id = request_id
        self.wall_s: float | None = None
        self._owner = os.getpid()
        self._cancel = cancel
        self._finish = finish
        self._future: Future[dict[str, Any]] = Future()

    def result(self, timeout_s: float | None = None) -> dict[str, Any]:
        """Wait for the outputs; return them by name in the model's order.

        Parameters
        ----------
        timeout_s : float, optional
            Maximum seconds to wait; the request continues after that.

        Raises
        ------
        InvalidInput
            If `timeout_s` is not a valid time.
        TimedOut
            If it is not done in time; names the devices that did not answer.
        Cancelled
            If it was cancelled.
        DeviceLost
            If it is lost: its devices failed more often while running it than
            ``Session(max_losses=)`` allows. A TimedOut if they hung.
        ExecutionError
            If it failed.
        Infeasible
            If no remaining device can run it.
        UsageError
            If it is under way in the parent of this forked process.
        """
        if timeout_s is not None:
            checks.number(least=0, most=threading.TIMEOUT_MAX)(timeout_s, "timeout_s")
        if not self.done():
            refuse_child(self._owner, "the session of this request")
        try:
            return self._future.result(timeout_s)
        except TimeoutError:
            raise TimedOut(
                f"request {self.request_id} is not done after {timeout_s:g} s",
                hint="wait longer, or cancel it",
                timeout_s=timeout_s or 0.0,
            ) from None

    def done(self) -> bool:
        """Return whether it has its outputs, or an error."""
        return self._future.done()

    def cancel(self) -> None:
        """Cancel it unless done; ``result`` then raises Cancelled."""
        if not self.done():
            refuse_child(self._owner, "the session of this request")
            self._cancel(self.request_id)

    def when_done(self, call: Callable[[], object]) -> None:
        """Call `call`, on any thread, once it is done."""
        self._future.add_done_callback(lambda _: call())

    def succeed(self, outputs: Mapping[str, Any], wall_s: float) -> None:
        """Record its outputs."""
        self.wall_s = wall_s
        known = self._finish(dict(outputs))
        # It holds the inputs, which are no longer needed.
        self._finish = dict
        self._future.set_result(known)

    def fail(self, error: HetsimError) -> None:
        """Record its error."""
        self._future.set_exception(error)


_FEW = 256


@dataclass(frozen=True, slots=True)
class Submit:
    """Request from a caller."""

    request: Request
    inputs: Mapping[str, Any]
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Expired:
    """Timeout of a request or, with its incarnation, of a call."""

    request: int
    call: Call | None = None
    incarnation: int = -1


@dataclass(frozen=True, slots=True)
class Close:
    """End of requests."""


class Alarms:
    """Timer events."""

    def __init__(self, awaited: Callable[[object], bool]) -> None:
        self._awaited = awaited
        self._heap: list[tuple[float, int, object]] = []
        self._ticks = itertools.count()
        self._size = _FEW

    def __len__(self) -> int:
        return len(self._heap)

    def at(self, when: float, event: object) -> None:
        """Schedule an event at a time of the monotonic clock. O(log n), amortised."""
        if len(self._heap) > self._size:
            self._heap = [entry for entry in self._heap if self._awaited(entry[2])]
            heapq.heapify(self._heap)
            self._size = max(_FEW, 2 * len(self._heap))
        heapq.heappush(self._heap, (when, next(self._ticks), event))

    def next(self, events: queue.SimpleQueue[object]) -> object | None:
        """Wait for the next of `events` or timer event; None if neither came."""
        if not self._heap:
            return events.get()
        wait = self._heap[0][0] - time.monotonic()
        if wait <= 0:
            return heapq.heappop(self._heap)[2]
        try:
            return next_of(events, wait)
        except queue.Empty:
            return None
