"""The hetero design page's subgraph selection, word by word: sets, pairs, every round anew."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hetsim.graph.dag import Dag


class PageGreedy:
    """All devices' subgraphs, in the order of selection."""

    def __init__(self, dag: Dag, device_of: Sequence[int]) -> None:
        self.dag = dag
        self.device_of = device_of
        self.reachable = [self._reachable(node) for node in range(dag.n)]
        self.path_nodes: dict[tuple[int, int], set[int]] = {}
        self.constructed: set[int] = set()
        self.selected: list[tuple[int, ...]] = []
        for device in sorted(set(device_of)):
            while self._round(device):
                pass

    def labels(self) -> list[int]:
        label = {v: subgraph[0] for subgraph in self.selected for v in subgraph}
        return [label[v] for v in range(self.dag.n)]

    def _reachable(self, node: int) -> set[int]:
        found: set[int] = set()
        pending = list(self.dag.succs[node])
        while pending:
            other = pending.pop()
            if other not in found:
                found.add(other)
                pending.extend(self.dag.succs[other])
        return found

    def _round(self, device: int) -> bool:
        roots = [
            v
            for v in range(self.dag.n)
            if self.device_of[v] == device and v not in self.constructed
        ]
        if not roots:
            return False
        candidates: list[list[int]] = []
        while roots:
            candidates.append(self._subgraph(roots[0], device))
            roots = [root for root in roots if root not in candidates[-1]]
        best = candidates[0]
        for candidate in candidates[1:]:
            if len(candidate) > len(best):
                best = candidate
        self.selected.append(tuple(sorted(best)))
        self.constructed.update(best)
        return True

    def _subgraph(self, root: int, device: int) -> list[int]:
        subgraph = [root]
        rejected: set[int] = set()
        while (node := self._adjacent(subgraph, rejected)) is not None:
            if self.device_of[node] == device and node not in self.constructed:
                subgraph.append(node)
            else:
                rejected.add(node)
            while self._refers_to_itself(subgraph, rejected):
                rejected.add(subgraph.pop())
        return subgraph

    def _adjacent(self, subgraph: Sequence[int], rejected: Iterable[int]) -> int | None:
        for member in reversed(subgraph):
            for node in (*self.dag.succs[member], *self.dag.preds[member]):
                if node not in subgraph and node not in rejected:
                    return node
        return None

    def _refers_to_itself(self, subgraph: Sequence[int], rejected: set[int]) -> bool:
        return any(
            self._between(source, target) & rejected for source in subgraph for target in subgraph
        )

    def _between(self, source: int, target: int) -> set[int]:
        if (source, target) not in self.path_nodes:
            self.path_nodes[source, target] = {
                node for node in self.reachable[source] if target in self.reachable[node]
            }
        return self.path_nodes[source, target]
