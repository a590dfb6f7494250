"""Fusion of nodes into the kernel of their producer, as inference compilers do.

A batch norm, activation, residual sum or gate (``x * sigmoid(x)``) after a convolution is applied
to its results in registers. Compilers differ in further fusions; nearly all make these. Source: the
element-wise and injective fusion of T. Chen et al., TVM, OSDI 2018, section 3; unlike there, no
operand of a product is computed within it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hetsim.cost.kernels.formula import PRODUCTS
from hetsim.cost.model import Kernel
from hetsim.graph.graph import Graph, Node
from hetsim.graph.work import Work, graph_work, op_key
from hetsim.graph.work.elementwise import ARITHMETIC, TRANSCENDENTAL


@dataclass(frozen=True, slots=True)
class Uses:
    """Graph with the readers of its values, as from ``Graph.consumers``."""

    graph: Graph
    readers: Mapping[str, tuple[int, ...]]
    outputs: frozenset[str]
    _joined: dict[tuple[int, ...], Kernel] = field(default_factory=dict, repr=False)

    @staticmethod
    def of(graph: Graph) -> Uses:
        """Return the uses of the values of `graph`, cached with it. O(V + E) at first."""
        known: Any = graph.kept.get("uses")
        if known is None:
            known = Uses(graph, graph.consumers(), frozenset(graph.outputs))
            graph.kept["uses"] = known
        uses: Uses = known
        return uses

    def inner(self, members: Sequence[int]) -> frozenset[str]:
        """Return the values that only `members` produce and read. O(operands)."""
        inside = set(members)
        return frozenset(
            name
            for v in members
            for name in self.graph.nodes[v].writes
            if name not in self.outputs
            and (readers := self.readers.get(name))
            and inside.issuperset(readers)
        )


def joined_kernel(uses: Uses, members: Sequence[int]) -> Kernel:
    """Return the kernel that does the work of `members`, ascending, at once. O(operands)."""
    key = tuple(members)
    known = uses._joined.get(key)
    if known is None:
        known = uses._joined[key] = _made(uses, key)
    return known


def _made(uses: Uses, members: tuple[int, ...]) -> Kernel:
    graph, inner = uses.graph, uses.inner(members)
    works = graph_work(graph)
    seen: set[str] = set()
    done: list[Work] = []
    for v in members:
        node, work = graph.nodes[v], works[v]
        again = [name for name in node.reads if name in seen and name not in graph.constants]
        unread = sum(graph.tensors[name].nbytes for name in again)
        unwritten = sum(graph.tensors[name].nbytes for name in node.writes if name in inner)
        if unread or unwritten:
            # A partially accessed constant counts with its accessed part.
            work = replace(
                work,
                read_bytes=max(0, work.read_bytes - unread),
                write_bytes=max(0, work.write_bytes - unwritten),
            )
        done.append(work)
        seen.update(node.reads, node.writes)
    return Kernel(tuple(done))


_POINTWISE = frozenset({
    *ARITHMETIC, *TRANSCENDENTAL, "BatchNormalization", "CastLike", "Gelu", "Max", "Mean", "Min",
    "Pow", "Sum", "com.microsoft:BiasAdd", "com.microsoft:BiasGelu", "com.microsoft:FastGelu",
    "com.microsoft:Gelu", "com.microsoft:QuickGelu",
})  # fmt: skip
"""Ops whose output elements depend on one element of each operand, and on constants."""


SUM_BEFORE = "Add/before"
"""Word for a sum that joins a following layer norm."""

_SUMS = frozenset({*PRODUCTS, "elementwise"}) - {"attention", "recurrent"}
"""Forms whose kernels take another operand, as a residual sum does."""

_JOINED = _SUMS | {"normalization", "softmax", "pooling", "movement", "concat", "transpose"}
"""Forms whose kernels apply a function to their results."""


def epilogues(
    graph: Graph,
    works: Sequence[Work],
    supported: Sequence[bool],
    kinds: Sequence[object] | None = None,
    joins: Mapping[str, frozenset[str]] | None = None,
) -> tuple[tuple[int, ...], ...]:
    """Return the sets of at least two nodes that are one kernel, ascending, by first node.

    A pointwise node joins the kernel that produces an operand as large as its result, if no other
    node reads that operand and it is no graph output; of several such kernels the last one. Views
    between them are members. Only the last member's result leaves a kernel, so the sets are
    disjoint and convex, and contracting them closes no cycle. Nodes of different `kinds` are never
    one kernel; `joins` has by form the words of `Joint` that join; absent: all. O(V + E).
    """
    search = _KernelSearch(graph, _Known.of(graph), works, supported, kinds, joins)
    search.run()
    return tuple(tuple(sorted(kernel.nodes)) for kernel in search.kernels if len(kernel.nodes) > 1)


@dataclass(frozen=True, slots=True)
class Joint:
    """Node that joins a kernel of a form, ignoring views.

    `word` identifies it: an op type, ``Add/2`` if it reads two computed values, and
    ``Sigmoid/gate`` for the start of a gate; Sum is Add. `root` is the kernel's first node.
    """

    form: str
    word: str
    root: int
    nodes: tuple[int, ...]


def joints(graph: Graph, works: Sequence[Work]) -> tuple[Joint, ...]:
    """Return all nodes that join a kernel without restrictions. O(V + E)."""
    told: list[Joint] = []
    _KernelSearch(graph, _Known.of(graph), works, (True,) * len(works), told=told).run()
    return tuple(told)


@dataclass(frozen=True, slots=True)
class _Known:
    """Device-independent data, cached with the graph.

    By node: non-constant `operands`, and `words` for joining a kernel, without context. For values:
    readers, producers and outputs.
    """

    operands: tuple[tuple[str, ...], ...]
    views: tuple[bool, ...]
    pointwise: tuple[bool, ...]
    words: tuple[str, ...]
    readers: Mapping[str, tuple[int, ...]]
    producers: Mapping[str, int]
    outputs: frozenset[str]

    @staticmethod
    def of(graph: Graph) -> _Known:
        """Return the data of a graph, cached. O(V + E) at first."""
        known: Any = graph.kept.get("joining")
        if known is None:
            stored = graph.constants | graph.dequantized.keys()
            operands = tuple(
                tuple(name for name in node.reads if name not in stored) for node in graph.nodes
            )
            known = graph.kept["joining"] = _Known(
                operands=operands,
                views=tuple(map(_is_view, graph.nodes, graph_work(graph), operands)),
                pointwise=tuple(map(_is_pointwise, graph.nodes)),
                # A sum of two is an addition.
                words=tuple("Add" if key == "Sum" else key for key in map(op_key, graph.nodes)),
                readers=graph.consumers(),
                producers=graph.producers(),
                outputs=frozenset(graph.outputs),
            )
        found: _Known = known
        return found


def _is_view(node: Node, work: Work, operands: tuple[str, ...]) -> bool:
    moves = work.flops or work.read_bytes or work.write_bytes or work.weight_bytes
    alone = len(node.writes) == 1 and operands == node.inputs[:1]
    return alone and work.rule and not moves


def _is_pointwise(node: Node) -> bool:
    return (
        op_key(node) in _POINTWISE
        and len(node.writes) == 1
        and not node.captures
        and not node.attributes.get("training_mode")
    )


@dataclass(slots=True)
class _Kernel:
    """Nodes in one kernel, with its form and the node whose result leaves it."""

    nodes: list[int]
    form: str
    last: int


@dataclass(slots=True)
class _KernelSearch:
    """Kernels made so far; joins are recorded if `told` is a list."""

    graph: Graph
    known: _Known
    works: Sequence[Work]
    supported: Sequence[bool]
    kinds: Sequence[object] | None = None
    joins: Mapping[str, frozenset[str]] | None = None
    told: list[Joint] | None = None
    kernels: list[_Kernel] = field(default_factory=list)
    of_node: dict[int, _Kernel] = field(default_factory=dict)

    def run(self) -> None:
        """Assign all nodes to kernels."""
        for node, view, supported in zip(
            self.graph.nodes, self.known.views, self.supported, strict=True
        ):
            if supported and not view and node.id not in self.of_node:
                self._place(node)

    def _place(self, node: Node) -> None:
        """Add `node` to a kernel, with the gate that it opens, or start a new one."""
        if self.known.pointwise[node.id]:
            gate = self._gate(node)
            found = self._best(node, gate)
            if found is not None:
                kernel, views = found
                joining = gate or [node.id]
                if self.told is not None:
                    if gate:
                        self._tell("elementwise", self._word(node, gate), gate[0], gate)
                    word = self._word(node, gate, kernel)
                    self._tell(kernel.form, word, kernel.nodes[0], joining)
                members = [*views, *joining]
                kernel.nodes += members
                kernel.last = members[-1]
                self.of_node.update(dict.fromkeys(members, kernel))
                return
            if gate:
                # If no kernel takes it, a gate may be a separate one.
                word = self._word(node, gate)
                self._tell("elementwise", word, gate[0], gate)
                if self.joins is not None and word in self.joins.get("elementwise", ()):
                    kernel = _Kernel(gate, "elementwise", gate[-1])
                    self.kernels.append(kernel)
                    self.of_node.update(dict.fromkeys(gate, kernel))
                    return
        summed = self._summed(node)
        if summed is not None:
            summed.nodes.append(node.id)
            summed.form, summed.last = "normalization", node.id
            self.of_node[node.id] = summed
            return
        kernel = _Kernel([node.id], self.works[node.id].form, node.id)
        self.kernels.append(kernel)
        self.of_node[node.id] = kernel

    def _summed(self, node: Node) -> _Kernel | None:
        """Return the kernel of a layer norm that is the only reader of a sum, or None."""
        if op_key(node) != "LayerNormalization":
            return None
        maker = self.known.producers.get(node.inputs[0])
        if (
            maker is None
            or self._word(self.graph.nodes[maker], ()) != "Add/2"
            or self._only_reader(node.inputs[0]) != node.id
            or (self.kinds is not None and self.kinds[maker] != self.kinds[node.id])
        ):
            return None
        self._tell("normalization", SUM_BEFORE, maker, (maker, node.id))
        kernel = self.of_node.get(maker)
        joins = self.joins is not None and SUM_BEFORE in self.joins.get("normalization", ())
        return kernel if joins and kernel is not None and kernel.nodes == [maker] else None

    def _tell(self, form: str, word: str, root: int, nodes: Sequence[int]) -> None:
        if self.told is not None:
            self.told.append(Joint(form, word, root, tuple(nodes)))

    def _best(self, node: Node, gate: Sequence[int]) -> tuple[_Kernel, list[int]] | None:
        """Return the kernel that `node` joins, and the views in between."""
        operands = self.known.operands[node.id]
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
                and (
                    self.joins is None
                    or self._word(node, gate, kernel) in self.joins.get(kernel.form, frozenset())
                )
                and (self.kinds is None or self.kinds[kernel.nodes[0]] == self.kinds[node.id])
            ):
                found[kernel.last] = kernel, views
        return found[max(found)] if found else None

    def _word(self, node: Node, gate: Sequence[int], kernel: _Kernel | None = None) -> str:
        """Return the word with which a node would join a kernel, as in `Joint`."""
        # Elementwise kernels vary, and are joined as parts of known patterns.
        begun = kernel is not None and kernel.form == "elementwise"
        before = f"{op_key(self.graph.nodes[kernel.nodes[0]])}>" if kernel and begun else ""
        if gate:
            return f"{before}{op_key(node)}/gate"
        behind = "/2" if len(self.known.operands[node.id]) > 1 else ""
        return before + self.known.words[node.id] + behind

    def _maker(self, name: str) -> tuple[list[int], int | None]:
        """Return the views before a value, first to last, and the producer behind them."""
        views: list[int] = []
        maker = self.known.producers.get(name)
        while maker is not None and self.known.views[maker]:
            before = self.graph.nodes[maker].inputs[0]
            if not self.supported[maker] or self._only_reader(before) != maker:
                return [], None
            views.append(maker)
            maker = self.known.producers.get(before)
        return views[::-1], maker

    def _gate(self, node: Node) -> list[int]:
        """Return `node` and the product of its output with its input, else nothing."""
        operands = self.known.operands[node.id]
        if len(operands) != 1 or operands[0] in self.known.outputs:
            return []
        start, (made,) = operands[0], node.writes
        others = [v for v in self.known.readers[start] if v != node.id]
        if len(others) != 1 or self._only_reader(made) != others[0]:
            return []
        product = self.graph.nodes[others[0]]
        joins = {start, made} == {*self.known.operands[product.id]}
        free = product.id not in self.of_node and self.supported[product.id]
        alike = self.kinds is None or self.kinds[product.id] == self.kinds[node.id]
        if not (joins and free and alike and self.known.pointwise[product.id]):
            return []
        sizes = {self._elements(name) for name in (start, made, product.writes[0])}
        return [node.id, product.id] if len(sizes) == 1 else []

    def _only_reader(self, name: str) -> int | None:
        readers = self.known.readers.get(name, ())
        return readers[0] if len(readers) == 1 and name not in self.known.outputs else None

    def _elements(self, name: str) -> int:
        return self.graph.tensors[name].elements
