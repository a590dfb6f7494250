"""Subgraphs with explicit parameters and results, as in OpenVINO, joined by ports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hetsim.errors import ModelError
from hetsim.graph.dag import topological_order
from hetsim.partitioning.methods.boundary import Cuts, Wiring, execution_order, groups_of


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A node: its unique name, its kind, and the variable it reads or sets.

    The kind is parameter, constant, op, result, readvalue or assign.
    """

    name: str
    kind: str
    variable: str | None = None


@dataclass(frozen=True, slots=True)
class NodeGraph:
    """Nodes with one output each, and their readers.

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
        """Build; nothing is checked."""
        return cls(tuple(nodes), tuple(edges))

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
        """Return the nodes in execution order: producers before readers. O(V + E).

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
        """
        sources = self.sources()
        device: dict[str, str] = {}
        for node in self.nodes:
            if node.kind != "result":
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


Port = tuple[int, int]
"""A subgraph, by its place in the execution order, and one of its inputs or outputs."""


@dataclass(frozen=True, slots=True)
class Subgraph:
    """Subgraph that one device runs as a whole.

    Attributes
    ----------
    device : str
    nodes : tuple of str
        In the order of the graph, constants left out.
    constants : tuple of str
        The constants it reads, each a copy of its own.
    inputs : tuple of str
        By port: the model's parameters first, then nodes of other subgraphs that it reads.
    outputs : tuple of str
        By port: the model's results first, then own nodes that other subgraphs read.
    sinks : tuple of str
        The assigns among its nodes.
    """

    device: str
    nodes: tuple[str, ...]
    constants: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    sinks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Subgraphs:
    """Subgraphs in execution order, and the connections between them.

    Attributes
    ----------
    subgraphs : tuple of Subgraph
    plain : tuple of str
        Nodes left outside subgraphs, constants not counted.
    subgraph_id_per_node : dict of str to int
        Raw ids, constants included: a node that no edge joins to one before it opens the
        next id, and where groups meet, the id of the first input stays. Ids have gaps and
        say nothing about order.
    parameters, results : tuple of Port
        Where each parameter of the model goes in, and where each result comes out.
    links : tuple of (Port, Port)
        Each inserted input, ascending, with the output that feeds it.
    """

    subgraphs: tuple[Subgraph, ...]
    plain: tuple[str, ...]
    subgraph_id_per_node: Mapping[str, int]
    parameters: tuple[Port, ...]
    results: tuple[Port, ...]
    links: tuple[tuple[Port, Port], ...]

    def without(self, default_device: str) -> Subgraphs:
        """Keep the nodes of the default device outside of subgraphs.

        Ports connect subgraphs alone: where a node is left plain there are no mappings.
        """
        kept = tuple(part for part in self.subgraphs if part.device != default_device)
        if len(kept) == len(self.subgraphs):
            return self
        plain = tuple(
            name for part in self.subgraphs if part.device == default_device for name in part.nodes
        )
        return Subgraphs(kept, self.plain + plain, self.subgraph_id_per_node, (), (), ())


def collect(graph: NodeGraph, affinity: Mapping[str, str]) -> Subgraphs:
    """Cut a graph by the boundary method, with constants, results and variables as nodes.

    A result inherits its producer's device and an assign that of its variable's read. A
    constant belongs to a group like any node, by the ids, and may connect what reads it on
    its own device; it is no member of a subgraph, each of which holds a copy of what it
    reads. A group of constants alone is no subgraph.

    Raises
    ------
    ModelError
        For a cycle, or a node that no result or assign depends on.

    Complexity: that of ``methods.boundary``.
    Source: the conventions of OpenVINO's HETERO plugin. Among subgraphs that could run next
    we take the one whose first node, parameters and constants aside, stands first; there
    the order is that of a hash table.
    """
    device = graph.devices(affinity)
    names = graph.ordered()
    kind = {node.name: node.kind for node in graph.nodes}
    index = {name: at for at, name in enumerate(names)}
    sources = graph.sources()
    ports = [[(index[source], 0) for source in sources[v]] for v in names]
    wiring = Wiring.of_ports(ports, [kind[v] for v in names])
    numbers = {name: at for at, name in enumerate(dict.fromkeys(device[v] for v in names))}
    cuts = groups_of(wiring, [numbers[device[v]] for v in names])
    owner = _places(cuts, [kind[v] for v in names])
    count = max(owner.values(), default=-1) + 1
    place = {name: owner[cuts.label[index[name]]] for name in names if kind[name] != "constant"}

    inputs: list[list[str]] = [[] for _ in range(count)]
    outputs: list[list[str]] = [[] for _ in range(count)]
    for name in graph.named("parameter"):
        inputs[place[name]].append(name)
    for name in graph.named("result"):
        outputs[place[name]].append(name)
    parameters = tuple(
        (place[name], inputs[place[name]].index(name)) for name in graph.named("parameter")
    )
    results = tuple(
        (place[name], outputs[place[name]].index(name)) for name in graph.named("result")
    )
    links: list[tuple[Port, Port]] = []
    output_port: dict[str, Port] = {}
    linked: set[tuple[str, int]] = set()
    for name in names:
        for source in sources[name]:
            if kind[source] == "constant" or place[source] == place[name]:
                continue
            if source not in output_port:
                at = place[source]
                output_port[source] = (at, len(outputs[at]))
                outputs[at].append(source)
            # Every reader gets its port at the first reading, in the order of the outputs.
            for reader in dict.fromkeys(place[names[v]] for v, _ in cuts.outs[index[source]]):
                if reader != place[source] and (source, reader) not in linked:
                    linked.add((source, reader))
                    links.append(((reader, len(inputs[reader])), output_port[source]))
                    inputs[reader].append(source)
    members: list[list[str]] = [[] for _ in range(count)]
    constants: list[dict[str, None]] = [{} for _ in range(count)]
    for node in graph.nodes:
        if node.kind != "constant":
            members[place[node.name]].append(node.name)
            for source in sources[node.name]:
                if kind[source] == "constant":
                    constants[place[node.name]][source] = None
    ids = _raw_ids(cuts)
    return Subgraphs(
        tuple(
            Subgraph(
                device[members[at][0]],
                tuple(members[at]),
                tuple(constants[at]),
                tuple(inputs[at]),
                tuple(outputs[at]),
                tuple(name for name in members[at] if kind[name] == "assign"),
            )
            for at in range(count)
        ),
        (),
        {node.name: ids[index[node.name]] for node in graph.nodes},
        parameters,
        results,
        tuple(sorted(links)),
    )


def _places(cuts: Cuts, kinds: list[str]) -> dict[int, int]:
    """Place in the execution order of each group that is more than constants."""
    first: dict[int, tuple[bool, int]] = {}
    for node, kind in enumerate(kinds):
        if kind != "constant":
            key = (kind == "parameter", node)
            label = cuts.label[node]
            first[label] = min(first.get(label, key), key)
    labels = list(first)
    number = {label: at for at, label in enumerate(labels)}
    succs: list[set[int]] = [set() for _ in labels]
    for node, targets in enumerate(cuts.outs):
        for target, _ in targets:
            if kinds[node] != "constant" and cuts.label[node] != cuts.label[target]:
                succs[number[cuts.label[node]]].add(number[cuts.label[target]])
    rank = [first[label][1] for label in labels]
    order = topological_order(succs, rank)
    if order is None:
        raise AssertionError("the boundary method left groups that feed each other")
    return {labels[group]: at for at, group in enumerate(order)}


def _raw_ids(cuts: Cuts) -> list[int]:
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
