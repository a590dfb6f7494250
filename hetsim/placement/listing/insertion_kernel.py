"""A list schedule with insertion along a given order, in the subset of Python that numba knows."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from hetsim.base.machine_code import machine_code

Array = Any


def insert_nodes(
    order: Array,
    price: float,
    seconds: Array,
    least: Array,
    early: Array,
    late: Array,
    fed_at: Array,
    fed: Array,
    row: Array,
    travel: Array,
    lane_at: Array,
    ready: Array,
    last: Array,
    before: Array,
    device: Array,
    begin: Array,
    end: Array,
) -> float:
    """Place nodes one by one; return when the last has ended and what leaves has arrived.

    Of devices that are as good, a node goes where it begins first, then to the first.

    Parameters
    ----------
    order : int [n]
        Each node after all that feed it.
    price : float
        Seconds that a second more than on the quickest device counts for, beside the end.
    seconds, early, late : float [n, P]
        Row after row: of each node, inf where a device does not take it; before it may begin; and
        after its end until its outputs are where they leave.
    least : float [n]
        Of ``seconds``.
    fed_at, fed, row : int [n + 1], [edges], [edges]
        By node those that feed it, and where the rows [P, P] of ``travel`` begin.
    travel : float
        Seconds from a device to another.
    lane_at : int [P + 1]
        Where each device's streams begin.
    ready, last, before : float [P], int [streams], int [n]
        Room to work in: arrivals; the last node of each stream; the one before each there.
    device, begin, end : int [n], float [n], float [n]
        What comes out.
    """
    count = len(lane_at) - 1
    for k in range(len(last)):
        last[k] = -1
    latest = 0.0
    for i in range(len(order)):
        v = order[i]
        for p in range(count):
            ready[p] = early[v * count + p]
        for k in range(fed_at[v], fed_at[v + 1]):
            u = fed[k]
            q, when = device[u], end[u]
            for p in range(count):
                there = when
                if q != p:
                    there += travel[row[k] + q * count + p]
                if there > ready[p]:
                    ready[p] = there
        best = lead = 0.0
        chosen, lane, left, right = -1, -1, -1, -1
        for p in range(count):
            own = seconds[v * count + p]
            if own == math.inf:
                continue
            over = late[v * count + p] + price * (own - least[v])
            # No gap makes it sooner than it is ready.
            if chosen >= 0 and ready[p] + own + over > best:
                continue
            for k in range(lane_at[p], lane_at[p + 1]):
                ahead, behind = last[k], -1
                w = ahead
                start = ready[p]
                if w >= 0 and end[w] > start:
                    start = end[w]
                while w >= 0 and end[w] > ready[p]:
                    u = before[w]
                    free = ready[p]
                    if u >= 0 and end[u] > free:
                        free = end[u]
                    if free + own <= begin[w]:
                        start, ahead, behind = free, u, w
                    w = u
                score = start + own + over
                if chosen < 0 or score < best or (score == best and start < lead):
                    best, lead, chosen, lane, left, right = score, start, p, k, ahead, behind
        device[v], begin[v], end[v] = chosen, lead, lead + seconds[v * count + chosen]
        latest = max(latest, end[v] + late[v * count + chosen])
        before[v] = left
        if right >= 0:
            before[right] = v
        else:
            last[lane] = v
    return latest


@functools.cache
def compiled() -> Callable[..., float]:
    """Return ``insert_nodes`` as machine code for int64 and float64 arrays."""
    return machine_code(insert_nodes)
