"""A graph as OpenVINO has it, and the subgraph ids that its HETERO plugin gives the nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hetsim.partitioning.methods.boundary import Cuts, Wiring, execution_order, groups_of


@dataclass(frozen=True, slots=True)
class OpenvinoGraph:
    """Nodes with one output each.

    Attributes
    ----------
    kinds : mapping of str to str
        Parameter, constant, op, readvalue, assign or result, by node.
    sources : mapping of str to list of str
        What each node reads, by port.
    """

    kinds: Mapping[str, str]
    sources: Mapping[str, list[str]]

    @classmethod
    def of(cls, kinds: Mapping[str, str], edges: list[tuple[str, str, int]]) -> OpenvinoGraph:
        """Build from edges, each of source, target and the target's port."""
        found: dict[str, list[tuple[int, str]]] = {name: [] for name in kinds}
        for source, target, port in edges:
            found[target].append((port, source))
        return cls(kinds, {name: [u for _, u in sorted(ins)] for name, ins in found.items()})

    def ordered(self) -> list[str]:
        """Nodes in execution order, depth first from parameters, assigns and results."""
        names = list(self.kinds)
        index = {name: at for at, name in enumerate(names)}
        ports = [[(index[source], 0) for source in self.sources[name]] for name in names]
        roots = [
            index[name] for kind in ("result", "assign", "parameter") for name in names
            if self.kinds[name] == kind
        ]  # fmt: skip
        return [names[node] for node in execution_order(ports, roots)]

    def collected(self, device: Mapping[str, str]) -> tuple[dict[str, int], list[list[str]]]:
        """Raw subgraph ids, and the nodes of each subgraph, its constants left out."""
        names = self.ordered()
        index = {name: at for at, name in enumerate(names)}
        # A result is where its producer is.
        placed = [
            device[self.sources[v][0] if self.kinds[v] == "result" else v] for v in names
        ]  # fmt: skip
        wiring = Wiring.of_ports(
            [[(index[source], 0) for source in self.sources[v]] for v in names],
            [self.kinds[v] for v in names],
        )
        cuts = groups_of(wiring, [sorted(set(placed)).index(one) for one in placed])
        ids = raw_ids(cuts)
        parts: dict[int, list[str]] = {}
        for name, kind in self.kinds.items():
            if kind != "constant":
                parts.setdefault(cuts.label[index[name]], []).append(name)
        return {name: ids[index[name]] for name in self.kinds}, list(parts.values())


def raw_ids(cuts: Cuts) -> list[int]:
    """Number the groups as they come up: by first node, the first input's id winning a merge."""
    parent: list[int] = []
    ids: list[int] = []
    opened = 0

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for node, ports in enumerate(cuts.ins):
        joined = [root(source) for source, edge in ports if not cuts.cut[edge]]
        parent.append(joined[0] if joined else node)
        ids.append(-1 if joined else opened)
        opened += not joined
        for other in joined:
            parent[other] = joined[0]
    return [ids[root(node)] for node in range(len(ids))]
