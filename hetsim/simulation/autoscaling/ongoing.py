"""How many requests there were of late, by what was counted now and then.

As Ray Serve's controller does it (``_get_total_num_requests`` of its autoscaling state): the queue
and each replica have a series of counts, of which each holds until the next; the last one holds
until now. Of several series the sum is a step function, from when the last of them begins, but no
sooner than its first step: what was counted as nothing before that is left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from hetsim.workloads.autoscaling import Aggregation

Series = Sequence[tuple[float, int]]
"""Counts by time, ascending."""

AT_LEAST_S = 1e-3
"""How long the last count holds at least."""


class Ongoing(NamedTuple):
    """Requests queued or under way, as a function of the time that has passed.

    Attributes
    ----------
    last_s : float
        When they were last counted as others than before.
    last : int
        What was counted then.
    long_s : float
        From the begin to `last_s`.
    beyond : float
        Request seconds by which there were more in that time than `last`.
    highest, lowest : int
    """

    last_s: float = 0.0
    last: int = 0
    long_s: float = 0.0
    beyond: float = 0.0
    highest: int = 0
    lowest: int = 0

    def at(self, now_s: float, aggregation: Aggregation) -> float:
        """Return the aggregate over the time until `now_s`, not before `last_s`.

        Between two counts it only rises or only falls with time, in floating point, too.
        """
        if aggregation == "max":
            return float(self.highest)
        if aggregation == "min":
            return float(self.lowest)
        since = now_s - self.last_s
        return self.last + self.beyond / (self.long_s + (since if since > 0 else AT_LEAST_S))


def ongoing(series: Sequence[Series]) -> Ongoing:
    """Return what was counted as one. O(n log n) for n counts."""
    series = [one for one in series if one]
    if not series:
        return Ongoing()
    if len(series) == 1:
        steps = list(series[0])
        since_s = steps[0][0]
    else:
        steps = _summed(series)
        if not steps:
            return Ongoing()
        # Counted from when all have begun.
        begin_s = max(one[0][0] for one in series)
        since_s = max(begin_s, steps[0][0]) if begin_s <= steps[-1][0] else steps[0][0]
    last_s, last = steps[-1]
    beyond = []
    for (from_s, count), (until_s, _) in pairwise(steps):
        if until_s > since_s:
            beyond.append((count - last) * (until_s - max(from_s, since_s)))
    counts = [count for time_s, count in steps if time_s >= since_s]
    return Ongoing(last_s, last, last_s - since_s, math.fsum(beyond), max(counts), min(counts))


def _summed(series: Sequence[Series]) -> list[tuple[float, int]]:
    """The sum of several, at each time at which one of them changes; each is 0 before it begins."""
    changes: dict[float, int] = {}
    for one in series:
        before = 0
        for time_s, count in one:
            if count != before:
                changes[time_s] = changes.get(time_s, 0) + count - before
            before = count
    found, total = [], 0
    for time_s in sorted(changes):
        total += changes[time_s]
        found.append((time_s, total))
    return found
