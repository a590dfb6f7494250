"""The state that the clock's rules work on: made, and made wider as more requests are in flight."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.simulation.clock.heaps import Ints
from hetsim.simulation.clock.rules import (
    ADMITTED,
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
    requests = np.arange(state.counts[OLDEST], state.counts[ADMITTED])
    here, there = requests & (old - 1), requests & (new - 1)

    def rows(values: Ints, width: int) -> Ints:
        """Of each request, the slots' rows."""
        table = np.asarray(values)
        wider = np.zeros((new, width), table.dtype)
        wider[there] = table.reshape(old, width)[here]
        return _like(values, wider.reshape(-1))

    devices = len(state.free)
    ready = np.zeros((devices, new), np.int64)
    ready[:, :old] = np.asarray(state.ready, np.int64).reshape(devices, old)
    base, hold_base = np.zeros(new, np.int64), np.zeros(new, np.int64)
    base[there] = np.asarray(state.base)[here] + (there - here) * state.width
    hold_base[there] = np.asarray(state.hold_base)[here] + (there - here) * state.holds
    tail = np.array(state.tail, np.int64)
    if state.holds:
        moved = np.zeros(old, np.int64)
        moved[here] = there - here
        busy = tail >= 0
        tail[busy] += moved[tail[busy] // state.holds] * state.holds
    return state._replace(
        window=new,
        pending=rows(state.pending, state.width),
        turn=rows(state.turn, devices),
        template=rows(state.template, 1),
        rank=rows(state.rank, 1),
        left=rows(state.left, 1),
        base=_like(state.base, base),
        hold_base=_like(state.hold_base, hold_base),
        ready=_like(state.ready, ready.reshape(-1)),
        next_up=rows(state.next_up, state.holds),
        tail=_like(state.tail, tail),
        kept=_like(state.kept, np.concatenate((state.kept, state.kept)).astype(np.int64)),
    )


def _like(values: Ints, made: NDArray[np.int64]) -> Ints:
    """A list or an array, as `values` is."""
    found: Ints = made.tolist() if isinstance(values, list) else made  # type: ignore[assignment]
    return found
