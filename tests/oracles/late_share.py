"""What latencies say of an objective: counted where they are all, by busy periods where drawn.

Told again from docs/decisions/24 and 26: the run is cut into 32 batches of whole busy periods. How
many requests are beyond the percentile that is asked for is off by as much as batches differ; the
percentile lies between the latencies that so many more and so many fewer are beyond.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

NEVER_S = 1e18
BATCHES, PERIODS, ALIKE = 32, 50, 0.4
EQUAL_FROM = 200
LATELY, SIGMAS = 0.1, 3.0
Array = np.ndarray[Any, Any]


def latencies(arrival: Array, finish: Array) -> Array:
    """Return latencies rounded to 256 units in the last place of the latest end."""
    served = np.isfinite(finish)
    unit = 256 * np.spacing(np.max(finish[served], initial=0.0))
    rounded = np.rint(np.where(served, finish - arrival, 0.0) / unit) * unit
    return np.where(served, rounded, NEVER_S)


def counted(late: int, requests: int, share: float) -> str:
    """Return what is so where nothing is drawn."""
    return "meets" if requests - late >= share * requests else "misses"


def may_be_late(requests: int, share: float) -> int:
    """Return how many may be late at most; -1: not even none is on time enough."""
    late = int(requests * (1 - share)) + 2
    while late >= 0 and counted(late, requests, share) == "misses":
        late -= 1
    return min(late, requests)


def estimated(latency: Array, fresh: Array, share: float, limit: float, error: float) -> str:
    """Return what a long run says, wrong at most so often; "undecided" where it is too short."""
    ordered = np.sort(latency)
    beyond = 1 - 100 * share / 100

    def place(part: float) -> float:
        rank = math.ceil(len(ordered) * (1 - part))
        return float(ordered[min(max(rank, 1), len(ordered)) - 1])

    begins = np.flatnonzero(fresh)
    at = place(beyond)
    late = latency > at
    found = _reach(late, begins, 1 - error)
    wanted = len(ordered) - math.ceil(len(ordered) * (1 - beyond))
    missing = wanted - int(late.sum())
    if found is None and missing and wanted >= EQUAL_FROM and _periods(late, begins) < PERIODS:
        # Few are beyond it, many equal to it: some of these, evenly spread, count as beyond.
        equal = np.flatnonzero(latency == at)
        late[equal[np.arange(missing) * len(equal) // missing]] = True
        found = _reach(late, begins, 1 - error)
    if found is None or found[1] >= beyond:
        over = latency > limit
        found = _reach(over, begins, 1 - error, held=False)
        if found is None:
            return "undecided"
        part = float(over.mean())
        if part - found[0] > beyond:
            return "misses"
        return "meets" if part + found[1] < beyond else "undecided"
    below, above = found
    if place(beyond - above) <= limit:
        return "meets"
    return "misses" if place(min(beyond + below, 1.0)) > limit else "undecided"


def _periods(late: Array, begins: Array) -> int:
    """Return in how many busy periods somebody was late."""
    return len(np.unique(np.searchsorted(begins, np.flatnonzero(late), side="right")))


def _reach(
    late: Array, begins: Array, sure: float, *, held: bool = True
) -> tuple[float, float] | None:
    """Return how far the share of late requests may be off, down and up; None: nobody knows.

    `held`: the run has just this share where they begin to be late.
    """
    # Where nothing is drawn, half of the start-up is saved.
    from scipy import special

    requests, when = len(late), np.flatnonzero(late)
    wanted = np.arange(1, BATCHES) * requests // BATCHES
    begins_later = begins[begins > 0]
    places = np.unique(np.searchsorted(begins_later, wanted))
    cuts = np.r_[0, begins_later[places[places < len(begins_later)]], requests]
    freedom = len(cuts) - 2
    # Late requests of each busy period that has any.
    periods = np.unique(np.searchsorted(begins, when, side="right"), return_counts=True)[1]
    if freedom < 1 or len(periods) < PERIODS:
        return None
    share = len(when) / requests
    apart = np.diff(np.searchsorted(when, cuts)) - share * np.diff(cuts)
    spread = float(apart @ apart)
    if not spread or float(apart[1:] @ apart[:-1]) / spread > ALIKE:
        return None if spread else (0.0, 0.0)
    deviation = math.sqrt(spread * (freedom + 1) / freedom) / requests
    second, third, fourth = (float((periods.astype(float) ** k).sum()) for k in (2, 3, 4))
    quantile = float(special.stdtrit(2 / (2 / freedom + fourth / second**2), sure))
    skew = third / second**1.5
    follows = skew - deviation / share if held else skew
    bend = (3 * follows - skew) / 6
    shift = follows / 2 - bend

    def unbent(reach: float) -> float:
        if abs(bend) < 1e-9:
            return reach
        return float((math.cbrt(1 + 3 * bend * reach) - 1) / bend)

    return unbent(quantile - shift) * deviation, -unbent(-quantile - shift) * deviation


def overloaded(arrival: Array, finish: Array, fresh: Array, rate: float) -> tuple[bool, float]:
    """Return whether a model falls behind for good, and which share of what comes it carries."""
    first, last = float(arrival[0]), float(arrival[-1])
    begins = arrival[fresh]
    since = float(begins[-1]) if len(begins) else first
    if last - since <= (last - first) / 2:
        return False, 1.0
    ends = np.sort(finish[(finish > since) & (finish <= last)])
    came = arrival[arrival >= since]
    left = len(came) - np.count_nonzero(finish[arrival >= since] <= last)
    chance = (len(came) - 1) * (_variation(np.diff(came)) + _variation(np.diff(ends)))
    carried = len(ends) / (last - since)
    return bool(left > 1 + SIGMAS * math.sqrt(chance) and rate > carried), carried / rate


def _variation(gaps: Array) -> float:
    mean = float(gaps.mean()) if len(gaps) > 1 else 0.0
    return float(gaps.var()) / mean**2 if mean else 0.0
