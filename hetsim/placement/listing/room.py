"""What a list scheduler may still fill: gaps on streams, and memory for weights.

The functions take lists of numbers, or arrays of them where numba compiles them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hetsim.problem.problem import Problem
from hetsim.simulation.clock.templates import flat

Array = Any
"""A list of numbers, or an array of them where it is compiled; matrices lie flat, by row."""

INFINITY = float("inf")


def earliest(
    starts: Array, ends: Array, base: int, gaps: int, ready: float, length: float
) -> float:
    """Earliest start at or after `ready` in a gap of `length`, of the gaps from `base` on."""
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
    """Number of gaps once an interval that ``earliest`` gave is occupied.

    An empty interval splits no gap; gaps below `shortest` are forgotten.
    """
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
    """Bytes of a node's weights that are neither on a device yet nor kept room for.

    Parameters
    ----------
    at, of : int [n + 1], int [..]
        The constants of each node.
    nbytes : int [constants]
    readers : int [P constants]
        Nodes by device and constant, placed there or at home there.
    """
    base, total = device * len(nbytes), 0
    for k in range(at[node], at[node + 1]):
        if readers[base + of[k]] == 0:
            total += nbytes[of[k]]
    return total


def add(
    at: Array, of: Array, nbytes: Array, readers: Array, left: Array, node: int, device: int
) -> None:
    """Put a node's weights on a device, whether they fit or not; `left` is bytes by device."""
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
    """Memory that is left for weights, by device; a constant counts once a device.

    A node that is not placed yet may have a home, where room is kept for it: a node that one
    device alone takes is at home there. Nothing goes where it would take that room, so that
    where all nodes have a home that fits, the rest can always be placed.

    Attributes
    ----------
    at, of, nbytes, readers : list of int
        See ``needs``.
    left : list of int [P]
        Bytes that neither weights nor room kept for some take.
    homes : list of int [n]
        Device by node, or -1.
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
                add(*self._weights, node, device)

    @property
    def _weights(self) -> tuple[list[int], list[int], list[int], list[int], list[int]]:
        return self.at, self.of, self.nbytes, self.readers, self.left

    def needs(self, node: int, device: int) -> int:
        """See the function ``needs``."""
        return needs(self.at, self.of, self.nbytes, self.readers, node, device)

    def holds(self, node: int, device: int) -> bool:
        """Whether they fit."""
        return self.at[node] == self.at[node + 1] or self.needs(node, device) <= self.left[device]

    def take(self, node: int, device: int) -> None:
        """Put them there; the room that was kept for the node is free again."""
        home = self.homes[node]
        if home != device:
            if home >= 0:
                remove(*self._weights, node, home)
            add(*self._weights, node, device)

    def give_back(self, node: int, device: int) -> None:
        """Undo ``take``."""
        home = self.homes[node]
        if home != device:
            remove(*self._weights, node, device)
            if home >= 0:
                add(*self._weights, node, home)
