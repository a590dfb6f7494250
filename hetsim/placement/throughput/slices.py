"""Topological orders, and their cuts into segments of least bottleneck or least serial time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from hetsim.core import deadline
from hetsim.graph.dag import Contraction, Dag, orders_by_rule, topological_order
from hetsim.partitioning.regions import Quotient
from hetsim.placement.throughput.costs import Costs, Floats, costs_of
from hetsim.problem.columns import travel_matrices
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.problem import Problem

INFINITY = float("inf")


def with_whole_kernels(costs: Costs) -> Quotient:
    """Return the graph of `costs` with kernels contracted, largest first, unless on a cycle."""
    state = Contraction(costs.dag)
    atoms: list[tuple[int, ...]] = []
    for nodes in sorted({kernel.nodes for kernel in costs.kernels}, key=lambda v: (-len(v), v)):
        if not any(state.taken(v) for v in nodes) and not state.cycle(nodes):
            state.add(nodes)
            atoms.append(nodes)
    return Quotient.of(costs.dag, atoms)


T = TypeVar("T")


class Climb(Generic[T]):
    """Hill climbing over topological orders: fixed orders first, then changes of the best one.

    `judge` gets the least cost so far and returns None if an order is not feasible.
    """

    def __init__(
        self, dag: Dag, seed: int, judge: Callable[[list[int], float], tuple[float, T] | None]
    ) -> None:
        self._dag, self._judge, self._random = dag, judge, Random(seed)
        self._by_rule = iter(orders_by_rule(dag))
        self._found: list[tuple[float, T] | None] = []
        self._keys: list[float] = []
        self._next: tuple[list[int], list[float]] | None = None

    def first(self, count: int) -> list[tuple[float, T]]:
        """Return the results and costs of the first `count` orders; fewer at a deadline."""
        while len(self._found) < count:
            self._next = self._next or self._draw()
            order, keys = self._next
            least = min((one[0] for one in self._found if one is not None), default=INFINITY)
            try:
                one = self._judge(order, least)
            except deadline.OutOfTime:
                break
            if not self._keys or (one is not None and one[0] <= least):
                self._keys = keys
            self._found.append(one)
            self._next = None
        return [one for one in self._found[:count] if one is not None]

    def _draw(self) -> tuple[list[int], list[float]]:
        """Return the next order, and the keys that sort it."""
        order = next(self._by_rule, None)
        if order is None:
            keys = _changed(self._keys, self._random)
            order = topological_order(self._dag.succs, keys)
            assert order is not None
            return order, keys
        keys = [0.0] * self._dag.n
        for place, part in enumerate(order):
            keys[part] = place / max(1, self._dag.n)
        return order, keys


def _changed(keys: Sequence[float], random: Random) -> list[float]:
    """Change the keys of a few parts, by a little or to any value."""
    made = list(keys)
    for _ in range(1 + random.randrange(min(8, len(made))) if made else 0):
        part = random.randrange(len(made))
        near = random.random() < 0.5
        made[part] = made[part] + random.gauss(0.0, 0.1) if near else random.random()
    return made


MOST_STATES = 1024
"""Maximum number of multisets of device kinds for which an order is cut."""

LOOK = 64
"""Number of values between two checks of a deadline."""

MOST_BORDERS = 600
"""Maximum number of cut positions in an order: the table of segments is quadratic in them."""


@dataclass(frozen=True, slots=True)
class States:
    """Multisets of device kinds, numbered such that one more of kind k adds ``stride[k]``."""

    count: int
    stride: tuple[int, ...]
    room: NDArray[np.bool_]  # [count, K]: Whether a device of kind k is available

    @classmethod
    def of(cls, kinds: Sequence[Sequence[int]], most: int = MOST_STATES) -> States:
        """Number the states of `kinds`: the product of their sizes, each plus 1."""
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
        """Return the number of multisets of all devices."""
        return math.prod(len(devices) + 1 for devices in kinds)


@dataclass(frozen=True, slots=True)
class Slices:
    """Segments of an order, first to last: (start position, end position, kind) each."""

    least_s: float  # Largest of their loads, or the sum
    segments: tuple[tuple[int, int, int], ...]


def segment_loads(
    costs: Costs, order: Sequence[int], borders: NDArray[np.int64] | None = None
) -> Floats:
    """Return the loads of all segments: [K, i, j] is that of ``order[i:j]``; inf for i >= j."""
    edges = np.arange(costs.n + 1) if borders is None else borders
    n = len(edges) - 1
    place = np.empty(costs.n, dtype=np.int64)
    place[np.array(order, dtype=np.int64)] = np.repeat(np.arange(n), np.diff(edges))
    fetched, stored, whole, held = (_Segments(n) for _ in range(4))
    for index, (producer, consumers, leaves) in enumerate(costs.values):
        if index % LOOK == 0:
            deadline.check()
        made = int(place[producer]) if producer >= 0 else -1
        before = made
        for at in sorted(int(place[v]) for v in consumers):
            # The first reader in the segment is the one at `at`.
            fetched.add(before + 1, at + 1, at + 1, n + 1, index)
            before = at
        if made >= 0:
            stored.add(0, made + 1, made + 1, before + 1, index)
            if leaves:
                stored.add(0, made + 1, made + 1, n + 1, len(costs.values) + index)
    store_s = np.concatenate([costs.store_s, costs.make_s], axis=1)
    for at, kernel in enumerate(costs.kernels):
        places = [int(place[v]) for v in kernel.nodes]
        whole.add(0, min(places) + 1, max(places) + 1, n + 1, at)
    of_kind = np.array([kernel.kind for kernel in costs.kernels], dtype=np.int64)
    delta_s = np.array([kernel.delta_s for kernel in costs.kernels])
    covers = np.array([kernel.covers for kernel in costs.kernels], dtype=np.float64)
    for at, (_, consumers) in enumerate(costs.constants):
        before = -1
        for reader in sorted({int(place[v]) for v in consumers}):
            held.add(before + 1, reader + 1, reader + 1, n + 1, at)
            before = reader
    nodes = np.array(order, dtype=np.int64)
    behind = np.tri(n + 1, dtype=bool)
    memory = None
    if costs.memory_binds:
        memory = held.summed(np.array([nbytes for nbytes, _ in costs.constants], np.float64))
    found = np.empty((len(costs.kinds), n + 1, n + 1))
    for kind, table in enumerate(found):
        deadline.check()
        lacking = np.concatenate([[0.0], np.cumsum(costs.lacks[nodes, kind])])[edges]
        upto = np.concatenate([[0.0], np.cumsum(costs.compute_s[nodes, kind])])[edges]
        compute = upto[None, :] - upto[:, None] + costs.dispatch_s[kind]
        alone = lacking[None, :] - lacking[:, None]
        if costs.kernels:
            own = of_kind == kind
            compute += whole.summed(np.where(own, delta_s, 0.0))
            alone = alone - whole.summed(np.where(own, covers, 0.0))
        fetch = np.maximum(fetched.summed(costs.fetch_s[kind]), 0.0)
        store = np.maximum(stored.summed(store_s[kind]), 0.0)
        table[:] = costs.load(kind, compute, fetch, store)
        table[alone > 0.5] = INFINITY
        table[behind] = INFINITY
        if memory is not None:
            table[memory > costs.capacity_bytes[kind]] = INFINITY
    return found


class _Segments:
    """Sets of segments [i, j), by the ranges of i and j, each with the index of its weight."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._sets: list[tuple[int, int, int, int, int]] = []

    def add(self, low: int, high: int, end: int, last: int, number: int) -> None:
        """Add the segments with low <= i < high and end <= j < last."""
        self._sets.append((low, high, end, last, number))

    def summed(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return float [n + 1, n + 1]: the sum of `weights` over the sets of each segment."""
        width = self._n + 2
        sets = np.array(self._sets, dtype=np.int64).reshape(-1, 5)
        low, high, end, last, number = sets.T
        cells = np.stack([low * width + end, high * width + end, low * width + last,
                          high * width + last], axis=1)  # fmt: skip
        by = weights[number][:, None] * np.array([1.0, -1.0, -1.0, 1.0])
        table = np.bincount(cells.ravel(), by.ravel(), minlength=width * width)
        square = table.astype(np.float64, copy=False).reshape(width, width)
        np.cumsum(square, axis=0, out=square)
        np.cumsum(square, axis=1, out=square)
        return square[:-1, :-1]


def cut(
    costs: Costs, order: Sequence[int], states: States | None = None, ceiling: float = INFINITY
) -> Slices | None:
    """Return the best cut of `order` with at most one segment per device, or None."""
    known = states or States.of(costs.kinds)
    n = min(costs.n, MOST_BORDERS)
    borders = np.linspace(0, costs.n, n + 1).astype(np.int64)
    table = segment_loads(costs, order, borders)
    if n:
        ceiling = min(ceiling, float(table[:, 0, n].min()))
    found = _best_segments(table, known, (False,) * len(costs.kinds), np.maximum, ceiling)
    if found is None:
        return None
    places = borders.tolist()
    segments = tuple((places[first], places[end], kind) for first, end, kind in found.segments)
    return Slices(found.least_s, segments)


def _best_segments(
    table: Floats,
    states: States,
    again: Sequence[bool],
    combine: Callable[[Floats, Floats], Floats],
    ceiling: float = INFINITY,
) -> Slices | None:
    """Return the segments with the least combined load in `table`.

    A device has at most one segment, except for kinds that may come `again`. None if none has a
    load up to `ceiling`. O(n^2 K S).
    """
    n = table.shape[1] - 1
    best = np.full((n + 1, states.count), INFINITY)
    best[0, 0] = 0.0
    came = np.full((n + 1, states.count, 2), -1, dtype=np.int64)
    step = [0 if free else by for free, by in zip(again, states.stride, strict=True)]
    able_by_kind = [
        np.arange(states.count) if free else np.flatnonzero(states.room[:, kind])
        for kind, free in enumerate(again)
    ]
    within = table <= ceiling
    for end in range(1, n + 1):
        deadline.check()
        for kind, able in enumerate(able_by_kind):
            [starts] = within[kind, :end, end].nonzero()
            if len(starts) == 0:
                continue
            through = combine(best[starts[:, None], able], table[kind, starts, end][:, None])
            start = through.argmin(axis=0)
            reached = through[start, np.arange(len(able))]
            better = reached < best[end, able + step[kind]]
            target = able[better] + step[kind]
            best[end, target] = reached[better]
            came[end, target, 0] = starts[start[better]]
            came[end, target, 1] = kind
    state, end = int(best[n].argmin()), n
    least = float(best[n, state])
    if least == INFINITY:
        return None
    segments: list[tuple[int, int, int]] = []
    while end > 0:
        first, kind = (int(entry) for entry in came[end, state])
        segments.append((first, end, kind))
        end, state = first, state - step[kind]
    return Slices(least, tuple(reversed(segments)))


Run = tuple[int, int, int]
"""Start position, end position, device."""


def fastest_runs(problem: Problem, order: Sequence[int]) -> list[Run] | None:
    """Return the runs of least serial time; None if a node is not supported individually."""
    n, count = problem.seconds.shape
    if n == 0:
        return []
    nodes = np.asarray(order, dtype=np.int64)
    place = np.empty(n, dtype=np.int64)
    place[nodes] = np.arange(n)
    table = np.where(problem.supported, problem.shared_seconds, np.inf)[nodes]
    values = problem.value_arrays
    read = np.flatnonzero(np.diff(values.readers.at))
    first, last = np.full((2, len(values.producer)), -1, dtype=np.int64)
    if read.size:
        places, starts = place[values.readers.node], values.readers.at[read]
        first[read] = np.minimum.reduceat(places, starts)
        last[read] = np.maximum.reduceat(places, starts)
    given = values.producer == GRAPH_INPUT
    made = np.where(given, -1, place[values.producer])
    # By position, bytes and number of the values needed after a cut before it.
    crossing = ~given & (last > made)
    steps = np.stack((made[crossing], last[crossing]), axis=1).ravel() + 1
    signs = np.tile([1.0, -1.0], steps.size // 2)
    nbytes, number = np.zeros((2, n + 1))
    np.add.at(nbytes, steps, signs * np.repeat(values.nbytes[crossing], 2))
    np.add.at(number, steps, signs)
    nbytes, number = np.cumsum(nbytes), np.cumsum(number)
    if problem.host is not None:
        moved = np.where(given, first >= 0, values.leaves)
        where = np.where(given, first, made)[moved]
        size, enters = values.nbytes[moved], given[moved]
        for p in range(count):
            if p != problem.host:
                there, back = problem.routes[problem.host][p], problem.routes[p][problem.host]
                seconds = (
                    np.where(enters, there.latency_s, back.latency_s)
                    + size / np.where(enters, there.bytes_per_s, back.bytes_per_s)
                )  # fmt: skip
                np.add.at(table[:, p], where, seconds)
    latency_s, bytes_per_s = travel_matrices(problem)
    per_byte_s, devices = 1.0 / bytes_per_s, np.arange(count)
    enter_s = np.broadcast_to(np.array(problem.dispatch_s), (count, count)).copy()
    np.fill_diagonal(enter_s, 0.0)
    best = np.array(problem.dispatch_s) + table[0]
    came = np.zeros((n, count), dtype=np.int64)
    for at in range(1, n):
        # Among equal times, staying on the device comes first, then the first device.
        through = best[:, None] + latency_s * number[at] + per_byte_s * nbytes[at] + enter_s
        least, stays = through.min(axis=0), through.diagonal()
        came[at] = np.where(stays <= least, devices, through.argmin(axis=0))
        best = least + table[at]
    device, end = int(best.argmin()), n
    if not np.isfinite(best[device]):
        return None
    runs: list[Run] = []
    for at in range(n - 1, -1, -1):
        before = int(came[at, device]) if at else -1
        if before != device:
            runs.append((at, end, device))
            end, device = at, before
    return runs[::-1]


def fastest_staged_runs(problem: Problem, order: Sequence[int]) -> list[Run] | None:
    """Return the runs of least serial time with staged tensors; None if none fit."""
    costs = costs_of(problem)
    total = float(sum(nbytes for nbytes, _ in costs.constants))
    again = [bool(limit >= total) for limit in costs.capacity_bytes]
    states = States.of(
        [() if free else kind for kind, free in zip(costs.kinds, again, strict=True)]
    )
    table = segment_loads(costs, order)
    for kind, devices in enumerate(costs.kinds):
        width = problem.streams[devices[0]]
        if width > 1:
            table[kind] = _side_by_side(costs, order, kind, width, table[kind])
    found = _best_segments(table, states, again, np.add)
    if found is None:
        return None
    left = [list(devices) for devices in costs.kinds]
    return [
        (first, last, left[kind][0] if again[kind] else left[kind].pop(0))
        for first, last, kind in found.segments
    ]


def _side_by_side(
    costs: Costs, order: Sequence[int], kind: int, width: int, serial: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the load of every segment on a device with several streams."""
    n = costs.n
    place = [0] * n
    for at, node in enumerate(order):
        place[node] = at
    # finish[i, k]: end of the node at position k, in a run that starts at position i <= k.
    finish = np.zeros((n, n))
    longest = np.zeros((n + 1, n + 1))
    for at, node in enumerate(order):
        seconds = float(costs.compute_s[node, kind]) * width
        ready = np.zeros(at + 1)
        for u in costs.dag.preds[node]:
            before = place[u] + 1
            np.maximum(ready[:before], finish[:before, place[u]], out=ready[:before])
        finish[: at + 1, at] = ready + seconds
        longest[: at + 1, at + 1] = np.maximum(longest[: at + 1, at], finish[: at + 1, at])
    return np.maximum(longest, serial)
