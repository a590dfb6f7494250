"""Float nodes on a device that executes them in another precision, as if: in what, and whether."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hetsim.device.support.quantized import DEQUANTIZE, INTEGER_PRODUCTS, QUANTIZE
from hetsim.graph.graph import ITEM_BITS, Graph, Node, Tensor
from hetsim.graph.work import op_key, ops_of
from hetsim.hardware.executing import INT8
from hetsim.hardware.spec import FLOATS, DeviceSpec

_AS_INT8: Mapping[str, str] = dict.fromkeys(FLOATS, INT8)


def integer_node(spec: DeviceSpec, graph: Graph, node: Node) -> bool:
    """Whether a device that executes in int8 has an integer kernel for a float node. O(inputs)."""
    return (
        spec.executes == INT8
        and op_key(node) in spec.quantized
        and not node.captures
        and any(graph.tensors[name].dtype in FLOATS for name in node.reads)
    )


def fitted_in_int8(spec: DeviceSpec) -> bool:
    """Whether a device executes as if in int8 by figures that were fitted to networks in int8."""
    return spec.executes == INT8 and INT8 in spec.kernels


def as_int8(spec: DeviceSpec) -> DeviceSpec:
    """Return the device as it computes such a node: every float in int8."""
    return replace(spec, execution_dtype=_AS_INT8)


def held_in(spec: DeviceSpec, graph: Graph, node: Node) -> Mapping[str, str]:
    """Return the float types of `node` by those in which the device computes and holds them."""
    return _AS_INT8 if integer_node(spec, graph, node) else spec.execution_dtype


def held_tensor_bytes(tensor: Tensor, types: Mapping[str, str]) -> int:
    """Return the bytes of a tensor where its type is held in another."""
    held = types.get(tensor.dtype)
    if held is None:
        return tensor.nbytes
    return (tensor.elements * ITEM_BITS[held] + 7) // 8


def float_refusal(spec: DeviceSpec, graph: Graph, node: Node) -> str | None:
    """Why a device that executes in int8 cannot compute a float node at all, or None."""
    inside = node.branches or (node.body is not None and not node.whole)
    if spec.executes != INT8 or inside or integer_node(spec, graph, node):
        return None
    if any("float" in rate for rate in spec.flops_per_s):
        return None
    if not any(graph.tensors[name].dtype in FLOATS for name in (*node.reads, *node.writes)):
        return None
    return f"op {op_key(node)} has no integer kernel, and it computes no floats"


def is_quantized(graph: Graph) -> bool:
    """Whether the model, or a graph inside one of its nodes, says itself what is in integers."""
    # Of the many nodes there are few kinds.
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
