"""Tensors and types of a model that nothing could read, named before anything tries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import onnx

_KINDS = frozenset(onnx.TensorProto.DataType.values()) - {onnx.TensorProto.UNDEFINED}

_CONTENTS = (
    "raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data",
    "string_data",
)  # fmt: skip


def ill_formed(proto: onnx.ModelProto) -> str:
    """Say what no reader of the model could read; empty where nothing is.

    ONNX's checker is not asked for this: it wants what files in use lack, and takes the whole model
    as one message. O(messages).
    """
    scopes = [proto.graph.node, *(function.node for function in proto.functions)]
    return next(
        (said for said in (*_of_graph(proto.graph), *map(_of_nodes, scopes)) if said),
        "",
    )


def _of_graph(graph: onnx.GraphProto) -> Iterator[str]:
    names: set[str] = set()
    for tensor in graph.initializer:
        yield _of_tensor(tensor)
        yield from _taken(tensor.name, names)
    for sparse in graph.sparse_initializer:
        yield _of_sparse(sparse)
        yield from _taken(sparse.values.name, names)
    for value in (*graph.input, *graph.output, *graph.value_info):
        yield _of_type(value.type, value.name)
    yield _of_nodes(graph.node)


def _taken(name: str, names: set[str]) -> Iterator[str]:
    # ONNX Runtime takes the last, other readers the first.
    if name in names:
        yield f"two constants are called {name!r}"
    names.add(name)


def _of_nodes(nodes: Iterable[onnx.NodeProto]) -> str:
    for node in nodes:
        for attribute in node.attribute:
            said = next((said for said in _of_attribute(attribute) if said), "")
            if said:
                return said
    return ""


def _of_attribute(attribute: onnx.AttributeProto) -> Iterator[str]:
    if attribute.HasField("t"):
        yield _of_tensor(attribute.t)
    if attribute.HasField("sparse_tensor"):
        yield _of_sparse(attribute.sparse_tensor)
    if attribute.HasField("tp"):
        yield _of_type(attribute.tp, attribute.name)
    if attribute.HasField("g"):
        yield from _of_graph(attribute.g)
    yield from map(_of_tensor, attribute.tensors)
    yield from map(_of_sparse, attribute.sparse_tensors)
    for kind in attribute.type_protos:
        yield _of_type(kind, attribute.name)
    for graph in attribute.graphs:
        yield from _of_graph(graph)


def _of_tensor(tensor: onnx.TensorProto) -> str:
    if tensor.data_type not in _KINDS:
        return f"constant {tensor.name!r} is of type {tensor.data_type}, which there is not"
    if tensor.HasField("segment"):
        return f"constant {tensor.name!r} is a segment of a tensor, which nothing puts together"
    if any(size < 0 for size in tensor.dims):
        return f"constant {tensor.name!r} has a negative size"
    if sum(1 for name in _CONTENTS if len(getattr(tensor, name))) > 1:
        return f"constant {tensor.name!r} is stored twice, in fields of two types"
    return ""


def _of_sparse(sparse: onnx.SparseTensorProto) -> str:
    said = _of_tensor(sparse.values) or _of_tensor(sparse.indices)
    if not said and sparse.indices.data_type != onnx.TensorProto.INT64:
        said = f"sparse constant {sparse.values.name!r} has indices of another type than int64"
    return said


def _of_type(kind: Any, name: str) -> str:
    """Of a type, and of what a sequence, an optional or a map is made of."""
    while (which := kind.WhichOneof("value")) is not None:
        inner = getattr(kind, which)
        if which in ("tensor_type", "sparse_tensor_type"):
            if inner.elem_type and inner.elem_type not in _KINDS:
                return f"value {name!r} is of type {inner.elem_type}, which there is not"
            return ""
        if which == "map_type":
            if inner.key_type and inner.key_type not in _KINDS:
                return f"value {name!r} has keys of type {inner.key_type}, which there is not"
            kind = inner.value_type
        elif which in ("sequence_type", "optional_type"):
            kind = inner.elem_type
        else:
            return ""
    return ""
