"""The state that the clock's rules work on: made, and made wider as more requests are in flight."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.simulation.clock.heaps import Ints
from hetsim.simulation.clock.rules import (
    COUNTS,
    OLDEST,
    State,
    Structure,
)


def new_state(
    structure: Structure,
    links: int,
    *,
    window: int = 16,
    arrays: bool = False,
    keeps: bool = False,
) -> State:
    """Return the state in which nothing has come yet.

    Parameters
    ----------
    structure : Structure
    links : int
    window : int
        Requests that it has room for, a power of two.
    arrays : bool
        Whether of int arrays, for machine code, or of lists.
    keeps : bool
        Whether with room for transfers that are kept back.
    """
    first, held_at = structure.first, structure.held_at
    width = max((b - a for a, b in pairwise(first)), default=0)
    holds = max((held_at[b] - held_at[a] for a, b in pairwise(first)), default=0)
    streams = structure.streams
    devices = len(streams)
    most = max(streams, default=0)

    def zeros(size: int) -> Ints:
        return np.zeros(size, np.int64) if arrays else [0] * size  # type: ignore[return-value]

    def counts(size: int) -> Ints:
        return np.zeros(size, np.int32) if arrays else [0] * size  # type: ignore[return-value]

    def full(values: Any) -> Ints:
        return np.array(values, np.int64) if arrays else list(values)  # type: ignore[return-value]

    return State(
        window=window,
        width=int(width),
        holds=int(holds),
        pending=counts(window * width),
        turn=counts(window * devices),
        template=counts(window),
        rank=zeros(window),
        left=counts(window),
        base=zeros(window),
        hold_base=zeros(window),
        ready=zeros(devices * window),
        ready_size=zeros(devices),
        free=full(streams),
        occupied=counts(devices * most),
        able=zeros(devices),
        listed=counts(devices),
        shut=counts(devices),
        next_up=zeros(window * holds),
        tail=full([-1] * links),
        starting=zeros(width + links + sum(streams) + 1),
        kept=zeros(window * width if keeps else 0),
        counts=zeros(COUNTS),
    )


def widened(state: State) -> State:
    """Return the state with room for twice the requests. O(its size)."""
    old, new = state.window, 2 * state.window
    # Slots from `cut` on belong to the oldest requests, those before it to later ones.
    oldest = int(state.counts[OLDEST])
    cut, first = oldest & (old - 1), oldest & old
    later = first ^ old

    def rows(values: Ints, width: int, step: int = 0) -> Ints:
        """Each slot's row at its new place, and `step` more for each slot that it moved."""
        table = np.asarray(values).reshape(old, width)
        wider = np.zeros((new, width), table.dtype)
        wider[cut + first : old + first] = table[cut:]
        wider[later : cut + later] = table[:cut]
        if step:
            wider[cut + first : old + first] += first * step
            wider[later : cut + later] += later * step
        return _like(values, wider.reshape(-1))

    devices = len(state.free)
    ready = np.zeros((devices, new), np.int64)
    for device, heap in enumerate(np.asarray(state.ready, np.int64).reshape(devices, old)):
        size = state.ready_size[device]
        ready[device, :size] = heap[:size]
    tail = np.array(state.tail, np.int64)
    if state.holds:
        moved = np.where(tail // state.holds >= cut, first, later)
        tail = np.where(tail >= 0, tail + moved * state.holds, tail)
    return state._replace(
        window=new,
        pending=rows(state.pending, state.width),
        turn=rows(state.turn, devices),
        template=rows(state.template, 1),
        rank=rows(state.rank, 1),
        left=rows(state.left, 1),
        base=rows(state.base, 1, state.width),
        hold_base=rows(state.hold_base, 1, state.holds),
        ready=_like(state.ready, ready.reshape(-1)),
        next_up=rows(state.next_up, state.holds),
        tail=_like(state.tail, tail),
        kept=_like(state.kept, np.concatenate((state.kept, state.kept)).astype(np.int64)),
    )


def most_running(structure: Any, links: int, window: int) -> int:
    """Return how many tasks can run at once, of `structure` in arrays. O(tasks).

    Each stream and link runs one at most; transfers without links, all there are.
    """
    bare = (structure.device < 0) & (structure.held_at[1:] == structure.held_at[:-1])
    fixed = int(structure.streams.sum()) + links + 1
    if not bare.any():
        return fixed
    before = np.concatenate(([0], np.cumsum(bare)))[structure.first]
    return fixed + window * int(np.diff(before).max(initial=0))


def _like(values: Ints, made: NDArray[np.int64]) -> Ints:
    """A list or an array, as `values` is."""
    found: Ints = made.tolist() if isinstance(values, list) else made  # type: ignore[assignment]
    return found
