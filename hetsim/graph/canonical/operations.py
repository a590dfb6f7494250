"""The nodes of an ONNX graph as provenance compares them: op, attributes, inputs, outputs."""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from hetsim.graph.canonical.provenance import Operation
from hetsim.graph.reading.attributes import is_large
from hetsim.graph.reading.structure import bodies, captures

_APART = frozenset({onnx.AttributeProto.TENSOR, onnx.AttributeProto.SPARSE_TENSOR})


def operations_of(nodes: Iterable[onnx.NodeProto]) -> tuple[Operation, ...]:
    """Return the nodes as operations, in their order. O(V + E)."""
    return tuple(
        Operation(
            name=node.name,
            op_type=_qualified(node),
            inputs=tuple(node.input),
            outputs=tuple(node.output),
            captures=captures(node),
            key=_key(node),
        )
        for node in nodes
    )


def _qualified(node: onnx.NodeProto) -> str:
    return f"{node.domain}::{node.op_type}" if node.domain else node.op_type


def _key(node: onnx.NodeProto) -> bytes | None:
    """What twins share besides their inputs; None for bodies, tensors and long lists."""
    parts: list[bytes] = []
    for attribute in node.attribute:
        if attribute.type in _APART or is_large(attribute):
            return None
        parts.append(attribute.SerializeToString(deterministic=True))
    if parts and bodies(node):
        return None
    return b"\0".join((_qualified(node).encode(), node.overload.encode(), *sorted(parts)))
