"""Regions that no group may cut through: merge methods see each as one node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

from hetsim.graph.dag import Dag
from hetsim.problem.groups import order_groups


class _Alone(Sequence[tuple[int, ...]]):
    """Every node by itself, without a tuple for each."""

    def __init__(self, nodes: range) -> None:
        self._nodes = nodes

    def __len__(self) -> int:
        return len(self._nodes)

    @overload
    def __getitem__(self, at: int) -> tuple[int, ...]: ...
    @overload
    def __getitem__(self, at: slice) -> _Alone: ...
    def __getitem__(self, at: int | slice) -> tuple[int, ...] | _Alone:
        return _Alone(self._nodes[at]) if isinstance(at, slice) else (self._nodes[at],)


@dataclass(frozen=True, slots=True)
class Quotient:
    """A DAG with some sets of nodes contracted.

    Attributes
    ----------
    dag : Dag
        Node ids are a topological order, as everywhere.
    members : sequence of tuple of int
        The nodes that each of its nodes stands for, ascending.
    place : sequence of int
        The node of it that each original node is in.
    """

    dag: Dag
    members: Sequence[tuple[int, ...]]
    place: Sequence[int]

    @classmethod
    def of(cls, dag: Dag, atoms: Sequence[tuple[int, ...]]) -> Quotient:
        """Contract disjoint sets that close no cycle together. O(V log V + E)."""
        if not atoms:
            return cls(dag, _Alone(range(dag.n)), range(dag.n))
        labels = list(range(dag.n))
        for atom in atoms:
            for node in atom:
                labels[node] = atom[0]
        parts = order_groups(dag, labels)
        if parts is None:
            raise AssertionError("regions to be kept whole depend on each other in a circle")
        place = [0] * dag.n
        for index, part in enumerate(parts):
            for node in part:
                place[node] = index
        edges = {(place[u], place[v]) for u, v in dag.edges() if place[u] != place[v]}
        return cls(Dag.from_edges(len(parts), edges), tuple(parts), tuple(place))

    def devices(self, device_of: Sequence[int]) -> Sequence[int]:
        """Return the device of each of its nodes, where `device_of` has that of the original ones.

        All nodes of a set are on one device.
        """
        if self.dag.n == len(self.place):
            return device_of
        return [device_of[nodes[0]] for nodes in self.members]

    def spread(self, labels: list[int]) -> list[int]:
        """Give every original node the label of what it is in."""
        if self.dag.n == len(self.place):
            return labels
        return [labels[index] for index in self.place]
