"""What a list scheduler may still fill: gaps on streams, and memory for weights."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from hetsim.problem.problem import Problem

INFINITY = float("inf")


class Gaps:
    """The free intervals of a stream, ascending; those that fit no node are forgotten."""

    def __init__(self, shortest_s: float) -> None:
        self.shortest_s = shortest_s
        self.starts = [0.0]
        self.ends = [INFINITY]

    def earliest(self, ready: float, duration: float) -> float:
        """Earliest start at or after `ready` in a gap of `duration`."""
        starts, ends = self.starts, self.ends
        if ready >= starts[-1]:
            return ready
        at = bisect_left(ends, ready + duration)
        while True:
            begin = starts[at]
            if begin < ready:
                begin = ready
            if begin + duration <= ends[at]:
                return begin
            at += 1

    def take(self, begin: float, end: float) -> None:
        """Occupy an interval that ``earliest`` gave; an empty one splits no gap."""
        if begin == end:
            return
        at = bisect_left(self.ends, end)
        rests = [(self.starts[at], begin), (end, self.ends[at])]
        kept = [rest for rest in rests if rest[1] - rest[0] >= self.shortest_s]
        self.starts[at : at + 1] = [rest[0] for rest in kept]
        self.ends[at : at + 1] = [rest[1] for rest in kept]


class Room:
    """Memory that is left for weights, by device; a constant counts once a device.

    A node that is not placed yet may have a home, where room is kept for it: a node that one
    device alone takes is at home there. Nothing goes where it would take that room, so that
    where all nodes have a home that fits, the rest can always be placed.

    Attributes
    ----------
    left : [P]
        Bytes that neither weights nor room kept for some take.
    readers : [P][constants]
        Nodes by device and constant, placed there or at home there.
    homes : [n]
        Device by node, or -1.
    """

    def __init__(self, problem: Problem, homes: Sequence[int] | None = None) -> None:
        assert problem.capacity_bytes is not None
        self.left = list(problem.capacity_bytes)
        self._of = problem.constants_of
        self._nbytes = [constant.nbytes for constant in problem.constants]
        self.readers = [[0] * len(problem.constants) for _ in problem.devices]
        if homes is None:
            alone = problem.supported.sum(axis=1) == 1
            homes = np.where(alone, problem.supported.argmax(axis=1), -1).tolist()
        self.homes = homes
        for node, device in enumerate(homes):
            if device >= 0:
                self._add(node, device)

    def needs(self, node: int, device: int) -> int:
        """Bytes of the node's weights that are not on the device yet, nor kept room for."""
        readers = self.readers[device]
        return sum(self._nbytes[c] for c in self._of[node] if not readers[c])

    def holds(self, node: int, device: int) -> bool:
        """Whether they fit."""
        return not self._of[node] or self.needs(node, device) <= self.left[device]

    def take(self, node: int, device: int) -> None:
        """Put them there; the room that was kept for the node is free again."""
        home = self.homes[node]
        if home != device:
            if home >= 0:
                self._remove(node, home)
            self._add(node, device)

    def give_back(self, node: int, device: int) -> None:
        """Undo ``take``."""
        home = self.homes[node]
        if home != device:
            self._remove(node, device)
            if home >= 0:
                self._add(node, home)

    def move(self, node: int, source: int, target: int) -> None:
        """Put the weights of a node that has its home on `source` on `target`, room or not."""
        self._remove(node, source)
        self._add(node, target)

    def _add(self, node: int, device: int) -> None:
        self.left[device] -= self.needs(node, device)
        for c in self._of[node]:
            self.readers[device][c] += 1

    def _remove(self, node: int, device: int) -> None:
        for c in self._of[node]:
            self.readers[device][c] -= 1
        self.left[device] += self.needs(node, device)
