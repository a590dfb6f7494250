"""What the one thread of a session waits for: events of other threads, and sockets."""

from __future__ import annotations

import contextlib
import os
import queue
import select
import threading
from collections.abc import Callable

from hetsim.execution.dispatch.waiting import next_of

_LONGEST_S = 1e6
"""More than the system waits at once; who waits looks at the clock then, and waits on."""

_WOKEN_BYTES = 64


class Inbox:
    """Events in the order in which they came, for one thread.

    That thread reads the sockets of devices itself, when it has nothing else to do: an answer costs
    no other thread, and no switch to it and from it. Any thread may ``put``, ``watch`` and
    ``unwatch``; one alone may ``get``. Without sockets it is a queue, on any system.
    """

    def __init__(self) -> None:
        self._events: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._sockets: dict[int, Callable[[], object]] = {}
        self._poll: select.poll | None = None
        self._pipe: tuple[int, int] | None = None
        self._asleep = False

    def put(self, event: object) -> None:
        """Have an event come."""
        self._events.put(event)
        if self._asleep:
            self._rouse()

    def watch(self, descriptor: int, arrived: Callable[[], object]) -> None:
        """Have `arrived` called, on the thread that gets, whenever there is something to read.

        It must not wait. What it puts comes next.
        """
        with self._lock:
            self._sockets[descriptor] = arrived
            first = self._poll is None
            poll = self._poll or self._begin()
            poll.register(descriptor, select.POLLIN)
        if first:
            # Who waits for events alone is to wait for sockets, too.
            self._events.put(None)
        if self._asleep:
            self._rouse()

    def unwatch(self, descriptor: int) -> None:
        """Have it called no more; before the descriptor is closed."""
        with self._lock:
            if self._sockets.pop(descriptor, None) is not None and self._poll is not None:
                self._poll.unregister(descriptor)

    def get(self, wait_s: float | None = None) -> object | None:
        """Wait for the next event; None where none came in so many seconds, or may have come now.

        O(sockets) where it has to wait.
        """
        if self._poll is None:
            try:
                return self._events.get() if wait_s is None else next_of(self._events, wait_s)
            except queue.Empty:
                return None
        if self._events.empty():
            self._read(self._poll, wait_s)
        return None if self._events.empty() else self._events.get_nowait()

    def close(self) -> None:
        """Let go of what it waits at; nobody gets from it any more."""
        with self._lock:
            pipe, self._pipe = self._pipe, None
            for descriptor in pipe or ():
                os.close(descriptor)

    def _begin(self) -> select.poll:
        waking, wake = self._pipe = os.pipe()
        os.set_blocking(wake, False)
        self._sockets[waking] = lambda: os.read(waking, _WOKEN_BYTES)
        poll = self._poll = select.poll()
        poll.register(waking, select.POLLIN)
        return poll

    def _read(self, poll: select.poll, wait_s: float | None) -> None:
        """Wait until a socket has something to read, or an event comes; read it."""
        # Said before it is looked again: what comes in between writes to the pipe.
        self._asleep = True
        if not self._events.empty():
            wait_s = 0.0
        found = poll.poll(None if wait_s is None else max(0.0, min(wait_s, _LONGEST_S)) * 1000)
        self._asleep = False
        for descriptor, _ in found:
            # What one says may have another one closed.
            arrived = self._sockets.get(descriptor)
            if arrived is not None:
                arrived()

    def _rouse(self) -> None:
        self._asleep = False
        # A pipe that is full of calls to wake up needs no other.
        with self._lock, contextlib.suppress(BlockingIOError):
            if self._pipe is not None:
                os.write(self._pipe[1], b"\0")
