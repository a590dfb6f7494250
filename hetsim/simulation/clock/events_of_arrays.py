"""Events to come, by (time, code), as a heap on arrays: for machine code."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

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


def with_room(events: Events | None, room: int) -> Events:
    """Return the heap, empty at first, with room for so many."""
    times, codes, size = np.zeros(room), np.zeros(room, np.int64), np.zeros(1, np.int64)
    if events is not None:
        many = size[0] = events.size[0]
        times[:many], codes[:many] = events.times[:many], events.codes[:many]
    # mypy knows arrays as no sequences.
    parts: Any = (times, codes, size)
    return Events._make(parts)
