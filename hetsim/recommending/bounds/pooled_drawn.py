"""The pooled server on drawn requests: a rate at which too many are late in the long run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.confidence.verdict import verdict_of
from hetsim.recommending.bounds.bound import Bound, choices, judged, limits_s
from hetsim.recommending.bounds.prices import alike, usable
from hetsim.recommending.question import Arrivals, Question

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
    """Yield rates below which too many are late of any policy, each with what it may be wrong by.

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


def share_of(question: Question, slo: Sequence[int | None]) -> float:
    """What is to be on time of all streams together, as often as each comes."""
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
    """Return whether requests say that one server of that rate has too many late."""
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
    low = least = share * comes
    high = max(comes, 1.0 / limit_s)
    while misses(time_s, limit_s, high, share, error):
        low, high = high, 2 * high
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if misses(time_s, limit_s, middle, share, error):
            low = middle
        else:
            high = middle
    return low if low > least else 0.0
