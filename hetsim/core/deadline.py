"""Deadlines of a block of work, by CPU time or the wall clock, polled by long loops."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

COMPILE_S = 15.0
"""Seconds that numba may take for one function: with less time left nothing is compiled."""

LOAD_S = 1.0
"""Seconds that a large library may take to load: with less time left it is not loaded."""

_UNTIL: ContextVar[float] = ContextVar("until", default=math.inf)
_CLOCK: ContextVar[Callable[[], float]] = ContextVar("clock", default=time.process_time)
_stopped_s = [0.0]
"""Seconds that this process spent in ``stopped`` blocks, by the clock of each block."""


class OutOfTime(Exception):
    """Error of a passed deadline: the caller that set it keeps the best plan found before."""


def now_s() -> float:
    """Return the CPU seconds of this process without those in ``stopped`` blocks.

    Within ``by_wall_clock`` they are seconds of the wall clock.
    """
    return _CLOCK.get()() - _stopped_s[0]


@contextmanager
def stopped() -> Iterator[None]:
    """Stop the clock of every deadline in the block: for compilation, done once on a machine."""
    began_s = now_s()
    try:
        yield
    finally:
        _stopped_s[0] += now_s() - began_s


@contextmanager
def by_wall_clock() -> Iterator[None]:
    """Measure all time in the block, and a deadline already set, by the wall clock."""
    left = left_s()
    clock = _CLOCK.set(time.monotonic)
    end = _UNTIL.set(now_s() + left)
    try:
        yield
    finally:
        _UNTIL.reset(end)
        _CLOCK.reset(clock)


@contextmanager
def until(end_s: float) -> Iterator[None]:
    """Set a deadline for the block, in seconds of ``now_s``; an earlier one stays in force."""
    token = _UNTIL.set(min(end_s, _UNTIL.get()))
    try:
        yield
    finally:
        _UNTIL.reset(token)


def is_set() -> bool:
    """Return whether a deadline is set."""
    return _UNTIL.get() < math.inf


def left_s() -> float:
    """Return the remaining seconds; infinite without a deadline."""
    end_s = _UNTIL.get()
    return end_s - now_s() if end_s < math.inf else math.inf


def check(takes_s: float = 0.0) -> None:
    """Raise OutOfTime if fewer seconds remain than the `takes_s` of the next step."""
    if left_s() < takes_s or left_s() <= 0.0:
        raise OutOfTime


def may_compile() -> bool:
    """Return whether enough time is left to compile a function."""
    return left_s() >= COMPILE_S


def may_load(module: str) -> bool:
    """Return whether a large library is loaded, or enough time is left to load it."""
    return module in sys.modules or left_s() >= LOAD_S
