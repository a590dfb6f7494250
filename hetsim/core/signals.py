"""Which signals ask a process to end, besides Ctrl-C."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Where the system has them: being told to, and the terminal closed."""


@contextlib.contextmanager
def ending_left_to_others() -> Iterator[None]:
    """Have threads that start within, of libraries too, let others have these signals.

    The system gives a signal to any thread that does not hold it back: where each but the main one
    does, the main thread alone decides when it comes. Nothing where the system has no masks.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
