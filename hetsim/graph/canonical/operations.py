"""The nodes of an ONNX graph as provenance compares them: op, attributes, inputs, outputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx

from hetsim.graph.canonical.provenance import Operation
from hetsim.graph.reading.attributes import is_large
from hetsim.graph.reading.structure import bodies, captures

_APART = frozenset({onnx.AttributeProto.TENSOR, onnx.AttributeProto.SPARSE_TENSOR})


def operations_of(nodes: Iterable[onnx.NodeProto]) -> tuple[Operation, ...]:
    """Return the nodes as operations, in their order. O(V + E)."""
    return tuple(map(_operation, nodes))


def _operation(node: onnx.NodeProto) -> Operation:
    op_type = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
    # Most nodes have no attributes, and each look at them makes a list anew.
    attributes = list(node.attribute)
    return Operation(
        name=node.name,
        op_type=op_type,
        inputs=tuple(node.input),
        outputs=tuple(node.output),
        captures=captures(node) if attributes else (),
        key=_key(node, op_type, attributes),
    )


def _key(
    node: onnx.NodeProto, op_type: str, attributes: Sequence[onnx.AttributeProto]
) -> bytes | None:
    """What twins share besides their inputs; None for bodies, tensors and long lists."""
    parts: list[bytes] = []
    for attribute in attributes:
        if attribute.type in _APART or is_large(attribute):
            return None
        parts.append(attribute.SerializeToString(deterministic=True))
    if parts and bodies(node):
        return None
    return b"\0".join((op_type.encode(), node.overload.encode(), *sorted(parts)))
