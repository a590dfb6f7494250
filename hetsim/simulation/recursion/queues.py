"""Requests inside, by template or instance, as rings that the kernels fill and empty."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hetsim.simulation.recursion.kernel import Queues


def new_queues(count: int, arrays: bool) -> Queues:
    """Return empty ones, without room: see ``with_room``."""
    return _owned(
        np.zeros(count), np.zeros(count, np.int64), np.zeros(count, np.int64), 1, arrays=arrays
    )


def with_room(queues: Queues, requests: int, arrays: bool) -> Queues:
    """Return the same with room for so many more in each. O(what they hold)."""
    needed = max(map(int, queues.size), default=0) + requests
    if needed <= queues.room:
        return queues
    room = 1 << (needed - 1).bit_length()
    size = np.array(queues.size, dtype=np.int64)
    old = np.array(queues.ends).reshape(-1, queues.room)
    ends = np.zeros((len(old), room))
    for index, (head, inside) in enumerate(zip(queues.head, size.tolist(), strict=True)):
        ends[index, :inside] = np.roll(old[index], -int(head))[:inside]
    return _owned(ends, np.zeros_like(size), size, room, arrays=arrays)


def _owned(ends: Any, head: Any, size: Any, room: int, *, arrays: bool) -> Queues:
    first = np.where(size > 0, ends.reshape(-1, room)[:, 0], math.inf)
    parts: Any = (ends.reshape(-1), head, size, first)
    if not arrays:
        parts = [part.tolist() for part in parts]
    return Queues._make((*parts, room))
