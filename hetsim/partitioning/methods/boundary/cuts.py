"""What the boundary method works on: a graph's inputs, its cut edges, and the groups they leave."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hetsim.graph.dag import Dag


@dataclass(frozen=True, slots=True)
class Wiring:
    """A graph as the boundary method sees it; node ids are a topological order.

    Attributes
    ----------
    inputs : tuple of tuple of int
        Source node of every input, by node, in port order.
    is_source : tuple of bool
        Whether the node is a parameter or a constant.
    readers : tuple of int
        How many inputs read the node.
    op_readers : tuple of int
        The same without results.
    """

    inputs: tuple[tuple[int, ...], ...]
    is_source: tuple[bool, ...]
    readers: tuple[int, ...]
    op_readers: tuple[int, ...]

    @classmethod
    def of_dag(cls, dag: Dag) -> Wiring:
        """Build from a DAG of operations alone: one port an edge, ascending. O(V + E)."""
        readers = tuple(map(len, dag.succs))
        return cls(dag.preds, (False,) * dag.n, readers, readers)

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self.inputs)


class Cuts:
    """Edges that are boundaries, and the group of every node: connected by what is not cut.

    Edges only ever become boundaries, so groups only ever split; a split costs about the
    smaller part, for only the smaller part gets a new label.

    Attributes
    ----------
    ins, outs : list of list of (int, int)
        By node: (source, edge) in port order, (target, edge) ascending by target.
    cut : bytearray
        Whether the edge is a boundary.
    joined : list of dict of int to int
        By node: every edge at it that is not cut, and the node at its other end.
    label : list of int
        Group by node.
    """

    def __init__(self, wiring: Wiring, device_of: Sequence[int]) -> None:
        self.wiring = wiring
        self.ins: list[list[tuple[int, int]]] = [[] for _ in range(wiring.n)]
        self.outs: list[list[tuple[int, int]]] = [[] for _ in range(wiring.n)]
        self.joined: list[dict[int, int]] = [{} for _ in range(wiring.n)]
        self.cut = bytearray(sum(map(len, wiring.inputs)))
        edge = 0
        for target, sources in enumerate(wiring.inputs):
            for source in sources:
                self.ins[target].append((source, edge))
                self.outs[source].append((target, edge))
                if device_of[source] != device_of[target]:
                    self.cut[edge] = 1
                else:
                    self.joined[source][edge] = target
                    self.joined[target][edge] = source
                edge += 1
        self.label = self._components()
        self.fresh = wiring.n

    def _components(self) -> list[int]:
        label = [-1] * self.wiring.n
        for start in range(self.wiring.n):
            if label[start] < 0:
                label[start] = start
                pending = [start]
                while pending:
                    for near in self.joined[pending.pop()].values():
                        if label[near] < 0:
                            label[near] = start
                            pending.append(near)
        return label

    def promote(self, source: int, target: int, edge: int) -> None:
        """Make an edge a boundary; ``split`` must follow for the groups to be right."""
        self.cut[edge] = 1
        del self.joined[source][edge], self.joined[target][edge]

    def by_label(self) -> dict[int, list[int]]:
        """Members of every group, ascending."""
        members: dict[int, list[int]] = {}
        for node, label in enumerate(self.label):
            members.setdefault(label, []).append(node)
        return members

    def split(self, ends: Iterable[int]) -> list[list[int]]:
        """Relabel the group of `ends`, whose edges were just cut; return the parts that moved.

        One search starts at every end and all advance in turn, breadth first; those that meet
        become one. A search that finds nothing more has found a part. The last one running
        keeps the label, and what it has not seen yet is never looked at.
        """
        owner = {node: _Search(node) for node in ends}
        turns = deque(owner.values())
        running = len(turns)
        parts: list[list[int]] = []
        while running > 1:
            turn = search = turns.popleft()
            if search.into is not None:
                continue
            if not search.pending:
                parts.append(search.nodes)
                running -= 1
                continue
            for near in self.joined[search.pending.popleft()].values():
                met = owner.get(near)
                if met is None:
                    owner[near] = search
                    search.nodes.append(near)
                    search.pending.append(near)
                elif met is not search and (other := met.last()) is not search:
                    search = search.join(other)
                    running -= 1
            turns.append(turn)
        for nodes in parts:
            for node in nodes:
                self.label[node] = self.fresh
            self.fresh += 1
        return parts


class _Search:
    """A search for one part of a group: what it has found, and from where it goes on."""

    __slots__ = ("into", "nodes", "pending")

    def __init__(self, start: int) -> None:
        self.nodes = [start]
        self.pending = deque((start,))
        self.into: _Search | None = None

    def last(self) -> _Search:
        """The search that this one has become a part of."""
        found = self
        while found.into is not None:
            found = found.into
        return found

    def join(self, other: _Search) -> _Search:
        """Go on as one; return the larger, which has taken the other in."""
        larger, smaller = (other, self) if len(other.nodes) > len(self.nodes) else (self, other)
        larger.nodes += smaller.nodes
        larger.pending += smaller.pending
        smaller.into = larger
        return larger
