"""The graph of groups while edges are contracted, and a topological order of it."""

from __future__ import annotations

from collections.abc import Sequence

from hetsim.graph.dag import topological_order


class Condensed:
    """A graph of groups that is acyclic at every step.

    Groups are known by one of their nodes; edges are kept as node ids, and those that have
    come to lie inside a group are dropped when a search meets them. ``budget`` counts search
    steps down and may go below zero; its owner decides what then.

    Source: the order is maintained as in D. J. Pearce, P. H. J. Kelly, A dynamic topological
    sort algorithm for directed acyclic graphs, ACM JEA 11, 2006; there edges are inserted,
    here they are contracted.
    """

    def __init__(
        self, preds: Sequence[Sequence[int]], succs: Sequence[Sequence[int]], budget: int
    ) -> None:
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

    def adopt(self, labels: Sequence[int]) -> None:
        """Start from the groups of equal labels, which must not depend on each other in a circle.

        Complexity: O(V log V + E).
        """
        first: dict[int, int] = {}
        for node, label in enumerate(labels):
            group = first.setdefault(label, node)
            if group != node:
                self.parent[node] = group
                self.succs[group] |= self.succs[node]
                self.preds[group] |= self.preds[node]
                self.succs[node] = self.preds[node] = set()
        parent = self.parent
        for group in first.values():
            self.succs[group] = {node for node in self.succs[group] if parent[node] != group}
            self.preds[group] = {node for node in self.preds[group] if parent[node] != group}
        order = topological_order([[parent[node] for node in targets] for targets in self.succs])
        if order is None:
            raise AssertionError("the groups to start from depend on each other in a circle")
        for place, node in enumerate(order):
            self.position[node] = place

    def contract(self, u: int, v: int) -> bool:
        """Merge the groups of the edge (u, v), unless that closes a cycle; say if they are one.

        The group of u represents both. Whether another path joins the two is sought from
        v's group backwards, which most often ends after a few steps, before anything moves.

        Complexity: O(edges of the groups that stand between the two in the maintained order).
        """
        a, b = self.find(u), self.find(v)
        if a == b:
            return True
        before = self._between(self.preds, b, a, forwards=False)
        if before is None:
            return False
        # With nothing to go before it, the merged group can stay where a's was.
        if before:
            self._reorder(a, b, before)
        self.parent[b] = a
        self.succs[a] = _union(self.succs[a], self.succs[b])
        self.preds[a] = _union(self.preds[a], self.preds[b])
        self.succs[b] = self.preds[b] = set()
        return True

    def _reorder(self, a: int, b: int, before: list[int]) -> None:
        """Give the groups around the merged one the slots they had together, in a valid order."""
        after = self._between(self.succs, a, b, forwards=True)
        if after is None:
            raise AssertionError("a path was found forwards that was not found backwards")
        position = self.position
        slots = sorted(position[x] for x in (a, b, *after, *before))
        # One slot is left over by the merge: a group's position need not be dense.
        sequence = [*sorted(before, key=position.__getitem__), a]
        sequence += sorted(after, key=position.__getitem__)
        for slot, group in zip(slots, sequence, strict=False):
            position[group] = slot

    def _between(
        self, edges: list[set[int]], start: int, goal: int, *, forwards: bool
    ) -> list[int] | None:
        """Groups short of `goal` in the order that a walk from `start` along `edges` meets.

        The edge from `start` to `goal` itself is not walked. None where another path leads
        there.
        """
        position, parent = self.position, self.parent
        limit = position[goal]
        seen = {start, goal}
        found: list[int] = []
        pending = [start]
        steps = 0
        while pending:
            group = pending.pop()
            inner: list[int] = []
            for raw in edges[group]:
                steps += 1
                other = raw if parent[raw] == raw else self.find(raw)
                if other == group:
                    inner.append(raw)
                elif other == goal:
                    if group != start:
                        self.budget -= steps
                        return None
                elif other not in seen and (position[other] < limit) == forwards:
                    seen.add(other)
                    found.append(other)
                    pending.append(other)
            edges[group].difference_update(inner)
        self.budget -= steps
        return found


def _union(left: set[int], right: set[int]) -> set[int]:
    if len(left) < len(right):
        left, right = right, left
    left |= right
    return left
