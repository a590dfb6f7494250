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
"""Reason for the end of a run: all requests answered, budget spent, or no more requests."""

FIRST_LOOK = 2**14
"""Requests after which a run is first evaluated; then at each doubling of its length."""

CONFIDENCE = 0.99
"""Confidence of a verdict, over all looks at a run that grows; also LoadGen's own."""


@dataclass(frozen=True, slots=True)
class EarlyStopping:
    """Verdict of MLPerf's LoadGen: the run is valid after `more` further requests, none late."""

    valid: bool
    more: int


def early_stopping(
    requests: int, late: int, share: float, confidence: float = CONFIDENCE
) -> EarlyStopping:
    """Return LoadGen's verdict on a run of its server scenario with this number of late requests.

    The run is valid if, with exactly `share` of all requests on time, so few late ones would occur
    with a probability below 1 - `confidence`. LoadGen assumes independent requests, which queued
    ones are not, and so accepts too many runs at high load.

    Raises InvalidInput for an invalid argument.

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
    """Return the number of requests on time that LoadGen requires for `late` late ones."""

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

    `late` is the share of the requests beyond the latency limit, and `off` the half-width of its
    interval at the confidence of this look. A verdict needs `more` further requests, by estimate; 0
    with one. `mlperf` is that of LoadGen on the same requests.
    """

    answer: Answer
    late: LateShare
    off: float
    more: int
    mlperf: EarlyStopping


def confidence_of_look(look: int, confidence: float = CONFIDENCE) -> float:
    """Return the confidence of look number `look`, from 1 on, for this overall confidence.

    The error probability of repeated looks is divided among them as 1/(look * (look + 1)).
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

    It *meets* if the latency at that share, at the far end of its interval, is within the limit,
    and *misses* if the near end is beyond it. Neither is decided before requests at that
    percentile, or else beyond the limit, were seen in ENOUGH_LATE busy periods.

    Parameters
    ----------
    latency_s : float64[requests]
        In the order of arrival.
    fresh : bool[requests]
        Requests that begin a busy period.
    share : float
        Above 0 and below 1.
    confidence : float
        Probability that a verdict is right: one-sided, as only one end decides.
    at : Located, optional
        Percentile at that share, if it was located already, or by innovations.

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
        # If many equal the percentile, too few are beyond it; enough are beyond the limit.
        below, above = late.reach(2 * confidence - 1)
        meets, misses = without_luck + above < 1 - share, without_luck - below > 1 - share
    if meets or misses:
        return Verdict("meets" if meets else "misses", late, off, 0, mlperf)
    more = _more(found.late, without_luck - (1 - share), off)
    return Verdict("undecided", late, off, more, mlperf)


def verdict_of_all(
    latency_s: Latencies, fresh: Flags, share: float, latency_limit_s: float
) -> Verdict:
    """Return the verdict on an objective from a complete set of requests: a whole trace.

    The share on time is then known, not estimated. Parameters are those of ``verdict_of``.
    """
    count = checked(latency_s, fresh)
    late = late_share(latency_s > latency_limit_s, fresh)
    answer: Answer = "meets" if count - late.late >= share * count else "misses"
    return Verdict(answer, late, 0.0, 0, early_stopping(count, late.late, share))


def verdict_of_none(share: float) -> Verdict:
    """Return the verdict on an objective before its first request: undecided."""
    none = LateShare(math.nan, math.inf, 0, 0, 0, 0.0, 0.0, 0.0)
    mlperf = early_stopping(0, 0, share)
    return Verdict("undecided", none, math.inf, mlperf.more, mlperf)


def _more(at: LateShare, gap: float, off: float) -> int:
    """Approximate number of missing requests: the error of a share falls with their root."""
    times = max(at.needed / max(at.late_periods, 1), 2.0)
    if not gap:
        times = math.inf
    elif math.isfinite(off):
        times = max(times, (off / gap) ** 2)
    return int(min((times - 1) * at.requests, float(np.iinfo(np.int64).max // 2)))
