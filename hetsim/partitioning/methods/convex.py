"""Merge method ``convex``: the source-first walk of the node-partitioning patent."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hetsim.graph.dag import Dag
from hetsim.partitioning.growing import compiled
from hetsim.partitioning.growing.condensed import Condensed

VISITS_PER_EDGE = 256
"""Search steps allowed an edge and node before the walk stops; graphs of layers need a few."""


@dataclass(frozen=True, slots=True)
class ConvexResult:
    """Groups by the walk.

    Attributes
    ----------
    labels : tuple of int
        A group label by node.
    stable : bool
        Whether no edge is left to contract. False where the search budget ran out first:
        the groups so far are then the answer, valid but smaller than the walk's.
    """

    labels: tuple[int, ...]
    stable: bool


def merge(dag: Dag, device_of: Sequence[int]) -> list[int]:
    """Label every node with a connected group, by the patent's walk; see ``solve``."""
    return list(solve(dag, device_of).labels)


def merge_with_notes(dag: Dag, device_of: Sequence[int]) -> tuple[list[int], tuple[str, ...]]:
    """Labels as ``merge`` gives them, and whether the walk had to end early."""
    result = solve(dag, device_of)
    if result.stable:
        return list(result.labels), ()
    return list(result.labels), ("the search budget ran out before the walk was done",)


def solve(dag: Dag, device_of: Sequence[int]) -> ConvexResult:
    """Walk from the sources, contracting edges that are the only path between their ends.

    Starting nodes are taken breadth first, the sources before all others. From each, the
    end of every outgoing edge is looked at, the earliest in graph order first: where it is
    on the same device and no other path leads to it, it joins the start, which takes over
    its edges. Passes repeat until one contracts nothing. Paths are sought in the graph of
    groups, not in the graph of nodes: so no two groups can feed each other.

    A node that its device must run by itself is given a device number of its own.

    Complexity: O((V + E) * VISITS_PER_EDGE) at most, and a sort; near linear on layered
    graphs. Not always the fewest groups, whatever the source claims.
    Source: publication of 2021-10-26, node partitioning of a computation graph, steps 1 to 3
    and examples 1 and 2. The search from an edge's end back to its start goes no further
    than a maintained topological order of the groups allows, which the source leaves open.
    """
    budget = VISITS_PER_EDGE * (dag.n + sum(map(len, dag.preds)))
    if compiled.pays(dag.n):
        found = compiled.walked(
            dag.pred_rows, dag.succ_rows, device_of, list(_breadth_first(dag)), budget
        )
        if found is not None:
            return ConvexResult(tuple(found), stable=True)
    groups = _Walk(dag.preds, dag.succs, budget)
    changed = True
    while changed and groups.budget >= 0:
        changed = False
        for start in _breadth_first(dag):
            if groups.find(start) == start and groups.absorb(start, device_of):
                changed = True
            if groups.budget < 0:
                break
    labels = tuple(groups.find(node) for node in range(dag.n))
    return ConvexResult(labels, stable=groups.budget >= 0)


def _breadth_first(dag: Dag) -> Iterator[int]:
    """Yield every node once, the sources first."""
    queue = deque(node for node, preds in enumerate(dag.preds) if not preds)
    seen = set(queue)
    while queue:
        node = queue.popleft()
        yield node
        for target in dag.succs[node]:
            if target not in seen:
                seen.add(target)
                queue.append(target)


class _Walk(Condensed):
    """The graph of groups, grown one start at a time."""

    def absorb(self, start: int, device_of: Sequence[int]) -> bool:
        """Contract what can be contracted from `start` on; say whether anything was."""
        # Of parallel edges into one group, one is as good as another: ends are node ids.
        ends = sorted(self.succs[start])
        queued = set(ends)
        grown = False
        while ends and self.budget >= 0:
            end = heapq.heappop(ends)
            if device_of[end] != device_of[start]:
                continue
            other = self.find(end)
            fresh = self.succs[other] - queued
            if other == start or not self.contract(start, other):
                continue
            grown = True
            queued |= fresh
            for target in fresh:
                heapq.heappush(ends, target)
        return grown
