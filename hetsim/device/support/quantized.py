"""Quantized units, float nodes executed in integers, and conversions run by the host."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hetsim.graph.dag import Contraction, Dag
from hetsim.graph.graph import ITEM_BITS, Graph, Node, Tensor
from hetsim.graph.work import op_key, ops_of
from hetsim.hardware.spec import FLOATS, DeviceSpec
from hetsim.hardware.variants import INT8

DEQUANTIZE = frozenset({"DequantizeLinear", "com.microsoft:DequantizeLinear"})
QUANTIZE = frozenset({"QuantizeLinear", "com.microsoft:QuantizeLinear"})
PRODUCTS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
"""Ops that accumulate in wider integers, and can output floats."""

INTEGER_PRODUCTS = frozenset({"ConvInteger", "MatMulInteger"})
_ACTIVATIONS = frozenset({"Clip", "HardSwish", "LeakyRelu", "Relu", "Sigmoid"})
_SUMS = frozenset({"Add", "Sum"})
_BINARY = frozenset({"Add", "Div", "Max", "Mean", "Min", "Mul", "Sub", "Sum"})
_LONGEST = 3
_WITH_WEIGHTS = 2
"""Operands of a product without bias."""
_BIAS = 2
_NARROW = 8
_SCALED = 2
"""Position of the Mul after an integer product."""
_MANY = 1 << 16
"""Number of elements above which a product of two values is no scale."""


_ACTS_AS = {
    "ConvInteger": "Conv", "MatMulInteger": "MatMul", "QLinearConv": "Conv",
    "QLinearMatMul": "MatMul", "com.microsoft:QGemm": "Gemm", "com.microsoft:QLinearAdd": "Add",
    "com.microsoft:QLinearConv": "Conv", "com.microsoft:QLinearLeakyRelu": "LeakyRelu",
    "com.microsoft:QLinearSigmoid": "Sigmoid",
}  # fmt: skip


def fusing_key(node: Node, spec: DeviceSpec) -> str:
    """Return the op type by which `node` takes part in fusion chains."""
    key = op_key(node)
    return _ACTS_AS.get(key, key) if spec.quantized else key


@dataclass(frozen=True, slots=True)
class Unit:
    """Nodes that form one kernel, ascending.

    `dtype` is the type of its arithmetic: ``int8``, ``int16`` or an 8-bit float; None: the types of
    its nodes. In a `sealed` one all inputs and outputs are quantized.
    """

    nodes: tuple[int, ...]
    dtype: str | None
    sealed: bool


class Quantized:
    """Conversion nodes of a graph, and the device's kernels around them. O(V + E)."""

    def __init__(self, graph: Graph, spec: DeviceSpec) -> None:
        known = ops_of(graph)

        # Nodes without integer arithmetic convert in separate kernels.
        def of(ops: Iterable[str]) -> set[int]:
            if not spec.quantized:
                return set()
            return {v for op in ops for v in known.get(op, ())}

        self.graph = graph
        self.producers = graph.producers()
        self.readers = graph.consumers()
        self.outputs = frozenset(graph.outputs)
        self.dequantize = of(DEQUANTIZE)
        self.quantize = of(QUANTIZE)
        casts = known.get("Cast", ())
        self.casts = {v for v in casts if _between_floats(graph, graph.nodes[v])}
        self.conversions = self.dequantize | self.quantize | self.casts
        self.products = of(INTEGER_PRODUCTS)

    def __bool__(self) -> bool:
        return bool(self.conversions or self.products)

    def source(self, value: str) -> str | None:
        """Return the integers that a DequantizeLinear converts to `value`, if one does."""
        node = self.producers.get(value)
        if node is None or node not in self.dequantize:
            return None
        return self.graph.nodes[node].inputs[0]

    def arithmetic(self, node: Node, ops: frozenset[str]) -> str | None:
        """Return the arithmetic in which `node` can run, given its inputs; None: its own types."""
        op = op_key(node)
        if op not in ops or node.captures:
            return None
        graph = self.graph
        stored: list[str] = []
        active = False
        for position, name in enumerate(node.inputs):
            if not name or "float" not in graph.tensors[name].dtype:
                continue
            if op in PRODUCTS and position == _BIAS:
                if name in graph.constants or name in graph.dequantized or self.source(name):
                    continue
                return None
            behind = graph.dequantized.get(name)
            source = behind[0] if behind else self.source(name)
            if source is not None:
                stored.append(graph.tensors[source].dtype)
                active |= behind is None
                continue
            if name not in graph.constants or op in PRODUCTS:
                return None
            if op in _BINARY and graph.tensors[name].elements > 1:
                return None
        return _widest(stored) if active else None

    def path(self, node: Node, spec: DeviceSpec, supported: Sequence[bool]) -> list[int]:
        """Return `node` with the nodes after it in its kernel."""
        chain = self.chain(node, spec, supported)
        found = max(chain, self._usual(node), key=len)
        return found if found[-1] in self.quantize else [*found, *self._quantized_after(found[-1])]

    def chain(self, node: Node, spec: DeviceSpec, supported: Sequence[bool]) -> list[int]:
        """Return the longest declared chain from here, including conversions between its nodes."""
        start = [node.id, *self._scaled_after(node)]
        if not all(supported[v] for v in start):
            return [node.id]
        chains = (self._chain(start, steps, spec, supported) for steps in spec.fusions)
        return max((start, *chains), key=len)

    def _chain(
        self,
        start: Sequence[int],
        steps: Sequence[Sequence[str]],
        spec: DeviceSpec,
        supported: Sequence[bool],
    ) -> list[int]:
        if fusing_key(self.graph.nodes[start[0]], spec) not in steps[0]:
            return []
        found = list(start)
        last = start[0] if len(start) == 1 else start[_SCALED]
        for allowed in steps[1:]:
            between: list[int] = []
            after = self._after(last)
            while after is not None and after in self.conversions:
                between.append(after)
                after = self._after(after)
            if after is None or not supported[after]:
                return []
            if fusing_key(self.graph.nodes[after], spec) not in allowed:
                return []
            found += [*between, after]
            last = after
        return found

    def _scaled_after(self, node: Node) -> list[int]:
        """Return the Cast and Mul that convert an integer product to floats, and their scale."""
        if op_key(node) not in INTEGER_PRODUCTS:
            return []
        cast = self._after(node.id)
        if cast is None or op_key(self.graph.nodes[cast]) != "Cast":
            return []
        scaling = self._after(cast)
        if scaling is None or op_key(self.graph.nodes[scaling]) != "Mul":
            return []
        for name in self.graph.nodes[scaling].reads:
            maker = self.producers.get(name)
            if maker is None or maker == cast or op_key(self.graph.nodes[maker]) != "Mul":
                continue
            scale = self.graph.tensors[name]
            if self._after(maker) == scaling and scale.is_static and scale.elements < _MANY:
                return [cast, scaling, maker]
        return [cast, scaling]

    def _usual(self, node: Node) -> list[int]:
        """Return `node`, plus a sum for a product and an activation, if all of it is quantized."""
        found = [node.id]
        while len(found) <= _LONGEST:
            after = self._after(found[-1])
            if after is None:
                break
            if after in self.quantize:
                return found
            op = op_key(self.graph.nodes[after])
            summed = op_key(node) in PRODUCTS and len(found) == 1 and op in _SUMS
            if not (op in _ACTIVATIONS or summed):
                break
            found.append(after)
        return [node.id]

    def loads(self, nodes: Sequence[int]) -> list[int]:
        """Return DequantizeLinear nodes whose values only `nodes` read."""
        inside = set(nodes)
        found: dict[int, None] = {}
        for v in nodes:
            for name in self.graph.nodes[v].reads:
                before = self.producers.get(name)
                if (
                    before in self.dequantize
                    and before not in inside
                    and name not in self.outputs
                    and inside.issuperset(self.readers[name])
                ):
                    found[before] = None
        return list(found)

    def readers_of(self, v: int) -> tuple[int, ...]:
        """Return nodes that read the output of node `v`."""
        values = self.graph.nodes[v].writes
        return tuple(w for value in values for w in self.readers.get(value, ()))

    def _after(self, v: int) -> int | None:
        """Return the only reader of all outputs of node `v`, or None."""
        writes = self.graph.nodes[v].writes
        return self.only_reader(writes[0]) if len(writes) == 1 else None

    def only_reader(self, value: str) -> int | None:
        """Return the only reader of `value`, if it is not an output."""
        readers = self.readers.get(value, ())
        return readers[0] if len(readers) == 1 and value not in self.outputs else None

    def _quantized_after(self, v: int) -> list[int]:
        after = [self.only_reader(name) for name in self.graph.nodes[v].writes]
        if any(one is None or one not in self.quantize for one in after):
            return []
        return [one for one in after if one is not None]


def integer_units(
    found: Quantized,
    spec: DeviceSpec,
    supported: Sequence[bool],
    state: Contraction,
    refuse: Callable[[int], str | None] | None = None,
) -> Iterator[Unit]:
    """Yield the units computed in integers, in graph order, and add them to `state`.

    `supported`: by node, whether the device supports it individually. `refuse`: reason why another
    node may not be in a sealed unit, or None; absent: all members must be supported.
    """
    graph = found.graph
    for node in graph.nodes:
        if state.taken(node.id):
            continue
        dtype = found.arithmetic(node, spec.quantized)
        if dtype is None:
            continue
        path = found.path(node, spec, supported)
        quantized = path[-1] in found.quantize
        if not quantized and op_key(node) not in PRODUCTS:
            continue
        nodes = tuple(sorted({*path, *found.loads(path)}))
        if any(state.taken(v) for v in nodes) or state.cycle(nodes):
            continue
        own = set(nodes)
        sealed = quantized and all(
            found.producers.get(name) in own or "float" not in graph.tensors[name].dtype
            for v in path
            for name in graph.nodes[v].reads
            if name not in graph.constants
        )
        alone = [v for v in nodes if not supported[v]]
        if alone and (not sealed or refuse is None or any(refuse(v) for v in alone)):
            continue
        state.add(nodes)
        yield Unit(nodes, dtype, sealed)


def contraction(graph: Graph) -> Contraction:
    """Return the graph without contractions."""
    return Contraction(Dag.from_edges(len(graph.nodes), graph.edges()))


def _between_floats(graph: Graph, node: Node) -> bool:
    return all("float" in graph.tensors[name].dtype for name in (*node.reads, *node.writes))


def _widest(stored: Sequence[str]) -> str | None:
    """Return the type in which such integers are multiplied; None if no arithmetic is meant."""
    widest = max(stored, key=lambda dtype: ITEM_BITS[dtype])
    bits = ITEM_BITS[widest]
    if "float" in widest:
        return widest if bits == _NARROW else None
    return f"int{max(_NARROW, bits)}" if bits <= 2 * _NARROW else None


_AS_INT8: Mapping[str, str] = dict.fromkeys(FLOATS, INT8)


def integer_node(spec: DeviceSpec, graph: Graph, node: Node) -> bool:
    """Return whether a device with assumed int8 has an integer kernel for a node. O(inputs)."""
    return (
        spec.executes == INT8
        and op_key(node) in spec.quantized
        and not node.captures
        and any(graph.tensors[name].dtype in FLOATS for name in node.reads)
    )


def fallback(spec: DeviceSpec, graph: Graph, node: Node) -> str | None:
    """Return the reason why a runtime leaves a quantized product to another device, or None."""
    if op_key(node) not in spec.falls_back or len(node.inputs) < _WITH_WEIGHTS:
        return None
    activations, weights = node.inputs[:_WITH_WEIGHTS]
    if _rows(graph.tensors[activations]) <= _requests(graph):
        return None
    stored = weights in graph.dequantized
    if not stored and spec.executes == INT8:
        stored = weights in graph.constants
    if not stored:
        maker = graph.producers().get(weights)
        stored = (
            maker is not None
            and op_key(graph.nodes[maker]) in DEQUANTIZE
            and (graph.nodes[maker].inputs[0] in graph.constants)
        )
    if not stored:
        return None
    return f"{op_key(node)} of stored weights in integers, which its runtime leaves to the host"


def _rows(tensor: Tensor) -> int:
    """Return the rows of a matrix of activations; 0 if its shape is open."""
    shape = tensor.shape
    if not shape or not all(isinstance(size, int) and size > 0 for size in shape):
        return 0
    assert isinstance(shape[-1], int)
    return tensor.elements // shape[-1]


def _requests(graph: Graph) -> int:
    """Return the first dimension of the first input, or 1 if unknown."""
    shape = graph.tensors[graph.inputs[0]].shape if graph.inputs else None
    first = shape[0] if shape else 1
    return first if isinstance(first, int) else 1


def fitted_in_int8(spec: DeviceSpec) -> bool:
    """Return whether the device's int8 figures are fitted to networks in int8."""
    return spec.executes == INT8 and INT8 in spec.kernels


def as_int8(spec: DeviceSpec) -> DeviceSpec:
    """Return the device as it computes float nodes in int8."""
    return replace(spec, execution_dtype=_AS_INT8)


def held_in(spec: DeviceSpec, graph: Graph, node: Node) -> Mapping[str, str]:
    """Return the float types of `node` by those in which the device computes and stores them."""
    return _AS_INT8 if integer_node(spec, graph, node) else spec.execution_dtype


def held_tensor_bytes(tensor: Tensor, types: Mapping[str, str]) -> int:
    """Return the bytes of a tensor whose type is stored in another."""
    held = types.get(tensor.dtype)
    if held is None:
        return tensor.nbytes
    return (tensor.elements * ITEM_BITS[held] + 7) // 8


def float_refusal(spec: DeviceSpec, graph: Graph, node: Node) -> str | None:
    """Return the reason why a device with assumed int8 cannot compute a float node, or None."""
    inside = node.branches or (node.body is not None and not node.whole)
    if spec.executes != INT8 or inside or integer_node(spec, graph, node):
        return None
    if any("float" in rate for rate in spec.flops_per_s):
        return None
    if not any(graph.tensors[name].dtype in FLOATS for name in (*node.reads, *node.writes)):
        return None
    return f"op {op_key(node)} has no integer kernel, and it computes no floats"


def is_quantized(graph: Graph) -> bool:
    """Return whether the model, or a graph inside one of its nodes, is quantized."""
    # The many nodes are of few kinds.
    for key in ops_of(graph):
        name = key.rpartition(":")[2]
        if key in _INTEGERS or name in _QUANTIZED_OPS or name.startswith("QLinear"):
            return True
    return any(
        is_quantized(inner)
        for node in graph.nodes
        if node.branches or node.body is not None
        for inner in (*node.branches.values(), node.body)
        if inner is not None
    )


_INTEGERS = frozenset(DEQUANTIZE | QUANTIZE | INTEGER_PRODUCTS)


_QUANTIZED_OPS = frozenset({
    "DynamicQuantizeLinear", "DynamicQuantizeLSTM", "DynamicQuantizeMatMul", "MatMulIntegerToFloat",
    "MatMulNBits", "QAttention", "QEmbedLayerNormalization", "QGemm", "QMoE",
})  # fmt: skip


_VIEWS = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
_KEPT = "conversions at the ends"


def integers_alone(spec: DeviceSpec) -> bool:
    """Return whether a device computes only in integers."""
    return bool(spec.quantized) and not any("float" in rate for rate in spec.flops_per_s)


def taken_off(spec: DeviceSpec, graph: Graph) -> frozenset[int]:
    """Return the conversions of `graph`, and views outside of them, that the host runs."""
    return _at_the_ends(graph) if integers_alone(spec) else frozenset()


def folded(spec: DeviceSpec, graph: Graph) -> frozenset[int]:
    """Return the conversions of stored integers, which are folded and never run. O(V)."""
    if not integers_alone(spec):
        return frozenset()
    stored = graph.dequantized
    return frozenset(
        node.id for node in graph.nodes if node.writes and stored.keys() >= set(node.writes)
    )


def _at_the_ends(graph: Graph) -> frozenset[int]:
    known = graph.kept.get(_KEPT)
    if not isinstance(known, frozenset):
        known = graph.kept[_KEPT] = frozenset(_stores(graph) | _loads(graph))
    return known


def _stores(graph: Graph) -> set[int]:
    """Return QuantizeLinear nodes of model inputs, and the views that lead only to them."""
    given, found, views = set(graph.inputs), set[int](), list[Node]()
    for node in graph.nodes:
        if not node.inputs or node.inputs[0] not in given:
            continue
        if op_key(node) in QUANTIZE:
            found.add(node.id)
        elif op_key(node) in _VIEWS:
            given.update(node.writes)
            views.append(node)
    readers, outputs = graph.consumers(), set(graph.outputs)
    for node in reversed(views):
        after = {v for name in node.writes for v in readers.get(name, ())}
        if after and after <= found and outputs.isdisjoint(node.writes):
            found.add(node.id)
    return found


def _loads(graph: Graph) -> set[int]:
    """Return DequantizeLinear nodes whose results only leave the model, and the views behind."""
    readers, outputs, found = graph.consumers(), set(graph.outputs), set[int]()
    views: set[int] = set()
    for node in reversed(graph.nodes):
        if not all(
            (name in outputs or name in readers) and views.issuperset(readers.get(name, ()))
            for name in node.writes
        ):
            continue
        if op_key(node) in DEQUANTIZE and node.writes[0] not in graph.dequantized:
            found.add(node.id)
        elif op_key(node) in _VIEWS:
            views.add(node.id)
    producers = graph.producers()
    for node in graph.nodes:
        if node.id in views and producers.get(node.inputs[0]) in found:
            found.add(node.id)
    return found
