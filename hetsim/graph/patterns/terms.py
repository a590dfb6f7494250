"""What a pattern is made of: nodes, values, constants, optional nodes, alternatives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from hetsim.graph.graph import ITEM_BITS, Graph, Node
from hetsim.graph.patterns.attributes import AttributeTest

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
    """Any value.

    Attributes
    ----------
    label : str
        Terms of one label stand for one value.
    dtypes : frozenset of str, optional
        Allowed element types; None allows all.
    optional : bool
        Whether the value may also be absent; only without label and dtypes.
    """

    label: str = ""
    dtypes: frozenset[str] | None = None
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Constant:
    """A value stored with the model, which becomes a member of the match.

    `label` and `dtypes` are those of `Wild`.
    """

    label: str = ""
    dtypes: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Op:
    """A node, by what it is and what it reads, and one of the values that it writes.

    Attributes
    ----------
    types : tuple of str
        Allowed op types, one at least, as ``hetsim.graph.work.op_key`` writes them. A single
        string may be given.
    inputs : tuple of terms
        By port; further ports of the node are free.
    label : str
        Terms of one label are equal and stand for one node; all others for different nodes.
    attributes : tuple of AttributeTest
        All must hold.
    dtypes : frozenset of str, optional
        Allowed element types of the value that is read; None allows all.
    condition : callable, optional
        A further condition on the node.
    port : int
        Which output of the node is read here.
    any_order : bool, optional
        Whether the terms of `inputs` may stand at any ports, each at one of its own. None:
        where the op of the node is in `SYMMETRIC`.
    shared : bool
        Whether nodes outside of the match may read what the node writes. The nodes that the
        pattern ends in always may be read.
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
    """A value that the node of an `Op` elsewhere in the pattern writes.

    Attributes
    ----------
    label : str
        That of the `Op`.
    port : int, optional
        Which output of the node; None: the one that the `Op` has.
    """

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
    """Yield what a term may stand for, in the order in which it is written."""
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
