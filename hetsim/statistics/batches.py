"""Share of late requests in one long run, with its confidence interval.

Requests that follow each other wait for each other, so the binomial interval for the share that is
late is far too narrow: of M/D/1 at load 0.95 one of 95 % for the 99th percentile of 20,000 requests
holds the true one 6 % of the time. Busy periods are independent of each other. So the run is cut
into batches of whole busy periods, and the share is judged by how much these differ: the ratio
estimator of regenerative simulation (M. Crane and D. Iglehart, Operations Research 23 (1975),
https://doi.org/10.1287/opre.23.1.33), with batches in the place of single busy periods, so that a t
quantile holds for few and correlated arrivals stay within a batch.

Control variate: where gaps between arrivals are independent, the *innovation* of a gap (how much
longer than its mean it lasts) has mean 0 whatever happened before, and so has its product with any
function of the latency of the request before it. ``exp(theta min(latency, limit))`` takes most of
the error away in a queue that is often busy: it solves Poisson's equation for the share beyond the
limit of reflected Brownian motion, where theta is how latencies fall off (S. Henderson and P.
Glynn, Mathematics of Operations Research 27 (2002), https://doi.org/10.1287/moor.27.2.253.329; the
function is ours).
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

GROUPS = BATCHES << 9
"""Most groups of busy periods, each of which has its own part of what a control explains."""

ENOUGH_LATE = 50
"""Busy periods that must have had late requests before anything is said."""

ENOUGH_CONTROLLED = 100
"""The same with a control, whose effect is known by fewer of them."""

MOST_ALIKE = 0.4
"""Correlation of neighbouring batches above which they are too short: 1 % of independent ones."""


@dataclass(frozen=True, slots=True)
class LateShare:
    """Share of the requests that are late.

    Attributes
    ----------
    error : float
        Its standard error; infinite where there are too few busy periods to tell.
    late_periods : int
        Busy periods in which one was late.
    freedom : float
        Degrees of freedom of the error; 0 where there is none.
    skewness : float
        Of the sum over busy periods: they have many late requests or none.
    alike : float
        Correlation of the deviations of neighbouring batches.
    luck : float
        Part of the share that is known to be by chance: the true one is taken to be less by it.
    needed : int
        Busy periods that must have late requests for the error to be trusted.
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
        """Whether the interval is reliable: late in enough busy periods, batches differ."""
        return self.late_periods >= self.needed and self.alike <= MOST_ALIKE

    def reach(self, confidence: float, *, held: bool = False) -> tuple[float, float]:
        """Return the distances from the share to the ends of its interval at this confidence."""
        if not self.freedom:
            return math.inf, math.inf
        follows = self.skewness
        if held and self.share:
            follows -= self.error / self.share
        below, above = reach_of(self.freedom, confidence, self.skewness, follows)
        return below * self.error, above * self.error

    def half_width(self, confidence: float) -> float:
        """Return half of the interval at this confidence."""
        return sum(self.reach(confidence)) / 2


def late_share(late: Flags, fresh: Flags, control: Latencies | None = None) -> LateShare:
    """Return the share of requests that are late.

    Parameters
    ----------
    late : bool[requests]
        In the order of arrival.
    fresh : bool[requests]
        Those with which a busy period begins: they found nothing to wait for.
    control : float64[requests], optional
        Of mean 0 each whatever was before: what it explains is luck, and no error.

    Complexity: linear.
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
    """Return the degrees of freedom of a variance between batches, `others` of them but one.

    A few busy periods have most of the late requests, so sums over them are far from normal and
    their variance is less sure: the fourth cumulant of a sum of independent parts is that of the
    parts, and these are the sums `each` of all busy periods.
    """
    squares = each * each
    total = float(squares.sum()) ** 2
    # Of what is too small for its squares to be told from 0 there is nothing to tell.
    tail = float(squares @ squares) / total if total else 0.0
    return 2 / (2 / others + tail)


def skewness_of(each: Latencies) -> float:
    """Return the skewness of a sum over busy periods: their third moment over all."""
    squares = each * each
    spread = float(squares.sum()) ** 1.5
    return float(squares @ each) / spread if spread else 0.0


def reach_of(
    freedom: float, confidence: float, skewness: float, follows: float
) -> tuple[float, float]:
    """Return the number of standard errors from an estimate to each end of its interval.

    A run that saw few long busy periods is both too low and too sure, so an interval must reach
    further up. The estimate over its error has mean -f / 2 and third cumulant g - 3 f, where g is
    the `skewness` of the estimate and f, `follows`, the covariance of the estimate and its squared
    error, each relative to its spread: g of a sum; of a share that is held less by its relative
    error, for with as many late requests as there must be, a run has as many more busy periods as
    each has fewer.

    Source: P. Hall, On the removal of skewness by transformation, JRSS B 54 (1992),
    https://doi.org/10.1111/j.2517-6161.1992.tb01876.x; where f is not g its cubic has other
    coefficients, and the third moment is of busy periods, of which there are more than batches.
    """
    bend = (3 * follows - skewness) / 6
    shift = follows / 2 - bend
    reach = float(special.stdtrit(freedom, 0.5 + confidence / 2))
    return _unbent(reach - shift, bend), -_unbent(-reach - shift, bend)


def _unbent(reach: float, bend: float) -> float:
    """Return t where t + bend t**2 + bend**2 t**3 / 3 is `reach`: it ascends with t."""
    if abs(bend) < 1e-9:
        return reach
    return (math.cbrt(1 + 3 * bend * reach) - 1) / bend


def periods_of(when: np.ndarray[Any, Any], begins: np.ndarray[Any, Any]) -> int:
    """Return how many busy periods requests at ascending places are of; they begin at `begins`."""
    return int(_numbered(when, begins)[-1]) + 1 if when.size else 0


def _numbered(when: np.ndarray[Any, Any], begins: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the busy period of each request, of those that have any numbered from 0 on."""
    # What comes before the first beginning counts to the busy period that the run began in.
    period = np.searchsorted(begins, when, side="right")
    return np.cumsum(np.diff(period, prepend=period[:1]) != 0)


def cuts_of(
    begins: np.ndarray[Any, Any], requests: int, batches: int = BATCHES
) -> np.ndarray[Any, Any]:
    """Return the starts of batches, and the end: each the first busy period after its share."""
    inner = begins[begins > 0]
    wanted = np.arange(1, batches) * requests // batches
    after = np.searchsorted(inner, wanted)
    cuts = inner[np.unique(after[after < len(inner)])]
    return np.concatenate([[0], cuts, [requests]])


def innovations_of(arrival_s: Latencies, rate_per_s: float) -> Latencies:
    """Return the excess of the gap after each arrival over the mean gap, relative to it.

    Gaps are to be independent, with mean 1 over the rate. That of the last is not known: 0.
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

    `each` are deviations from the mean over all, `controls` of true mean 0. The factor on the
    control of a busy period is that of least squares of the others, which knows nothing of it, so
    that what is taken has mean 0 and what remains is as large as where nothing was fitted (a
    jackknife; J. MacKinnon and H. White, 1985, https://doi.org/10.1016/0304-4076(85)90158-7).
    """
    products, squares = each * controls, controls * controls
    others = squares.sum() - squares
    factors = np.zeros(len(each))
    np.divide(products.sum() - products, others, out=factors, where=others > 0)
    taken = factors * controls
    luck = float(taken.sum())
    return each - taken + requests * (luck / float(requests.sum())), luck
