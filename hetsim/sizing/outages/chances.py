"""How likely so many devices are down, and objectives hold: exactly, in fractions.

Devices fail independently of each other, each down for 1 - its share of the time. Of devices of
one class it matters how many are down; how likely that is, is binomial where their shares are
one, and the product of their generating polynomials where they are not (Poisson's binomial
distribution). States of unlike devices are vectors of such counts, as likely as the product.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hetsim.confidence.verdict import Answer

Counts: TypeAlias = tuple[int | None, ...]
"""By class: how many of its devices are down; None: any number."""

MOST_SPARES = 8
"""That are looked at."""

MOST_LOOKS = 2**22
"""States times ways to have spares that are looked at."""

ROUNDING = 1e-9
"""More than what sums of products of floats are off by; what is nearer is summed exactly."""


def counts_down(shares: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """Return how likely 0, 1, ... of some devices are down, by their shares of time up.

    >>> counts_down([Fraction(1, 2), Fraction(3, 4)])
    (Fraction(3, 8), Fraction(1, 2), Fraction(1, 8))

    Complexity: O(n^2) products of numbers of O(n) digits, O(n) where all shares are one.
    """
    n = len(shares)
    if len(set(shares)) == 1:
        up, down = shares[0], 1 - shares[0]
        return tuple(math.comb(n, k) * down**k * up ** (n - k) for k in range(n + 1))
    found = [Fraction(1)]
    for up in shares:
        kept = [one * up for one in found] + [Fraction(0)]
        lost = [Fraction(0)] + [one * (1 - up) for one in found]
        found = [a + b for a, b in zip(kept, lost, strict=True)]
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Odds:
    """States of devices, what is known of each, and how likely it is.

    Attributes
    ----------
    shares : tuple of tuple of Fraction
        By class and device: the share of its time that it is up, above 0.
    states : tuple of Counts
        Each possible count of what is down, by class, is in one of them.
    answers : tuple of Answer
        Of each: whether objectives hold.
    """

    shares: tuple[tuple[Fraction, ...], ...]
    states: tuple[Counts, ...]
    answers: tuple[Answer, ...]

    def holds(self) -> tuple[Fraction, Fraction]:
        """Return between which chances the objectives hold: undecided states may, or not."""
        down = [counts_down(one) for one in self.shares]
        return self._between(down)

    def never_down(self, at: int, device: int) -> Fraction:
        """Return the least chance that they hold were a device of class `at` always up."""
        down = [counts_down(one) for one in self.shares]
        shares = self.shares[at]
        down[at] = (*counts_down([*shares[:device], *shares[device + 1 :]]), Fraction(0))
        return self._between(down)[0]

    def with_spares(self, spares: Sequence[int]) -> tuple[Fraction, Fraction]:
        """Return what ``holds`` does with so many more of each class, which stand by.

        A spare is idle until one of its class is down, and up as often as the least available.
        """
        return self._between(
            [_with(one, count) for one, count in zip(self.shares, spares, strict=True)]
        )

    def fewest_spares(self, target: Fraction) -> tuple[int, ...] | None:
        """Return the fewest spares with which the objectives hold with chance `target` at least.

        Of several choices the one that reaches most. None where as many as are looked at, up to
        MOST_SPARES in all, do not reach it.
        """
        meets = np.array([one == "meets" for one in self.answers], dtype=np.bool_)
        counts = np.array(
            [[-1 if one is None else one for one in state] for state in self.states],
            dtype=np.int64,
        ).reshape(len(self.states), len(self.shares))[meets]
        known = [k for k in range(len(self.shares)) if (counts[:, k] >= 0).any()]
        left = MOST_LOOKS
        for total in range(1, MOST_SPARES + 1):
            reached: list[tuple[Fraction, tuple[int, ...]]] = []
            for spares in _sums(total, known, len(self.shares)):
                left -= max(len(counts), 1)
                if left < 0:
                    return None
                down = [_with(one, k) for one, k in zip(self.shares, spares, strict=True)]
                if _about(counts, down) < float(target) - ROUNDING:
                    continue
                low = self._between(down)[0]
                if low >= target:
                    reached.append((low, spares))
            if reached:
                return max(reached, key=lambda one: (one[0], [-k for k in one[1]]))[1]
        return None

    def _between(self, down: Sequence[Sequence[Fraction]]) -> tuple[Fraction, Fraction]:
        meets = misses = Fraction(0)
        for state, answer in zip(self.states, self.answers, strict=True):
            if answer == "undecided":
                continue
            chance = chance_of(state, down)
            if answer == "meets":
                meets += chance
            else:
                misses += chance
        return meets, 1 - misses


def chance_of(state: Counts, down: Sequence[Sequence[Fraction]]) -> Fraction:
    """Return how likely a state is, by how likely so many of each class are down."""
    return math.prod(
        (of[count] for count, of in zip(state, down, strict=True) if count is not None),
        start=Fraction(1),
    )


def _with(shares: tuple[Fraction, ...], spares: int) -> tuple[Fraction, ...]:
    """How likely 0, 1, ... places are empty where spares stand by."""
    down = counts_down([*shares, *[min(shares)] * spares])
    return (sum(down[: spares + 1], Fraction(0)), *down[spares + 1 :])


def _about(counts: NDArray[np.int64], down: Sequence[Sequence[Fraction]]) -> float:
    """The chance of some states, in floats."""
    chance = np.ones(len(counts))
    for k, of in enumerate(down):
        # What may be any number is the last one.
        chance *= np.array([*map(float, of), 1.0])[counts[:, k]]
    return float(chance.sum())


def _sums(total: int, places: Sequence[int], size: int) -> Iterator[tuple[int, ...]]:
    """Give all counts at some places that sum up to `total`."""
    if not places:
        return
    bars = range(1, total + len(places))
    for cuts in combinations(bars, len(places) - 1):
        parts = [b - a - 1 for a, b in pairwise((0, *cuts, total + len(places)))]
        found = [0] * size
        for place, part in zip(places, parts, strict=True):
            found[place] = part
        yield tuple(found)
