"""Signals that end a process held back while other processes are started or stopped."""

from __future__ import annotations

import contextlib
import importlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

from hetsim.core.signals import ENDING, ending_left_to_others


@contextlib.contextmanager
def held_interrupts() -> Iterator[None]:
    """Hold SIGINT, and SIGTERM and SIGHUP where Python handles them, back until the context ends.

    An interrupt in the middle of a start or stop would leave processes that nobody knows. Outside
    the main thread, and where SIGINT is handled by code that is not Python's, this does nothing.
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
    """Undo that Ray sets its own handler for SIGTERM where Python code handles it."""
    before = signal.getsignal(signal.SIGTERM)
    utils: Any = importlib.import_module("ray._private.utils")
    own = utils.set_sigterm_handler
    if callable(before):
        utils.set_sigterm_handler = lambda handler: None
    try:
        yield
    finally:
        utils.set_sigterm_handler = own
        if callable(before) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def ending_waits() -> Iterator[None]:
    """Have SIGTERM and SIGHUP wait, and then go to whoever Python says handles them.

    Ray's handler for SIGTERM ends the process on the spot, and takes away whoever had one as it
    goes. Threads that are started within let others have these signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.getsignal(number) for number in ENDING}
    with ending_left_to_others():
        try:
            yield
        finally:
            for number, handler in handlers.items():
                # Where nobody did, it may be that Ray's code in Python does.
                handler = handler if callable(handler) else signal.getsignal(number)
                if handler is not None:
                    signal.signal(number, handler)


@contextlib.contextmanager
def ending_waits_for_starting() -> Iterator[None]:
    """Have them wait while a Ray is started or joined within; its processes get SIGTERM alone.

    A terminal that closes sends SIGHUP to all of them: a Ray whose control plane ends while it
    starts takes a minute to say so.
    """
    services: Any = importlib.import_module("ray._private.services")
    start = services.start_ray_process

    def started(*args: Any, **kwargs: Any) -> Any:
        masked = signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM,))
        try:
            return start(*args, **kwargs)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, masked)

    services.start_ray_process = started
    try:
        with ending_waits():
            yield
    finally:
        services.start_ray_process = start


@contextlib.contextmanager
def hangup_ends() -> Iterator[None]:
    """Have SIGHUP end this process as SIGTERM does, once Ray has a handler of its own for that."""
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
