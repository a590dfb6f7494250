"""What the one thread of a session waits for: events of other threads, and sockets."""

from __future__ import annotations

import collections
import contextlib
import os
import select
import threading
from collections.abc import Callable

_LONGEST_S = 1e6
"""More than the system waits at once; who waits looks at the clock then, and waits on."""

_WOKEN_BYTES = 64


class Inbox:
    """Events in the order in which they came, for one thread.

    That thread reads the sockets of devices itself, when it has nothing else to do: an answer costs
    no other thread, and no switch to it and from it. Any thread may ``put``, ``watch`` and
    ``unwatch``; one alone may ``get``.
    """

    def __init__(self) -> None:
        self._events: collections.deque[object] = collections.deque()
        self._sockets: dict[int, Callable[[], object]] = {}
        self._waking, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        self._poll = select.poll()
        self._poll.register(self._waking, select.POLLIN)
        self._asleep = False
        self._closing = threading.Lock()
        self._closed = False

    def put(self, event: object) -> None:
        """Have an event come."""
        self._events.append(event)
        self._rouse()

    def watch(self, descriptor: int, arrived: Callable[[], object]) -> None:
        """Have `arrived` called, on the thread that gets, whenever there is something to read.

        It must not wait. What it puts comes next.
        """
        self._sockets[descriptor] = arrived
        self._poll.register(descriptor, select.POLLIN)
        self._rouse()

    def unwatch(self, descriptor: int) -> None:
        """Have it called no more; before the descriptor is closed."""
        if self._sockets.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def get(self, wait_s: float | None = None) -> object | None:
        """Wait for the next event; None where none came in so many seconds, or may have come now.

        O(sockets) where it has to wait.
        """
        if not self._events:
            # Said before it is looked again: what comes in between writes to the pipe.
            self._asleep = True
            wait_ms = None if wait_s is None else max(0.0, min(wait_s, _LONGEST_S)) * 1000
            ready = self._poll.poll(0 if self._events else wait_ms)
            self._asleep = False
            for descriptor, _ in ready:
                arrived = self._sockets.get(descriptor)
                if arrived is not None:
                    arrived()
                elif descriptor == self._waking:
                    os.read(self._waking, _WOKEN_BYTES)
        return self._events.popleft() if self._events else None

    def close(self) -> None:
        """Let go of what it waits at; nobody gets from it any more."""
        with self._closing:
            self._closed = True
            for descriptor in (self._waking, self._wake):
                os.close(descriptor)

    def _rouse(self) -> None:
        if self._asleep:
            self._asleep = False
            # A pipe that is full of calls to wake up needs no other.
            with self._closing, contextlib.suppress(BlockingIOError):
                if not self._closed:
                    os.write(self._wake, b"\0")
