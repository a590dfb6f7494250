"""The float network that a quantized one stands for.

Kernels are told apart by what they compute, and a network is known by its kernels: quantized in
any of ONNX's ways it is the network that it was made from. Conversions go, stored integers are the
floats that they were, and ops of integers are the ops that they do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hetsim.device.support.quantized import DEQUANTIZE, QUANTIZE, is_quantized
from hetsim.graph.graph import Graph, Node, Tensor
from hetsim.graph.work import op_key
from hetsim.hardware.spec import FLOATS

_MS = "com.microsoft"
_OPERANDS: Mapping[str, tuple[str, tuple[int, ...]]] = {
    "ConvInteger": ("Conv", (0, 1)),
    "MatMulInteger": ("MatMul", (0, 1)),
    "MatMulIntegerToFloat": ("MatMul", (0, 1)),
    "DynamicQuantizeMatMul": ("MatMul", (0, 1)),
    "QLinearConv": ("Conv", (0, 3, 8)),
    "QLinearConvTranspose": ("ConvTranspose", (0, 3, 8)),
    "QLinearMatMul": ("MatMul", (0, 3)),
    "QGemm": ("Gemm", (0, 3, 6)),
    "QLinearAdd": ("Add", (0, 3)),
    "QLinearMul": ("Mul", (0, 3)),
    "QLinearWhere": ("Where", (0, 1, 4)),
    "QLinearLeakyRelu": ("LeakyRelu", (0,)),
    "QLinearSigmoid": ("Sigmoid", (0,)),
    "QLinearSoftmax": ("Softmax", (0,)),
    "QLinearAveragePool": ("AveragePool", (0,)),
    "QLinearGlobalAveragePool": ("GlobalAveragePool", (0,)),
    "QLinearReduceMean": ("ReduceMean", (0,)),
}
"""By an op of integers: the op that it does, and where its operands stand among scales and zero
points. Concat has as many as it has."""
_WHOLE = frozenset({"DynamicQuantizeLSTM", "QAttention", "QEmbedLayerNormalization"})
_DYNAMIC = "DynamicQuantizeLinear"
_NARROW = ("int8", "uint8", "int16", "uint16", "int4", "uint4")


_KEPT = "as floats"


@dataclass(frozen=True, slots=True)
class Floats:
    """The float network that a graph stands for.

    Attributes
    ----------
    graph : Graph
    sources : tuple of int
        By its nodes: the node of the quantized graph that each is.
    """

    graph: Graph
    sources: tuple[int, ...]


def floats_of(graph: Graph) -> Floats:
    """Return the float network that `graph` stands for: itself where nothing is quantized.

    Graphs inside nodes stay as they are. It is kept with the graph. O(V + E) at first.
    """
    known: Any = graph.kept.get(_KEPT)
    if known is None:
        if is_quantized(graph):
            known = _Floats(graph).made()
        else:
            known = Floats(graph, tuple(range(len(graph.nodes))))
        graph.kept[_KEPT] = known
    found: Floats = known
    return found


def as_floats(graph: Graph) -> Graph:
    """Return the graph of ``floats_of``."""
    return floats_of(graph).graph


def is_integer_op(node: Node) -> bool:
    """Whether an op computes in integers by itself, without conversions around it."""
    name = op_key(node).rpartition(":")[2]
    return name in _OPERANDS or name.startswith("QLinear") or name in _WHOLE


class _Floats:
    """A graph on its way to floats.

    `same` leads from what a conversion made to what it was made of, `floats` has what was an
    integer, `scales` what only tells how large one is.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.tensors = dict(graph.tensors)
        self.constants = set(graph.constants)
        self.same: dict[str, str] = {}
        self.scales: set[str] = set()
        self.floats: set[str] = set()

    def made(self) -> Floats:
        """The graph of floats."""
        graph = self.graph
        nodes = [made for node in graph.nodes for made in self._nodes(node)]
        floats = replace(
            graph,
            nodes=tuple(replace(node, id=at) for at, node in enumerate(nodes)),
            tensors=self.tensors,
            constants=frozenset(self.constants),
            outputs=tuple(self._of(name) for name in graph.outputs),
        )
        return Floats(floats, tuple(node.id for node in nodes))

    def _nodes(self, node: Node) -> Iterator[Node]:
        """Yield what does in floats what `node` does: nothing where it only converts."""
        key, name = op_key(node), op_key(node).rpartition(":")[2]
        if node.writes and self.graph.dequantized.keys() >= set(node.writes):
            for value in node.writes:
                self._becomes_float(value)
            self.constants.update(node.writes)
        elif key in DEQUANTIZE | QUANTIZE:
            self._stands_for(node.outputs[0], node.inputs[0])
        elif name == _DYNAMIC:
            self._stands_for(node.outputs[0], node.inputs[0])
            self.scales.update(node.writes[1:])
        elif name in _OPERANDS or name == "QLinearConcat":
            yield self._product(node, name)
        elif not self._only_scales(node, name):
            yield self._plain(node)

    def _stands_for(self, value: str, source: str) -> None:
        """Take `value` for what it was made of, in floats where that was in integers."""
        found = self._of(source)
        self.same[value] = found
        self._becomes_float(found)

    def _product(self, node: Node, name: str) -> Node:
        """An op of integers as the op of floats."""
        if name == "QLinearConcat":
            op_type, places = "Concat", tuple(range(2, len(node.inputs), 3))
        else:
            op_type, places = _OPERANDS[name]
        operands = [self._of(node.inputs[at]) for at in places if at < len(node.inputs)]
        for value in (*operands, *node.writes):
            if value and self.tensors[value].dtype != "bool":
                self._becomes_float(value)
        domain = "" if node.domain in ("", "ai.onnx", _MS) else node.domain
        return replace(node, op_type=op_type, domain=domain, inputs=tuple(operands))

    def _only_scales(self, node: Node, name: str) -> bool:
        """Whether it computes scales, or turns the sums of a product of integers to floats."""
        inputs = [self._of(value) for value in node.inputs if value]
        unlike = [value for value in inputs if value not in self.scales]
        if name == "Cast" and inputs[0] in self.floats:
            was, becomes = (self.graph.tensors[value].dtype for value in (inputs[0], *node.writes))
            if was not in FLOATS and becomes in FLOATS:
                self.same[node.outputs[0]] = inputs[0]
                return True
        if name != "Mul" or len(unlike) == len(inputs):
            return False
        if len(unlike) == 1 and unlike[0] in self.floats:
            self.same[node.outputs[0]] = unlike[0]
            return True
        if self.constants.issuperset(unlike):
            self.scales.update(node.writes)
            return True
        return False

    def _plain(self, node: Node) -> Node:
        """An op that stays: what it makes of what was integers is floats, too."""
        inputs = tuple(self._of(value) if value else "" for value in node.inputs)
        if self._looks_up(node):
            self._becomes_float(inputs[0])
        if any(value in self.floats for value in inputs):
            for value in node.writes:
                if self.graph.tensors[value].dtype in _NARROW:
                    self._becomes_float(value)
        return replace(node, inputs=inputs)

    def _looks_up(self, node: Node) -> bool:
        """Whether it takes rows out of a stored table of small integers."""
        if node.op_type != "Gather" or node.inputs[0] not in self.graph.constants:
            return False
        return self.graph.tensors[node.inputs[0]].dtype in _NARROW

    def _of(self, value: str) -> str:
        return self.same.get(value, value)

    def _becomes_float(self, value: str) -> None:
        """Hold a value in floats."""
        self.floats.add(value)
        tensor = self.tensors[value]
        if tensor.dtype not in FLOATS:
            self.tensors[value] = Tensor(value, "float32", tensor.shape, tensor.measured)
