"""Pattern of nodes: its terms, its ends, and the rules that every pattern must meet."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import NoReturn, TypeAlias

from hetsim.errors import UsageError, nearest
from hetsim.graph.graph import ITEM_BITS, Graph, Node

Scalar: TypeAlias = int | float | str
AttributeValue: TypeAlias = Scalar | tuple[Scalar, ...] | None
"""Value that an attribute may be tested for; None: it has no value."""


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
        """Return whether the node passes. O(values)."""
        have = attribute_of(graph, node, self.name)
        return any(_same(have, wanted) for wanted in self.values) != self.negated


def attribute_of(graph: Graph, node: Node, name: str) -> object:
    """Return an attribute from the node, else from its op's schema; None without either."""
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
"""Test whether a node of the graph may be at a place of a pattern."""

SYMMETRIC = frozenset(
    {
        "Add", "And", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Equal", "Max", "Mean", "Min",
        "Mul", "Or", "Sum", "Xor",
    }
)  # fmt: skip
"""Standard ops whose result does not depend on the order of inputs."""

DTYPES = frozenset({*ITEM_BITS, "string", "sequence", "optional"})
"""Element types that a graph can state for a value."""


@dataclass(frozen=True, slots=True)
class Wild:
    """Any value of `dtypes`, None for all, or none if `optional`; a label stands for one value."""

    label: str = ""
    dtypes: frozenset[str] | None = None
    optional: bool = False


@dataclass(frozen=True, slots=True)
class WildConstant:
    """Value stored with the model, a member of the match; fields are those of `Wild`."""

    label: str = ""
    dtypes: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Op:
    """Node by op type and inputs, and one of its outputs.

    `types` are allowed op types, as in ``hetsim.graph.work.op_key``, or one as a string;
    `attributes` and `condition` must hold. `inputs` are terms by port, further ports are free; in
    `any_order` they may be at any (None: if the op is in `SYMMETRIC`). `dtypes`, None for all, are
    allowed element types of the value read, output `port`. Terms of one `label` are equal and stand
    for one node, all others for different nodes. Outputs of a `shared` node, or of an end of the
    pattern, may be read by nodes outside of the match.
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
    """Value written by the node labelled `label` at `port`; None: the port of its `Op`."""

    label: str
    port: int | None = None


@dataclass(frozen=True, slots=True)
class Maybe:
    """Optional node, replaced by its first input if absent."""

    op: Op


@dataclass(frozen=True, slots=True)
class Either:
    """Choice of one of several terms."""

    terms: tuple[Term, ...]


Term: TypeAlias = Wild | WildConstant | Op | Reference | Maybe | Either


def choices(term: Term) -> Iterator[Wild | WildConstant | Op | Reference]:
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


Check: TypeAlias = Callable[[Graph, tuple[int, ...]], bool]
"""Test whether nodes that fit a pattern, ascending, are a match of it."""

MOST_LEVELS = 50
MOST_TERMS = 1000


@dataclass(frozen=True, slots=True)
class Pattern:
    """Named pattern of nodes that a device takes as one composite.

    For any choice of alternatives, each of the `ends` after the first shares a label with an
    earlier one. `check` is a condition on the whole match: the graph and the matched node ids,
    ascending. `text` is its source. Equal patterns have equal name, ends and check.

    Raises UsageError for ends or optional nodes that match nothing or share no label, labels with
    two meanings, dangling or circular references, empty choices, unknown dtypes, more than
    `MOST_TERMS` terms, or nesting deeper than `MOST_LEVELS`.
    """

    name: str
    ends: tuple[Term, ...]
    check: Check | None = None
    text: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        rules = _Rules(f"pattern '{self.name}'")
        if not self.ends:
            rules.refuse("it has no end", "name the node that it ends in")
        nodes = rules.check_terms(self.ends)
        for end in self.ends:
            rules.height(end, nodes, (), 1)
        sure: dict[str, frozenset[str]] = {}
        known: frozenset[str] = frozenset()
        for place, end in enumerate(self.ends):
            if not all(isinstance(choice, Op | Reference) for choice in choices(end)):
                rules.refuse(f"end {place + 1} may stand for no node", "end it in a node")
            labels = sure_labels(end, nodes, sure)
            if place and not labels & known:
                rules.refuse(
                    f"end {place + 1} shares no label with those before it",
                    "give the node or value that they share one label, as in Relu($x); Sigmoid($x)",
                )
            known |= labels


def labelled_nodes(ends: tuple[Term, ...]) -> dict[str, Op]:
    """Return the description of each labelled node."""
    found: dict[str, Op] = {}
    pending = list(ends)
    while pending:
        term = pending.pop()
        if isinstance(term, Op) and term.label:
            found[term.label] = term
        pending.extend(children(term))
    return found


def sure_labels(
    term: Term, nodes: dict[str, Op], known: dict[str, frozenset[str]]
) -> frozenset[str]:
    """Return labels present for any choice of alternatives; `known` caches them."""
    if isinstance(term, Reference):
        if term.label not in known:
            known[term.label] = sure_labels(nodes[term.label], nodes, known)
        return known[term.label]
    if isinstance(term, Maybe):
        return sure_labels(term.op.inputs[0], nodes, known)
    inner = [sure_labels(part, nodes, known) for part in children(term)]
    if isinstance(term, Either):
        return frozenset.intersection(*inner)
    return frozenset({term.label} - {""}).union(*inner)


@dataclass(frozen=True, slots=True)
class _Rules:
    """Rules of all patterns; `heights` caches the levels below each label."""

    where: str
    heights: dict[str, int] = field(default_factory=dict)

    def refuse(self, what: str, hint: str) -> NoReturn:
        raise UsageError(what, where=self.where, hint=hint)

    def check_terms(self, ends: tuple[Term, ...]) -> dict[str, Op]:
        """Check every term; return the nodes by label."""
        nodes: dict[str, Op] = {}
        values: set[str] = set()
        references: list[str] = []
        count = 0
        pending = [(end, 1) for end in reversed(ends)]
        while pending:
            term, level = pending.pop()
            count += 1
            if count > MOST_TERMS:
                self.refuse(f"it has more than {MOST_TERMS} terms", "split the pattern")
            self.check_level(level)
            self.check_term(term)
            if isinstance(term, Reference):
                references.append(term.label)
            elif isinstance(term, Op):
                if term.label and nodes.setdefault(term.label, term) != term:
                    self.refuse(
                        f"label '{term.label}' describes two nodes",
                        f"write ${term.label} alone to refer to the first of them",
                    )
            elif isinstance(term, Wild | WildConstant) and term.label:
                values.add(term.label)
            below = level if isinstance(term, Maybe) else level + 1
            pending.extend((inner, below) for inner in reversed(children(term)))
        for label in sorted(values & nodes.keys()):
            self.refuse(
                f"label '{label}' stands for a node and for a value",
                "give one of them another label",
            )
        for label in references:
            if label not in nodes:
                self.refuse(f"no node has label '{label}'", nearest(label, nodes))
        return nodes

    def check_level(self, level: int) -> None:
        if level > MOST_LEVELS:
            self.refuse(
                f"its terms are nested more than {MOST_LEVELS} levels deep",
                "split the pattern",
            )

    def check_term(self, term: Term) -> None:
        if isinstance(term, Either):
            if not term.terms:
                self.refuse("a choice is empty", "write its alternatives")
            self.check_present(term.terms)
            return
        if isinstance(term, Maybe):
            types = "/".join(term.op.types)
            if not term.op.inputs:
                what = f"optional node {types} has no input to replace it"
                self.refuse(what, "write its first input")
            if term.op.label:
                self.refuse(
                    (f"optional node {types} cannot have a label"), "write it as an alternative"
                )
            self.check_present(term.op.inputs[:1])
            return
        if isinstance(term, Op | Reference) and term.port is not None and term.port < 0:
            self.refuse(f"there is no output {term.port}", "count from 0")
        if isinstance(term, Op) and not all(term.types or ("",)):
            self.refuse("a node has no op type", "write one, such as Relu")
        if isinstance(term, Wild) and term.optional and (term.label or term.dtypes is not None):
            self.refuse("an optional value has a label or dtypes", "remove them")
        if not isinstance(term, Reference):
            for dtype in sorted((term.dtypes or frozenset()) - DTYPES):
                self.refuse(f"no dtype '{dtype}'", nearest(dtype, DTYPES))

    def check_present(self, terms: tuple[Term, ...]) -> None:
        if any(isinstance(term, Wild) and term.optional for term in terms):
            self.refuse(
                "an optional value stands in an alternative",
                "put it directly at an input",
            )

    def height(self, term: Term, nodes: dict[str, Op], above: tuple[str, ...], level: int) -> int:
        """Return the levels from a term down, including its references."""
        label = term.label if isinstance(term, Op | Reference) else ""
        if isinstance(term, Reference) and label in above:
            self.refuse(f"node ${label} is an input of itself", "refer to it only from later nodes")
        if label in self.heights:
            self.check_level(level + self.heights[label] - 1)
            return self.heights[label]
        self.check_level(level)
        described = nodes[label] if isinstance(term, Reference) else term
        over = (*above, label) if label else above
        if isinstance(term, Maybe):
            return self.height(term.op, nodes, above, level)
        inner = (self.height(p, nodes, over, level + 1) for p in children(described))
        height = 1 + max(inner, default=0)
        if label:
            self.heights[label] = height
        return height


def check_names(pattern: Pattern) -> None:
    """Raise UsageError for ops and attributes that no ONNX version has, in known domains.

    The error has the nearest name. Loads ONNX, which takes half a second.
    """
    where = f"pattern '{pattern.name}'"
    pending = list(reversed(pattern.ends))
    while pending:
        term = pending.pop()
        pending.extend(reversed(children(term)))
        if isinstance(term, Op):
            _check_op(term, where)


def _check_op(op: Op, where: str) -> None:
    allowed: set[str] = set()
    for key in op.types:
        domain, _, name = key.rpartition(":")
        known = _schemas().get(domain)
        if known is None:
            return
        if name not in known:
            hint = nearest(name, known)
            raise UsageError(f"ONNX has no op '{key}'", where=where, hint=hint)
        allowed |= known[name]
    for test in op.attributes:
        if test.name not in allowed:
            raise UsageError(
                f"{'/'.join(op.types)} has no attribute '{test.name}'",
                where=where,
                hint=nearest(test.name, allowed),
            )


@cache
def _schemas() -> Mapping[str, Mapping[str, frozenset[str]]]:
    """Return attributes by op type by domain, over all versions."""
    import onnx

    found: dict[str, dict[str, frozenset[str]]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        ops = found.setdefault(schema.domain, {})
        ops[schema.name] = ops.get(schema.name, frozenset()) | frozenset(schema.attributes)
    return found
