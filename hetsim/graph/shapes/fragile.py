"""Operators whose inference in ONNX reads a type that is not there, which ends the process.

Inference goes on past what it does not know, such as the operators of com.microsoft: what these
write has no type. Almost all operators look whether their inputs have one. Those that do not were
found by asking every version of every operator of onnx 1.23 with each combination of inputs with
and without a type.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx
from onnx import TensorProto

from hetsim.graph.reading.structure import bodies, replace

_ML = "ai.onnx.ml"
FRAGILE = frozenset(
    {
        ("", "EyeLike"),
        ("", "RegexFullMatch"),
        (_ML, "DictVectorizer"),
        (_ML, "LabelEncoder"),
        (_ML, "TreeEnsemble"),
    }
)
"""Domain and name."""

_UNKNOWN = "hetsim.unknown"
_LABELS = {
    "values_strings": TensorProto.STRING,
    "values_int64s": TensorProto.INT64,
    "values_floats": TensorProto.FLOAT,
}


def replace_fragile(proto: onnx.ModelProto) -> None:
    """Let operators of the same result stand for these in place, for inference to see.

    A Cast has the shape of its input, as most of these have. Where the type is not told by the
    node, the operator becomes one that inference does not know: ONNX Runtime is asked. O(nodes).
    """
    hidden = False
    for node in _nodes(proto):
        domain = "" if node.domain == "ai.onnx" else node.domain
        if (domain, node.op_type) not in FRAGILE:
            continue
        kind = _written(node)
        del node.attribute[:]
        if kind is None or len(node.input) != 1:
            node.domain, hidden = _UNKNOWN, True
        elif kind == TensorProto.UNDEFINED:
            node.domain, node.op_type = "", "Identity"
        else:
            node.domain, node.op_type = "", "Cast"
            node.attribute.append(onnx.helper.make_attribute("to", kind))
    if hidden:
        for held in (proto, *proto.functions):
            held.opset_import.add(domain=_UNKNOWN, version=1)


def with_types(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy in which what inference finds of values is stated, in bodies, too."""
    probe = onnx.ModelProto()
    probe.CopyFrom(proto)
    replace_fragile(probe)
    result: onnx.ModelProto = onnx.shape_inference.infer_shapes(probe)
    for node, stands_for_it in zip(_nodes(proto), _nodes(result), strict=True):
        if (node.domain, node.op_type) != (stands_for_it.domain, stands_for_it.op_type):
            stands_for_it.CopyFrom(node)
    for held, own in zip((result, *result.functions), (proto, *proto.functions), strict=True):
        replace(held.opset_import, own.opset_import)
    return result


def _nodes(proto: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Yield all nodes, in an order that depends on nothing but bodies."""
    pending: list[Any] = [proto.graph, *proto.functions]
    while pending:
        for node in pending.pop().node:
            pending += bodies(node)
            yield node


def _written(node: onnx.NodeProto) -> int | None:
    """Element type of its output: UNDEFINED where it is that of the input, None where not told."""
    attributes = {attribute.name: attribute for attribute in node.attribute}
    if node.op_type == "EyeLike":
        return int(attributes["dtype"].i) if "dtype" in attributes else TensorProto.UNDEFINED
    if node.op_type == "RegexFullMatch":
        return TensorProto.BOOL
    if node.op_type == "LabelEncoder":
        if "values_tensor" in attributes:
            return int(attributes["values_tensor"].t.data_type)
        return next((kind for name, kind in _LABELS.items() if name in attributes), None)
    return None
