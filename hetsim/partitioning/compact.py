"""Merge method ``compact``: few connected groups, by contraction that never closes a cycle."""

from __future__ import annotations

from collections.abc import Sequence

from hetsim.graph.dag import Dag
from hetsim.partitioning import stage
from hetsim.partitioning.partition import components

VISITS_PER_EDGE = 64
"""Search steps allowed an edge and node before the method gives up; graphs of layers need a few."""


def merge(dag: Dag, device_of: Sequence[int]) -> list[int]:
    """Label every node with a connected group, aiming at the fewest groups.

    Edges inside a device are contracted one by one on the graph of groups, whose
    topological order is maintained; an edge stays uncontracted where another path joins
    its ends, for then the contraction would close a cycle. The scan runs once from the
    sources and once from the sinks, and the smaller result is kept. Where long edges make
    the searches too dear, the connected parts of the ``stage`` groups are the answer.

    Complexity: O((V + E) * VISITS_PER_EDGE) at most; near linear on layered graphs.
    Source: the order is maintained as in D. J. Pearce, P. H. J. Kelly, A dynamic
    topological sort algorithm for directed acyclic graphs, ACM JEA 11, 2006; there edges
    are inserted, here they are contracted.
    """
    fallback = components(dag, stage.merge(dag, device_of))
    best, best_count = fallback, len(set(fallback))
    for backwards in (False, True):
        labels = _contract(dag, device_of, backwards)
        if labels is not None:
            count = len(set(labels))
            if count < best_count:
                best, best_count = labels, count
    return best


def _contract(dag: Dag, device_of: Sequence[int], backwards: bool) -> list[int] | None:
    """One scan over all edges; None where the visit budget runs out."""
    n = dag.n
    if backwards:
        preds = [[n - 1 - s for s in dag.succs[n - 1 - v]] for v in range(n)]
        succs = [[n - 1 - p for p in dag.preds[n - 1 - v]] for v in range(n)]
        device = [device_of[n - 1 - v] for v in range(n)]
    else:
        preds = [list(reversed(p)) for p in dag.preds]
        succs = [list(s) for s in dag.succs]
        device = list(device_of)
    budget = VISITS_PER_EDGE * (n + sum(map(len, preds)))
    condensed = _Condensed(preds, succs, budget)
    for v in range(n):
        for u in preds[v]:
            if device[u] == device[v]:
                condensed.contract(u, v)
        if condensed.budget < 0:
            return None
    labels = [condensed.find(v) for v in range(n)]
    return labels[::-1] if backwards else labels


class _Condensed:
    """The graph of groups while edges are contracted, and a topological order of it."""

    def __init__(self, preds: list[list[int]], succs: list[list[int]], budget: int) -> None:
        self.parent = list(range(len(preds)))
        self.position = list(range(len(preds)))
        self.preds = [set(p) for p in preds]
        self.succs = [set(s) for s in succs]
        self.budget = budget

    def find(self, node: int) -> int:
        """Representative of the node's group."""
        parent = self.parent
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    def contract(self, u: int, v: int) -> bool:
        """Merge the groups of the edge (u, v), unless that closes a cycle; say if they are one."""
        a, b = self.find(u), self.find(v)
        if a == b:
            return True
        after = self._after(a, b)
        if after is None:
            return False
        before = self._before(a, b)
        position = self.position
        slots = sorted(position[x] for x in (a, b, *after, *before))
        # One slot is left over by the merge: a group's position need not be dense.
        sequence = [*sorted(before, key=position.__getitem__), a]
        sequence += sorted(after, key=position.__getitem__)
        for slot, group in zip(slots, sequence, strict=False):
            position[group] = slot
        self.parent[b] = a
        self.succs[a] = _union(self.succs[a], self.succs[b])
        self.preds[a] = _union(self.preds[a], self.preds[b])
        self.succs[b] = self.preds[b] = set()
        return True

    def _after(self, a: int, b: int) -> list[int] | None:
        """Groups before b that `a` reaches; None where one of them reaches b."""
        limit = self.position[b]
        seen = {a, b}
        found: list[int] = []
        pending = [a]
        while pending:
            group = pending.pop()
            for raw in self.succs[group]:
                target = self.find(raw)
                self.budget -= 1
                if target == b and group != a:
                    return None
                if target not in seen and self.position[target] < limit:
                    seen.add(target)
                    found.append(target)
                    pending.append(target)
        return found

    def _before(self, a: int, b: int) -> list[int]:
        """Groups after `a` that reach b."""
        limit = self.position[a]
        seen = {a, b}
        found: list[int] = []
        pending = [b]
        while pending:
            for raw in self.preds[pending.pop()]:
                source = self.find(raw)
                self.budget -= 1
                if source not in seen and self.position[source] > limit:
                    seen.add(source)
                    found.append(source)
                    pending.append(source)
        return found


def _union(left: set[int], right: set[int]) -> set[int]:
    if len(left) < len(right):
        left, right = right, left
    left |= right
    return left
