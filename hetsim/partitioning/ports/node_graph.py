"""A small graph with parameters, constants, results and variables as nodes of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hetsim.errors import ModelError, PlanError, nearest
from hetsim.partitioning.methods.boundary import execution_order

KINDS = ("parameter", "constant", "op", "result", "readvalue", "assign")


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A node: its unique name, its kind (one of ``KINDS``), and the variable it reads or sets."""

    name: str
    kind: str
    variable: str | None = None


@dataclass(frozen=True, slots=True)
class NodeGraph:
    """Nodes with one output each, and who reads it.

    Attributes
    ----------
    nodes : tuple of GraphNode
        In any order; parameters and results of the model in theirs.
    edges : tuple of (str, str, int)
        Source, destination, and the input port of the destination.
    """

    nodes: tuple[GraphNode, ...]
    edges: tuple[tuple[str, str, int], ...]

    @classmethod
    def of(cls, nodes: Iterable[GraphNode], edges: Iterable[tuple[str, str, int]]) -> NodeGraph:
        """Check and build.

        Raises
        ------
        ModelError
            For an unknown kind, a name used twice, an edge of an unknown node, a port that
            is missing or used twice, or inputs that do not fit the kind.
        """
        graph = cls(tuple(nodes), tuple(edges))
        kind_of: dict[str, str] = {}
        for node in graph.nodes:
            if node.kind not in KINDS:
                raise ModelError(
                    f"no kind of node '{node.kind}'",
                    where=f"node '{node.name}'",
                    hint=nearest(node.kind, KINDS),
                )
            if node.name in kind_of:
                raise ModelError("the name is used twice", where=f"node '{node.name}'")
            kind_of[node.name] = node.kind
        ports: dict[str, list[int]] = {name: [] for name in kind_of}
        for source, target, port in graph.edges:
            for name in (source, target):
                if name not in kind_of:
                    raise ModelError(
                        f"no node '{name}'",
                        where=f"edge {source} > {target}",
                        hint=nearest(name, kind_of),
                    )
            if kind_of[source] in ("result", "assign"):
                raise ModelError(f"a node reads this {kind_of[source]}", where=f"node '{source}'")
            ports[target].append(port)
        for name, used in ports.items():
            if sorted(used) != list(range(len(used))):
                raise ModelError(f"input ports {sorted(used)} have gaps", where=f"node '{name}'")
            kind = kind_of[name]
            if kind in ("parameter", "constant") and used:
                raise ModelError(f"a {kind} has no inputs", where=f"node '{name}'")
            if kind in ("result", "assign") and len(used) != 1:
                raise ModelError(f"a {kind} has one input", where=f"node '{name}'")
        return graph

    def named(self, *kinds: str) -> tuple[str, ...]:
        """Names of the nodes of these kinds."""
        return tuple(node.name for node in self.nodes if node.kind in kinds)

    def sources(self) -> dict[str, tuple[str, ...]]:
        """Return the sources of every node by port."""
        found: dict[str, list[tuple[int, str]]] = {node.name: [] for node in self.nodes}
        for source, target, port in self.edges:
            found[target].append((port, source))
        return {name: tuple(source for _, source in sorted(ins)) for name, ins in found.items()}

    def ordered(self) -> tuple[str, ...]:
        """Return the nodes in execution order: what a node reads stands before it. O(V + E).

        Depth first, inputs by port, from the parameters, the assigns and the results, each
        last first.

        Raises
        ------
        ModelError
            For a cycle, or a node that no result or assign depends on.
        """
        sources = self.sources()
        names = tuple(sources)
        index = {name: at for at, name in enumerate(names)}
        ports = [[(index[source], 0) for source in sources[name]] for name in names]
        roots = [*self.named("result"), *self.named("assign"), *self.named("parameter")]
        order = execution_order(ports, [index[name] for name in roots], names)
        found = tuple(names[node] for node in order)
        reached = set(found)
        for name in names:
            if name not in reached:
                raise ModelError("no result depends on the node", where=f"node '{name}'")
        return found

    def devices(self, affinity: Mapping[str, str]) -> dict[str, str]:
        """Return the device of every node: by `affinity`, but for results and variables.

        A result is where its producer is, whatever its own entry says, and an assign is
        where its variable is read.

        Raises
        ------
        PlanError
            Where `affinity` lacks a node or names one that does not exist.
        """
        names = {node.name for node in self.nodes}
        for name in affinity:
            if name not in names:
                raise PlanError(
                    f"no node '{name}'", where="affinity", hint=nearest(name, sorted(names))
                )
        sources = self.sources()
        device: dict[str, str] = {}
        for node in self.nodes:
            if node.kind == "result":
                continue
            if node.name not in affinity:
                raise PlanError(
                    f"node '{node.name}' has no device",
                    where="affinity",
                    hint="give every node one, or none",
                )
            device[node.name] = affinity[node.name]
        read_on: dict[str | None, str] = {
            node.variable: device[node.name]
            for node in self.nodes
            if node.kind == "readvalue" and node.variable is not None
        }
        for node in self.nodes:
            if node.kind == "assign":
                device[node.name] = read_on.get(node.variable, device[node.name])
        for node in self.nodes:
            if node.kind == "result":
                device[node.name] = device[sources[node.name][0]]
        return device
