"""List scheduling with insertion: each node goes to its best slot, gaps on streams included."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from hetsim.core import compile_threshold, deadline
from hetsim.core.machine_code import machine_code
from hetsim.errors import OutOfMemory
from hetsim.partitioning.regions import unsupported
from hetsim.problem.columns import columns_of
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.templates import flat

Array = Any
"""List of numbers, or an array in machine code; matrices are flat, row by row."""

INFINITY = float("inf")


def earliest(
    starts: Array, ends: Array, base: int, gaps: int, ready: float, length: float
) -> float:
    """Return the earliest start >= `ready` in a gap of `length`, among the gaps from `base` on."""
    if ready >= starts[base + gaps - 1]:
        return ready
    low, high = base, base + gaps
    while low < high:
        middle = (low + high) // 2
        if ends[middle] < ready + length:
            low = middle + 1
        else:
            high = middle
    while True:
        begin = starts[low]
        if begin < ready:
            begin = ready
        if begin + length <= ends[low]:
            return float(begin)
        low += 1


def take(
    starts: Array, ends: Array, base: int, gaps: int, begin: float, end: float, shortest: float
) -> int:
    """Occupy an interval found by ``earliest``; return the new number of gaps."""
    if begin == end:
        return gaps
    low, high = base, base + gaps
    while low < high:
        middle = (low + high) // 2
        if ends[middle] < end:
            low = middle + 1
        else:
            high = middle
    first, last = starts[low], ends[low]
    before, behind = begin - first >= shortest, last - end >= shortest
    if before and behind:
        for k in range(base + gaps, low, -1):
            starts[k], ends[k] = starts[k - 1], ends[k - 1]
        ends[low] = begin
        starts[low + 1] = end
        return gaps + 1
    if before:
        ends[low] = begin
        return gaps
    if behind:
        starts[low] = end
        return gaps
    for k in range(low, base + gaps - 1):
        starts[k], ends[k] = starts[k + 1], ends[k + 1]
    return gaps - 1


def needs(at: Array, of: Array, nbytes: Array, readers: Array, node: int, device: int) -> int:
    """Return the bytes of a node's weights that a device neither holds nor has reserved."""
    base, total = device * len(nbytes), 0
    for k in range(at[node], at[node + 1]):
        if readers[base + of[k]] == 0:
            total += nbytes[of[k]]
    return total


def add(
    at: Array, of: Array, nbytes: Array, readers: Array, left: Array, node: int, device: int
) -> None:
    """Place a node's weights on a device, even if they do not fit; `left` is bytes by device."""
    left[device] -= needs(at, of, nbytes, readers, node, device)
    for k in range(at[node], at[node + 1]):
        readers[device * len(nbytes) + of[k]] += 1


def remove(
    at: Array, of: Array, nbytes: Array, readers: Array, left: Array, node: int, device: int
) -> None:
    """Undo ``add``."""
    for k in range(at[node], at[node + 1]):
        readers[device * len(nbytes) + of[k]] -= 1
    left[device] += needs(at, of, nbytes, readers, node, device)


class Room:
    """Memory left for weights, by device; a constant counts once per device.

    An unplaced node may have a home device, which reserves room for it; a node with only one
    supported device has its home there. If all homes fit, the remaining nodes can always be placed.
    """

    def __init__(self, problem: Problem, homes: Sequence[int] | None = None) -> None:
        assert problem.capacity_bytes is not None
        self.left = list(problem.capacity_bytes)
        self.at, self.of = (list(row) for row in flat(problem.constants_of))
        self.nbytes = [constant.nbytes for constant in problem.constants]
        self.readers = [0] * (len(problem.devices) * len(self.nbytes))
        if homes is None:
            alone = problem.supported.sum(axis=1) == 1
            homes = np.where(alone, problem.supported.argmax(axis=1), -1).tolist()
        self.homes = list(homes)
        for node, device in enumerate(self.homes):
            if device >= 0:
                add(*self.weights, node, device)

    @property
    def weights(self) -> tuple[list[int], list[int], list[int], list[int], list[int]]:
        """Arguments of ``needs``, ``add`` and ``remove``."""
        return self.at, self.of, self.nbytes, self.readers, self.left

    def needs(self, node: int, device: int) -> int:
        """Return the result of the function ``needs``."""
        return needs(self.at, self.of, self.nbytes, self.readers, node, device)

    def holds(self, node: int, device: int) -> bool:
        """Return whether the node's weights fit."""
        return self.at[node] == self.at[node + 1] or self.needs(node, device) <= self.left[device]

    def take(self, node: int, device: int) -> None:
        """Store a node's weights on a device, and release its reservation."""
        home = self.homes[node]
        if home != device:
            if home >= 0:
                remove(*self.weights, node, home)
            add(*self.weights, node, device)

    def give_back(self, node: int, device: int) -> None:
        """Undo ``take``."""
        home = self.homes[node]
        if home != device:
            remove(*self.weights, node, device)
            if home >= 0:
                add(*self.weights, node, home)


LEAST, COMPILE_FROM = 1_000, 50_000
"""Number of nodes of one schedule, and of all in a process, from which machine code is used."""

LOOK = 100
"""Number of nodes placed between two checks of the deadline."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Device and time of each node, as estimated by a scheduler."""

    assignment: tuple[int, ...]  # Device index by node
    start_s: tuple[float, ...]  # Without contention and grouping
    end_s: tuple[float, ...]

    @property
    def makespan_s(self) -> float:
        """End of the last node."""
        return max(self.end_s, default=0.0)

    @property
    def order(self) -> list[int]:
        """Nodes in order of start, which is a topological order."""
        start, end = self.start_s, self.end_s
        return sorted(range(len(start)), key=lambda node: (start[node], end[node], node))


class Lists(NamedTuple):
    """State of a schedule in progress, as lists of numbers or arrays."""

    devices: int  # Number of devices; capacity of a stream in gaps
    room: int
    seconds: Array  # As in ``columns.Columns``; `back` is 0 if only a slot's end counts
    made_at: Array
    made_bytes: Array
    reader_at: Array
    readers: Array
    latency: Array
    bandwidth: Array
    back: Array
    ready: Array  # [n P]: Time at which a node's known inputs are all on a device
    near: Array  # [n P]: Whether an input of the node was made on the device
    # [P]: Dispatch, paid if no input was made there; gaps shorter than `shortest` are dropped
    dispatch: Array
    shortest: Array
    lane_at: Array  # [P + 1]: Offset of each device's streams
    starts: Array  # [streams room]
    ends: Array
    gaps: Array
    at: Array  # Weights, as in ``Room``; `left` is empty if memory is not modelled
    of: Array
    nbytes: Array
    held: Array
    left: Array
    homes: Array
    device: Array  # [n]: The schedule; for an unplaced node, the slot examined last
    stream: Array
    begin: Array
    end: Array


def takes(lists: Lists, v: int, p: int) -> bool:
    """Return whether a device supports a node and has room for its weights."""
    if lists.seconds[v * lists.devices + p] == INFINITY:
        return False
    if len(lists.left) == 0 or lists.at[v] == lists.at[v + 1]:
        return True
    return bool(needs(lists.at, lists.of, lists.nbytes, lists.held, v, p) <= lists.left[p])


def look(lists: Lists, v: int, p: int) -> None:
    """Find the earliest slot of a node on a device that takes it: stream, start and end."""
    at = v * lists.devices + p
    length = lists.seconds[at]
    if lists.near[at] == 0:
        length += lists.dispatch[p]
    begin, lane = INFINITY, -1
    for stream in range(lists.lane_at[p], lists.lane_at[p + 1]):
        free = earliest(
            lists.starts,
            lists.ends,
            stream * lists.room,
            lists.gaps[stream],
            lists.ready[at],
            length,
        )
        if lane < 0 or free < begin:
            begin, lane = free, stream
    lists.stream[v], lists.begin[v], lists.end[v] = lane, begin, begin + length


def choose(lists: Lists, ahead: Array, v: int, forced: int) -> int:
    """Find the best slot of a node; return its device, or -1 if none takes it."""
    if forced >= 0 and not takes(lists, v, forced):
        forced = -1
    best, second, where = INFINITY, INFINITY, -1
    lane, begin, end = -1, INFINITY, INFINITY
    for p in range(lists.devices):
        if (forced >= 0 and p != forced) or not takes(lists, v, p):
            continue
        look(lists, v, p)
        if len(ahead) > 0:
            worth, tie = lists.end[v] + ahead[v * lists.devices + p], lists.end[v]
        else:
            worth, tie = lists.end[v] + lists.back[v * lists.devices + p], lists.begin[v]
        if where < 0 or worth < best or (worth == best and tie < second):
            best, second, where = worth, tie, p
            lane, begin, end = lists.stream[v], lists.begin[v], lists.end[v]
    lists.stream[v], lists.begin[v], lists.end[v] = lane, begin, end
    return where


def put(lists: Lists, v: int, p: int) -> None:
    """Place a node on a device, in the slot found last."""
    lane = lists.stream[v]
    lists.gaps[lane] = take(
        lists.starts,
        lists.ends,
        lane * lists.room,
        lists.gaps[lane],
        lists.begin[v],
        lists.end[v],
        lists.shortest[p],
    )
    commit(lists, v, p)


def commit(lists: Lists, v: int, p: int) -> None:
    """Record that a node runs on a device, and when its outputs reach each device."""
    count, end, ready, readers = lists.devices, lists.end[v], lists.ready, lists.readers
    lists.device[v] = p
    if len(lists.left) > 0 and lists.homes[v] != p:
        home = lists.homes[v]
        if home >= 0:
            remove(lists.at, lists.of, lists.nbytes, lists.held, lists.left, v, home)
        add(lists.at, lists.of, lists.nbytes, lists.held, lists.left, v, p)
    for value in range(lists.made_at[v], lists.made_at[v + 1]):
        first, after = lists.reader_at[value], lists.reader_at[value + 1]
        for q in range(count):
            way = p * count + q
            there = end + (lists.latency[way] + lists.made_bytes[value] / lists.bandwidth[way])
            for k in range(first, after):
                if there > ready[readers[k] * count + q]:
                    ready[readers[k] * count + q] = there
        for k in range(first, after):
            lists.near[readers[k] * count + p] = 1


def place_all(lists: Lists, ahead: Array, order: Array, only: Array) -> int:
    """Place all nodes of `order` by ``choose``; return a node that no device takes, or -1."""
    for v in order:
        p = choose(lists, ahead, v, only[v])
        if p < 0:
            return int(v)
        put(lists, v, p)
    return -1


_PARTS = (earliest, take, needs, add, remove, takes, look, choose, commit, put)


_compiled = machine_code(place_all, *_PARTS, inline=True)


class Listing:
    """Schedule in progress: one node is placed at a time, after all its predecessors.

    Times are estimates without contention. A node pays its device's dispatch if none of its
    predecessors runs there, needs room for its weights, and may fill an earlier gap. `homes` are as
    in ``Room``. With `compiled`, nodes are placed in machine code, by ``place_in_order`` only.
    """

    def __init__(
        self, problem: Problem, homes: Sequence[int] | None = None, *, compiled: bool = False
    ) -> None:
        n, count = problem.n, len(problem.devices)
        self.problem, self.compiled = problem, compiled
        columns = columns_of(problem)
        table = columns.seconds.reshape(n, count)
        lanes = list(accumulate(problem.streams, initial=0))
        self.memory = memory = Room(problem, homes) if problem.capacity_bytes is not None else None
        weights: Sequence[list[int]] = ([],) * 6
        if memory is not None:
            weights = (*memory.weights, memory.homes)
        ints = functools.partial(np.array, dtype=np.int64)

        def listed(row: Any) -> Any:
            return row if isinstance(row, list) else row.tolist()

        # Most of the room for gaps is never touched, so zeros are shared until written.
        space = (n + 2) * lanes[-1]
        starts = np.zeros(space) if compiled else [0.0] * space
        ends = np.full(space, INFINITY) if compiled else [INFINITY] * space
        as_given: Callable[[Any], Any] = np.ascontiguousarray if compiled else listed
        self.given = as_given
        fields: list[Any] = [
            *map(as_given, (
                columns.seconds, columns.made_at, columns.made_bytes, columns.reader_at,
                columns.readers, columns.latency, columns.bandwidth, columns.back,
                columns.arrival.copy(), np.zeros(n * count, dtype=np.int64),
                np.array(problem.dispatch_s, dtype=np.float64),
                np.where(table > 0, table, np.inf).min(axis=0, initial=np.inf), ints(lanes),
            )),
            starts, ends, as_given(np.ones(lanes[-1], dtype=np.int64)),
            *(ints(row) if compiled else row for row in weights),
            *map(as_given, (np.full(n, -1), np.full(n, -1), np.zeros(n), np.zeros(n))),
        ]  # fmt: skip
        self.lists = Lists(count, n + 2, *fields)

    def place_in_order(
        self,
        order: Sequence[int],
        *,
        ahead: NDArray[np.float64] | None = None,
        only: Sequence[int] | None = None,
    ) -> None:
        """Place all nodes by ``place_all``; raise as ``refuse`` if one has no device."""
        given, n = self.given, self.problem.n
        worth = given(np.zeros(0) if ahead is None else ahead.ravel())
        forced = given(np.full(n, -1) if only is None else np.asarray(only, dtype=np.int64))
        nodes = given(np.asarray(order, dtype=np.int64))
        place = _compiled if self.compiled else place_all
        for first in range(0, n, LOOK):
            if first:
                deadline.check()
            lost = place(self.lists, worth, nodes[first : first + LOOK], forced)
            if lost >= 0:
                refuse(self.problem, lost)

    def able(self, node: int) -> list[int]:
        """Return the devices that take `node`; raise as ``refuse`` if there is none."""
        found = [p for p in range(self.lists.devices) if takes(self.lists, node, p)]
        return found or refuse(self.problem, node)

    def end_on(self, node: int, device: int) -> float:
        """Find the earliest slot of `node` on a device that takes it; return its score.

        The score is its end plus the transfer of its outputs back to the host. O(streams log n).
        """
        look(self.lists, node, device)
        return float(self.lists.end[node] + self.lists.back[node * self.lists.devices + device])

    def best(self, node: int) -> int:
        """Find the slot of least score, ties by start, then by device; return its device."""
        device = choose(self.lists, (), node, -1)
        return device if device >= 0 else refuse(self.problem, node)

    def place(self, node: int, device: int) -> None:
        """Occupy the slot found last for `node`, on `device`. O(outputs P)."""
        put(self.lists, node, device)

    @contextmanager
    def trial(self, node: int, device: int) -> Iterator[None]:
        """Occupy the slot found last, as ``place`` does, until the ``with`` block ends."""
        lists, lane, count = self.lists, self.lists.stream[node], self.lists.devices
        gaps = slice(lane * lists.room, lane * lists.room + lists.gaps[lane] + 1)
        free = lists.gaps[lane], lists.starts[gaps], lists.ends[gaps]
        rows = [slice(v * count, v * count + count) for v in self.problem.dag.succs[node]]
        readers = [(row, lists.ready[row], lists.near[row]) for row in rows]
        self.place(node, device)
        yield
        lists.gaps[lane], lists.starts[gaps], lists.ends[gaps] = free
        for row, ready, near in readers:
            lists.ready[row], lists.near[row] = ready, near
        if self.memory is not None:
            self.memory.give_back(node, device)
        lists.device[node] = -1

    def schedule(self) -> Schedule:
        """Return the schedule so far."""
        device, begin, end = (
            list(row) if isinstance(row, list) else row.tolist()
            for row in (self.lists.device, self.lists.begin, self.lists.end)
        )
        return Schedule(tuple(device), tuple(begin), tuple(end))


def refuse(problem: Problem, node: int) -> NoReturn:
    """Raise the reason why no device takes `node`."""
    able = np.flatnonzero(problem.supported[node]).tolist()
    if not able:
        devices = range(len(problem.devices))
        raise unsupported(problem, "no device supports it alone", (node,), devices)
    names = ", ".join(problem.devices[p] for p in able)
    raise OutOfMemory(
        f"its weights fit none of {names} beside the weights placed before",
        where=f"node '{problem.node_names[node]}'",
        hint="add memory or devices, or use the strategy 'etf' or 'pipeline'",
    )


def scheduled(
    problem: Problem,
    homes: Sequence[int] | None,
    order: Sequence[int],
    *,
    ahead: NDArray[np.float64] | None = None,
    only: Sequence[int] | None = None,
) -> Schedule:
    """Return the schedule of nodes placed in `order`, in machine code for many nodes."""
    pays = compile_threshold.pays(_compiled, problem.n, LEAST, COMPILE_FROM)
    listing = Listing(problem, homes, compiled=pays)
    listing.place_in_order(order, ahead=ahead, only=only)
    return listing.schedule()
