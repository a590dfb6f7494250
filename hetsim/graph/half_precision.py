"""16-bit floats: whether a model has any, and casts between them that are not to be merged."""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from hetsim.graph.structure import bodies

_HALF = onnx.TensorProto.FLOAT16


def mentions_half(proto: onnx.ModelProto) -> bool:
    """Whether an input, a constant or an attribute of `proto` is of that type, or names it.

    All other values of the type come from these. Bodies and functions count. O(V + attributes).
    """
    if any(_typed(value.type) for value in proto.graph.input):
        return True
    if any(_in_nodes(function.node) for function in proto.functions):
        return True
    return _in_graph(proto.graph)


def hold_casts(graph: onnx.GraphProto) -> None:
    """Put an Identity, in place, between a cast and the casts that read it.

    ONNX Runtime takes such a pair for one cast, and so leaves a rounding out, where nothing
    but casts reads the first. In the graph that it saved they are those that it did not merge:
    another reader, perhaps one that no output depends on, kept them apart, or the pair came
    about later. It would merge them where it opens that graph, or a part of it, again. O(V + E).
    """
    found = {node.output[0] for node in graph.node if _is_cast(node)}
    held: dict[str, str] = {}
    for node in graph.node:
        if _is_cast(node) and node.input[0] in found:
            node.input[0] = held.setdefault(node.input[0], f"{node.input[0]}/held")
    for name, other in held.items():
        graph.node.add(op_type="Identity", input=[name], output=[other])


def _is_cast(node: onnx.NodeProto) -> bool:
    return bool(node.op_type == "Cast" and not node.domain)


def _in_graph(graph: onnx.GraphProto) -> bool:
    return (
        any(tensor.data_type == _HALF for tensor in graph.initializer)
        or any(sparse.values.data_type == _HALF for sparse in graph.sparse_initializer)
        or _in_nodes(graph.node)
    )


def _in_nodes(nodes: Iterable[onnx.NodeProto]) -> bool:
    return any(
        any(_in_attribute(attribute) for attribute in node.attribute)
        or any(_in_graph(body) for body in bodies(node))
        for node in nodes
    )


def _in_attribute(attribute: onnx.AttributeProto) -> bool:
    """By value; an integer counts where the attribute's name says that it is a type."""
    kind = onnx.AttributeProto
    if attribute.type == kind.INT:
        return attribute.i == _HALF and (attribute.name == "to" or "type" in attribute.name)
    if attribute.type == kind.TENSOR:
        return bool(attribute.t.data_type == _HALF)
    if attribute.type == kind.SPARSE_TENSOR:
        return bool(attribute.sparse_tensor.values.data_type == _HALF)
    if attribute.type == kind.TYPE_PROTO:
        return _typed(attribute.tp)
    return any(tensor.data_type == _HALF for tensor in attribute.tensors)


def _typed(kind: onnx.TypeProto) -> bool:
    which = kind.WhichOneof("value")
    if which in ("sequence_type", "optional_type"):
        return _typed(getattr(kind, which).elem_type)
    if which == "map_type":
        return _typed(kind.map_type.value_type)
    return bool(which and getattr(kind, which).elem_type == _HALF)
