"""Verdict of a run on an objective: it meets it, misses it, or was too short to tell."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import special

from hetsim.core.checks import number, whole
from hetsim.errors import InvalidInput
from hetsim.statistics.batches import Flags, Latencies, LateShare, late_share
from hetsim.statistics.intervals import Located, checked, located

Answer = Literal["meets", "misses", "undecided"]
End = Literal["answered", "budget", "ended"]
"""Why a run ended: all was answered, its budget was spent, or no more requests came."""

FIRST_LOOK = 2**14
"""Requests after which a run is looked at first; then each time that it is twice as long."""

CONFIDENCE = 0.99
"""Of a verdict, over all looks at a run that grows; also LoadGen's own."""


@dataclass(frozen=True, slots=True)
class EarlyStopping:
    """Verdict of MLPerf's LoadGen.

    Attributes
    ----------
    more : int
        Requests that it would take to be valid, if none of them were late; 0 where it is.
    """

    valid: bool
    more: int


def early_stopping(
    requests: int, late: int, share: float, confidence: float = CONFIDENCE
) -> EarlyStopping:
    """Return LoadGen's verdict on a run of its server scenario with this number of late requests.

    Valid where, were just `share` of all requests on time, as few late ones as these would be seen
    with a chance below 1 - `confidence`. It takes requests for independent, which in a queue they
    are not, and so calls too many runs at high load valid.

    Raises InvalidInput where an argument makes no sense.

    Complexity: logarithmic in the requests. Source: ``MinPassingQueriesFinder`` of LoadGen,
    https://github.com/mlcommons/inference/blob/master/loadgen/early_stopping.cc; its sum of the
    binomial distribution is the incomplete beta function here.
    """
    whole(0)(requests, "requests")
    whole(0, requests)(late, "late")
    for value, name in ((share, "share"), (confidence, "confidence")):
        number(above=0)(value, name)
        if value >= 1:
            raise InvalidInput(f"{name} is {value:g}", hint="it must be below 1")
    needed = late + least_on_time(late, share, confidence)
    return EarlyStopping(requests >= needed, max(needed - requests, 0))


def least_on_time(late: int, share: float, confidence: float = CONFIDENCE) -> int:
    """Return the number of requests on time that LoadGen requires beside `late` late ones."""

    def likely(on_time: int) -> bool:
        return float(special.betainc(on_time, late + 1, share)) >= 1 - confidence

    low, high = 0, 1
    while likely(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if likely(middle) else (low, middle)
    return high


@dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict of a run on one objective.

    Attributes
    ----------
    late : LateShare
        Of the requests beyond the latency that is asked for.
    off : float
        What that share may be off by, at the confidence of this look.
    more : int
        Requests that it would about take to tell; 0 where it is told.
    mlperf : EarlyStopping
        What LoadGen says of the same requests.
    """

    answer: Answer
    late: LateShare
    off: float
    more: int
    mlperf: EarlyStopping


def confidence_of_look(look: int, confidence: float = CONFIDENCE) -> float:
    """Return the confidence of look number `look`, from 1 on, for this overall confidence.

    What a run that is looked at again and again may err by is spent as 1/(look * (look + 1)).
    """
    return 1 - (1 - confidence) / (look * (look + 1))


def verdict_of(
    latency_s: Latencies,
    fresh: Flags,
    share: float,
    latency_limit_s: float,
    confidence: float = CONFIDENCE,
    at: Located | None = None,
) -> Verdict:
    """Return the verdict on the objective that `share` of its requests take at most a limit.

    It *meets* where the latency at that share, at the far end of its interval, is within the
    limit, and *misses* where the near end is beyond it. Neither is said before requests at that
    percentile, or else beyond the limit, were seen in ENOUGH_LATE busy periods.

    Parameters
    ----------
    latency_s : float64[requests]
        In the order of arrival.
    fresh : bool[requests]
        Those with which a busy period begins.
    share : float
        Above 0 and below 1.
    confidence : float
        That neither answer is wrong: one-sided, as only one end decides.
    at : Located, optional
        The percentile at that share, where it was located already, or by innovations.

    Complexity: O(n log n).
    """
    count = checked(latency_s, fresh)
    if at is None:
        at = located(latency_s, fresh, 100 * share)
    late = at.sample.late(latency_limit_s)
    mlperf = early_stopping(count, late.late, share)
    found = at.within(2 * confidence - 1)
    off = found.late.half_width(2 * confidence - 1)
    without_luck = late.share - late.luck
    meets = misses = False
    if found.enough:
        meets, misses = found.high_s <= latency_limit_s, found.low_s > latency_limit_s
    elif late.enough:
        # Too few are beyond the percentile where many are equal to it; beyond the limit are enough.
        below, above = late.reach(2 * confidence - 1)
        meets, misses = without_luck + above < 1 - share, without_luck - below > 1 - share
    if meets or misses:
        return Verdict("meets" if meets else "misses", late, off, 0, mlperf)
    more = _more(found.late, without_luck - (1 - share), off)
    return Verdict("undecided", late, off, more, mlperf)


def verdict_of_all(
    latency_s: Latencies, fresh: Flags, share: float, latency_limit_s: float
) -> Verdict:
    """Return the verdict on an objective from all requests there are: a whole trace.

    The share on time is known then and not estimated. Parameters as those of ``verdict_of``.
    """
    count = checked(latency_s, fresh)
    late = late_share(latency_s > latency_limit_s, fresh)
    answer: Answer = "meets" if count - late.late >= share * count else "misses"
    return Verdict(answer, late, 0.0, 0, early_stopping(count, late.late, share))


def _more(at: LateShare, gap: float, off: float) -> int:
    """Return about how many requests are missing: what a share is off by falls as their root."""
    times = max(at.needed / max(at.late_periods, 1), 2.0)
    if not gap:
        times = math.inf
    elif math.isfinite(off):
        times = max(times, (off / gap) ** 2)
    return int(min((times - 1) * at.requests, float(np.iinfo(np.int64).max // 2)))
