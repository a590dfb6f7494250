"""Which rates meet an objective, where they need not be all up to one: a grid, refined."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

CELLS = 192
"""Of the first grid, each as wide as the others by ratio."""

FINEST = 2.0**-10
"""Ratio of the ends of a cell, less 1, below which nothing is looked for within it."""


CHANGES = 2.0**-4
"""How much finer it is where the count changes."""

MOST_LOOKS = 2**12
"""Rates that are looked at before changes of sign are halved. Of a handful of requests every count
is near the other sign, so that all cells would be halved down to `finest`: 12,000 looks."""


@dataclass(frozen=True, slots=True)
class Span:
    """Factors that meet an objective, and those beside them that do not.

    Attributes
    ----------
    low, high : float
        The least and the largest factor that was seen to meet it, and so were all between.
    below, above : float, optional
        The nearest that was seen to miss it; absent: none was, as far as was looked.
    """

    low: float
    high: float
    below: float | None
    above: float | None


def spans(
    too_many: Callable[[float], int],
    low: float,
    high: float,
    *,
    cells: int = CELLS,
    finest: float = FINEST,
    precision: float = 0.0,
) -> tuple[Span, ...]:
    """Return the spans of factors from `low` to `high` at which not too many are late.

    A grid is looked at first. Cells at whose ends the count has two signs are halved down to
    `precision`, 0 being neighbouring floats. Cells where it has one, and comes as near to the other
    as it moves from cell to cell around, are halved down to `finest`, and where the count changes
    within them further, over at most MOST_LOOKS rates: what is narrower may be missed.

    Parameters
    ----------
    too_many : callable
        How many more are late at a factor than may be; at most 0 meets the objective.
    low, high : float
        Above 0.
    cells : int
    finest, precision : float
        Ratios of the ends of cells, less 1.

    Complexity: MOST_LOOKS calls, and some 50 for each change of sign, or log2 of 1 / `precision`.
    """
    seen: dict[float, int] = {}

    def look(factor: float) -> int:
        if factor not in seen:
            seen[factor] = too_many(factor)
        return seen[factor]

    ratio = math.log(high / low)
    for cell in range(cells):
        look(low * math.exp(ratio * cell / cells))
    look(high)
    _refine(seen, look, finest)
    while True:
        ends = sorted(seen)
        split = [
            (a, b)
            for a, b in pairwise(ends)
            if (seen[a] > 0) != (seen[b] > 0) and b - a > precision * a and _between(a, b)
        ]
        if not split:
            return _told(seen)
        for a, b in split:
            look(_middle(a, b))


def _refine(seen: dict[float, int], look: Callable[[float], int], finest: float) -> None:
    """Halve the cells of one sign that may hide the other."""
    done: set[tuple[float, float]] = set()
    while True:
        ends = sorted(seen)
        counts = [seen[factor] for factor in ends]
        steps = [abs(b - a) for a, b in pairwise(counts)]
        open_ = []
        for at, (a, b) in enumerate(pairwise(ends)):
            # Where the count changes several requests do at nearly one rate, and in between
            # there may be fewer.
            least = finest * CHANGES if steps[at] else finest
            if (a, b) in done or b - a <= least * a:
                continue
            done.add((a, b))
            moves = max(steps[max(at - 1, 0) : at + 2])
            nearest = min(abs(counts[at]), abs(counts[at + 1]))
            if (counts[at] > 0) != (counts[at + 1] > 0) or nearest <= moves + 1:
                open_.append((a, b))
        if not open_ or len(seen) + len(open_) > MOST_LOOKS:
            return
        for a, b in open_:
            look(_middle(a, b))


def _middle(a: float, b: float) -> float:
    middle = math.sqrt(a) * math.sqrt(b)
    return middle if a < middle < b else a + (b - a) / 2


def _between(a: float, b: float) -> bool:
    """Whether there is a float between two."""
    return math.nextafter(a, b) < b


def _told(seen: dict[float, int]) -> tuple[Span, ...]:
    found: list[Span] = []
    begun: float | None = None
    missed: float | None = None
    last = 0.0
    for factor in sorted(seen):
        if seen[factor] > 0:
            if begun is not None:
                found.append(Span(begun, last, missed, factor))
                begun = None
            missed = factor
        elif begun is None:
            begun = factor
        last = factor
    if begun is not None:
        found.append(Span(begun, last, missed, None))
    return tuple(found)
