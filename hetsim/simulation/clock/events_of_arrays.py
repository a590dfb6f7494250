"""Events to come, by (time, code), as a heap on arrays: for machine code."""

from __future__ import annotations

import math
from typing import NamedTuple

from hetsim.simulation.clock.heaps import Floats, Ints, pop_event, push_event


class Events(NamedTuple):
    """`size` [1] of them are in the arrays, which have room for all that can be."""

    times: Floats
    codes: Ints
    size: Ints


def earliest(events: Events) -> float:
    """Return when the next is; infinite where there is none."""
    return events.times[0] if events.size[0] > 0 else math.inf


def put(events: Events, time: float, code: int) -> None:
    """Add one. O(log events)."""
    push_event(events.times, events.codes, events.size[0], time, code)
    events.size[0] += 1


def take(events: Events) -> int:
    """Take the next out; return its code. O(log events)."""
    code = events.codes[0]
    pop_event(events.times, events.codes, events.size[0])
    events.size[0] -= 1
    return code
