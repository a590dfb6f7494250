"""The fewest late requests of any policy, on one server as fast as all devices together."""

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
"""Halvings of the rates between which the least lies."""


def pooled(question: Question, slo: Slos, prices: Sequence[Prices]) -> Iterator[Bound]:
    """Rate below which too many are late of any policy, by prices that are ``alike``.

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
    """Rate at which more than the allowed number are late, nearly the highest such."""
    times = time_s.tolist()
    if len(times) <= allowed:
        return 0.0
    # With every request in time alone and at once, none is late; below one a limit all are.
    found = _highest_that(
        lambda rate: late_on(times, limit_s, rate, allowed) > allowed, 0.0, 2.0 / limit_s, STEPS
    )
    return found * (1 - 1e-9)


def _highest_that(fails: Callable[[float], bool], low: float, high: float, steps: int) -> float:
    """Nearly the highest rate from `low` on that fails, by so many halvings; `low`: none does."""
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
    """Requests that are late at least at a rate, or ``most + 1`` as soon as it is more."""
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


# Drawn requests

NEVER_S = 1e18
"""The latency of what is left out."""

LOWER = (0.01, 0.025, 0.05)
"""How far below the rate of other requests it is tried, one after another."""

HALVINGS = 10
"""Of the rates between which that of other requests is sought."""

Floats = NDArray[np.float64]


def pooled_drawn(
    question: Question, arrivals: Arrivals, others: Arrivals, error: float
) -> Iterator[Bound]:
    """Rates below which too many are late of any policy, and what each may be wrong by.

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
    """Rate that must be on time of all streams together, in their proportions."""
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
    """Whether requests say that one server of that rate has too many late."""
    latency_s, fresh = greedy(time_s, limit_s, rate)
    return verdict_of(latency_s, fresh, share, limit_s, 1 - error).answer == "misses"


def greedy(time_s: Floats, limit_s: float, rate: float) -> tuple[Floats, NDArray[np.bool_]]:
    """Latencies on one server that leaves out what would be late; who finds it with nothing to do.

    What it leaves out never is answered. O(requests).
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
    """A rate of which requests say that it misses, nearly the highest such; 0: none was found."""
    comes = len(time_s) / max(float(time_s[-1] - time_s[0]), 1e-300)
    # Below what must be on time in the long run another bound excludes, and no server is ever idle.
    least = share * comes
    found = _highest_that(
        lambda rate: misses(time_s, limit_s, rate, share, error),
        least,
        max(comes, 1.0 / limit_s),
        HALVINGS,
    )
    return found if found > least else 0.0
