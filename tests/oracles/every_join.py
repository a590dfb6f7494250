"""When nodes could start at the earliest, by every set of neighbours on the device itself."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
INF = float("inf")


def earliest(
    order: Iterable[int],
    near: Sequence[Mapping[int, int]],
    share: Floats,
    least: Floats,
    enter: Callable[[int, int, int], float],
    streams: Sequence[int],
) -> Floats:
    """Return [n, P] starts: for each node and device the least over all sets on that device.

    `near` are the bytes from each neighbour that goes before, `enter` is the time from device
    q to p for so many bytes, to where the node starts. Those of a set occupy the device's streams,
    from the start of each on; all others come from elsewhere.
    """
    n, count = share.shape
    found, ends = np.zeros((n, count)), np.zeros((n, count))
    for v in order:
        for p in range(count):
            off = {
                u: min((ends[u, q] + enter(q, p, b) for q in range(count) if q != p), default=INF)
                for u, b in near[v].items()
            }
            soonest = INF if off else 0.0
            for size in range(len(off) + 1):
                for inside in itertools.combinations(sorted(off), size):
                    until = max((off[u] for u in off if u not in inside), default=0.0)
                    for u in inside:
                        behind = sum(share[w, p] for w in inside if found[w, p] >= found[u, p])
                        until = max(until, ends[u, p], found[u, p] + behind / streams[p])
                    soonest = min(soonest, until)
            found[v, p] = max(least[v, p], soonest)
            ends[v, p] = found[v, p] + share[v, p]
    return found
