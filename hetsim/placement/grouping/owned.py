"""Groups of large problems as two arrays, for the many that are tried and not kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetsim.graph.dag import Ints, Rows
from hetsim.partitioning.groups import Group, owners_in_order
from hetsim.placement.objective import latency_of_groups, memory_binds
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.one_request import one_request

LARGE_FROM = 1_000
"""Nodes from which groups are tried as arrays."""


@dataclass(frozen=True, eq=False, slots=True)
class Owned:
    """A partition in executable order.

    Attributes
    ----------
    owner : int array [n]
        The place of each node's group.
    device : int array [groups]
    """

    owner: Ints
    device: Ints

    def __len__(self) -> int:
        return len(self.device)

    @classmethod
    def of(cls, problem: Problem, groups: Sequence[Group]) -> Owned:
        """Read groups. O(n)."""
        rows = Rows.of([group.nodes for group in groups])
        owner = np.empty(problem.n, dtype=np.int64)
        owner[rows.node] = rows.owner
        index = {name: device for device, name in enumerate(problem.devices)}
        return cls(owner, np.array([index[group.device] for group in groups], dtype=np.int64))

    @classmethod
    def ordered(cls, problem: Problem, labels: Ints, device_of: Ints, rank: Ints) -> Owned | None:
        """Return what ``groups.order_groups`` makes of `labels`; None on a cycle."""
        found = owners_in_order(problem.dag, labels, rank)
        if found is None:
            return None
        owner, count = found
        device = np.empty(count, dtype=np.int64)
        # Of what is written to one place, the last stays.
        device[owner[::-1]] = device_of[::-1]
        return cls(owner, device)

    def groups(self, problem: Problem) -> tuple[Group, ...]:
        """Return them as records. O(n log n)."""
        rows = Rows.sorted_by(len(self), self.owner, np.arange(problem.n))
        names = [problem.devices[p] for p in self.device.tolist()]
        return tuple(map(Group, names, rows.tuples()))

    def is_like(self, other: Owned) -> bool:
        """Whether they are the same groups on the same devices in the same order."""
        return np.array_equal(self.owner, other.owner) and np.array_equal(self.device, other.device)

    def latency_s(self, problem: Problem, name: str) -> float:
        """Return what ``latency_of_groups`` does, where ``are_for`` says so."""
        found = one_request(problem).latency_of_owned(problem, self.owner, self.device, name)
        return latency_of_groups(problem, self.groups(problem), name) if found is None else found

    def seconds(self, problem: Problem) -> NDArray[np.float64]:
        """Return the seconds of each group."""
        played = one_request(problem)
        if played.adds_up:
            return played.seconds_of_owned(problem, self.owner, self.device)
        return np.array(played.seconds(problem, self.groups(problem)))

    def first_nodes(self) -> list[int]:
        """Return the first node of each group."""
        found = np.empty(len(self), dtype=np.int64)
        # Of what is written to one place, the last stays.
        found[self.owner[::-1]] = np.arange(len(self.owner) - 1, -1, -1)
        nodes: list[int] = found.tolist()
        return nodes


def are_for(problem: Problem) -> bool:
    """Whether groups of a problem are tried as arrays.

    Where there are many nodes, what a group takes is a sum over its nodes, and its memory suffices.
    """
    return problem.n >= LARGE_FROM and one_request(problem).adds_up and not memory_binds(problem)
