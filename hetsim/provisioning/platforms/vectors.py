"""Vectors of counts in order, found without enumerating those that bounds exclude together.

Counts are fixed kind by kind. Fixed counts of the first kinds stand for a *box* of vectors; if the
maximum of the remaining kinds leaves a bound unmet, the whole box is excluded, and if its minimum
cost is above the limit, it counts as dearer. The number of vectors in a box is computed without
enumeration.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetsim.errors import UsageError
from hetsim.provisioning.platforms.question import SLACK, Counts, Question

MOST_AT_ONCE = 2**22
"""Maximum number of vectors held at a time that are neither excluded nor dearer."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Test:
    """Test that excludes vectors with ``counts . capacity < least``, up to rounding.

    With `losses` the remainder counts, without the `devices` (contribution, kind) that contribute
    most, which come first; `alone`: only devices contribute.
    """

    capacity: Floats
    least: float
    losses: int = 0
    devices: tuple[tuple[float, int], ...] = ()
    alone: bool = False

    @property
    def edge(self) -> float:
        """Value below which a vector without losses is certainly excluded."""
        least = self.least
        if self.losses and self.alone:
            # A sufficient vector has a contributing device that may be lost.
            least += min((value for value, _ in self.devices if value > 0), default=0.0)
        return least * (1 - SLACK)

    def left(self, rows: Ints) -> Floats:
        """Return the capacity of vectors [vectors, kinds] without the most contributing devices."""
        found: Floats = rows @ self.capacity
        lost = np.zeros(len(rows))
        if self.losses:
            free = np.full(len(rows), self.losses)
            for value, kind in self.devices:
                taken = np.minimum(free, rows[:, kind])
                lost += taken * value
                free = free - taken
        return found - lost

    def excludes(self, rows: Ints) -> NDArray[np.bool_]:
        """Return the mask of vectors that certainly have too little."""
        found: NDArray[np.bool_] = self.left(rows) < self.least * (1 - SLACK)
        return found


def excludes(tests: Sequence[Test], counts: Counts) -> bool:
    """Return whether any test excludes a vector."""
    row = np.array([counts], dtype=np.int64)
    return any(bool(test.excludes(row)[0]) for test in tests)


class Survey(NamedTuple):
    """Decisions on all vectors up to a cost.

    `left` [vectors, kinds] are those within the cost that no test excludes, in order; `excluded`
    counts by the first test that excludes, at any cost examined; `dearer` counts those above the
    cost that were not seen to be excluded.
    """

    left: Ints
    excluded: tuple[int, ...]
    dearer: int


class _Shelf:
    """Vectors with one choice of hosts, and the numbers of vectors within the remaining room."""

    def __init__(self, question: Question, host: int | None) -> None:
        kinds = question.kinds
        self.base = np.array([int(k == host) for k in range(len(kinds))], dtype=np.int64)
        self.most = [
            0 if kind.slots or (kind.in_slot and host is None) else kind.most for kind in kinds
        ]
        self.in_slot = [int(kind.in_slot) for kind in kinds]
        self.devices = question.max_devices
        self.slots = 0 if host is None else kinds[host].slots
        self._known: dict[tuple[int, int, int], int] = {}

    def count(self, kind: int, devices: int, slots: int) -> int:
        """Return the number of vectors in a box, for the room left in devices and in slots."""
        if kind == len(self.most):
            return 1
        key = (kind, devices, slots)
        if key not in self._known:
            room = min(self.most[kind], devices)
            if self.in_slot[kind]:
                room = min(room, slots)
            self._known[key] = self.count_up_to(room, *key)
        return self._known[key]

    def count_up_to(self, most: int, kind: int, devices: int, slots: int) -> int:
        """Return the same number with up to `most` of the kind."""
        return sum(
            self.count(kind + 1, devices - n, slots - n * self.in_slot[kind])
            for n in range(most + 1)
        )


def _shelves(question: Question) -> list[_Shelf]:
    """Return the choices of hosts: none, with empty slots, and each."""
    hosts = [k for k, kind in enumerate(question.kinds) if kind.slots]
    return [_Shelf(question, host) for host in (None, *hosts)]


def all_vectors(question: Question) -> int:
    """Return the number of vectors, including the empty one."""
    return sum(shelf.count(0, shelf.devices, shelf.slots) for shelf in _shelves(question))


def survey(
    question: Question,
    tests: Sequence[Test],
    most_cost: int,
    *,
    counted: bool = True,
    at_once: int = MOST_AT_ONCE,
) -> Survey:
    """Return the vectors up to a cost that no test excludes, and the counts of the others.

    Unless `counted`, boxes are skipped uncounted if the remaining requirement of a test costs too
    much: no kind contributes a unit for less than the cheapest open one. Raises UsageError for more
    than `at_once` vectors.

    Complexity: the boxes that are neither excluded nor dearer, times the tests; in arrays.
    """
    each = [
        _of_shelf(question, shelf, tests, most_cost, counted, at_once)
        for shelf in _shelves(question)
    ]
    rows = np.concatenate([one.left for one in each])
    devices = np.array([kind.counted for kind in question.kinds])
    columns = [rows[:, k] for k in reversed(range(rows.shape[1]))]
    # By cost, then fewer devices, then counts.
    order = np.lexsort([*columns, rows @ devices, rows @ _costs(question)])
    excluded = tuple(map(sum, zip(*(one.excluded for one in each), strict=True)))
    return Survey(rows[order], excluded, sum(one.dearer for one in each))


def vectors_before(question: Question, last: Counts | None) -> Ints:
    """Return the vectors before `last` [vectors, kinds], in order; all for None.

    Raises UsageError if they are too many to enumerate.
    """
    cap = question.dearest if last is None else question.cost(last)
    rows = survey(question, (), cap, counted=False).left
    # They are in order, and the last is one of them.
    return rows if last is None else rows[: int((rows == np.array(last)).all(axis=1).argmax())]


def _costs(question: Question) -> Ints:
    costs = [kind.cost for kind in question.kinds]
    if max(costs) * (question.max_devices + len(costs)) >= 1 << 62:
        raise UsageError("costs are too large to add up exactly", hint="give fewer --max-devices")
    return np.array(costs, dtype=np.int64)


def _of_shelf(
    question: Question,
    shelf: _Shelf,
    tests: Sequence[Test],
    most_cost: int,
    counted: bool,
    at_once: int,
) -> Survey:
    kinds = len(question.kinds)
    costs = _costs(question)
    capacity = np.array([test.capacity for test in tests]).reshape(len(tests), kinds)
    edges = np.array([test.edge for test in tests])
    rows = np.zeros((1, 0), dtype=np.int64)
    cost = np.array([shelf.base @ costs])
    has = (capacity @ shelf.base)[None, :]
    devices = np.array([shelf.devices])
    slots = np.array([shelf.slots])
    excluded = [0] * len(tests)
    dearer = 0
    for k in range(kinds + 1):
        # Maximum contribution of the open kinds with the remaining devices.
        rest = _most_of_rest(capacity[:, k:], shelf.most[k:], question.max_devices)
        unmet = has + rest[devices] < edges
        if k == kinds and question.losses and tests:
            unmet = np.stack([test.excludes(rows + shelf.base) for test in tests], axis=1)
        out = unmet.any(axis=1)
        over = ~out & (cost > most_cost)
        if not counted and k < kinds:
            open_kinds = [at for at in range(k, kinds) if shelf.most[at]]
            missing = np.maximum(edges - has, 0.0)
            least = cost + _least_cost(missing, capacity, costs, open_kinds)
            over = ~out & (least > most_cost)
        if out.any() or over.any():
            # By the first test that excludes (-1 for dearer) and by remaining room.
            first = np.where(out, unmet.argmax(axis=1) if len(tests) else -1, -1)
            gone = out | over
            boxes = np.column_stack([first[gone], devices[gone], slots[gone]])
            for (which, *room), many in _alike(boxes):
                size = many * shelf.count(k, *room)
                if which < 0:
                    dearer += size
                else:
                    excluded[which] += size
            rows, cost, has, devices, slots = (
                column[~gone] for column in (rows, cost, has, devices, slots)
            )
        if k == kinds:
            break
        room = np.minimum(devices, shelf.most[k])
        if shelf.in_slot[k]:
            room = np.minimum(room, slots)
        if costs[k]:
            # More of this kind costs too much: counted without enumeration.
            enough = np.maximum((most_cost - cost) // costs[k], 0)
            cut = enough < room
            boxes = np.column_stack([devices[cut], slots[cut], enough[cut]])
            for (free, own, most), many in _alike(boxes):
                listed = shelf.count_up_to(most, k, free, own)
                dearer += many * (shelf.count(k, free, own) - listed)
            room = np.minimum(room, enough)
        times = room + 1
        if int(times.sum()) > at_once:
            raise UsageError(
                f"more than {at_once} vectors up to the cost that is looked at, and no bound "
                "excludes them",
                hint="give fewer --max-devices, fewer kinds, or most: of them",
            )
        number = np.arange(int(times.sum())) - np.repeat(np.cumsum(times) - times, times)
        rows = np.column_stack([np.repeat(rows, times, axis=0), number])
        cost = np.repeat(cost, times) + number * costs[k]
        has = np.repeat(has, times, axis=0) + number[:, None] * capacity[:, k]
        devices = np.repeat(devices, times) - number
        slots = np.repeat(slots, times) - number * shelf.in_slot[k]
    return Survey(rows + shelf.base, tuple(excluded), dearer)


def _least_cost(missing: Floats, capacity: Floats, costs: Ints, kinds: Sequence[int]) -> Floats:
    """Return by row the least cost of open kinds that contribute what tests miss [rows, tests]."""
    per_unit = np.zeros(len(capacity))
    for test, row in enumerate(capacity):
        each = [costs[k] / row[k] for k in kinds if row[k] > 0]
        per_unit[test] = min(each, default=0.0)
    found: Floats = (missing * per_unit).max(axis=1, initial=0.0) * (1 - SLACK)
    return found


def _alike(rows: Ints) -> Iterator[tuple[list[int], int]]:
    """Yield distinct rows, and the number of each."""
    found, counts = np.unique(rows, axis=0, return_counts=True)
    yield from zip(found.tolist(), counts.tolist(), strict=True)


def _most_of_rest(capacity: Floats, most: Sequence[int], devices: int) -> Floats:
    """Return by remaining devices, 0 to all, the most that open kinds contribute to each test."""
    found = np.zeros((devices + 1, len(capacity)))
    for test, row in enumerate(capacity):
        best = sorted(zip(row.tolist(), most, strict=True), reverse=True)
        each = [value for value, many in best for _ in range(min(many, devices))][:devices]
        sums = np.cumsum([0.0, *each])
        found[:, test] = sums[np.minimum(np.arange(devices + 1), len(sums) - 1)]
    return found


class Level(NamedTuple):
    """Vectors of similar cost, in order, that no test excluded at the start of the level.

    None of them costs more than `cap`, and those of later levels do.
    """

    cap: int
    counts: tuple[Counts, ...]


def levels(question: Question, tests: Sequence[Test]) -> Iterator[Level]:
    """Yield vectors that no test excludes, in order, level by level.

    The first level reaches the least cost that tests leave, and each further one an eighth more:
    `tests` may grow meanwhile, and is evaluated again for each level.
    """
    dearest = question.dearest
    costs = _costs(question)
    rest = costs[costs > 0]
    below, cap = -1, int(rest.min()) if len(rest) else 0
    for test in tests:
        # No vector that passes it costs less: at the cheapest cost per contribution.
        earns = test.capacity > 0
        if earns.any() and test.edge > 0:
            per_unit = float((costs[earns] / test.capacity[earns]).min())
            cap = max(cap, int(test.edge * per_unit * (1 - SLACK)))
    cap = min(cap, dearest)
    while True:
        found = survey(question, tests, cap, counted=False).left
        total = found @ costs
        yield Level(cap, tuple(map(tuple, found[total > below].tolist())))
        if cap >= dearest:
            return
        below, cap = cap, min(cap + cap // 8 + 1, dearest)
