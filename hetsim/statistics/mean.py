"""A mean of one long run, of requests or over time, with an interval that holds it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hetsim.core.checks import number
from hetsim.errors import InvalidInput
from hetsim.statistics.arrays import Flags, Latencies
from hetsim.statistics.batches import (
    ENOUGH_LATE,
    MOST_ALIKE,
    cuts_of,
    freedom_of,
    periods_of,
    reach_of,
    skewness_of,
)
from hetsim.statistics.percentile import checked

LARGEST = 0.01
"""The share of the largest values that must come of ENOUGH_LATE busy periods: a mean rests on them,
and a run that has not seen them is off and does not know it."""


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean, of requests or over time.

    Attributes
    ----------
    estimate : float
        NaN where there is nothing to take a mean of.
    low, high : float
        The interval; infinite where the run says nothing of it.
    confidence : float
        How often such an interval holds the true mean, where the run is long enough.
    periods : int
        Busy periods that the largest hundredth of values is of.
    alike : float
        Correlation of what neighbouring batches deviate by.
    """

    estimate: float
    low: float
    high: float
    confidence: float
    periods: int
    alike: float

    @property
    def enough(self) -> bool:
        """Whether the run is long enough for the interval to be what it says."""
        return self.periods >= ENOUGH_LATE and self.alike <= MOST_ALIKE and math.isfinite(self.high)

    @property
    def half_width(self) -> float:
        """Half of the interval over the estimate."""
        return (self.high - self.low) / 2 / self.estimate if self.estimate else math.inf


def mean_of(
    value: Latencies,
    fresh: Flags,
    over: Latencies | None = None,
    *,
    confidence: float = 0.95,
) -> Mean:
    """Return the sum of values over the sum of what they are over, with an interval.

    By request: its latency over 1 is the mean latency; what it waits over the time until the next
    comes is the mean number that wait (J. Little, 1961); its service over that, the utilization;
    1 over that, the throughput.

    Deviations of batches of whole busy periods say how far it may be off, as of late requests.

    Parameters
    ----------
    value : float64[requests]
        In the order of arrival.
    fresh : bool[requests]
        Those with which a busy period begins.
    over : float64[requests], optional
        Absent: 1 each.
    confidence : float
        Above 0 and below 1.

    Raises
    ------
    InvalidInput
        Where an argument makes no sense, or there is no request.

    Complexity: linear. Source: the ratio estimator of ``batches``.
    """
    count = checked(value, fresh)
    number(above=0)(confidence, "confidence")
    if confidence >= 1:
        raise InvalidInput(f"confidence is {confidence:g}", hint="it is below 1")
    weight = np.ones(count) if over is None else over
    checked(weight, fresh)
    total = float(weight.sum())
    if not total:
        return Mean(math.nan, -math.inf, math.inf, confidence, 0, 0.0)
    estimate = float(value.sum()) / total
    deviation = value - estimate * weight
    begins = np.flatnonzero(fresh)
    cuts = cuts_of(begins, count)
    others = len(cuts) - 2
    periods = _largest(value, fresh)
    if others < 1:
        return Mean(estimate, -math.inf, math.inf, confidence, periods, 0.0)
    sums = np.add.reduceat(deviation, cuts[:-1])
    squares = float(sums @ sums)
    if not squares:
        return Mean(estimate, estimate, estimate, confidence, periods, 0.0)
    error = math.sqrt(squares * (others + 1) / others) / total
    alike = float(sums[1:] @ sums[:-1]) / squares
    each = np.add.reduceat(deviation, begins if begins[0] == 0 else np.append(0, begins))
    skewness = skewness_of(each)
    below, above = reach_of(freedom_of(others, each), confidence, skewness, skewness)
    low, high = estimate - error * below, estimate + error * above
    return Mean(estimate, low, high, confidence, periods, alike)


def _largest(value: Latencies, fresh: Flags) -> int:
    """Return how many busy periods the largest values are of; all that are equal to the least."""
    at = len(value) - max(int(len(value) * LARGEST), 1)
    return periods_of(np.flatnonzero(value >= np.partition(value, at)[at]), np.flatnonzero(fresh))
