"""What the boundary method works on: a graph's inputs, its cut edges, and the groups they leave."""

from __future__ import annotations

from collections.abc import Sequence
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
    label : list of int
        Group by node.
    """

    def __init__(self, wiring: Wiring, device_of: Sequence[int]) -> None:
        self.wiring = wiring
        self.ins: list[list[tuple[int, int]]] = [[] for _ in range(wiring.n)]
        self.outs: list[list[tuple[int, int]]] = [[] for _ in range(wiring.n)]
        self.cut = bytearray(sum(map(len, wiring.inputs)))
        edge = 0
        for target, sources in enumerate(wiring.inputs):
            for source in sources:
                self.ins[target].append((source, edge))
                self.outs[source].append((target, edge))
                self.cut[edge] = device_of[source] != device_of[target]
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
                    node = pending.pop()
                    for near in self.neighbours(node):
                        if label[near] < 0:
                            label[near] = start
                            pending.append(near)
        return label

    def neighbours(self, node: int) -> list[int]:
        """Nodes joined to `node` by an edge that is not cut."""
        cut = self.cut
        near = [source for source, edge in self.ins[node] if not cut[edge]]
        near += [target for target, edge in self.outs[node] if not cut[edge]]
        return near

    def by_label(self) -> dict[int, list[int]]:
        """Members of every group, ascending."""
        members: dict[int, list[int]] = {}
        for node, label in enumerate(self.label):
            members.setdefault(label, []).append(node)
        return members

    def split(self, ends: Sequence[int]) -> list[list[int]]:
        """Relabel the group of `ends`, whose edges were just cut; return the parts that moved.

        One search starts at every end and all advance in turn; those that meet become one.
        A search that finds nothing more has found a part. The last one running keeps the
        label, and what it has not seen yet is never looked at.
        """
        owner: dict[int, _Search] = {}
        for node in ends:
            owner.setdefault(node, _Search(node))
        running = list(owner.values())
        done: list[list[int]] = []
        while len(running) > 1:
            for search in running:
                if search.into is None:
                    self._step(search, owner)
            running = [search for search in running if search.into is None]
            ended = [search for search in running if not search.pending]
            running = [search for search in running if search.pending]
            if not running:
                ended.remove(max(ended, key=lambda search: len(search.nodes)))
            done += [search.nodes for search in ended]
        for nodes in done:
            for node in nodes:
                self.label[node] = self.fresh
            self.fresh += 1
        return done

    def _step(self, search: _Search, owner: dict[int, _Search]) -> None:
        """Advance by one node, joining every search that is met."""
        for near in self.neighbours(search.pending.pop()):
            if near not in owner:
                owner[near] = search
                search.nodes.append(near)
                search.pending.append(near)
                continue
            other = owner[near].last()
            if other is not search:
                if len(other.nodes) > len(search.nodes):
                    search, other = other, search
                search.nodes += other.nodes
                search.pending += other.pending
                other.into = search


class _Search:
    """A search for one part of a group: what it has found, and from where it goes on."""

    __slots__ = ("into", "nodes", "pending")

    def __init__(self, start: int) -> None:
        self.nodes = [start]
        self.pending = [start]
        self.into: _Search | None = None

    def last(self) -> _Search:
        """The search that this one has become a part of."""
        found = self
        while found.into is not None:
            found = found.into
        return found
