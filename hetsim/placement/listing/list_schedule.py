"""What list schedulers share: streams with gaps, arrivals, room for weights, and the schedule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import add
from typing import NamedTuple

import numpy as np

from hetsim.base import deadline
from hetsim.errors import OutOfMemory, UnsupportedNode
from hetsim.placement.listing.ranks import made_by, travel_matrices
from hetsim.placement.listing.room import Gaps, Room
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.problem import Problem

INFINITY = float("inf")

LOOK = 32
"""Nodes placed between two looks at a deadline."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Where and when each node runs, by a scheduler's own estimate.

    Attributes
    ----------
    assignment : tuple of int
        Device index by node.
    start_s, end_s : tuple of float
        Contention and grouping left out.
    """

    assignment: tuple[int, ...]
    start_s: tuple[float, ...]
    end_s: tuple[float, ...]

    @property
    def makespan_s(self) -> float:
        """When the last node ends."""
        return max(self.end_s, default=0.0)

    @property
    def order(self) -> list[int]:
        """The nodes by start, a topological order.

        A node of no duration goes before one that starts with it and would hold it up.
        """
        start, end = self.start_s, self.end_s
        return sorted(range(len(start)), key=lambda node: (start[node], end[node], node))


class Slot(NamedTuple):
    """Where a node could go: when it begins and ends, and what it counts for.

    Attributes
    ----------
    score_s : float
        Its end, and the way of its outputs back to the host.
    begin_s, end_s : float
    device, stream : int
    """

    score_s: float
    begin_s: float
    end_s: float
    device: int
    stream: int


class Listing:
    """A schedule in the making: one node is placed at a time, after all that feed it.

    Times are estimates without contention. A tensor travels once a destination device as
    soon as it exists; inputs start and outputs end on the host. A node pays its device's
    dispatch where none of its predecessors runs there. A device whose free memory the
    node's weights exceed does not take it. A node may fill a gap left before.

    Parameters
    ----------
    problem : Problem
    homes : sequence of int, optional
        A device by node, for which room for its weights is kept until it is placed, or -1: where
        all fit, none is ever left over. Absent: where one device alone supports the node.
    """

    def __init__(self, problem: Problem, homes: Sequence[int] | None = None) -> None:
        n, count = problem.n, len(problem.devices)
        self.problem = problem
        self.count = count
        # One node is placed at a time: what a device takes only as a composite is not for it.
        table = np.where(problem.supported, problem.shared_seconds, np.inf)
        self.seconds: list[list[float]] = table.tolist()
        self._dispatch = problem.dispatch_s
        self._made = [
            [(value.nbytes, value.consumers) for value in values] for values in made_by(problem)
        ]
        latency_s, bytes_per_s = travel_matrices(problem)
        self._latency_s, self._bytes_per_s = latency_s, bytes_per_s
        self._travel: dict[tuple[int, int], list[float]] = {}
        self.ready: list[list[float]] = [[0.0] * count for _ in range(n)]
        self._near = [0] * n
        self._back: list[list[float] | None] = [None] * n
        host = problem.host
        if host is not None:
            for value in problem.values:
                if value.producer == GRAPH_INPUT:
                    self._arrive(value.consumers, self.travel(host, value.nbytes), 0.0)
                elif value.is_output:
                    way = [self.travel(p, value.nbytes)[host] for p in range(count)]
                    known = self._back[value.producer] or way
                    self._back[value.producer] = list(map(max, known, way))
        # What is not supported takes forever, and so does the shortest of none.
        table[table <= 0] = np.inf
        shortest = table.min(axis=0, initial=np.inf).tolist()
        self.streams = [
            [Gaps(shortest[p]) for _ in range(problem.streams[p])] for p in range(count)
        ]
        self.memory = Room(problem, homes) if problem.capacity_bytes is not None else None
        self.device = [-1] * n
        self._placed = 0
        self.begin_s = [0.0] * n
        self.end_s = [0.0] * n

    def travel(self, source: int, nbytes: int) -> list[float]:
        """Return seconds from `source` to every device; kept, for many tensors are alike."""
        row = self._travel.get((source, nbytes))
        if row is None:
            row = (self._latency_s[source] + nbytes / self._bytes_per_s[source]).tolist()
            self._travel[source, nbytes] = row
        return row

    def duration(self, node: int, device: int) -> float:
        """Seconds of `node` on `device`, dispatch included where it opens a subgraph there."""
        own = self.seconds[node][device]
        return own if self._near[node] >> device & 1 else own + self._dispatch[device]

    def takes(self, node: int, device: int) -> bool:
        """Whether `device` supports `node` and has room for its weights."""
        if self.seconds[node][device] == INFINITY:
            return False
        return self.memory is None or self.memory.holds(node, device)

    def slot(self, node: int, device: int) -> Slot:
        """Return the earliest finish of `node` on a device that takes it. O(streams log n)."""
        duration = self.seconds[node][device]
        if not self._near[node] >> device & 1:
            duration += self._dispatch[device]
        begin, stream = self._begin(device, self.ready[node][device], duration)
        end, back = begin + duration, self._back[node]
        return Slot(end + back[device] if back else end, begin, end, device, stream)

    def slots(self, node: int) -> list[Slot]:
        """Return a slot on each device that takes `node`; see ``earliest`` for the errors."""
        found = [self.slot(node, p) for p in range(self.count) if self.takes(node, p)]
        if not found:
            self.refuse(node)
        return found

    def earliest(self, node: int) -> Slot:
        """Return the slot of least score; of equals that which begins first, then by device.

        Raises
        ------
        UnsupportedNode
            Where no device supports the node alone.
        OutOfMemory
            Where those that do have no room for its weights.
        """
        best = (INFINITY, INFINITY, -1)
        end = INFINITY
        stream = -1
        seconds, ready, back = self.seconds[node], self.ready[node], self._back[node]
        near, memory = self._near[node], self.memory
        own = map(add, seconds, ready)
        least = list(map(add, own, back)) if back else list(own)
        # A gap can only make it later, so that the first devices settle most nodes.
        for device in sorted(range(self.count), key=least.__getitem__):
            if least[device] > best[0] or least[device] == INFINITY:
                break
            if memory is not None and not memory.holds(node, device):
                continue
            duration = seconds[device]
            if not near >> device & 1:
                duration += self._dispatch[device]
            begin, found = self._begin(device, ready[device], duration)
            over = begin + duration
            worth = (over + back[device] if back else over, begin, device)
            if worth < best:
                best, end, stream = worth, over, found
        score, begin, device = best
        return Slot(score, begin, end, device, stream) if device >= 0 else self.refuse(node)

    def place(self, node: int, slot: Slot) -> None:
        """Take a slot that was just given. O(outputs P)."""
        self._placed += 1
        if self._placed % LOOK == 0:
            deadline.check()
        device = slot.device
        self.device[node], self.begin_s[node], self.end_s[node] = device, slot.begin_s, slot.end_s
        self.streams[device][slot.stream].take(slot.begin_s, slot.end_s)
        if self.memory is not None:
            self.memory.take(node, device)
        for nbytes, consumers in self._made[node]:
            self._arrive(consumers, self.travel(device, nbytes), slot.end_s)
            for v in consumers:
                self._near[v] |= 1 << device

    def trial(self, node: int, slot: Slot) -> Trial:
        """Remember what placing `node` and its successors may change; see ``Trial``."""
        return Trial(self, node, slot)

    def schedule(self) -> Schedule:
        """Return what was placed."""
        return Schedule(tuple(self.device), tuple(self.begin_s), tuple(self.end_s))

    def refuse(self, node: int) -> Slot:
        """Raise the reason why no device takes `node`."""
        where = f"node '{self.problem.node_names[node]}'"
        able = [p for p in range(self.count) if self.seconds[node][p] < INFINITY]
        if not able:
            raise UnsupportedNode(
                "no device supports it alone",
                where=where,
                nodes=(self.problem.node_names[node],),
                ops=(self.problem.op_types[node],),
                devices=self.problem.devices,
            )
        names = ", ".join(self.problem.devices[p] for p in able)
        raise OutOfMemory(
            f"its weights fit none of {names} beside those placed before",
            where=where,
            hint="add memory or devices, or try the strategy 'etf' or 'pipeline'",
        )

    def _begin(self, device: int, ready_s: float, duration: float) -> tuple[float, int]:
        """Return the earliest start on a device, and the stream; of equals the first."""
        streams = self.streams[device]
        begin, stream = streams[0].earliest(ready_s, duration), 0
        for index in range(1, len(streams)):
            found = streams[index].earliest(ready_s, duration)
            if found < begin:
                begin, stream = found, index
        return begin, stream

    def _arrive(self, consumers: Iterable[int], travel: list[float], when: float) -> None:
        there = [when + seconds for seconds in travel]
        for v in consumers:
            # As long as each other by construction; the check would cost a third of the time.
            known = zip(self.ready[v], there, strict=False)
            self.ready[v] = [a if a > b else b for a, b in known]


class Trial:
    """A placement that is taken back on leaving the ``with`` block."""

    def __init__(self, listing: Listing, node: int, slot: Slot) -> None:
        self._listing, self._node, self._slot = listing, node, slot

    def __enter__(self) -> None:
        listing, node = self._listing, self._node
        self._gaps = listing.streams[self._slot.device][self._slot.stream]
        self._free = (list(self._gaps.starts), list(self._gaps.ends))
        self._readers = listing.problem.dag.succs[node]
        self._ready = [listing.ready[v] for v in self._readers]
        self._near = [listing._near[v] for v in self._readers]
        listing.place(node, self._slot)

    def __exit__(self, *_: object) -> None:
        listing, node = self._listing, self._node
        self._gaps.starts, self._gaps.ends = self._free
        for v, ready, near in zip(self._readers, self._ready, self._near, strict=True):
            listing.ready[v], listing._near[v] = ready, near
        if listing.memory is not None:
            listing.memory.give_back(node, self._slot.device)
        listing.device[node] = -1
