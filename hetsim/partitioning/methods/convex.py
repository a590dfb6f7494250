"""Merge method ``convex``: the source-first walk of the node-partitioning patent."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hetsim.graph.dag import Dag
from hetsim.partitioning.growing import compiled, walking
from hetsim.partitioning.growing.condensed import Condensed

VISITS_PER_EDGE = 256
"""Edges that searches may look at, an edge and node, before the walk stops; it needs a few."""


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
    graphs, and less than that times the root of V where edges join nodes anywhere. Not always
    the fewest groups, whatever the source claims.
    Source: publication of 2021-10-26, node partitioning of a computation graph, steps 1 to 3
    and examples 1 and 2. How another path between an edge's ends is sought, which the source
    leaves open, is said at ``Condensed``.
    """
    budget = VISITS_PER_EDGE * (dag.n + sum(map(len, dag.preds)))
    if compiled.pays(dag.n):
        found, stable = compiled.walked(
            dag.pred_rows, dag.succ_rows, device_of, list(_breadth_first(dag)), budget
        )
        return ConvexResult(tuple(found), stable=stable)
    groups = _Walk(dag, device_of, budget)
    changed = True
    while changed and groups.budget >= 0:
        changed = False
        for start in _breadth_first(dag):
            if groups.parent[start] == start and groups.absorb(start):
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
    """The graph of groups, grown one start at a time.

    Two things forbid a contraction without a search. Where a path forbade it before, a group
    between the two ends is kept with the edge: as long as that is neither end's, the path is
    there. And of the groups with the most edges, in and out, a sweep along the order notes as
    bits which lead where, whenever searches have cost what a few sweeps do; paths stay.
    """

    def __init__(self, dag: Dag, device_of: Sequence[int], budget: int) -> None:
        super().__init__(dag.preds, dag.succs, budget)
        self.dag, self.device_of = dag, device_of
        self.members = [[node] for node in range(dag.n)]
        self.barriers: dict[tuple[int, int], int] = {}
        self.led_by, self.leads_to, self.own = ([0] * dag.n for _ in range(3))
        self.wait = walking.SWEEP_AFTER * (dag.n + sum(map(len, dag.preds)))
        self.due = budget - self.wait

    def absorb(self, start: int) -> bool:
        """Contract what can be contracted from `start` on; say whether anything was."""
        ends: list[int] = []
        met: dict[int, int] = {}
        self._meet(start, self.members[start], ends, met)
        grown = False
        while ends and self.budget >= 0:
            end = heapq.heappop(ends)
            other = self.find(end)
            edge = met[end], end
            if other == start or self._is_barred(edge, start, other):
                continue
            if self.contract(start, other):
                grown = True
                fresh, self.members[other] = self.members[other], []
                self.members[start] += fresh
                self._meet(start, fresh, ends, met)
                for bits in (self.led_by, self.leads_to, self.own):
                    bits[start] |= bits[other]
            else:
                self.barriers[edge] = self.between
            if self.budget < self.due:
                self._sweep()
                self.due = self.budget - self.wait
        return grown

    def _meet(self, start: int, nodes: list[int], ends: list[int], met: dict[int, int]) -> None:
        """Put what `nodes` feed on the device of `start`, and was not met, among the ends."""
        device = self.device_of[start]
        for node in nodes:
            for end in self.dag.succs[node]:
                if self.device_of[end] == device and end not in met:
                    met[end] = node
                    heapq.heappush(ends, end)

    def _is_barred(self, edge: tuple[int, int], start: int, other: int) -> bool:
        """Whether a path by way of a third group is known."""
        if edge in self.barriers and self.find(self.barriers[edge]) not in (start, other):
            return True
        between = self.leads_to[start] & self.led_by[other]
        return between & ~(self.own[start] | self.own[other]) != 0

    def _sweep(self) -> None:
        """Note which of the groups with the most edges lead where; see ``walking.swept``."""
        n = self.dag.n
        groups = []
        group = self.following[n]
        while group != n:
            self.own[group] = 0
            edges = min(len(self.preds[group]), len(self.succs[group]))
            if edges:
                groups.append((edges, group))
            group = self.following[group]
        for k, (_, group) in enumerate(heapq.nlargest(walking.LANDMARKS, groups)):
            self.own[group] = 1 << k
        for edges_of, bits, towards in (
            (self.preds, self.led_by, self.following),
            (self.succs, self.leads_to, self.leading),
        ):
            group = towards[n]
            while group != n:
                # What lies inside the group adds nothing.
                met = bits[group] = self.own[group]
                for raw in edges_of[group]:
                    met |= bits[self.find(raw)]
                bits[group] = met
                group = towards[group]
