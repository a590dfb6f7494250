"""What a list scheduler may still fill: gaps on streams, and memory for weights."""

from __future__ import annotations

from bisect import bisect_left

from hetsim.problem import Problem

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
    """Memory that is left for weights, by device; a constant counts once a device."""

    def __init__(self, problem: Problem) -> None:
        assert problem.capacity_bytes is not None
        self.left = list(problem.capacity_bytes)
        self._of = problem.constants_of
        self._nbytes = [constant.nbytes for constant in problem.constants]
        self._readers = [[0] * len(problem.constants) for _ in problem.devices]

    def needs(self, node: int, device: int) -> int:
        """Bytes of the node's weights that are not on the device yet."""
        readers = self._readers[device]
        return sum(self._nbytes[c] for c in self._of[node] if not readers[c])

    def holds(self, node: int, device: int) -> bool:
        """Whether they fit."""
        return not self._of[node] or self.needs(node, device) <= self.left[device]

    def take(self, node: int, device: int) -> None:
        """Put them there."""
        self.left[device] -= self.needs(node, device)
        for c in self._of[node]:
            self._readers[device][c] += 1

    def give_back(self, node: int, device: int) -> None:
        """Undo ``take``."""
        for c in self._of[node]:
            self._readers[device][c] -= 1
        self.left[device] += self.needs(node, device)
