"""Ctrl-C held back while processes are started or stopped."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def held_interrupts() -> Iterator[None]:
    """Hold SIGINT back until the context ends, and then hand it to whoever handles it.

    An interrupt in the middle of a start or stop would leave processes that nobody knows.
    Outside the main thread, where Python delivers no signals, this does nothing; so it does
    where SIGINT is handled by code that is not Python's.
    """
    previous = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or previous is None:
        yield
        return
    came: list[FrameType | None] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
        if came:
            signal.raise_signal(signal.SIGINT)
