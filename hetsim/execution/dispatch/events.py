"""What callers and time tell the loop of a session; what devices tell is in ``transport``."""

from __future__ import annotations

import heapq
import itertools
import queue
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hetsim.errors import ExecutionError
from hetsim.execution.dispatch.dispatcher import Call
from hetsim.execution.dispatch.requests import Request
from hetsim.execution.dispatch.waiting import next_of
from hetsim.workloads.failure import Failure

_FEW = 256


@dataclass(frozen=True, slots=True)
class Submit:
    """A caller has a request."""

    request: Request
    inputs: Mapping[str, Any]
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Cancel:
    """A caller gives a request up."""

    request: int


@dataclass(frozen=True, slots=True)
class Inject:
    """Devices are to fail, at times from now."""

    failures: tuple[Failure, ...]


@dataclass(frozen=True, slots=True)
class Harm:
    """It is time for a device to fail."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class Expired:
    """A request or, with its incarnation, a call has had its time."""

    request: int
    call: Call | None = None
    incarnation: int = -1


@dataclass(frozen=True, slots=True)
class Overdue:
    """A device that hangs has done so for as long as its failure says."""

    device: str
    incarnation: int
    error: ExecutionError


@dataclass(frozen=True, slots=True)
class Close:
    """Nothing more is to come."""


class Alarms:
    """Events that come by themselves when their time has come.

    Parameters
    ----------
    awaited : callable
        Whether an event still matters: a long life must not collect those that do not.
    """

    def __init__(self, awaited: Callable[[object], bool]) -> None:
        self._awaited = awaited
        self._heap: list[tuple[float, int, object]] = []
        self._ticks = itertools.count()
        self._size = _FEW

    def __len__(self) -> int:
        return len(self._heap)

    def at(self, when: float, event: object) -> None:
        """Have `event` come at a time of the monotonic clock. O(log n), amortised."""
        if len(self._heap) > self._size:
            self._heap = [entry for entry in self._heap if self._awaited(entry[2])]
            heapq.heapify(self._heap)
            self._size = max(_FEW, 2 * len(self._heap))
        heapq.heappush(self._heap, (when, next(self._ticks), event))

    def next(self, events: queue.SimpleQueue[object]) -> object | None:
        """Wait for the next event of `events` or of time; None where neither came after all."""
        if not self._heap:
            return events.get()
        wait = self._heap[0][0] - time.monotonic()
        if wait <= 0:
            return heapq.heappop(self._heap)[2]
        try:
            return next_of(events, wait)
        except queue.Empty:
            return None
