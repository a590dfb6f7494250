"""The fewest late requests of any policy, on one server as fast as all devices together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from hetsim.recommending.bounds.bound import Bound, judged, late_allowed, limits_s
from hetsim.recommending.bounds.prices import Prices, usable
from hetsim.recommending.question import Question

STEPS = 40
"""Halvings of the rates between which the least lies."""


def pooled(
    question: Question, slo: Sequence[int | None], prices: Sequence[Prices]
) -> Iterator[Bound]:
    """Yield the rate below which too many are late of any policy, by prices that are ``alike``.

    *Proof.* Every request that is answered in time had its part of the time of devices and links,
    worth 1 or more by `capacity` in whichever useful way it was served, between its arrival and the
    limit after it. So all that were in time are in time on one server that does ``d = sum n_k
    c_k`` requests a second, and may put any of them off and go on later. There, of requests that
    need the same and may take the same time, the first that came may go first (exchange: whenever
    a later one is served while an earlier one, in time too, waits, let them change places; both
    stay in time), and then nothing is gained by putting one off. Which to leave out: going
    through them in order, each that would be late if it were added to those that were kept. After
    each request the kept ones are as many as can be, and end as early as so many can: as requests
    need the same, leaving out another one in its place ends no earlier. So the greedy has the
    fewest late; what it counts at a rate, any policy has at least on a vector of that rate. At a
    higher rate it counts no more, as each schedule stays possible. With several streams, the
    longest limit is taken for all, and their late ones are allowed together.
    """
    arrivals = question.arrivals
    if arrivals is None:
        return
    able = usable(prices)
    if not able:
        return
    allowed = sum(many for _, many in late_allowed(question, slo, arrivals))
    time_s = arrivals.time_s[judged(question, slo, arrivals)]
    limit_s = float(np.nanmax(limits_s(question, slo)))
    least = least_rate(time_s, limit_s, allowed)
    if least > 0:
        for capacity, worth in able:
            yield Bound("pooled", capacity, least, tuple(slo), worth)


def least_rate(time_s: NDArray[np.float64], limit_s: float, allowed: int) -> float:
    """Return a rate at which more than so many are late, nearly the highest such."""
    times = time_s.tolist()
    if len(times) <= allowed:
        return 0.0
    # With every request in time alone and at once, none is late; below one a limit all are.
    low, high = 0.0, 2.0 / limit_s
    while late_on(times, limit_s, high, allowed) > allowed:
        low, high = high, 2 * high
    for _ in range(STEPS):
        if high - low <= low * 1e-9:
            break
        middle = (low + high) / 2
        if late_on(times, limit_s, middle, allowed) > allowed:
            low = middle
        else:
            high = middle
    return low * (1 - 1e-9)


def late_on(times: Sequence[float], limit_s: float, rate: float, most: int) -> int:
    """Return how many are late at least at a rate, or ``most + 1`` as soon as it is more."""
    takes = 1.0 / rate
    free = -np.inf
    late = 0
    for time in times:
        end = (free if free > time else time) + takes
        if end > time + limit_s:
            late += 1
            if late > most:
                return late
        else:
            free = end
    return late
