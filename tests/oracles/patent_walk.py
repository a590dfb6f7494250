"""The patent's walk on explicit edge lists: nodes are deleted, their edges handed over."""

from __future__ import annotations

from collections.abc import Sequence

from hetsim.graph.dag import Dag


class PatentWalk:
    """Sets of merged nodes, by the node that took over."""

    def __init__(self, dag: Dag, device_of: Sequence[int]) -> None:
        self.dag = dag
        self.device_of = device_of
        self.owner = list(range(dag.n))
        while self._pass():
            pass

    def _pass(self) -> bool:
        merged = False
        for start in self._by_breadth():
            if self.owner[start] == start:
                merged = self._visit(start) or merged
        return merged

    def _by_breadth(self) -> list[int]:
        order = [v for v in range(self.dag.n) if not self.dag.preds[v]]
        for node in order:
            order.extend(v for v in self.dag.succs[node] if v not in order)
        return order

    def _visit(self, start: int) -> bool:
        visited: set[int] = set()
        merged = False
        while True:
            ends = {v for u, v in self.dag.edges() if self.owner[u] == start} - visited
            ends = {v for v in ends if self.owner[v] != start}
            if not ends:
                return merged
            end = min(ends)
            visited.add(end)
            same = self.device_of[end] == self.device_of[start]
            if same and not self._returns(self.owner[end], start):
                gone = self.owner[end]
                self.owner = [start if owner == gone else owner for owner in self.owner]
                merged = True

    def _returns(self, end: int, start: int) -> bool:
        """Whether a way back from `end` leads over at least one other set to `start`."""
        seen: set[int] = set()
        pending = [s for s in self._before(end) if s != start]
        while pending:
            node = pending.pop()
            if node == start:
                return True
            if node not in seen:
                seen.add(node)
                pending.extend(self._before(node))
        return False

    def _before(self, node: int) -> set[int]:
        return {self.owner[u] for u, v in self.dag.edges() if self.owner[v] == node} - {node}
