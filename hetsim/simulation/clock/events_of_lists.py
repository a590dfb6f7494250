"""Events to come, by (time, code), as a heap of pairs: quickest in plain Python."""

from __future__ import annotations

import math
from heapq import heappop, heappush

Events = list[tuple[float, int]]


def earliest(events: Events) -> float:
    """Return when the next is; infinite where there is none."""
    return events[0][0] if events else math.inf


def put(events: Events, time: float, code: int) -> None:
    """Add one. O(log events)."""
    heappush(events, (time, code))


def take(events: Events) -> int:
    """Take the next out; return its code. O(log events)."""
    return heappop(events)[1]
