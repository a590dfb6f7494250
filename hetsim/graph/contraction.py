"""Sets of nodes contracted one after another, none of which may close a cycle."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from hetsim.graph.dag import Dag


class Contraction:
    """A graph in which disjoint node sets are contracted, acyclic at every step.

    A set is known by its least node; a node in no set stands for itself. Each has a position
    in a topological order of the contracted graph, which `add` keeps up to date. At first it
    is the order of the node ids, and later no search leaves the positions between the first
    and the last of the nodes that it is asked about. A set that reached far therefore costs
    once, and does not widen the searches after it.

    Source: D. J. Pearce, P. H. J. Kelly, A dynamic topological sort algorithm for directed
    acyclic graphs, ACM JEA 11, 2006; there an edge is inserted, here a set is contracted.
    """

    def __init__(self, dag: Dag) -> None:
        self._dag = dag
        self._head = list(range(dag.n))
        self._position = list(range(dag.n))
        self._sets: dict[int, tuple[int, ...]] = {}
        self._taken: set[int] = set()

    def taken(self, node: int) -> bool:
        """Whether the node is in a set that was added."""
        return node in self._taken

    def cycle(self, nodes: Sequence[int]) -> tuple[int, ...]:
        """Return a path that leaves `nodes`, none of them taken, and comes back, or () for none.

        It starts and ends in `nodes` and names the nodes by which it enters and leaves the sets on
        its way: neighbours in it are an edge or lie in one set. O(edges of what is reached between
        the positions of `nodes`).
        """
        members = set(nodes)
        if len(members) < 2:
            return ()
        head, position, succs = self._head, self._position, self._dag.succs
        limit = max(position[node] for node in members)
        entered: dict[int, tuple[int, int]] = {}
        pending: deque[int] = deque()
        for node in sorted(members):
            for target in succs[node]:
                first = head[target]
                if target not in members and first not in entered and position[first] < limit:
                    entered[first] = (node, target)
                    pending.append(first)
        while pending:
            for node in self._fellows(pending.popleft()):
                for target in succs[node]:
                    if target in members:
                        return self._path(entered, members, node, target)
                    first = head[target]
                    if first not in entered and position[first] < limit:
                        entered[first] = (node, target)
                        pending.append(first)
        return ()

    def add(self, nodes: Sequence[int]) -> None:
        """Contract a set for which `cycle` found none; ValueError for a node that is taken.

        O(edges of what is reached, forwards and backwards, between the positions of `nodes`).
        """
        members = tuple(sorted(set(nodes)))
        if not members:
            return
        again = next((node for node in members if node in self._taken), None)
        if again is not None:
            raise ValueError(f"node {again} is in a set already")
        position = self._position
        old = [position[node] for node in members]
        after = self._reached(members, min(old), max(old), self._dag.succs)
        before = self._reached(members, min(old), max(old), self._dag.preds)
        slots = sorted([*old, *(position[first] for first in (*before, *after))])
        # What goes before only moves down and what goes after only up, so that order with
        # everything else between them holds; the slots left over stay empty.
        for slot, first in zip(slots, before, strict=False):
            position[first] = slot
        for slot, first in zip(reversed(slots), reversed(after), strict=False):
            position[first] = slot
        position[members[0]] = slots[len(before)]
        for node in members:
            self._head[node] = members[0]
        self._sets[members[0]] = members
        self._taken.update(members)

    def _fellows(self, first: int) -> tuple[int, ...]:
        return self._sets.get(first, (first,))

    def _reached(
        self, members: tuple[int, ...], low: int, high: int, edges: Sequence[Sequence[int]]
    ) -> list[int]:
        """What `edges` lead to from the members between two positions, by position."""
        head, position = self._head, self._position
        seen = set(members)
        found: list[int] = []
        pending = list(members)
        while pending:
            for node in self._fellows(pending.pop()):
                for target in edges[node]:
                    first = head[target]
                    if first not in seen and low < position[first] < high:
                        seen.add(first)
                        found.append(first)
                        pending.append(first)
        return sorted(found, key=position.__getitem__)

    def _path(
        self, entered: dict[int, tuple[int, int]], members: set[int], last: int, target: int
    ) -> tuple[int, ...]:
        path = [target, last]
        while path[-1] not in members:
            source, entry = entered[self._head[path[-1]]]
            if entry != path[-1]:
                path.append(entry)
            path.append(source)
        return tuple(reversed(path))
