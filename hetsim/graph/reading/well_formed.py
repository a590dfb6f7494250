"""Tensors, types and nodes of a model that nothing could read, named before anything tries."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import onnx

from hetsim.graph.reading.arrays import MOST_DIMS
from hetsim.graph.reading.functions import FunctionKey, key_of
from hetsim.graph.reading.onnx_types import bytes_of

_KINDS = frozenset(onnx.TensorProto.DataType.values()) - {onnx.TensorProto.UNDEFINED}

_CONTENTS = (
    "raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data",
    "string_data",
)  # fmt: skip
_MOST_IN_AN_ENTRY = 8
"""Elements of the smallest types that are packed in one entry of a typed field."""


def ill_formed(proto: onnx.ModelProto) -> str:
    """Say what no reader of the model could read; empty where nothing is.

    ONNX's checker is not asked for this: it wants what files in use lack, and takes the whole model
    as one message. O(messages).
    """
    functions: dict[FunctionKey, tuple[int, int]] = {}
    for function in proto.functions:
        key = key_of(function)
        if key in functions:
            return f"two functions are called {'::'.join(filter(None, key))!r}"
        functions[key] = len(function.input), len(function.output)
    own = _Nodes(_versions(proto.opset_import), functions)
    scopes = [
        _Nodes(_versions(function.opset_import), functions).complaint(function.node)
        for function in proto.functions
    ]
    return next((said for said in (*_of_graph(proto.graph, own), *scopes) if said), "")


def _versions(imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    return {"" if one.domain == "ai.onnx" else one.domain: one.version for one in imports}


@dataclass(frozen=True)
class _Nodes:
    """Nodes under the same versions of operator sets, in a model with functions."""

    versions: Mapping[str, int]
    functions: Mapping[FunctionKey, tuple[int, int]]
    least: dict[tuple[str, str], int] = field(default_factory=dict)

    def complaint(self, nodes: Iterable[onnx.NodeProto]) -> str:
        """What is wrong with any of them; empty where nothing is."""
        for node in nodes:
            most = self.functions.get((node.domain, node.op_type, node.overload))
            if most is not None and (len(node.input) > most[0] or len(node.output) > most[1]):
                what = f"node {node.name!r} calls function {node.op_type!r} with "
                what += f"{len(node.input)} inputs and {len(node.output)} outputs"
                return f"{what}, and it has {most[0]} and {most[1]}"
            if len(node.input) < (least := self._least(node)):
                what = f"node {node.name!r} ({node.op_type}) has {len(node.input)} inputs"
                return f"{what}, and its operator takes at least {least}"
            for attribute in node.attribute:
                said = next((said for said in _of_attribute(attribute, self) if said), "")
                if said:
                    return said
        return ""

    def _least(self, node: onnx.NodeProto) -> int:
        """Inputs that its operator takes at least; 0 where that is not known."""
        domain = "" if node.domain == "ai.onnx" else node.domain
        key = domain, node.op_type
        if (*key, node.overload) in self.functions:
            return 0
        if key not in self.least:
            try:
                version = self.versions.get(domain, 1)
                self.least[key] = onnx.defs.get_schema(node.op_type, version, domain).min_input
            except (onnx.defs.SchemaError, TypeError):
                self.least[key] = 0
        return self.least[key]


def _of_graph(graph: onnx.GraphProto, nodes: _Nodes) -> Iterator[str]:
    names: set[str] = set()
    for tensor in graph.initializer:
        yield _of_tensor(tensor)
        yield from _taken(tensor.name, names)
    for sparse in graph.sparse_initializer:
        yield _of_sparse(sparse)
        yield from _taken(sparse.values.name, names)
    for value in (*graph.input, *graph.output, *graph.value_info):
        yield _of_type(value.type, value.name)
    yield nodes.complaint(graph.node)


def _taken(name: str, names: set[str]) -> Iterator[str]:
    # ONNX Runtime takes the last, other readers the first.
    if name in names:
        yield f"two constants are called {name!r}"
    names.add(name)


def _of_attribute(attribute: onnx.AttributeProto, nodes: _Nodes) -> Iterator[str]:
    if attribute.HasField("t"):
        yield _of_tensor(attribute.t)
    if attribute.HasField("sparse_tensor"):
        yield _of_sparse(attribute.sparse_tensor)
    if attribute.HasField("tp"):
        yield _of_type(attribute.tp, attribute.name)
    if attribute.HasField("g"):
        yield from _of_graph(attribute.g, nodes)
    yield from map(_of_tensor, attribute.tensors)
    yield from map(_of_sparse, attribute.sparse_tensors)
    for kind in attribute.type_protos:
        yield _of_type(kind, attribute.name)
    for graph in attribute.graphs:
        yield from _of_graph(graph, nodes)


def _of_tensor(tensor: onnx.TensorProto) -> str:
    if tensor.data_type not in _KINDS:
        return f"constant {tensor.name!r} is of type {tensor.data_type}, which there is not"
    if tensor.HasField("segment"):
        return f"constant {tensor.name!r} is a segment of a tensor, which nothing puts together"
    if any(size < 0 for size in tensor.dims):
        return f"constant {tensor.name!r} has a negative size"
    if len(tensor.dims) > MOST_DIMS:
        return f"constant {tensor.name!r} has {len(tensor.dims)} dimensions, above {MOST_DIMS}"
    # Each look at raw bytes copies them.
    lengths = {name: length for name in _CONTENTS if (length := len(getattr(tensor, name)))}
    if len(lengths) > 1:
        return f"constant {tensor.name!r} is stored twice, in fields of two types"
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return ""
    if "raw_data" in lengths:
        needed, held = bytes_of(tensor), lengths["raw_data"]
    else:
        needed, held = math.prod(tensor.dims), _MOST_IN_AN_ENTRY * sum(lengths.values())
    if held < needed:
        return f"constant {tensor.name!r} holds fewer values than its shape has"
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
