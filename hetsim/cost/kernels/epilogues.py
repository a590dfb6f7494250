"""Which nodes join the kernel that makes what they read, as inference compilers join them.

A batch norm, an activation, a residual sum or a gate (``x * sigmoid(x)``) behind a convolution is
done on its results while they are in registers. Compilers differ in what else they join; this is
what nearly all of them do. Source: the element-wise and injective fusion of T. Chen et al., TVM,
OSDI 2018, section 3; unlike there, no operand of a product is computed within it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hetsim.cost.kernels.features import PRODUCTS
from hetsim.graph.graph import Graph, Node
from hetsim.graph.work import Work, op_key
from hetsim.graph.work.elementwise import ARITHMETIC, TRANSCENDENTAL

_POINTWISE = frozenset({
    *ARITHMETIC, *TRANSCENDENTAL, "BatchNormalization", "CastLike", "Gelu", "Max", "Mean", "Min",
    "Pow", "Sum", "com.microsoft:BiasAdd", "com.microsoft:BiasGelu", "com.microsoft:FastGelu",
    "com.microsoft:Gelu", "com.microsoft:QuickGelu",
})  # fmt: skip
"""Ops that make each element of one element of each operand, and of constants."""

_SUMS = frozenset({*PRODUCTS, "elementwise"}) - {"attention", "recurrent"}
"""Forms whose kernels take in another operand, as a residual sum does."""

_JOINED = _SUMS | {"normalization", "softmax", "pooling", "movement", "transpose"}
"""Forms whose kernels apply a function to what they make."""

_LONGEST_GATE = 4
"""Nodes between a value and the product with it: ``x * tanh(softplus(x))`` has two, the erf
form of Gelu three."""


def epilogues(
    graph: Graph,
    works: Sequence[Work],
    supported: Sequence[bool],
    kinds: Sequence[object] | None = None,
) -> tuple[tuple[int, ...], ...]:
    """Return the sets of two nodes or more that are one kernel, each ascending, by first node.

    A pointwise node joins the kernel that makes an operand as large as its result, where no other
    node reads that operand and it is no output of the graph; of several such kernels the one
    that is done last. Views between them are members. A kernel gives away nothing but what its
    last member makes, so the sets are disjoint and convex, and contracting them closes no cycle.

    Parameters
    ----------
    graph : Graph
    works : sequence of Work
        As ``graph_work`` gives it.
    supported : sequence of bool
        By node: those that the device refuses, or that belong to a composite, join nothing.
    kinds : sequence, optional
        By node: nodes of unlike kinds, as of integers and of floats, are never one kernel.

    Complexity: O(V + E).
    """
    search = _Search(graph, works, supported, kinds)
    for node in graph.nodes:
        search.place(node)
    return tuple(tuple(sorted(kernel.nodes)) for kernel in search.kernels if len(kernel.nodes) > 1)


@dataclass(slots=True)
class _Kernel:
    """Nodes in one kernel: what it is, and the node whose result leaves it."""

    nodes: list[int]
    form: str
    last: int


class _Search:
    """Kernels made so far, and who reads what."""

    def __init__(
        self,
        graph: Graph,
        works: Sequence[Work],
        supported: Sequence[bool],
        kinds: Sequence[object] | None,
    ) -> None:
        self.graph = graph
        self.works = works
        self.supported = supported
        self.kinds = kinds
        self.readers = graph.consumers()
        self.producers = graph.producers()
        self.outputs = frozenset(graph.outputs)
        self.stored = graph.constants | graph.dequantized.keys()
        self.kernels: list[_Kernel] = []
        self.of_node: dict[int, _Kernel] = {}

    def place(self, node: Node) -> None:
        """Put `node` into a kernel, with the gate that it opens, or make it one of its own."""
        if node.id in self.of_node or not self.supported[node.id] or self._is_view(node):
            return
        if self._is_pointwise(node):
            gate = self._gate(node)
            found = self._best(node, gate)
            if found is not None:
                kernel, views = found
                members = [*views, *(gate or [node.id])]
                kernel.nodes += members
                kernel.last = members[-1]
                self.of_node.update(dict.fromkeys(members, kernel))
                return
        kernel = _Kernel([node.id], self.works[node.id].form, node.id)
        self.kernels.append(kernel)
        self.of_node[node.id] = kernel

    def _best(self, node: Node, gate: Sequence[int]) -> tuple[_Kernel, list[int]] | None:
        """The kernel that `node` joins, and the views that lie between."""
        operands = self._operands(node)
        allowed = _SUMS if len(operands) > 1 else _JOINED
        found: dict[int, tuple[_Kernel, list[int]]] = {}
        for name in operands:
            alone = bool(gate) or self._only_reader(name) == node.id
            views, maker = self._maker(name)
            kernel = None if maker is None else self.of_node.get(maker)
            if (
                alone
                and kernel is not None
                and kernel.last == maker
                and kernel.form in allowed
                and len(self.graph.nodes[kernel.last].writes) == 1
                and self._elements(name) == self._elements(node.writes[0])
                and (self.kinds is None or self.kinds[kernel.nodes[0]] == self.kinds[node.id])
            ):
                found[kernel.last] = kernel, views
        return found[max(found)] if found else None

    def _maker(self, name: str) -> tuple[list[int], int | None]:
        """The views before a value, first to last, and the node that makes what they show."""
        views: list[int] = []
        maker = self.producers.get(name)
        while maker is not None and self._is_view(self.graph.nodes[maker]):
            before = self.graph.nodes[maker].inputs[0]
            if not self.supported[maker] or self._only_reader(before) != maker:
                return [], None
            views.append(maker)
            maker = self.producers.get(before)
        return views[::-1], maker

    def _gate(self, node: Node) -> list[int]:
        """`node` to the product of what it starts with the value that it reads, else nothing.

        None but these read that value and what is between.
        """
        operands = self._operands(node)
        if len(operands) != 1 or operands[0] in self.outputs:
            return []
        start = operands[0]
        end = next((v for v in self.readers[start] if v != node.id), None)
        if end is None or len(self.readers[start]) != 2:
            return []
        found = [node.id]
        while len(found) < _LONGEST_GATE:
            after = self._after(found[-1])
            if after is None or after == end:
                break
            found.append(after)
        if self._after(found[-1]) != end:
            return []
        value = self.graph.nodes[found[-1]].writes[0]
        joins = {start, value} == {*self._operands(self.graph.nodes[end])}
        alone = all(len(self._operands(self.graph.nodes[v])) == 1 for v in found)
        fits = all(self._fits(v, node.id, self._elements(start)) for v in (*found, end))
        return [*found, end] if joins and alone and fits else []

    def _fits(self, v: int, first: int, size: int) -> bool:
        """Whether a node of a gate is free, and of the kind and size of the first."""
        node = self.graph.nodes[v]
        return (
            self.supported[v]
            and v not in self.of_node
            and self._is_pointwise(node)
            and self._elements(node.writes[0]) == size
            and (self.kinds is None or self.kinds[v] == self.kinds[first])
        )

    def _after(self, v: int) -> int | None:
        """The only reader of all that a node makes."""
        writes = self.graph.nodes[v].writes
        return self._only_reader(writes[0]) if len(writes) == 1 else None

    def _operands(self, node: Node) -> list[str]:
        return [name for name in node.reads if name not in self.stored]

    def _only_reader(self, name: str) -> int | None:
        readers = self.readers.get(name, ())
        return readers[0] if len(readers) == 1 and name not in self.outputs else None

    def _elements(self, name: str) -> int:
        return self.graph.tensors[name].elements

    def _is_view(self, node: Node) -> bool:
        work = self.works[node.id]
        moves = work.flops or work.read_bytes or work.write_bytes or work.weight_bytes
        alone = len(node.writes) == 1 and self._operands(node) == [*node.inputs[:1]]
        return alone and work.rule and not moves

    def _is_pointwise(self, node: Node) -> bool:
        return (
            op_key(node) in _POINTWISE
            and len(node.writes) == 1
            and not node.captures
            and not node.attributes.get("training_mode")
        )
