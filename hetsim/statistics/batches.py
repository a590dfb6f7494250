"""Share of late requests in one long run, with its confidence interval.

Successive requests wait for each other, so the binomial interval for the share of late ones is far
too narrow: for M/D/1 at load 0.95 a 95 % interval of the 99th percentile of 20,000 requests
contains the true one 6 % of the time. Busy periods are independent of each other. So the run is cut
into batches of whole busy periods, and the error of the share is estimated from their variation:
the ratio estimator of regenerative simulation (M. Crane and D. Iglehart, Operations Research 23
(1975), https://doi.org/10.1287/opre.23.1.33), with batches instead of single busy periods, so that
a t quantile holds for few and correlated arrivals stay within a batch.

Control variate: if gaps between arrivals are independent, the *innovation* of a gap (its excess
over the mean gap) has mean 0 given the past, and so has its product with any function of the
latency of the request before it. ``exp(theta min(latency, limit))`` removes most of the error in a
queue that is often busy: it solves Poisson's equation for the share beyond the limit of reflected
Brownian motion, where theta is the decay rate of latencies (S. Henderson and P. Glynn, Mathematics
of Operations Research 27 (2002), https://doi.org/10.1287/moor.27.2.253.329; the function is ours).
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
"""Number of batches: few enough for long ones, enough for a t quantile close to the normal one."""

GROUPS = BATCHES << 9
"""Maximum number of groups of busy periods, each with its own coefficients of the controls."""

ENOUGH_LATE = 50
"""Minimum number of busy periods with late requests for a verdict."""

ENOUGH_CONTROLLED = 100
"""Minimum number with a control, whose effect is less certain with fewer of them."""

MOST_ALIKE = 0.4
"""Correlation of neighbouring batches above which they are too short: 1 % of independent ones."""


@dataclass(frozen=True, slots=True)
class LateShare:
    """Share of the requests that are late.

    `error` is the standard error of the share, infinite with too few busy periods, and `freedom`
    its degrees of freedom, 0 without an error. Late requests are in `late_periods` busy periods,
    and the error is reliable from `needed` of them on. `skewness` is that of the sum over busy
    periods, which have many late requests or none; `alike` the correlation of the deviations of
    neighbouring batches. The control attributes the part `luck` of the share to chance; the
    estimate is the rest.
    """

    share: float
    error: float
    requests: int
    late: int
    late_periods: int
    freedom: float
    skewness: float
    alike: float
    luck: float = 0.0
    needed: int = ENOUGH_LATE

    @property
    def enough(self) -> bool:
        """Whether the interval is reliable: late in enough busy periods, batches uncorrelated."""
        return self.late_periods >= self.needed and self.alike <= MOST_ALIKE

    def reach(self, confidence: float, *, held: bool = False) -> tuple[float, float]:
        """Return the distances from the share to the ends of its interval at this confidence."""
        if not self.freedom:
            return math.inf, math.inf
        follows = self.skewness
        if held and self.share:
            follows -= self.error / self.share
        below, above = interval_reach(self.freedom, confidence, self.skewness, follows)
        return below * self.error, above * self.error

    def half_width(self, confidence: float) -> float:
        """Return the half-width of the interval at this confidence."""
        return sum(self.reach(confidence)) / 2


def late_share(late: Flags, fresh: Flags, control: Latencies | None = None) -> LateShare:
    """Return the share of requests that are late.

    By request, in the order of arrival: whether it is `late`; whether it begins a busy period, as
    it found nothing to wait for (`fresh`); and optionally `control` values of mean 0 given the
    past: what they explain is chance, not part of the error. Complexity: linear.
    """
    begins = np.flatnonzero(fresh)
    when = np.flatnonzero(late)
    each = np.bincount(_numbered(when, begins)).astype(np.float64)
    requests, periods, luck = len(late), each.size, 0.0
    share = when.size / requests if requests else 0.0
    cuts = cuts_of(begins, requests)
    others = len(cuts) - 2
    if others < 1:
        return LateShare(share, math.inf, requests, when.size, periods, 0.0, 0.0, 0.0)
    if control is None:
        lates = np.diff(np.searchsorted(when, cuts))
        deviations = lates - share * np.diff(cuts)
    else:
        groups = cuts_of(begins, requests, GROUPS)
        counts, lates = np.diff(groups), np.diff(np.searchsorted(when, groups))
        controls = np.add.reduceat(control, groups[:-1])
        each, luck = remaining(lates - share * counts, controls, counts)
        deviations = np.add.reduceat(each, np.searchsorted(groups, cuts[:-1]))
    squares = float(deviations @ deviations)
    return LateShare(
        share=share,
        error=math.sqrt(squares * (others + 1) / others) / requests,
        requests=requests,
        late=when.size,
        late_periods=periods,
        freedom=freedom_of(others, each),
        skewness=skewness_of(each),
        alike=float(deviations[1:] @ deviations[:-1]) / squares if squares else 0.0,
        luck=luck / requests,
        needed=ENOUGH_LATE if control is None else ENOUGH_CONTROLLED,
    )


def freedom_of(others: int, each: Latencies) -> float:
    """Return the degrees of freedom of a variance between `others` + 1 batches.

    A few busy periods have most of the late requests, so sums over them are far from normal and
    their variance is less certain: the fourth cumulant of a sum of independent parts is the sum of
    theirs, and these are the sums `each` of all busy periods.
    """
    squares = each * each
    total = float(squares.sum()) ** 2
    # Values too small for their squares to differ from 0 have no tail.
    tail = float(squares @ squares) / total if total else 0.0
    return 2 / (2 / others + tail)


def skewness_of(each: Latencies) -> float:
    """Return the skewness of a sum over busy periods: their third moment over all."""
    squares = each * each
    spread = float(squares.sum()) ** 1.5
    return float(squares @ each) / spread if spread else 0.0


def interval_reach(
    freedom: float, confidence: float, skewness: float, follows: float
) -> tuple[float, float]:
    """Return the number of standard errors from an estimate to each end of its interval.

    A run with few long busy periods has both too low an estimate and too small an error, so an
    interval must reach further up. The estimate over its error has mean -f / 2 and third cumulant g
    - 3 f, where g is the `skewness` of the estimate and f, `follows`, the covariance of the
    estimate and its squared error, each relative to its spread: f is g for a sum; for a share that
    is held it is less by its relative error, as a run with a given number of late requests has more
    busy periods if each has fewer.

    Source: P. Hall, On the removal of skewness by transformation, JRSS B 54 (1992),
    https://doi.org/10.1111/j.2517-6161.1992.tb01876.x; if f is not g, its cubic has other
    coefficients, and the third moment is of busy periods, of which there are more than batches.
    """
    bend = (3 * follows - skewness) / 6
    shift = follows / 2 - bend
    reach = float(special.stdtrit(freedom, 0.5 + confidence / 2))
    return _unbent(reach - shift, bend), -_unbent(-reach - shift, bend)


def _unbent(reach: float, bend: float) -> float:
    """Solution t of t + bend t**2 + bend**2 t**3 / 3 = `reach`, whose left side ascends with t."""
    if abs(bend) < 1e-9:
        return reach
    return (math.cbrt(1 + 3 * bend * reach) - 1) / bend


def periods_of(when: np.ndarray[Any, Any], begins: np.ndarray[Any, Any]) -> int:
    """Return the number of busy periods of requests at ascending indices, given their `begins`."""
    return int(_numbered(when, begins)[-1]) + 1 if when.size else 0


def _numbered(when: np.ndarray[Any, Any], begins: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Number of each request's busy period, counted from 0 over those with requests in `when`."""
    # Requests before the first beginning belong to the busy period in which the run began.
    period = np.searchsorted(begins, when, side="right")
    return np.cumsum(np.diff(period, prepend=period[:1]) != 0)


def cuts_of(
    begins: np.ndarray[Any, Any], requests: int, batches: int = BATCHES
) -> np.ndarray[Any, Any]:
    """Return the starts of batches, and the end: each is the first busy period after its share."""
    inner = begins[begins > 0]
    wanted = np.arange(1, batches) * requests // batches
    after = np.searchsorted(inner, wanted)
    cuts = inner[np.unique(after[after < len(inner)])]
    return np.concatenate([[0], cuts, [requests]])


def innovations_of(arrival_s: Latencies, rate_per_s: float) -> Latencies:
    """Return the excess of the gap after each arrival over the mean gap, relative to it.

    Gaps must be independent, with mean 1 over the rate. The last gap is unknown: 0.
    """
    return np.append(np.diff(arrival_s) * rate_per_s - 1.0, 0.0)


def control_of(
    latency_s: Latencies,
    innovation: Latencies,
    limit_s: float,
    least_s: float,
    per_second: float,
) -> Latencies:
    """Return innovations weighted by their effect on the lateness of others over `limit_s`."""
    weight = np.exp((np.minimum(latency_s, limit_s) - limit_s) * per_second)
    weight -= math.exp(per_second * (least_s - limit_s))
    return np.asarray(weight * innovation)


def remaining(each: Latencies, controls: Latencies, requests: Latencies) -> tuple[Latencies, float]:
    """Return residuals of busy periods after regression on controls, and the explained part.

    `each` are deviations from the mean over all, `controls` of true mean 0. The coefficient of the
    control of a busy period is that of least squares over the others, which does not depend on it,
    so that the explained part has mean 0 and the residual is as large as without a fit (a
    jackknife; J. MacKinnon and H. White, 1985, https://doi.org/10.1016/0304-4076(85)90158-7).
    """
    products, squares = each * controls, controls * controls
    others = squares.sum() - squares
    factors = np.zeros(len(each))
    np.divide(products.sum() - products, others, out=factors, where=others > 0)
    taken = factors * controls
    luck = float(taken.sum())
    return each - taken + requests * (luck / float(requests.sum())), luck
