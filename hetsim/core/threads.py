"""Threads that the system may refuse: each takes memory for its stack, and counts as a process."""

from __future__ import annotations

import threading

from hetsim.core.room import out_of_room


def begun(thread: threading.Thread, where: str | None = None) -> threading.Thread:
    """Start a thread, and return it.

    Raises OutOfRoom, at `where`, where the system has none to give.
    """
    try:
        thread.start()
    except (RuntimeError, MemoryError) as error:
        raise out_of_room(error, where) or error from error
    return thread
