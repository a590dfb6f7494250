"""Progress of long work: reported by the worker, shown by a listener."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from time import monotonic
from typing import TypeVar

T = TypeVar("T")

ENOUGH = 0.02
"""Share of the work from which on the remaining time is estimated from the time so far."""

ABOUT = "about {} left"
AT_MOST = "at most {} left"


@dataclass(frozen=True, slots=True)
class ProgressState:
    """State of progress.

    Attributes
    ----------
    share : float
        Share of the work that is done, in [0, 1].
    what : str
        Current item.
    left_s : float or None
        Seconds until the share is `until`, or until what `of` names ends; infinite if unknown; None
        if they follow from the share.
    until : float
    words : str
        Wording of `left_s`.
    of : str
        Name of what ends then, if that is not all of the work.
    """

    share: float
    what: str
    left_s: float | None = None
    until: float = 1.0
    words: str = ABOUT
    of: str = ""


Hearer = Callable[[ProgressState], None]


@dataclass(frozen=True, slots=True)
class _WorkShare:
    """Current part of all work: its first and last share."""

    hearer: Hearer
    low: float
    high: float
    name: str

    def at(self, share: float) -> float:
        """Return the share of all work that is done at `share` of the part."""
        return self.low + (self.high - self.low) * share


_scope: ContextVar[_WorkShare | None] = ContextVar("hetsim_going", default=None)


@contextmanager
def progress_to(hearer: Hearer) -> Iterator[None]:
    """Send progress within the block, of this thread alone, to `hearer`."""
    token = _scope.set(_WorkShare(hearer, 0.0, 1.0, ""))
    try:
        yield
    finally:
        _scope.reset(token)


def say(
    share: float,
    what: str = "",
    left_s: float | None = None,
    words: str = ABOUT,
    of: str = "",
) -> None:
    """Report the share of the current part that is done, and the current item.

    `left_s`: seconds until that part ends, or what `of` names, if the worker knows them, and
    infinite if they are unknown; `words`: their wording.
    """
    scope = _scope.get()
    if scope is not None:
        name = ", ".join(part for part in (scope.name, what) if part)
        done = scope.at(min(max(share, 0.0), 1.0))
        scope.hearer(ProgressState(done, name, left_s, scope.high, words, of))


def rest_s(passed_s: float, share: float) -> float | None:
    """Return the estimated remaining seconds if `share` took `passed_s`; None: too early."""
    return passed_s * (1.0 - share) / share if share >= ENOUGH else None


class Pace:
    """Estimate of the remaining time of some work from the time since it began."""

    def __init__(self) -> None:
        self._began_s = monotonic()

    def passed_s(self) -> float:
        """Return the seconds since the work began."""
        return monotonic() - self._began_s

    def left_s(self, share: float) -> float | None:
        """Return the seconds left if `share` is done; None: too early to say."""
        return rest_s(self.passed_s(), share)


@contextmanager
def before(then_s: float) -> Iterator[None]:
    """Count the block as the first step of the current part; the rest takes up to `then_s`.

    Shares reported within are of the block; its size within the part follows from the time that it
    takes.
    """

    def weighed(told: ProgressState, outer: _WorkShare, pace: Pace) -> ProgressState:
        passed_s = pace.passed_s()
        left_s = rest_s(passed_s, told.share)
        if left_s is None:
            return ProgressState(outer.low, told.what, None, outer.high)
        share = passed_s / (passed_s + left_s + then_s)
        return ProgressState(outer.at(share), told.what, left_s + then_s, outer.high, AT_MOST)

    with _retold(weighed):
        yield


@contextmanager
def stage(of: str = "") -> Iterator[None]:
    """Time the block as a stage: ``about 5 s left of planning``.

    For a block before work whose duration nobody can estimate beforehand.
    """

    def timed(told: ProgressState, outer: _WorkShare, pace: Pace) -> ProgressState:
        left_s = told.left_s if told.of else pace.left_s(told.share)
        left_s = math.inf if left_s is None else left_s
        return ProgressState(outer.low, told.what, left_s, outer.high, told.words, told.of or of)

    with _retold(timed):
        say(0.0)
        yield


@contextmanager
def _retold(how: Callable[[ProgressState, _WorkShare, Pace], ProgressState]) -> Iterator[None]:
    """Convert reports within the block, in shares of it, to the current part by `how`.

    `how` takes the report, that part, and the pace since the block began.
    """
    outer = _scope.get()
    if outer is None:
        yield
        return
    pace = Pace()

    def hear(told: ProgressState) -> None:
        outer.hearer(how(told, outer, pace))

    token = _scope.set(_WorkShare(hear, 0.0, 1.0, outer.name))
    try:
        yield
    finally:
        _scope.reset(token)


@contextmanager
def part(low: float, high: float, what: str = "") -> Iterator[None]:
    """Count the block as the work from share `low` to share `high`."""
    outer = _scope.get()
    if outer is None:
        yield
        return
    name = ", ".join(text for text in (outer.name, what) if text)
    _scope.set(_WorkShare(outer.hearer, outer.at(low), outer.at(high), name))
    try:
        say(0.0)
        yield
    finally:
        _scope.set(outer)


def each(
    items: Sequence[T],
    name: Callable[[T], str] = str,
    weight: Callable[[T], float] = lambda item: 1.0,
    low: float = 0.0,
    high: float = 1.0,
) -> Iterator[T]:
    """Yield `items`; the work on each counts as the current part.

    Parameters
    ----------
    items : sequence
    name : function
        Name of an item; empty: unnamed.
    weight : function
        Rough duration of an item relative to the others; above 0.
    low, high : float
        First and last share of the current part that the items take.
    """
    if _scope.get() is None:
        yield from items
        return
    unit = (high - low) / (sum(map(weight, items)) or 1.0)
    done = low
    for item in items:
        then = done + weight(item) * unit
        with part(done, then, name(item)):
            yield item
        done = then
