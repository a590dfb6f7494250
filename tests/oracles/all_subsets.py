"""How likely objectives hold, over every subset of devices that may be down, in fractions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import product

Down = tuple[bool, ...]


def subsets(shares: Sequence[Fraction]) -> Iterator[tuple[Down, Fraction]]:
    """Give every choice of what is down, with its chance."""
    for down in product((False, True), repeat=len(shares)):
        chance = Fraction(1)
        for gone, share in zip(down, shares, strict=True):
            chance *= 1 - share if gone else share
        yield down, chance


def chance(shares: Sequence[Fraction], holds: Callable[[Down], bool]) -> Fraction:
    """The chance of all choices in which something holds."""
    return sum((of for down, of in subsets(shares) if holds(down)), Fraction(0))
