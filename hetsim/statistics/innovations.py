"""What the past does not tell of the next arrival, as a control of how many requests are late.

Where gaps between arrivals are independent, how much longer than their mean one lasts has a mean
of 0 whatever happened before. Where the latency of a request is certain once it has come, so has
that *innovation* times any function of the latency: a sum over a run of which the true mean is
known, and which is large where many are late. What is beyond a percentile by the luck of the gaps
follows from it, and what remains is sure after a small part of the requests.

How late a request makes those after it, by the gap that follows it, is nearly proportional to
``exp(theta min(latency, limit))`` in a queue that is often busy, where theta is how latencies fall
off: the solution of Poisson's equation for the share beyond the limit, of Brownian motion that is
reflected at 0. It need not be right: any function has the mean 0, this one takes most away.

Source: S. Henderson and P. Glynn, Approximating martingales for variance reduction in Markov
process simulation, Mathematics of Operations Research 27 (2002),
https://doi.org/10.1287/moor.27.2.253.329; the function is ours.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hetsim.statistics.arrays import Latencies


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
