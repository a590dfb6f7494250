"""How far long work is, for whoever listens: a program in a terminal, or nobody.

What works says it where it knows it, by shares of its own; parts of parts are nested. It costs a
look at a variable where nobody listens, and changes no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

Hearer = Callable[[float, str], None]
"""Takes which share of the work is done, in [0, 1], and what is under way."""


@dataclass(frozen=True, slots=True)
class _Scope:
    """The part of all work that is under way: from which share to which."""

    hearer: Hearer
    low: float
    high: float
    name: str


_scope: ContextVar[_Scope | None] = ContextVar("hetsim_going", default=None)


@contextmanager
def heard_by(hearer: Hearer) -> Iterator[None]:
    """Let `hearer` be told of what is done within the block, of this thread alone."""
    token = _scope.set(_Scope(hearer, 0.0, 1.0, ""))
    try:
        yield
    finally:
        _scope.reset(token)


def say(share: float, what: str = "") -> None:
    """Say which share of the part that is under way is done, and what is worked on."""
    scope = _scope.get()
    if scope is not None:
        name = ", ".join(part for part in (scope.name, what) if part)
        scope.hearer(scope.low + (scope.high - scope.low) * min(max(share, 0.0), 1.0), name)


@contextmanager
def part(low: float, high: float, what: str = "") -> Iterator[None]:
    """Let the block be the part of the work from share `low` to share `high`."""
    outer = _scope.get()
    if outer is None:
        yield
        return
    span = outer.high - outer.low
    name = ", ".join(text for text in (outer.name, what) if text)
    _scope.set(_Scope(outer.hearer, outer.low + span * low, outer.low + span * high, name))
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
    """Yield `items`; while each is worked on it is the part that is under way.

    Parameters
    ----------
    items : sequence
    name : function
        What an item is called; empty: not at all.
    weight : function
        About how long an item takes beside the others; above 0.
    low, high : float
        From which to which share of the part under way all of them are.
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
