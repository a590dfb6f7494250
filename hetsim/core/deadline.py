"""Deadlines of a block of work, by CPU time or the wall clock, polled by long loops."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

COMPILE_S = 15.0
"""Seconds that numba may take for one function: with less left nothing is compiled."""

LOAD_S = 1.0
"""Seconds that a large library may take to load: with less left it is not."""

_UNTIL: ContextVar[float] = ContextVar("until", default=math.inf)
_CLOCK: ContextVar[Callable[[], float]] = ContextVar("clock", default=time.process_time)
_stopped_s = [0.0]
"""Seconds of this process in ``stopped`` blocks, by the clock of each."""


class OutOfTime(Exception):
    """Deadline passed: the caller that set it keeps the best plan found before."""


def now_s() -> float:
    """Return the CPU seconds of this process, ``stopped`` blocks left out.

    Within ``by_wall_clock`` those of the wall clock.
    """
    return _CLOCK.get()() - _stopped_s[0]


@contextmanager
def stopped() -> Iterator[None]:
    """Stop the clock of every deadline in the block: once on a machine, code is compiled there."""
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
    """Let ``check`` raise within the block from a second of the clock on, or an earlier one."""
    token = _UNTIL.set(min(end_s, _UNTIL.get()))
    try:
        yield
    finally:
        _UNTIL.reset(token)


def is_set() -> bool:
    """Whether there is a deadline."""
    return _UNTIL.get() < math.inf


def left_s() -> float:
    """Return the remaining seconds; infinite without a deadline."""
    end_s = _UNTIL.get()
    return end_s - now_s() if end_s < math.inf else math.inf


def check(takes_s: float = 0.0) -> None:
    """Raise OutOfTime where less than the `takes_s` seconds of the next step remain."""
    if left_s() < takes_s or left_s() <= 0.0:
        raise OutOfTime


def may_compile() -> bool:
    """Whether there is time to compile a function."""
    return left_s() >= COMPILE_S


def may_load(module: str) -> bool:
    """Whether a large library is loaded, or there is time to load it."""
    return module in sys.modules or left_s() >= LOAD_S
