"""Between which rates an objective goes from met to missed, by verdicts that may be undecided."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from hetsim.core.going import say
from hetsim.statistics.verdict import Answer

FIRST_STEP = 0.06
"""How far from the guess the first rates are: a ratio less 1, doubled where that says nothing."""

MOST_LOOKS = 14
"""Rates that are looked at for one end."""

MOST_UNDECIDED = 5
"""Of these, after which what is left open stays so: each costs all that a run may."""

LEAST = 2.0**-10
"""Of the guess: below that no rate is looked at."""


@dataclass(frozen=True, slots=True)
class End:
    """Where a span of factors that meet an objective ends.

    Attributes
    ----------
    meets, misses : float, optional
        The nearest on both sides that were shown to; absent: none was. What lies between
        is undecided.
    """

    meets: float | None
    misses: float | None


def upper_end(answer: Callable[[float], Answer], guess: float, missed: float, gap: float) -> End:
    """Return where factors above `guess`, or below it, begin to miss.

    Parameters
    ----------
    answer : callable
        What is said of a factor. Nearer to the end it takes longer, and says less.
    guess : float
        About where it is.
    missed : float
        The least factor that is known to miss; infinite: none is.
    gap : float
        Ratio of both factors, less 1, at which they are near enough.

    Looks on both sides of the guess, further away where a look says nothing; then halves the widest
    gap that is left, also between two looks that said nothing: close to what overloads a system
    runs say less than further below.
    """
    looks = 0
    meets: float | None = None
    undecided: list[float] = []

    def halvings() -> float:
        """About how many more looks there are."""
        known = meets is not None and math.isfinite(missed)
        ratio = missed / meets if known and meets else (1 + FIRST_STEP) ** 2
        return max(math.log2(max(math.log(ratio), 1e-9) / math.log1p(gap)), 1.0)

    def look(factor: float) -> Answer:
        nonlocal looks, meets, missed
        say(looks / (looks + halvings()))
        looks += 1
        said = answer(factor)
        if said == "meets":
            meets = factor if meets is None else max(meets, factor)
        elif said == "misses":
            missed = min(missed, factor)
        else:
            undecided.append(factor)
        return said

    guess = min(guess, missed / (1 + gap))
    step = FIRST_STEP
    factor = guess / (1 + step)
    while meets is None and factor > guess * LEAST and looks < MOST_LOOKS:
        look(factor)
        step *= 2
        factor /= 1 + step
    if meets is None:
        return End(None, missed if math.isfinite(missed) else None)
    step, factor = FIRST_STEP, guess * (1 + FIRST_STEP)
    while looks < MOST_LOOKS and factor < missed:
        if look(factor) == "misses":
            break
        step *= 2
        factor *= 1 + step
    while looks < MOST_LOOKS and len(undecided) < MOST_UNDECIDED:
        within = sorted(one for one in undecided if meets < one < missed)
        pairs = pairwise([meets, *within, missed])
        ratio, low, high = max((high / low, low, high) for low, high in pairs)
        if not math.isfinite(ratio) or ratio <= 1 + gap:
            break
        look(math.sqrt(low * high))
    return End(meets, missed if math.isfinite(missed) else None)


def lower_end(answer: Callable[[float], Answer], guess: float, missed: float, gap: float) -> End:
    """Return where factors below `guess`, or above it, begin to miss; as ``upper_end``.

    `missed` is the largest factor that is known to miss; 0: none is.
    """
    inverse = math.inf if missed == 0.0 else 1 / missed
    found = upper_end(lambda one: answer(1 / one), 1 / guess, inverse, gap)
    meets = None if found.meets is None else 1 / found.meets
    return End(meets, None if found.misses is None else 1 / found.misses)
