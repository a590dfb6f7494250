"""Terms of a pattern: nodes with tests of their attributes, values, alternatives."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TypeAlias

from hetsim.graph.graph import ITEM_BITS, Graph, Node

Scalar: TypeAlias = int | float | str
AttributeValue: TypeAlias = Scalar | tuple[Scalar, ...] | None
"""What an attribute may be asked to be; None: it has no value."""


@dataclass(frozen=True, slots=True)
class AttributeTest:
    """Test that an attribute has one of `values` or, if `negated`, none of them.

    None stands for an attribute without a value. Floats are compared in single precision, which is
    how ONNX keeps them.
    """

    name: str
    values: tuple[AttributeValue, ...]
    negated: bool = False

    def holds(self, graph: Graph, node: Node) -> bool:
        """Whether the node passes. O(values)."""
        have = attribute_of(graph, node, self.name)
        return any(_same(have, wanted) for wanted in self.values) != self.negated


def attribute_of(graph: Graph, node: Node, name: str) -> object:
    """Return an attribute as the node states it, else its op's schema; None if neither does."""
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

    from hetsim.graph.reading.onnx_types import plain_value

    try:
        schema = onnx.defs.get_schema(op_type, version, domain)
    except onnx.defs.SchemaError:
        return MappingProxyType({})
    found: dict[str, object] = {}
    for name, attribute in schema.attributes.items():
        if attribute.default_value.type != onnx.AttributeProto.UNDEFINED:
            value = plain_value(attribute.default_value)
            if value is not None:
                found[name] = value
    return MappingProxyType(found)


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


Condition: TypeAlias = Callable[[Graph, Node], bool]
"""Whether a node of the graph may stand at a place of a pattern."""

SYMMETRIC = frozenset(
    {
        "Add", "And", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Equal", "Max", "Mean", "Min",
        "Mul", "Or", "Sum", "Xor",
    }
)  # fmt: skip
"""Standard ops that give the same for their inputs in any order."""

DTYPES = frozenset({*ITEM_BITS, "string", "sequence", "optional"})
"""Element types that a graph can state of a value."""


@dataclass(frozen=True, slots=True)
class Wild:
    """Any value of `dtypes`, None for all, or none if `optional`; a label stands for one value."""

    label: str = ""
    dtypes: frozenset[str] | None = None
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Constant:
    """A value stored with the model, a member of the match; fields are as of `Wild`."""

    label: str = ""
    dtypes: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Op:
    """Node by op type and inputs, and one of the values that it writes.

    `types` are allowed op types, as ``hetsim.graph.work.op_key`` writes them, or one as a string;
    `attributes` and `condition` must hold. `inputs` are terms by port, further ports are free; in
    `any_order` they may stand at any (None: where the op is in `SYMMETRIC`). `dtypes`, None for
    all, are allowed element types of the value read, output `port`. Terms of one `label` are equal
    and stand for one node, all others for different nodes. Nodes outside of the match may read
    what a `shared` node, or one that the pattern ends in, writes.
    """

    types: tuple[str, ...]
    inputs: tuple[Term, ...] = ()
    label: str = ""
    attributes: tuple[AttributeTest, ...] = ()
    dtypes: frozenset[str] | None = None
    condition: Condition | None = None
    port: int = 0
    any_order: bool | None = None
    shared: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.types, str):
            object.__setattr__(self, "types", (self.types,))


@dataclass(frozen=True, slots=True)
class Reference:
    """The value that the node labelled `label` writes at `port`; None: at its `Op`'s."""

    label: str
    port: int | None = None


@dataclass(frozen=True, slots=True)
class Maybe:
    """An optional node; in its absence its first input stands in its place."""

    op: Op


@dataclass(frozen=True, slots=True)
class Either:
    """One of several terms."""

    terms: tuple[Term, ...]


Term: TypeAlias = Wild | Constant | Op | Reference | Maybe | Either


def choices(term: Term) -> Iterator[Wild | Constant | Op | Reference]:
    """Yield the alternatives of a term, in the order written."""
    if isinstance(term, Either):
        for option in term.terms:
            yield from choices(option)
    elif isinstance(term, Maybe):
        yield term.op
        yield from choices(term.op.inputs[0])
    else:
        yield term


def children(term: Term) -> tuple[Term, ...]:
    """Return the terms directly within a term."""
    if isinstance(term, Op):
        return term.inputs
    if isinstance(term, Maybe):
        return (term.op,)
    return term.terms if isinstance(term, Either) else ()
