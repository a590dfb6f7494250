"""The share of late requests of one long run, and how far that may be off.

Requests that follow each other wait for each other, so their latencies are alike, and the
binomial interval for the share that is late is far too narrow: of M/D/1 at load 0.95 one of 95 %
for the 99th percentile of 20,000 requests holds the true one 6 % of the time. Busy periods are
unlike each other. So the run is cut into batches of whole busy periods, long enough to be as
good as independent, and the share is judged by how much they differ.

Source: the ratio estimator of regenerative simulation (M. Crane and D. Iglehart, Simulating
stable stochastic systems III, Operations Research 23 (1975), https://doi.org/10.1287/opre.23.1.33),
with batches in the place of single busy periods: then a t quantile holds for few, and what busy
periods have in common where arrivals are correlated stays within a batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from scipy import special

Latencies: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

BATCHES = 32
"""Few enough for each to be long, many enough for the t quantile to be near the normal one."""

ENOUGH_LATE = 50
"""Busy periods that must have had late requests before anything is said."""

MOST_ALIKE = 0.4
"""Correlation of neighbouring batches above which they are too short: of 32 that are independent
one in a hundred has more."""


@dataclass(frozen=True, slots=True)
class LateShare:
    """The share of requests that are late.

    Attributes
    ----------
    share : float
    error : float
        Its standard error; infinite where there are too few busy periods to tell.
    requests : int
    late : int
    late_periods : int
        Busy periods in which one was late.
    freedom : float
        Degrees of freedom that the error rests on; 0 where there is none.
    alike : float
        Correlation of what neighbouring batches deviate by.
    """

    share: float
    error: float
    requests: int
    late: int
    late_periods: int
    freedom: float
    alike: float

    @property
    def enough(self) -> bool:
        """Whether its error can be trusted: late in ENOUGH_LATE busy periods, batches unlike."""
        return self.late_periods >= ENOUGH_LATE and self.alike <= MOST_ALIKE

    def half_width(self, confidence: float) -> float:
        """Return what the share may be off by, up or down, at this confidence."""
        if not self.freedom:
            return math.inf
        return float(special.stdtrit(self.freedom, 0.5 + confidence / 2)) * self.error


def late_share(late: Flags, fresh: Flags) -> LateShare:
    """Return the share of requests that are late.

    Parameters
    ----------
    late : bool[requests]
        In the order of arrival.
    fresh : bool[requests]
        Those with which a busy period begins: they found nothing to wait for.

    Complexity: linear.
    """
    begins = np.flatnonzero(fresh)
    when = np.flatnonzero(late)
    # What comes before the first beginning counts to the busy period that the run began in.
    period = np.searchsorted(begins, when, side="right")
    each = np.bincount(np.cumsum(np.diff(period, prepend=period[:1]) != 0)).astype(np.float64)
    requests = len(late)
    share = when.size / requests if requests else 0.0
    cuts = _cuts(begins, requests)
    others = len(cuts) - 2
    if others < 1:
        return LateShare(share, math.inf, requests, when.size, each.size, 0.0, 0.0)
    lates = np.diff(np.searchsorted(when, cuts))
    deviations = lates - share * np.diff(cuts)
    squares = float(deviations @ deviations)
    error = math.sqrt(squares * (others + 1) / others) / requests
    alike = float(deviations[1:] @ deviations[:-1]) / squares if squares else 0.0
    freedom = 2 / (2 / others + _tail(each))
    return LateShare(share, error, requests, when.size, each.size, freedom, alike)


def _tail(each: Latencies) -> float:
    """Return how much the spread of batches varies beyond that of normal ones, relative.

    A few busy periods have most of the late requests, so sums over them are far from normal,
    and their variance is less sure: of sums of independent parts the fourth cumulant is that of
    the parts. What batches have too few of to say, the busy periods tell.
    """
    if not each.size:
        return 0.0
    squares = each * each
    return float(squares @ squares) / float(squares.sum()) ** 2


def _cuts(begins: np.ndarray[Any, Any], requests: int) -> np.ndarray[Any, Any]:
    """Return where batches begin, and the end: each the first busy period after its share."""
    inner = begins[begins > 0]
    wanted = np.arange(1, BATCHES) * requests // BATCHES
    after = np.searchsorted(inner, wanted)
    cuts = inner[np.unique(after[after < len(inner)])]
    return np.concatenate([[0], cuts, [requests]])
