"""Signals that end a process held back while other processes are started or stopped."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from hetsim.base.signals import ENDING


@contextlib.contextmanager
def held_interrupts() -> Iterator[None]:
    """Hold SIGINT back until the context ends, and then hand it to whoever handles it.

    So are SIGTERM and SIGHUP where Python code handles them. An interrupt in the middle of a
    start or stop would leave processes that nobody knows. Outside the main thread, where Python
    delivers no signals, this does nothing; so it does where SIGINT is handled by code that is not
    Python's.
    """
    previous = {signal.SIGINT: signal.getsignal(signal.SIGINT)}
    if threading.current_thread() is not threading.main_thread() or None in previous.values():
        yield
        return
    for number in ENDING:
        if callable(handler := signal.getsignal(number)):
            previous[number] = handler
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)

    for number in previous:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number, handler in previous.items():
            # What was set within, as where a Ray ends that had a handler of its own, stays.
            if signal.getsignal(number) is note:
                signal.signal(number, handler)
        for number in dict.fromkeys(came):
            signal.raise_signal(number)


@contextlib.contextmanager
def termination_kept() -> Iterator[None]:
    """Undo that SIGTERM, where Python code handles it, gets another handler within.

    A Ray that starts sets its own. Outside the main thread this does nothing.
    """
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if callable(before) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def hangup_ends() -> Iterator[None]:
    """Have SIGHUP end this process as SIGTERM does, once Ray has a handler of its own for that.

    Where anybody handles SIGHUP, or ignores it as ``nohup`` has it, it stays so.
    """
    number = getattr(signal, "SIGHUP", None)
    if (
        number is None
        or threading.current_thread() is not threading.main_thread()
        or signal.getsignal(number) != signal.SIG_DFL
        or not callable(handler := signal.getsignal(signal.SIGTERM))
    ):
        yield
        return
    signal.signal(number, handler)
    try:
        yield
    finally:
        # The last user may be on another thread, which cannot set signal handlers.
        if threading.current_thread() is threading.main_thread():
            signal.signal(number, signal.SIG_DFL)
