"""Latencies by their place in order, without sorting them all."""

from __future__ import annotations

import numpy as np

from hetsim.statistics.arrays import Latencies

EVERY = 64
"""Of so many latencies one is looked at to guess where a percentile lies."""

FROM = 1 << 16
"""Latencies from which guessing costs less than it saves."""

AROUND = 0.03
"""Share of the latencies, on either side of the percentile, that are put in order; twice the
share beyond it where that is less."""


class Ordered:
    """Latencies near a percentile in order.

    What others than those near it are asked for is found all the same, in linear time.
    """

    def __init__(self, latency_s: Latencies, beyond: float) -> None:
        self._all = latency_s
        self._below = 0
        self._near: Latencies | None = None
        self._seen = seen = np.sort(latency_s[::EVERY] if len(latency_s) >= FROM else latency_s)
        if len(latency_s) < FROM:
            return
        around = min(beyond, AROUND)
        last = len(seen) - 1
        low = seen[int((1 - beyond - around) * last)]
        near = latency_s >= low
        self._below = len(latency_s) - int(np.count_nonzero(near))
        if beyond > around:
            near &= latency_s <= seen[int((1 - beyond + around) * last)]
        self._near = np.sort(latency_s[near])

    def about(self, beyond: float) -> float:
        """Return the latency that about this share of them are beyond."""
        return float(self._seen[int((1 - beyond) * (len(self._seen) - 1))])

    def at(self, place: int) -> float:
        """Return the latency that so many come before."""
        if self._near is not None and 0 <= place - self._below < len(self._near):
            return float(self._near[place - self._below])
        return float(np.partition(self._all, place)[place])
