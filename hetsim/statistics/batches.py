"""Share of late requests of one long run, with an interval from batches of whole busy periods.

X"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy import special

Latencies: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]


class Remaining(NamedTuple):
    """What deviations of busy periods are once the part is taken away that a control explains.

    Attributes
    ----------
    each : float64[busy periods]
    luck : float
        The sum of what was taken away.
    """

    each: Latencies
    luck: float


def innovations_of(arrival_s: Latencies, rate_per_s: float) -> Latencies:
    """Return by how much the gap after each of some arrivals is longer than its mean, over that.

    Gaps are to be independent, with a mean of 1 over the rate. That of the last is not known:
    0. Complexity: linear.
    """
    found = np.zeros(len(arrival_s))
    np.subtract(arrival_s[1:], arrival_s[:-1], out=found[:-1])
    found[:-1] *= rate_per_s
    found[:-1] -= 1.0
    return found


def control_of(
    latency_s: Latencies,
    innovation: Latencies,
    limit_s: float,
    least_s: float,
    per_second: float,
) -> Latencies:
    """Return innovations by how much they make others later than `limit_s`: of mean 0 each.

    Parameters
    ----------
    latency_s, innovation : float64[requests]
    limit_s, least_s : float
        Where the function stays as it is, and where it is 0.
    per_second : float
        How latencies fall off: theta.

    Complexity: linear.
    """
    weight = np.minimum(latency_s, limit_s)
    weight -= limit_s
    weight *= per_second
    np.exp(weight, out=weight)
    weight -= math.exp(per_second * (least_s - limit_s))
    weight *= innovation
    return weight


def remaining(each: Latencies, controls: Latencies, requests: Latencies) -> Remaining:
    """Take from deviations what is proportional to those of a control.

    Parameters
    ----------
    each : float64[busy periods]
        Sums of deviations from their mean over all.
    controls : float64[busy periods]
        Sums of the control, of which the true mean is 0.
    requests : float64[busy periods]

    What is taken from each busy period is by the factor of least squares of the others, which
    knows nothing of it: so it has a mean of 0, too, and what remains is as large as it is where
    the factor was not fitted (a jackknife; J. MacKinnon and H. White, 1985,
    https://doi.org/10.1016/0304-4076(85)90158-7).
    """
    products, squares = each * controls, controls * controls
    others = squares.sum() - squares
    factors = np.zeros(len(each))
    np.divide(products.sum() - products, others, out=factors, where=others > 0)
    taken = factors * controls
    luck = float(taken.sum())
    return Remaining(each - taken + requests * (luck / float(requests.sum())), luck)


BATCHES = 32
"""Few enough for each to be long, many enough for the t quantile to be near the normal one."""

GROUPS = BATCHES << 9
"""Of busy periods, at most, of which each says by itself what a control explains."""

ENOUGH_LATE = 50
"""Busy periods that must have had late requests before anything is said."""

ENOUGH_CONTROLLED = 100
"""The same where a control takes most of their error away: it is known by fewer of them."""

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
    skewness : float
        Of the sum over busy periods: they have many late requests or none.
    alike : float
        Correlation of what neighbouring batches deviate by.
    luck : float
        What of the share is known to be by chance: the true one is taken to be so much less.
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
        """Whether its error can be trusted: late in enough busy periods, batches unlike."""
        return self.late_periods >= self.needed and self.alike <= MOST_ALIKE

    def reach(self, confidence: float, *, held: bool = False) -> tuple[float, float]:
        """Return how far below and above the share the true one may be, at this confidence.

        `held` says that the limit is where the run has just this share, so that its error is that
        of this many late requests, however many there truly are.
        """
        if not self.freedom:
            return math.inf, math.inf
        follows = self.skewness
        if held and self.share:
            follows -= self.error / self.share
        below, above = reach_of(self.freedom, confidence, self.skewness, follows)
        return below * self.error, above * self.error

    def half_width(self, confidence: float) -> float:
        """Return half of the interval that this makes."""
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
    error = math.sqrt(squares * (others + 1) / others) / requests
    alike = float(deviations[1:] @ deviations[:-1]) / squares if squares else 0.0
    return LateShare(
        share=share,
        error=error,
        requests=requests,
        late=when.size,
        late_periods=periods,
        freedom=freedom_of(others, each),
        skewness=skewness_of(each),
        alike=alike,
        luck=luck / requests,
        needed=ENOUGH_LATE if control is None else ENOUGH_CONTROLLED,
    )


def freedom_of(others: int, each: Latencies) -> float:
    """Return the degrees of freedom of a variance between batches, `others` but one of them.

    A few busy periods have most of the late requests, so sums over them are far from normal,
    and their variance is less sure: of sums of independent parts the fourth cumulant is that of
    the parts. What batches have too few of to say, the busy periods tell.

    Parameters
    ----------
    others : int
    each : float64[busy periods]
        What is summed up, of each busy period that has any.
    """
    squares = each * each
    total = float(squares.sum()) ** 2
    # Of what is too small for its squares to be told from 0 there is nothing to tell.
    tail = float(squares @ squares) / total if total else 0.0
    return 2 / (2 / others + tail)


def skewness_of(each: Latencies) -> float:
    """Return the skewness of the sum of what busy periods have: their third moment over all."""
    squares = each * each
    spread = float(squares.sum()) ** 1.5
    return float(squares @ each) / spread if spread else 0.0


def reach_of(
    freedom: float, confidence: float, skewness: float, follows: float
) -> tuple[float, float]:
    """Return how many standard errors below and above an estimate the truth may be.

    A run that saw few long busy periods is both too low and too sure: then an interval must reach
    further up. The estimate over its error has a mean of -f / 2 and a third cumulant of g - 3 f.

    Parameters
    ----------
    freedom : float
    confidence : float
    skewness : float
        g, of the estimate.
    follows : float
        f, the covariance of the estimate and of its error squared, each relative to its spread:
        g of a sum, whose error is the root of a sum of squares of the same parts. Of a share that
        is held, the relative error less: with as many late requests as there must be, a run has
        as many more busy periods as each has fewer.

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
    """Return of how many busy periods requests are, ascending; they begin with `begins`."""
    return int(_numbered(when, begins)[-1]) + 1 if when.size else 0


def _numbered(when: np.ndarray[Any, Any], begins: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the busy period of each request, of those that have any numbered from 0 on."""
    # What comes before the first beginning counts to the busy period that the run began in.
    period = np.searchsorted(begins, when, side="right")
    return np.cumsum(np.diff(period, prepend=period[:1]) != 0)


def cuts_of(
    begins: np.ndarray[Any, Any], requests: int, batches: int = BATCHES
) -> np.ndarray[Any, Any]:
    """Return where batches begin, and the end: each the first busy period after its share.

    Of a multiple of so many batches they begin where these do, too.
    """
    inner = begins[begins > 0]
    wanted = np.arange(1, batches) * requests // batches
    after = np.searchsorted(inner, wanted)
    cuts = inner[np.unique(after[after < len(inner)])]
    return np.concatenate([[0], cuts, [requests]])
