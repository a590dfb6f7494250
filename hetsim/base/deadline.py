"""Deadline in CPU time for the work of a block, which loops that can be long look at."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

COMPILE_S = 15.0
"""CPU seconds that numba may take for one function: with less left nothing is compiled."""

_UNTIL: ContextVar[float] = ContextVar("until", default=math.inf)


class OutOfTime(Exception):
    """The deadline has passed; whoever set it has a plan without what was under way."""


def now_s() -> float:
    """Return the CPU seconds of this process."""
    return time.process_time()


@contextmanager
def until(end_s: float) -> Iterator[None]:
    """Let ``check`` raise within the block from a second of CPU time on, or from an earlier one."""
    token = _UNTIL.set(min(end_s, _UNTIL.get()))
    try:
        yield
    finally:
        _UNTIL.reset(token)


def is_set() -> bool:
    """Whether there is a deadline."""
    return _UNTIL.get() < math.inf


def left_s() -> float:
    """Return the CPU seconds that are left; infinite without a deadline."""
    end_s = _UNTIL.get()
    return end_s - now_s() if end_s < math.inf else math.inf


def check(takes_s: float = 0.0) -> None:
    """Raise OutOfTime where less than `takes_s` CPU seconds are left, which come next."""
    if left_s() < takes_s or left_s() <= 0.0:
        raise OutOfTime


def may_compile() -> bool:
    """Whether there is time to compile a function."""
    return left_s() >= COMPILE_S
