"""Fewest late requests of any policy, on one server as fast as all devices together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.provisioning.platforms.bounds.bound import (
    Bound,
    Prices,
    Slos,
    choices,
    judged,
    late_allowed,
    limits_s,
)
from hetsim.provisioning.platforms.bounds.prices import alike, usable
from hetsim.provisioning.platforms.question import Arrivals, Question
from hetsim.statistics.verdict import verdict_of

STEPS = 40
"""Number of bisection steps for the least rate."""


def pooled(question: Question, slo: Slos, prices: Sequence[Prices]) -> Iterator[Bound]:
    """Yield the rate below which any policy has too many late requests, by ``alike`` prices.

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
    """Return a rate near the highest at which more than the allowed number are late."""
    times = time_s.tolist()
    if len(times) <= allowed:
        return 0.0
    # At this rate every request alone is in time; with less than one per limit all are late.
    found = _highest_that(
        lambda rate: late_on(times, limit_s, rate, allowed) > allowed, 0.0, 2.0 / limit_s, STEPS
    )
    return found * (1 - 1e-9)


def _highest_that(fails: Callable[[float], bool], low: float, high: float, steps: int) -> float:
    """Return nearly the highest rate above `low` that fails, by bisection; `low` if none does."""
    while fails(high):
        low, high = high, 2 * high
    for _ in range(steps):
        if high - low <= low * 1e-9:
            break
        middle = (low + high) / 2
        if fails(middle):
            low = middle
        else:
            high = middle
    return low


def late_on(times: Sequence[float], limit_s: float, rate: float, most: int) -> int:
    """Return the minimum number of late requests at a rate, or ``most + 1`` once it is exceeded."""
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


# Random requests

NEVER_S = 1e18
"""Latency of requests that are left out."""

LOWER = (0.01, 0.025, 0.05)
"""Relative distances below the rate of other requests, tried in order."""

HALVINGS = 10
"""Number of bisection steps for the rate of other requests."""

Floats = NDArray[np.float64]


def pooled_drawn(
    question: Question, arrivals: Arrivals, others: Arrivals, error: float
) -> Iterator[Bound]:
    """Yield rates below which any policy has too many late requests, with error probabilities.

    *Proof.* As of given requests (``pooled``): of the first so many, however many these are, none
    leaves out fewer than the greedy. So in the long run no policy has a lower share of late ones on
    a vector of that rate, or a lower one. That the greedy's share is more than may be is a verdict
    like any other (decision 24): its busy periods are those of one server. Of streams
    together more are late than may be of all only where that is so of one of them.

    Which rate to ask about follows from `others`, which are drawn from another seed, so a
    verdict is not chosen among many. It is asked of `arrivals` at up to three rates, at a half,
    a quarter and an eighth of the error of its streams and objectives; all bounds together are
    wrong with a probability of `error` at most.
    """
    asked = choices(question)
    for slo in asked:
        prices = usable(alike(question, slo))
        limit_s, share = float(np.nanmax(limits_s(question, slo))), share_of(question, slo)
        mine, pilot = (one.time_s[judged(question, slo, one)] for one in (arrivals, others))
        if not prices or not len(mine) or not len(pilot):
            continue
        start = _highest(pilot, limit_s, share, error / len(asked) / 16)
        for place, below in enumerate(LOWER):
            rate = start * (1 - below)
            spent = error / len(asked) / 2 ** (place + 1)
            if rate > 0 and misses(mine, limit_s, rate, share, spent):
                least = rate * (1 - 1e-9)
                for capacity, worth in prices:
                    yield Bound(
                        "pooled",
                        capacity,
                        least,
                        tuple(slo),
                        worth,
                        error=spent,
                        requests=len(arrivals),
                    )
                break


def share_of(question: Question, slo: Slos) -> float:
    """Return the total rate that must be on time over all streams, in their proportions."""
    rates = np.zeros(len(question.streams))
    for ask in question.asks:
        rates[ask.stream] += ask.rate_per_s or 0.0
    rows = [
        (rates[at], question.streams[at].slos[which].share)
        for at, which in enumerate(slo)
        if which is not None
    ]
    return float(sum(rate * share for rate, share in rows) / sum(rate for rate, _ in rows))


def misses(time_s: Floats, limit_s: float, rate: float, share: float, error: float) -> bool:
    """Return whether requests show that one server of that rate has too many late ones."""
    latency_s, fresh = greedy(time_s, limit_s, rate)
    return verdict_of(latency_s, fresh, share, limit_s, 1 - error).answer == "misses"


def greedy(time_s: Floats, limit_s: float, rate: float) -> tuple[Floats, NDArray[np.bool_]]:
    """Return latencies on one server that omits late requests; and which found it idle.

    Omitted requests are never answered. O(requests).
    """
    takes = 1.0 / rate
    free = -np.inf
    latency: Any = []
    fresh: Any = []
    for time in time_s.tolist():
        fresh.append(free <= time)
        end = (free if free > time else time) + takes
        if end > time + limit_s:
            latency.append(NEVER_S)
        else:
            free = end
            latency.append(end - time)
    return np.array(latency), np.array(fresh)


def _highest(time_s: Floats, limit_s: float, share: float, error: float) -> float:
    """Return nearly the highest rate that requests show to miss; 0 if none was found."""
    comes = len(time_s) / max(float(time_s[-1] - time_s[0]), 1e-300)
    # Below the rate that must be on time, another bound excludes, and no server is ever idle.
    least = share * comes
    found = _highest_that(
        lambda rate: misses(time_s, limit_s, rate, share, error),
        least,
        max(comes, 1.0 / limit_s),
        HALVINGS,
    )
    return found if found > least else 0.0
