"""What a pattern asks of a node's attributes, and the defaults that ONNX gives them."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TypeAlias

from hetsim.graph.graph import Graph, Node

Scalar: TypeAlias = int | float | str
AttributeValue: TypeAlias = Scalar | tuple[Scalar, ...] | None
"""What an attribute may be asked to be; None: it has no value."""


@dataclass(frozen=True, slots=True)
class AttributeTest:
    """That an attribute has one of some values, or none of them.

    Attributes
    ----------
    name : str
    values : tuple of (int, float, str, tuple of them, or None)
        None stands for an attribute without a value. Floats are compared in single
        precision, which is how ONNX keeps them.
    negated : bool
        Whether the attribute must have none of the values.
    """

    name: str
    values: tuple[AttributeValue, ...]
    negated: bool = False

    def holds(self, graph: Graph, node: Node) -> bool:
        """Whether the node passes. O(values)."""
        have = attribute_of(graph, node, self.name)
        return any(_same(have, wanted) for wanted in self.values) != self.negated


def attribute_of(graph: Graph, node: Node, name: str) -> object:
    """Return what an attribute is: as the node states it, else as its op's schema has it.

    None where the node does not state it and the schema in the graph's version of the
    operator set gives no default, or ONNX does not know the op. Tensors and graphs count as
    not stated, as ``Node.attributes`` leaves them out.
    """
    stated = node.attributes.get(name)
    if stated is not None:
        return stated
    domain = "" if node.domain == "ai.onnx" else node.domain
    version = graph.opsets.get(domain)
    if version is None and not domain:
        version = graph.opsets.get("ai.onnx")
    return None if version is None else _defaults(node.op_type, version, domain).get(name)


@cache
def _defaults(op_type: str, version: int, domain: str) -> Mapping[str, object]:
    import onnx

    try:
        schema = onnx.defs.get_schema(op_type, version, domain)
    except onnx.defs.SchemaError:
        return MappingProxyType({})
    found: dict[str, object] = {}
    for name, attribute in schema.attributes.items():
        if attribute.default_value.type != onnx.AttributeProto.UNDEFINED:
            value = _plain(onnx.helper.get_attribute_value(attribute.default_value))
            if isinstance(value, int | float | str | tuple):
                found[name] = value
    return MappingProxyType(found)


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list | tuple):
        return tuple(_plain(entry) for entry in value)
    return value


def _same(have: object, wanted: object) -> bool:
    if isinstance(have, tuple) and isinstance(wanted, tuple):
        return len(have) == len(wanted) and all(map(_same, have, wanted))
    if isinstance(have, float) and isinstance(wanted, int | float):
        return _single(have) == _single(wanted)
    return have == wanted


def _single(value: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
