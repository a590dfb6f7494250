"""Vectors of counts in order, found without listing those that bounds exclude together.

Kind after kind gets its count. What has counts for the first kinds stands for a *box* of vectors;
where the most that the rest could add leaves a bound unmet, the whole box is excluded at once, and
where the least that it costs is above what is looked at, it is dearer. How many vectors a box has
is counted and not listed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetsim.errors import UsageError
from hetsim.provisioning.platforms.question import SLACK, Counts, Question

MOST_AT_ONCE = 2**22
"""Vectors that are looked at at a time, neither excluded nor dearer."""


@dataclass(frozen=True, slots=True, eq=False)
class Test:
    """What excludes vectors: those with ``counts . capacity < least``, but for rounding.

    Where some devices may be lost, what is left counts, without those that add most.

    Attributes
    ----------
    capacity : float array [kinds]
        At least 0.
    least : float
        Above 0.
    losses : int
    devices : tuple of (float, int)
        What one device adds, and its kind, of all devices of all kinds; those that add most first.
    alone : bool
        Whether only devices add something.
    """

    capacity: NDArray[np.float64]
    least: float
    losses: int = 0
    devices: tuple[tuple[float, int], ...] = ()
    alone: bool = False

    @property
    def edge(self) -> float:
        """What all of a vector, with nothing lost, is below is excluded for certain."""
        least = self.least
        if self.losses and self.alone:
            # What has enough has a device that adds something, and that may be lost.
            least += min((value for value, _ in self.devices if value > 0), default=0.0)
        return least * (1 - SLACK)

    def left(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """What is left of vectors [vectors, kinds] without the devices that add most."""
        found: NDArray[np.float64] = rows @ self.capacity
        return found - self.lost(rows)

    def lost(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """What the devices add that add most, as many as may be lost."""
        found = np.zeros(len(rows))
        if self.losses:
            free = np.full(len(rows), self.losses)
            for value, kind in self.devices:
                taken = np.minimum(free, rows[:, kind])
                found += taken * value
                free = free - taken
        return found

    def excludes(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which vectors have too little for certain."""
        found: NDArray[np.bool_] = self.left(rows) < self.least * (1 - SLACK)
        return found


@dataclass(frozen=True, slots=True)
class Survey:
    """What became of all vectors up to a cost.

    Attributes
    ----------
    left : int array [vectors, kinds]
        Those that cost no more and that no test excludes, in order.
    excluded : tuple of int
        By test, the first that excludes: vectors of any cost, as far as was looked.
    dearer : int
        Those that cost more and were not seen to be excluded.
    """

    left: NDArray[np.int64]
    excluded: tuple[int, ...]
    dearer: int


@dataclass(frozen=True, slots=True)
class Shelf:
    """The vectors with one choice of hosts: counts of the kinds that are left open.

    Attributes
    ----------
    base : tuple of int
        Counts of hosts.
    most : tuple of int
        By kind.
    slots : int
        For kinds that stand in one.
    """

    base: Counts
    most: tuple[int, ...]
    slots: int


def shelves(question: Question) -> tuple[Shelf, ...]:
    """Return the choices of hosts: none, where nothing stands in a slot, and each."""
    kinds = question.kinds
    hosts = [k for k, kind in enumerate(kinds) if kind.slots]
    found = []
    for host in (None, *hosts):
        most = [0 if kind.slots or (kind.in_slot and host is None) else kind.most for kind in kinds]
        base = tuple(int(k == host) for k in range(len(kinds)))
        found.append(Shelf(base, tuple(most), kinds[host].slots if host is not None else 0))
    return tuple(found)


def all_vectors(question: Question) -> int:
    """Return how many vectors there are; that of nothing at all is one."""
    return sum(
        _Counter(question, shelf).of_box(0, *_room(question, shelf)) for shelf in shelves(question)
    )


def _room(question: Question, shelf: Shelf) -> tuple[int, int]:
    return question.max_devices, shelf.slots


class _Counter:
    """How many vectors the kinds from one on can make of the room that is left."""

    def __init__(self, question: Question, shelf: Shelf) -> None:
        self._most = shelf.most
        self._in_slot = [kind.in_slot for kind in question.kinds]
        self._known: dict[tuple[int, int, int], int] = {}

    def of_box(self, kind: int, devices: int, slots: int) -> int:
        """Count them exactly, with room for so many devices, and so many of these in slots."""
        if kind == len(self._most):
            return 1
        key = (kind, devices, slots)
        if key not in self._known:
            room = min(self._most[kind], devices)
            if self._in_slot[kind]:
                room = min(room, slots)
            self._known[key] = sum(
                self.of_box(kind + 1, devices - n, slots - (n if self._in_slot[kind] else 0))
                for n in range(room + 1)
            )
        return self._known[key]


def survey(question: Question, tests: Sequence[Test], most_cost: int) -> Survey:
    """Return the vectors up to a cost that no test excludes, and what became of the others.

    Raises UsageError where they are too many to be looked at.

    Complexity: of the boxes that are neither excluded nor dearer, times the tests; in arrays.
    """
    left = []
    excluded = np.zeros(len(tests), dtype=object)
    dearer = 0
    for shelf in shelves(question):
        mine, of_test, more = _of_shelf(question, shelf, tests, most_cost)
        left.append(mine)
        excluded += of_test
        dearer += more
    rows = np.concatenate(left)
    return Survey(in_order(question, rows), tuple(int(n) for n in excluded), dearer)


def in_order(question: Question, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sort vectors by cost, then fewer devices, then counts."""
    counted = np.array([kind.counted for kind in question.kinds])
    columns = [rows[:, k] for k in reversed(range(rows.shape[1]))]
    return rows[np.lexsort([*columns, rows @ counted, rows @ _costs(question)])]


def _costs(question: Question) -> NDArray[np.int64]:
    costs = [kind.cost for kind in question.kinds]
    if max(costs) * (question.max_devices + len(costs)) >= 1 << 62:
        raise UsageError("costs are too large to add up exactly", hint="give fewer --max-devices")
    return np.array(costs, dtype=np.int64)


def _of_shelf(
    question: Question, shelf: Shelf, tests: Sequence[Test], most_cost: int
) -> tuple[NDArray[np.int64], NDArray[np.object_], int]:
    kinds = len(question.kinds)
    costs = _costs(question)
    in_slot = np.array([int(kind.in_slot) for kind in question.kinds])
    base = np.array(shelf.base, dtype=np.int64)
    capacity = np.array([test.capacity for test in tests]).reshape(len(tests), kinds)
    edges = np.array([test.edge for test in tests])
    counter = _Counter(question, shelf)
    rows = np.zeros((1, 0), dtype=np.int64)
    cost = np.array([base @ costs])
    has = (capacity @ base)[None, :] if len(tests) else np.zeros((1, 0))
    devices = np.array([question.max_devices])
    slots = np.array([shelf.slots])
    excluded = np.zeros(len(tests), dtype=object)
    dearer = 0
    for k in range(kinds + 1):
        # What the kinds that are open could add, with as many devices as are left.
        rest = _most_of_rest(capacity[:, k:], shelf.most[k:], question.max_devices)
        unmet = has + rest[devices] < edges
        if k == kinds and any(test.losses for test in tests):
            unmet = np.stack([test.excludes(rows + base) for test in tests], axis=1)
        out = unmet.any(axis=1)
        over = ~out & (cost > most_cost)
        if out.any() or over.any():
            gone = np.flatnonzero(out | over)
            sizes = _sizes(counter, k, devices[gone], slots[gone])
            first = unmet[gone].argmax(axis=1) if len(tests) else np.zeros(len(gone), dtype=int)
            for size, is_out, which in zip(sizes, out[gone].tolist(), first.tolist(), strict=True):
                if is_out:
                    excluded[which] += size
                else:
                    dearer += size
            keep = ~(out | over)
            rows, cost, has = rows[keep], cost[keep], has[keep]
            devices, slots = devices[keep], slots[keep]
        if k == kinds:
            break
        room = np.minimum(devices, shelf.most[k])
        if in_slot[k]:
            room = np.minimum(room, slots)
        if costs[k]:
            # What more of it would cost is not listed.
            enough = np.maximum((most_cost - cost) // costs[k], 0)
            dearer += _beyond(counter, k, (devices, slots, room), enough, in_slot=bool(in_slot[k]))
            room = np.minimum(room, enough)
        times = room + 1
        if int(times.sum()) > MOST_AT_ONCE:
            raise UsageError(
                f"more than {MOST_AT_ONCE} vectors up to the cost that is looked at, and no bound "
                "excludes them",
                hint="give fewer --max-devices, fewer kinds, or most: of them",
            )
        number = np.arange(int(times.sum())) - np.repeat(np.cumsum(times) - times, times)
        rows = np.column_stack([np.repeat(rows, times, axis=0), number])
        cost = np.repeat(cost, times) + number * costs[k]
        has = np.repeat(has, times, axis=0) + number[:, None] * capacity[:, k]
        devices = np.repeat(devices, times) - number
        slots = np.repeat(slots, times) - number * in_slot[k]
    return rows + base, excluded, dearer


def _beyond(
    counter: _Counter,
    kind: int,
    left: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    enough: NDArray[np.int64],
    *,
    in_slot: bool,
) -> int:
    """How many vectors have more of a kind than is enough, over all boxes; left as they are."""
    devices, slots, room = left
    over = enough < room
    rows = np.column_stack([devices[over], slots[over], enough[over]])
    total = 0
    for (has, free, most), many in zip(*_each(rows), strict=True):
        listed = sum(
            counter.of_box(kind + 1, has - n, free - (n if in_slot else 0)) for n in range(most + 1)
        )
        total += many * (counter.of_box(kind, has, free) - listed)
    return total


def _each(rows: NDArray[np.int64]) -> tuple[list[list[int]], list[int]]:
    """Rows that differ, and how many there are of each."""
    found, counts = np.unique(rows, axis=0, return_counts=True)
    return found.tolist(), counts.tolist()


def _sizes(
    counter: _Counter, kind: int, devices: NDArray[np.int64], slots: NDArray[np.int64]
) -> list[int]:
    known: dict[tuple[int, int], int] = {}
    found = []
    for room in zip(devices.tolist(), slots.tolist(), strict=True):
        if room not in known:
            known[room] = counter.of_box(kind, *room)
        found.append(known[room])
    return found


def _most_of_rest(
    capacity: NDArray[np.float64], most: Sequence[int], devices: int
) -> NDArray[np.float64]:
    """By devices that are left, 0 to all: the most that open kinds add to each test."""
    found = np.zeros((devices + 1, len(capacity)))
    for test, row in enumerate(capacity):
        best = sorted(zip(row.tolist(), most, strict=True), reverse=True)
        each = [value for value, many in best for _ in range(min(many, devices))][:devices]
        sums = np.cumsum([0.0, *each])
        found[:, test] = sums[np.minimum(np.arange(devices + 1), len(sums) - 1)]
    return found


@dataclass(frozen=True, slots=True)
class Level:
    """Vectors of about one cost, in order.

    Attributes
    ----------
    cap : int
        What none of them costs more than, and those of later levels do.
    counts : tuple of Counts
        That no test excluded when it was begun.
    """

    cap: int
    counts: tuple[Counts, ...]


def levels(question: Question, tests: Sequence[Test]) -> Iterator[Level]:
    """Yield the vectors that no test excludes, in order, level by level.

    Those up to the least cost that tests leave are looked at, then up to an eighth more, and so on:
    `tests` may grow meanwhile, and is asked again for each level.
    """
    costs = _costs(question)
    rest = costs[costs > 0]
    dearest = question.dearest
    below, cap = -1, max(int(rest.min()) if len(rest) else 0, _least_cost(costs, tests))
    while True:
        found = survey(question, tests, cap).left
        total = found @ costs
        yield Level(cap, tuple(map(tuple, found[total > below].tolist())))
        if cap >= dearest:
            return
        below, cap = cap, min(cap + cap // 8 + 1, dearest)


def _least_cost(costs: NDArray[np.int64], tests: Sequence[Test]) -> int:
    """What no vector costs less than that passes every test: each by what earns it cheapest."""
    least = 0
    for test in tests:
        earns = test.capacity > 0
        if earns.any() and test.edge > 0:
            per_unit = float((costs[earns] / test.capacity[earns]).min())
            least = max(least, int(test.edge * per_unit * (1 - SLACK)))
    return least


def excludes(tests: Sequence[Test], counts: Counts) -> bool:
    """Return whether any test excludes a vector."""
    row = np.array([counts], dtype=np.int64)
    return any(bool(test.excludes(row)[0]) for test in tests)
