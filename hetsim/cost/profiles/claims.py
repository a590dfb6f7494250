"""Which kernel has which node, as matching goes on; and parts of the graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hetsim.cost.profiles.record import TimedKernel
from hetsim.graph.dag import Dag, joined
from hetsim.graph.graph import Graph


@dataclass(slots=True)
class Claims:
    """What is known while kernels are matched.

    Attributes
    ----------
    graph, dag : Graph, Dag
    classes : sequence of str
        Op class by node.
    kernels : sequence of TimedKernel
    nodes : list of list of int
        Nodes by kernel.
    homes : list of list of int
        Kernels by node.
    elsewhere : set of int
        Nodes that another unit ran.
    folded : set of int
        Kernels of nodes of the file that are constants here.
    """

    graph: Graph
    dag: Dag
    classes: Sequence[str]
    kernels: Sequence[TimedKernel]
    nodes: list[list[int]]
    homes: list[list[int]]
    elsewhere: set[int]
    folded: set[int]

    def claim(self, kernel: int, nodes: Iterable[int]) -> None:
        """Give nodes to a kernel."""
        for v in nodes:
            if v not in self.nodes[kernel]:
                self.nodes[kernel].append(v)
                self.homes[v].append(kernel)

    def free(self, v: int) -> bool:
        """Whether no kernel has the node."""
        return not self.homes[v] and v not in self.elsewhere


def elements_of(graph: Graph, v: int) -> int | None:
    """Elements of the first output of a node; None where they are open or depend on data."""
    writes = graph.nodes[v].writes
    tensor = graph.tensors[writes[0]] if writes else None
    if tensor is None or tensor.measured or tensor.shape is None:
        return None
    count = 1
    for dim in tensor.shape:
        if not isinstance(dim, int):
            return None
        count *= dim
    return count


def parts_of(dag: Dag, nodes: Sequence[int]) -> list[tuple[int, ...]]:
    """The weakly connected parts that `nodes` alone make, each ascending."""
    at = {v: index for index, v in enumerate(nodes)}
    roots = joined(len(nodes), ((at[v], at[w]) for v in nodes for w in dag.succs[v] if w in at))
    found: dict[int, list[int]] = {}
    for v, root in zip(nodes, roots, strict=True):
        found.setdefault(root, []).append(v)
    return [tuple(sorted(part)) for part in found.values()]
