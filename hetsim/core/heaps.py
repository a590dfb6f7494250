"""Heaps on flat arrays, for machine code: of events by time, and of keys.

In the subset of Python that numba supports; works on plain lists and on arrays.
"""

from __future__ import annotations

import math
from collections.abc import MutableSequence
from typing import Any, NamedTuple

import numpy as np

Ints = MutableSequence[int]
Floats = MutableSequence[float]


def push_event(times: Floats, codes: Ints, size: int, time: float, code: int) -> None:
    """Add (time, code) to a heap of `size` events. O(log size)."""
    hole = size
    while hole > 0:
        parent = (hole - 1) >> 1
        if times[parent] < time or (times[parent] == time and codes[parent] < code):
            break
        times[hole] = times[parent]
        codes[hole] = codes[parent]
        hole = parent
    times[hole] = time
    codes[hole] = code


def pop_event(times: Floats, codes: Ints, size: int) -> None:
    """Remove the first of a heap of `size` events. O(log size)."""
    last = size - 1
    time = times[last]
    code = codes[last]
    hole = 0
    child = 1
    while child < last:
        right = child + 1
        if right < last and (
            times[right] < times[child]
            or (times[right] == times[child] and codes[right] < codes[child])
        ):
            child = right
        if time < times[child] or (time == times[child] and code < codes[child]):
            break
        times[hole] = times[child]
        codes[hole] = codes[child]
        hole = child
        child = 2 * hole + 1
    times[hole] = time
    codes[hole] = code


def push_key(heap: Ints, first: int, size: int, key: int) -> None:
    """Add a key to the heap of `size` that begins at index `first`. O(log size)."""
    hole = size
    while hole > 0:
        parent = (hole - 1) >> 1
        if heap[first + parent] < key:
            break
        heap[first + hole] = heap[first + parent]
        hole = parent
    heap[first + hole] = key


def pop_key(heap: Ints, first: int, size: int) -> None:
    """Remove the first key of the heap of `size` that begins at `first`. O(log size)."""
    last = size - 1
    key = heap[first + last]
    hole = 0
    child = 1
    while child < last:
        right = child + 1
        if right < last and heap[first + right] < heap[first + child]:
            child = right
        if key < heap[first + child]:
            break
        heap[first + hole] = heap[first + child]
        hole = child
        child = 2 * hole + 1
    heap[first + hole] = key


class EventHeap(NamedTuple):
    """Heap of events; the arrays hold `size` [1] of them and have room for the maximum."""

    times: Floats
    codes: Ints
    size: Ints


def earliest(events: EventHeap) -> float:
    """Return the time of the next event, or infinity without one."""
    return events.times[0] if events.size[0] > 0 else math.inf


def put(events: EventHeap, time: float, code: int) -> None:
    """Add an event. O(log events)."""
    push_event(events.times, events.codes, events.size[0], time, code)
    events.size[0] += 1


def take(events: EventHeap) -> int:
    """Remove the next event; return its code. O(log events)."""
    code = events.codes[0]
    pop_event(events.times, events.codes, events.size[0])
    events.size[0] -= 1
    return code


def with_room(events: EventHeap | None, room: int) -> EventHeap:
    """Return an empty heap of this capacity."""
    times, codes, size = np.zeros(room), np.zeros(room, np.int64), np.zeros(1, np.int64)
    if events is not None:
        many = size[0] = events.size[0]
        times[:many], codes[:many] = events.times[:many], events.codes[:many]
    # mypy does not accept arrays as sequences.
    parts: Any = (times, codes, size)
    return EventHeap._make(parts)
