"""A percentile of the latencies of one long run, with an interval that holds it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hetsim.base.checks import number
from hetsim.confidence.batches import Flags, Latencies, LateShare, late_share
from hetsim.confidence.ordered import Ordered
from hetsim.errors import InvalidInput

MARGIN = 1.05
"""By how much a guess of how long a run must be is stretched: half of them would be too short."""

LEAST = 1.1
"""By how much a run grows at least before it is looked at again."""


@dataclass(frozen=True, slots=True)
class Percentile:
    """A percentile of latencies.

    Attributes
    ----------
    percentile : float
        Above 0 and below 100.
    estimate_s : float
    low_s, high_s : float
        The interval; `high_s` is infinite where the run says nothing of it.
    confidence : float
        How often such an interval holds the true percentile, where the run is long enough.
    late : LateShare
        Of the requests beyond the estimate: what the interval is made of.
    """

    percentile: float
    estimate_s: float
    low_s: float
    high_s: float
    confidence: float
    late: LateShare

    @property
    def enough(self) -> bool:
        """Whether the run is long enough for the interval to be what it says."""
        return self.late.enough and math.isfinite(self.high_s)

    @property
    def half_width(self) -> float:
        """Half of the interval over the estimate."""
        return (self.high_s - self.low_s) / 2 / self.estimate_s if self.estimate_s else math.inf

    def requests_for(self, precision: float) -> int:
        """Return after how many requests to look whether half of the interval is that narrow.

        About as many as it takes, for it is as narrow as the root of their number; at most twice
        as many as there are, as what it is made of may be off.
        """
        requests = self.late.requests
        if not self.enough:
            return 2 * requests
        missing = MARGIN * (self.half_width / precision) ** 2
        return math.ceil(requests * min(max(missing, LEAST), 2.0))


def percentile_of(
    latency_s: Latencies, fresh: Flags, percentile: float, confidence: float = 0.95
) -> Percentile:
    """Return a percentile of latencies with an interval.

    How many are beyond the estimate is off by what ``late_share`` says; the interval reaches
    from the latency that so many more are beyond to the one that so many fewer are beyond.

    Parameters
    ----------
    latency_s : float64[requests]
        In the order of arrival.
    fresh : bool[requests]
        Those with which a busy period begins.
    percentile : float
        Above 0 and below 100.
    confidence : float
        Above 0 and below 1.

    Raises
    ------
    InvalidInput
        Where an argument makes no sense, or there is no request.

    Complexity: linear. Source: R. Woodruff, Confidence intervals for medians and other position
    measures, JASA 47 (1952), https://doi.org/10.1080/01621459.1952.10483443; the share and its
    error there are those of a survey, here of a run.
    """
    count = checked(latency_s, fresh)
    for value, name, most in ((percentile, "percentile", 100), (confidence, "confidence", 1)):
        number(above=0)(value, name)
        if value >= most:
            raise InvalidInput(f"{name} is {value:g}", hint=f"it is below {most}")
    beyond = 1 - percentile / 100
    ordered = Ordered(latency_s, beyond)
    estimate = ordered.at(_place(count, beyond))
    late = late_share(latency_s > estimate, fresh)
    if not late.late:
        # All of the largest are equal: they are what the percentile rests on.
        late = late_share(latency_s >= estimate, fresh)
    # Where the true share beyond the estimate is larger, the true percentile is higher.
    fewer, more = late.reach(confidence, held=True)
    low = ordered.at(_place(count, min(beyond + fewer, 1.0)))
    high = math.inf if more >= beyond else ordered.at(_place(count, beyond - more))
    return Percentile(percentile, estimate, low, high, confidence, late)


def checked(latency_s: Latencies, fresh: Flags) -> int:
    """Return the number of requests. Raises InvalidInput where the arrays do not fit."""
    if latency_s.ndim != 1 or latency_s.shape != fresh.shape:
        raise InvalidInput("latency_s and fresh are no two arrays of one length")
    if not len(latency_s):
        raise InvalidInput("there is no request")
    return len(latency_s)


def _place(count: int, beyond: float) -> int:
    """Return the place, among latencies in order, that this share of them is beyond."""
    return min(max(math.ceil(count * (1 - beyond)) - 1, 0), count - 1)
