"""Percentiles and means of one long run, with confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from hetsim.core.checks import number
from hetsim.errors import InvalidInput
from hetsim.statistics.batches import (
    ENOUGH_LATE,
    MOST_ALIKE,
    Flags,
    Latencies,
    LateShare,
    control_of,
    cuts_of,
    freedom_of,
    interval_reach,
    late_share,
    periods_of,
    skewness_of,
)

CONFIDENCE = 0.95
"""Confidence of intervals, if the run is long enough for it to hold."""

MARGIN = 1.05
"""Factor on an estimated run length: without it half of the runs would be too short."""

LEAST = 1.1
"""Minimum factor by which a run grows before it is evaluated again."""

EQUAL_FROM = 4 * ENOUGH_LATE
"""Minimum number of requests beyond a percentile for equal ones to count among them: if late ones
come 20 together, one run in 20,000 has none in that many."""

ASIDE = 1.25
"""Ratio of the shares beyond two limits between which the change of luck is measured."""

LEAST_SLOPE = 0.2
"""Slope of the share without luck over the share of a run below which the run is too short."""

MOST_LUCK = 8.0
"""Maximum factor by which luck may raise or lower the number beyond a limit."""

NEAR, MOST_ROUNDS = 0.05, 4
"""Correction of the limit for luck: largest change at its end as a share of the error, and maximum
number of rounds."""

LARGEST = 0.01
"""Share of the largest values that must come from ENOUGH_LATE busy periods: a mean rests on them,
and a run without them is wrong with a small error."""

EVERY, FROM = 64, 1 << 16
"""Step of the sample that estimates the decay of latencies, and run length from which it serves."""


@dataclass(frozen=True, slots=True)
class Percentile:
    """Percentile of latencies, above 0 and below 100, with its interval.

    `high_s` is infinite if the run does not determine it. Such an interval contains the true
    percentile with probability `confidence`, if the run is long enough. `late` is the share of the
    requests beyond the estimate, from which the interval follows.
    """

    percentile: float
    estimate_s: float
    low_s: float
    high_s: float
    confidence: float
    late: LateShare

    @property
    def enough(self) -> bool:
        """Whether the run is long enough for a reliable interval."""
        return self.late.enough and math.isfinite(self.high_s)

    @property
    def half_width(self) -> float:
        """Half-width of the interval over the estimate."""
        return (self.high_s - self.low_s) / 2 / self.estimate_s if self.estimate_s else math.inf

    def requests_for(self, precision: float) -> int:
        """Return the number of requests after which the interval is narrow enough.

        The width falls with the root of their number; at most twice the present number.
        """
        if self.enough:
            missing = MARGIN * (self.half_width / precision) ** 2
        else:
            missing = MARGIN * self.late.needed / max(self.late.late_periods, 1)
        return math.ceil(self.late.requests * min(max(missing, LEAST), 2.0))


def percentile_at(percentiles: Iterable[Percentile], at: float) -> Percentile | None:
    """Return the percentile of that number; None if it is not among them."""
    return next((one for one in percentiles if one.percentile == at), None)


def percentile_of(
    latency_s: Latencies,
    fresh: Flags,
    percentile: float,
    innovation: Latencies | None = None,
) -> Percentile:
    """Return a percentile of latencies with an interval of 95 %.

    ``late_share`` gives the error of the number beyond the estimate; the interval reaches from the
    latency that so many more exceed to the one that so many fewer exceed.

    Parameters
    ----------
    latency_s : float64[requests]
        In the order of arrival.
    fresh : bool[requests]
        Requests that begin a busy period.
    percentile : float
        Above 0 and below 100.
    innovation : float64[requests], optional
        As in ``innovations_of``, if no latency depends on later arrivals. The estimate is then
        corrected for luck, and much more precise than the percentile of this run.

    Raises InvalidInput for an invalid argument, or without requests.

    Complexity: O(n log n). Source: R. Woodruff, Confidence intervals for medians and other position
    measures, JASA 47 (1952), https://doi.org/10.1080/01621459.1952.10483443; the share and its
    error there are those of a survey, here of a run.
    """
    return located(latency_s, fresh, percentile, innovation).within(CONFIDENCE)


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Requests of a run, with the numbers beyond each limit.

    `ordered`: latencies, ascending; `seen`: the same, or some of them; `per_second`: their decay
    rate near the percentile, infinite without a decay.
    """

    latency_s: Latencies
    fresh: Flags
    innovation: Latencies | None
    ordered: Latencies
    seen: Latencies
    per_second: float = math.inf

    def about(self, beyond: float) -> float:
        """Return the latency that about this share of the requests exceed."""
        return float(self.seen[int((1 - beyond) * (len(self.seen) - 1))])

    def falling_off(self, limit_s: float, beyond: float) -> Sample:
        """Return the sample with the decay of latencies up to a limit that `beyond` exceed."""
        further_s = limit_s - self.about(math.sqrt(beyond))
        per_second = -math.log(beyond) / 2 / further_s if further_s > 0 else math.inf
        return replace(self, per_second=per_second)

    def late(self, limit_s: float) -> LateShare:
        """Return the share beyond a limit, and its random part."""
        control = None
        if self.innovation is not None and math.isfinite(self.per_second):
            least_s = float(self.seen[0])
            control = control_of(self.latency_s, self.innovation, limit_s, least_s, self.per_second)
        return late_share(self.latency_s > limit_s, self.fresh, control)

    def at(self, share: float) -> LateShare:
        """Return the share of requests beyond the latency that `share` of them exceed."""
        limit_s = self.beyond(share)
        late = self.late(limit_s)
        if late.late_periods >= late.needed or self.innovation is not None:
            return late
        # Few requests are beyond the limit if many are equal to it. As many of the equal ones as
        # are missing count as beyond, evenly spread: the error is no less than that of those few.
        missing = len(self.latency_s) - 1 - self._place(share) - late.late
        if late.late + missing < EQUAL_FROM:
            return late
        equal = np.flatnonzero(self.latency_s == limit_s)
        beyond = self.latency_s > limit_s
        beyond[equal[np.arange(missing) * len(equal) // max(missing, 1)]] = True
        filled = late_share(beyond, self.fresh)
        return filled if filled.enough else late

    def beyond(self, share: float) -> float:
        """Return the latency that this share of the requests exceed."""
        return float(self.ordered[self._place(share)])

    def _place(self, share: float) -> int:
        count = len(self.latency_s)
        return min(max(math.ceil(count * (1 - share)) - 1, 0), count - 1)


@dataclass(frozen=True, slots=True, eq=False)
class Located:
    """Percentile of latencies, ready for intervals of any confidence.

    `beyond`: the share of this run that is beyond it; `slope`: the change of the share without luck
    per change of the share, from limit to limit.
    """

    percentile: float
    estimate_s: float
    late: LateShare
    beyond: float
    slope: float
    sample: Sample

    def within(self, confidence: float) -> Percentile:
        """Return the percentile with an interval."""
        # If the true share beyond the estimate is larger, the true percentile is higher.
        fewer, more = (reach / self.slope for reach in self.late.reach(confidence, held=True))
        low_s = self.sample.beyond(min(self.beyond + fewer, 1.0))
        high_s = math.inf if more >= self.beyond else self.sample.beyond(self.beyond - more)
        return Percentile(self.percentile, self.estimate_s, low_s, high_s, confidence, self.late)


def located(
    latency_s: Latencies,
    fresh: Flags,
    percentile: float,
    innovation: Latencies | None = None,
) -> Located:
    """Return a percentile, and the data for its intervals; see ``percentile_of``."""
    checked(latency_s, fresh)
    number(above=0)(percentile, "percentile")
    if percentile >= 100:
        raise InvalidInput(f"percentile is {percentile:g}", hint="it must be below 100")
    beyond = 1 - percentile / 100
    ordered = np.sort(latency_s)
    seen = np.sort(latency_s[::EVERY]) if len(latency_s) >= FROM else ordered
    sample = Sample(latency_s, fresh, innovation, ordered, seen)
    sample = sample.falling_off(sample.about(beyond), beyond)
    share, slope = beyond, 1.0
    late = sample.at(share)
    if late.luck:
        # The luck of the run differs from limit to limit.
        share = _without_luck(late, beyond, slope)
        sample = sample.falling_off(sample.beyond(share), beyond)
        late = sample.at(share)
        aside = sample.at(ASIDE * share)
        if aside.share > late.share:
            more = (aside.luck - late.luck) / (aside.share - late.share)
            slope = max(1 - more, LEAST_SLOPE)
        for _ in range(MOST_ROUNDS):
            share = _without_luck(late, beyond, slope)
            if abs(share - late.share) <= NEAR * late.error:
                break
            late = sample.at(share)
    return Located(percentile, sample.beyond(share), late, share, slope, sample)


def _without_luck(late: LateShare, beyond: float, slope: float) -> float:
    """Share of this run beyond the limit that, without luck, `beyond` of requests exceed."""
    share = late.share + (beyond + late.luck - late.share) / slope
    return min(max(share, beyond / MOST_LUCK), beyond * MOST_LUCK, 1.0)


def checked(latency_s: Latencies, fresh: Flags) -> int:
    """Return the number of requests. Raises InvalidInput if the arrays do not fit."""
    if latency_s.ndim != 1 or latency_s.shape != fresh.shape:
        raise InvalidInput("latency_s and fresh must be two arrays of one length")
    if not len(latency_s):
        raise InvalidInput("there is no request")
    return len(latency_s)


@dataclass(frozen=True, slots=True)
class Mean:
    """Mean of requests or over time, with its interval.

    The estimate is NaN without values; the interval is infinite if the run does not determine it,
    and contains the true mean with probability `confidence`, if the run is long enough. The largest
    hundredth of values are in so many busy `periods`; `alike` is the correlation of the deviations
    of neighbouring batches.
    """

    estimate: float
    low: float
    high: float
    confidence: float
    periods: int
    alike: float

    @property
    def enough(self) -> bool:
        """Whether the run is long enough for a reliable interval."""
        return self.periods >= ENOUGH_LATE and self.alike <= MOST_ALIKE and math.isfinite(self.high)

    @property
    def half_width(self) -> float:
        """Half-width of the interval over the estimate."""
        return (self.high - self.low) / 2 / self.estimate if self.estimate else math.inf


def mean_of(
    value: Latencies,
    fresh: Flags,
    over: Latencies | None = None,
    *,
    confidence: float = CONFIDENCE,
) -> Mean:
    """Return the ratio of a sum of values to a sum of weights, with an interval.

    By request: its latency over 1 gives the mean latency; its waiting time over the gap to the next
    arrival, the mean number of waiting requests (J. Little, 1961); its service time over that gap,
    the utilization; 1 over that gap, the throughput.

    Parameters
    ----------
    value : float64[requests]
        In the order of arrival.
    fresh : bool[requests]
        Requests that begin a busy period.
    over : float64[requests], optional
        Weights; 1 each by default.

    Raises InvalidInput for an invalid argument, or without requests.

    Complexity: linear. Source: the ratio estimator of ``batches``.
    """
    count = checked(value, fresh)
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
    at = count - max(int(count * LARGEST), 1)
    periods = periods_of(np.flatnonzero(value >= np.partition(value, at)[at]), begins)
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
    below, above = interval_reach(freedom_of(others, each), confidence, skewness, skewness)
    # The mean of values that are never negative is not negative either.
    least = 0.0 if value.min() >= 0 else -math.inf
    low, high = max(estimate - error * below, least), estimate + error * above
    return Mean(estimate, low, high, confidence, periods, alike)
