"""What the search for patterns looks up in a graph, gathered once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hetsim.graph.dag import Dag
from hetsim.graph.graph import Graph
from hetsim.graph.work import op_key


@dataclass(frozen=True, slots=True)
class GraphIndex:
    """A graph, and who is what, writes what and reads what in it.

    Attributes
    ----------
    graph : Graph
    keys : sequence of str
        Op type by node, as ``op_key`` writes it.
    of_type : mapping of str to sequence of int
        Nodes by op type, ascending.
    producers : mapping of str to int
    readers : mapping of str to tuple of int
        Nodes by value; those that read it, ascending.
    outputs : frozenset of str
        Values that the caller of the graph gets.
    dag : Dag
    """

    graph: Graph
    keys: Sequence[str]
    of_type: Mapping[str, Sequence[int]]
    producers: Mapping[str, int]
    readers: Mapping[str, tuple[int, ...]]
    outputs: frozenset[str]
    dag: Dag

    @classmethod
    def of(cls, graph: Graph) -> GraphIndex:
        """Gather it. O(V + E log E)."""
        keys = [op_key(node) for node in graph.nodes]
        of_type: dict[str, list[int]] = {}
        for node, key in enumerate(keys):
            of_type.setdefault(key, []).append(node)
        return cls(
            graph=graph,
            keys=keys,
            of_type=of_type,
            producers=graph.producers(),
            readers=graph.consumers(),
            outputs=frozenset(graph.outputs),
            dag=Dag.from_edges(len(keys), graph.edges()),
        )

    def dtype(self, value: str) -> str:
        """Element type of a value; ``""`` where it is not known."""
        tensor = self.graph.tensors.get(value)
        return "" if tensor is None else tensor.dtype
