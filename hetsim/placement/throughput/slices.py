"""Cutting one topological order into a segment a device, so that the largest load is least."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetsim.core import deadline
from hetsim.placement.loads.costs import Costs, Floats

INFINITY = float("inf")

MOST_STATES = 1024
"""Multisets of kinds of devices that an order is cut for."""

LOOK = 64
"""Values between two looks at a deadline."""

MOST_BORDERS = 600
"""Places of an order at which it may be cut: the table of segments is quadratic in them."""


@dataclass(frozen=True, slots=True)
class States:
    """Multisets of kinds of devices, numbered so that one more of kind k adds ``stride[k]``.

    Attributes
    ----------
    count : int
    stride : tuple of int
    room : bool array [count, K]
        Whether a device of kind k is left.
    """

    count: int
    stride: tuple[int, ...]
    room: NDArray[np.bool_]

    @classmethod
    def of(cls, kinds: Sequence[Sequence[int]], most: int = MOST_STATES) -> States:
        """Number the states of `kinds`: the product of their sizes, each plus 1.

        Where these are more than `most`, the last kinds count fewer devices, or none.
        """
        stride: list[int] = []
        sizes: list[int] = []
        count = 1
        for devices in kinds:
            stride.append(count)
            sizes.append(min(len(devices), max(most // count - 1, 0)))
            count *= sizes[-1] + 1
        room = np.zeros((count, len(kinds)), dtype=bool)
        for k, size in enumerate(sizes):
            room[:, k] = np.arange(count) // stride[k] % (size + 1) < size
        return cls(count, tuple(stride), room)

    @staticmethod
    def number(kinds: Sequence[Sequence[int]]) -> int:
        """Return how many there are of all devices."""
        return math.prod(len(devices) + 1 for devices in kinds)


@dataclass(frozen=True, slots=True)
class Slices:
    """Segments of an order, first to last: (first place, end place, kind) each."""

    bottleneck_s: float
    segments: tuple[tuple[int, int, int], ...]


def segment_loads(
    costs: Costs, order: Sequence[int], borders: NDArray[np.int64] | None = None
) -> Floats:
    """Return the load of every segment: [K, i, j] is that of ``order[i:j]``; inf for i >= j.

    With `borders`, ascending from 0 to n, segments lie between these places alone: [K, i, j] is
    that of ``order[borders[i]:borders[j]]``. Also inf where memory does not suffice or a node is
    not supported. Each tensor, kernel and constant counts in rectangles of (i, j), added up by
    differences: O(E K + B^2 K) for B borders.
    """
    edges = np.arange(costs.n + 1) if borders is None else borders
    n, kinds = len(edges) - 1, costs.compute_s.shape[1]
    place = np.empty(costs.n, dtype=np.int64)
    place[np.array(order, dtype=np.int64)] = np.repeat(np.arange(n), np.diff(edges))
    fetch = np.zeros((n + 2, n + 2, kinds))
    store = np.zeros((n + 2, n + 2, kinds))
    memory = np.zeros((n + 2, n + 2))
    whole = np.zeros((n + 2, n + 2, kinds))
    covered = np.zeros((n + 2, n + 2, kinds))

    def add(
        table: NDArray[np.float64], low: int, high: int, end: int, last: int, by: object
    ) -> None:
        # Segments [i, j) with low <= i < high and end <= j < last.
        table[low, end] += by
        table[high, end] -= by
        table[low, last] -= by
        table[high, last] += by

    for index, (producer, consumers, leaves) in enumerate(costs.values):
        if index % LOOK == 0:
            deadline.check()
        made = int(place[producer]) if producer >= 0 else -1
        before = made
        for at in sorted(int(place[v]) for v in consumers):
            # The first reader in the segment is the one at `at`.
            add(fetch, before + 1, at + 1, at + 1, n + 1, costs.fetch_s[:, index])
            before = at
        if made >= 0:
            add(store, 0, made + 1, made + 1, before + 1, costs.store_s[:, index])
            if leaves:
                add(store, 0, made + 1, made + 1, n + 1, costs.make_s[:, index])
    for kernel in costs.kernels:
        places = [int(place[v]) for v in kernel.nodes]
        by = np.zeros(kinds)
        by[kernel.kind] = kernel.delta_s
        add(whole, 0, min(places) + 1, max(places) + 1, n + 1, by)
        by[kernel.kind] = kernel.covers
        add(covered, 0, min(places) + 1, max(places) + 1, n + 1, by)
    for nbytes, consumers in costs.constants:
        before = -1
        for at in sorted({int(place[v]) for v in consumers}):
            add(memory, before + 1, at + 1, at + 1, n + 1, float(nbytes))
            before = at

    def summed(table: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.cumsum(np.cumsum(table, axis=0), axis=1)[: n + 1, : n + 1]

    nodes = np.array(order, dtype=np.int64)
    blank = np.zeros((1, kinds))
    lacking = np.concatenate([blank, np.cumsum(costs.lacks[nodes], axis=0)])[edges]
    upto = np.concatenate([blank, np.cumsum(costs.compute_s[nodes], axis=0)])[edges]
    compute = upto[None, :, :] - upto[:, None, :] + costs.dispatch_s
    alone = lacking[None, :, :] - lacking[:, None, :]
    if costs.kernels:
        compute += summed(whole)
        alone = alone - summed(covered)
    found = costs.load(compute, np.maximum(summed(fetch), 0.0), np.maximum(summed(store), 0.0))
    found[alone > 0.5] = INFINITY
    found[np.tril_indices(n + 1)] = INFINITY
    if costs.memory_binds:
        found[summed(memory)[:, :, None] > costs.capacity_bytes] = INFINITY
    return np.ascontiguousarray(np.moveaxis(found, 2, 0))


def cut(
    costs: Costs, order: Sequence[int], states: States | None = None, ceiling: float = INFINITY
) -> Slices | None:
    """Return the best way to cut `order`, each device having one segment at most.

    Dynamic programming over (end of the last segment, devices used), exact for this order up
    to MOST_BORDERS nodes; above, cuts are made at as many places, evenly spread. None where no
    cut has a bottleneck of at most `ceiling`. O(B^2 K S) for B places and S states, in numpy.
    """
    known = states or States.of(costs.kinds)
    n = min(costs.n, MOST_BORDERS)
    borders = np.linspace(0, costs.n, n + 1).astype(np.int64)
    table = segment_loads(costs, order, borders)
    if n:
        ceiling = min(ceiling, float(table[:, 0, n].min()))
    best = np.full((n + 1, known.count), INFINITY)
    best[0, 0] = 0.0
    came = np.full((n + 1, known.count, 2), -1, dtype=np.int64)
    able_by_kind = [np.flatnonzero(known.room[:, kind]) for kind in range(len(known.stride))]
    for end in range(1, n + 1):
        deadline.check()
        for kind, step in enumerate(known.stride):
            starts = np.flatnonzero(table[kind, :end, end] <= ceiling)
            if len(starts) == 0:
                continue
            able = able_by_kind[kind]
            through = np.maximum(best[np.ix_(starts, able)], table[kind, starts, end][:, None])
            start = through.argmin(axis=0)
            reached = through[start, np.arange(len(able))]
            better = reached < best[end, able + step]
            target = able[better] + step
            best[end, target] = reached[better]
            came[end, target, 0] = starts[start[better]]
            came[end, target, 1] = kind
    state = int(best[n].argmin())
    if best[n, state] == INFINITY:
        return None
    bottleneck, end = float(best[n, state]), n
    segments: list[tuple[int, int, int]] = []
    while end > 0:
        first, kind = (int(entry) for entry in came[end, state])
        segments.append((int(borders[first]), int(borders[end]), kind))
        end, state = first, state - known.stride[kind]
    return Slices(bottleneck, tuple(reversed(segments)))
