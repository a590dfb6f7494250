"""Waiting for an event, but not for ever."""

from __future__ import annotations

import queue
import threading
from typing import TypeVar

Item = TypeVar("Item")


def next_of(events: queue.SimpleQueue[Item], wait_s: float) -> Item:
    """Return the next event, within `wait_s` seconds. Raises Empty of queues where none comes.

    For queues that one thread alone takes from. CPython's ``get`` with a timeout waits for ever
    where it finds its lock free, as after each event, and is kept from running until its time is
    over: what is left of it is negative then, which means no end. A look before leaves the lock
    taken.
    """
    try:
        return events.get_nowait()
    except queue.Empty:
        if wait_s <= 0:
            raise
    return events.get(timeout=min(wait_s, threading.TIMEOUT_MAX))
