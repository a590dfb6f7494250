"""How far predicted rates are from the measured ones, and what that costs who sizes by them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from catalog.fidelity.server.points import ServerPoint

Rate = Callable[[ServerPoint], float | None]
Known = tuple[ServerPoint, float]

GOAL = 0.2
"""Error that half of the predictions are to be below."""


@dataclass(frozen=True, slots=True)
class RateErrors:
    """Errors of predicted rates.

    Attributes
    ----------
    count : int
    median, p90 : float
        Of the distance from the measured rate, as a share of that.
    within_goal : float
        Share of predictions that are off by `GOAL` at most.
    low, middle, high : float
        Predicted over measured: of 10, 50 and 90 in 100.
    """

    count: int
    median: float
    p90: float
    within_goal: float
    low: float
    middle: float
    high: float

    @classmethod
    def of(cls, points: Iterable[ServerPoint], rate: Rate) -> RateErrors | None:
        """Judge; None where nothing is predicted."""
        return cls.of_ratios([_ratio(point, found) for point, found in known(points, rate)])

    @classmethod
    def of_ratios(cls, ratios: Sequence[float]) -> RateErrors | None:
        """Judge ratios of predicted to measured; None where there is none."""
        if not ratios:
            return None
        errors = np.abs(np.array(ratios) - 1)
        low, middle, high = np.quantile(ratios, (0.1, 0.5, 0.9))
        return cls(
            count=len(ratios),
            median=float(np.median(errors)),
            p90=float(np.quantile(errors, 0.9)),
            within_goal=float((errors <= GOAL).mean()),
            low=float(low),
            middle=float(middle),
            high=float(high),
        )


def known(points: Iterable[ServerPoint], rate: Rate) -> list[Known]:
    """Return the points of which a rate is predicted, and the rate."""
    return [(point, found) for point in points if (found := rate(point))]


def _ratio(point: ServerPoint, rate_per_s: float) -> float:
    return rate_per_s / point.system.server_per_s


def anchored(point: ServerPoint) -> float | None:
    """Return the rate through what else was measured of the system."""
    return point.anchored_per_s


def naive(point: ServerPoint) -> float | None:
    """Return Offline's rate: what sizing by the highest rate takes to be served."""
    return point.system.offline_per_s


def each_once(points: Iterable[ServerPoint], rate: Rate) -> RateErrors | None:
    """Judge each chip, network and runtime's precision once, by the median of its systems."""
    found: dict[tuple[str, ...], list[float]] = {}
    for point, told in known(points, rate):
        of = point.system
        found.setdefault((of.chip, of.network, of.precision), []).append(_ratio(point, told))
    return RateErrors.of_ratios([float(np.median(ratios)) for ratios in found.values()])


def by_others(
    points: Sequence[ServerPoint], rate: Rate, group: Callable[[ServerPoint], str]
) -> RateErrors | None:
    """Judge rates over one factor: the median by which those of all other groups are too high."""
    found = [(group(point), _ratio(point, told)) for point, told in known(points, rate)]
    ratios = []
    for own, ratio in found:
        others = [other for name, other in found if name != own]
        if others:
            ratios.append(ratio / float(np.median(others)))
    return RateErrors.of_ratios(ratios)


@dataclass(frozen=True, slots=True)
class Sizing:
    """How many systems are bought of `NEEDED`: 10, 50 and 90 in 100; the share that is short."""

    count: int
    low: float
    middle: float
    high: float
    short: float


NEEDED = 100
SHORT = 0.1
"""Share of what is needed that may be missing before it counts as short."""


def sizing(points: Iterable[ServerPoint], rate: Rate) -> Sizing | None:
    """Size for `NEEDED` times each measured rate by ceil(demand / predicted rate)."""
    bought = [
        math.ceil(NEEDED * point.system.server_per_s / found)
        for point, found in known(points, rate)
    ]
    if not bought:
        return None
    low, middle, high = np.quantile(bought, (0.1, 0.5, 0.9))
    short = float(np.mean([one < NEEDED * (1 - SHORT) for one in bought]))
    return Sizing(len(bought), float(low), float(middle), float(high), short)
