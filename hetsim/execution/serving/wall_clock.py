"""The time of a run under load: real, and what devices tell with when they told it."""

from __future__ import annotations

import queue
import time
from typing import Protocol

from hetsim.execution.dispatch.waiting import next_of


class Clock(Protocol):
    """Time as a player sees it: seconds of the workload since the run began."""

    def begin(self) -> None:
        """Let it be 0 now."""

    def now_s(self) -> float:
        """Return what time it is."""

    def post(self, event: object) -> None:
        """Take an event, on any thread, with the time."""

    def next(self, until_s: float) -> tuple[float, object] | None:
        """Wait for an event; return it with its time, or None once it is `until_s`."""


class WallClock:
    """Real time.

    Parameters
    ----------
    scale : float
        Real seconds that a second of the workload lasts.
    """

    def __init__(self, scale: float) -> None:
        self._scale = scale
        self._zero = time.monotonic()
        self._events: queue.SimpleQueue[tuple[float, object]] = queue.SimpleQueue()

    def begin(self) -> None:
        """Let it be 0 now."""
        self._zero = time.monotonic()

    def now_s(self) -> float:
        """Return what time it is."""
        return (time.monotonic() - self._zero) / self._scale

    def post(self, event: object) -> None:
        """Take an event, on any thread, with the time."""
        self._events.put((time.monotonic(), event))

    def next(self, until_s: float) -> tuple[float, object] | None:
        """Wait for an event; return it with its time, or None once it is `until_s`."""
        came = self.await_event(self._zero + until_s * self._scale)
        return None if came is None else ((came[0] - self._zero) / self._scale, came[1])

    def await_event(self, deadline_s: float) -> tuple[float, object] | None:
        """Do the same by the monotonic clock."""
        try:
            return next_of(self._events, deadline_s - time.monotonic())
        except queue.Empty:
            return None
