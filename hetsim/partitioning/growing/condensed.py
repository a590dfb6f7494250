"""The graph of groups while edges are contracted, and a topological order of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hetsim.graph.dag import topological_order
from hetsim.partitioning.growing.positions import move, put_behind, standing, take_out


class Condensed:
    """A graph of groups that is acyclic at every step.

    Groups are known by one of their nodes; edges are kept as node ids, one a pair of nodes, and
    those that have come to lie inside a group are dropped when a search has met them. ``budget``
    counts down the edges that searches look at and may go below zero; its owner decides what
    then. ``between`` is a group on the path that forbade the contraction asked for last.

    Source: the order is maintained by searches from both ends of an edge that go no further than
    it allows, in turns, as in M. A. Bender, J. T. Fineman, S. Gilbert, R. E. Tarjan, A new
    approach to incremental cycle detection and related problems, ACM TALG 12(2), 2016; there
    edges are inserted and each search goes along the order, here they are contracted, and it goes
    breadth first. ``kernels`` does the same for machine code, step by step.
    """

    def __init__(
        self, preds: Iterable[Iterable[int]], succs: Iterable[Iterable[int]], budget: int
    ) -> None:
        self.preds = list(map(list, preds))
        self.succs = list(map(list, succs))
        self.parent = list(range(len(self.preds)))
        self.position, self.following, self.leading = standing(self.parent)
        self.budget = budget
        self.between = -1

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
        parent = self.parent = [first.setdefault(label, v) for v, label in enumerate(labels)]
        for edges in (self.preds, self.succs):
            for node, group in enumerate(parent):
                outside = [other for other in edges[node] if parent[other] != group]
                if node == group:
                    edges[node] = outside
                else:
                    edges[group] += outside
                    edges[node] = []
        order = topological_order([[parent[node] for node in targets] for targets in self.succs])
        if order is None:
            raise AssertionError("the groups to start from depend on each other in a circle")
        self.position, self.following, self.leading = standing(order)

    def contract(self, u: int, v: int) -> bool:
        """Merge the groups of the edge (u, v), unless that closes a cycle; say if they are one.

        The group of u represents both. Where no other path joins the two, one of two sets of
        groups has been found whole: those between them in the maintained order that lead to v's,
        and those that u's leads to. The former go before u's group, which then represents both,
        or the latter behind v's, whose place it takes.

        Complexity: O(edges of the smaller of the two sets), twice, and a sort of it.
        """
        a, b = self.find(u), self.find(v)
        if a == b:
            return True
        found = self._searched(a, b)
        if found is None:
            return False
        moved, upwards = found
        following, leading = self.following, self.leading
        moved.sort(key=self.position.__getitem__)
        before = leading[a]
        if not upwards:
            take_out(following, leading, a)
            put_behind(following, leading, b, a)
            self.position[a] = self.position[b]
            before = a
        take_out(following, leading, b)
        if moved:
            move(self.position, following, leading, before, moved, 0, len(moved))
        self.parent[b] = a
        self.preds[a] = _joined(self.preds[a], self.preds[b])
        self.succs[a] = _joined(self.succs[a], self.succs[b])
        self.preds[b] = self.succs[b] = []
        return True

    def _searched(self, a: int, b: int) -> tuple[list[int], bool] | None:
        """The groups to move, and whether they lead to `b`; None where another path does.

        The next list to be read is the one after which its side has read less; of equals the
        upper one's.
        """
        above, below = [b], [a]
        leads, reached = {b}, {a}
        up = down = 0
        up_steps, down_steps = len(self.preds[b]), len(self.succs[a])
        while True:
            if up_steps <= down_steps:
                group = above[up]
                up += 1
                self.budget -= len(self.preds[group])
                if self._looked(self.preds, group, b, a, above, leads, reached):
                    return None
                if up == len(above):
                    return above[1:], True
                up_steps += len(self.preds[above[up]])
            else:
                group = below[down]
                down += 1
                self.budget -= len(self.succs[group])
                if self._looked(self.succs, group, a, b, below, reached, leads):
                    return None
                if down == len(below):
                    return below[1:], False
                down_steps += len(self.succs[below[down]])

    def _looked(
        self, edges: list[list[int]], group: int, start: int, goal: int, found: list[int],
        seen: set[int], theirs: set[int],
    ) -> bool:  # fmt: skip
        """Whether the edges of `group` show a path of two edges or more from `start` to `goal`."""
        position, parent = self.position, self.parent
        limit = position[goal]
        forwards = position[start] < limit
        inner = False
        for raw in edges[group]:
            other = parent[raw]
            if parent[other] != other:
                other = self.find(raw)
            if other in theirs:
                if other != goal:
                    self.between = other
                    return True
                if group != start:
                    self.between = group
                    return True
            elif other == group:
                inner = True
            elif other not in seen and (position[other] < limit) == forwards:
                seen.add(other)
                found.append(other)
        if inner:
            edges[group] = [raw for raw in edges[group] if self.find(raw) != group]
        return False


def _joined(left: list[int], right: list[int]) -> list[int]:
    """Both in one list, the longer first."""
    if len(left) < len(right):
        left, right = right, left
    left += right
    return left
