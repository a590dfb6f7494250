"""A pattern laid out for the search: a cell for every node, label and constant in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import itemgetter
from typing import TypeAlias

from hetsim.graph.patterns.pattern import Pattern, labelled_nodes, sure_labels
from hetsim.graph.patterns.terms import SYMMETRIC, Constant, Maybe, Op, Reference, Term, Wild


@dataclass(frozen=True, slots=True)
class ValuePlace:
    """A value that no node of the pattern writes.

    Attributes
    ----------
    label : int
        Cell of its label; -1 where it has none.
    member : int
        Cell of a constant, which is a member of the match; -1 for any other value.
    dtypes : frozenset of str, optional
    optional : bool
        Whether it may be absent.
    """

    label: int
    member: int
    dtypes: frozenset[str] | None
    optional: bool

    @property
    def binds(self) -> bool:
        """Whether it matters which value stands here, given that it may."""
        return self.label >= 0 or self.member >= 0


@dataclass(slots=True, eq=False)
class NodePlace:
    """A node of the pattern.

    Attributes
    ----------
    cell : int
        Where the node is kept.
    op : Op
    inputs : tuple of places
    telling : tuple of (int, place)
        Inputs, with their ports, at which it matters what stands there, given that it may.
    seated : tuple of (int, place)
        Where inputs stand in any order, those that cannot stand just anywhere. Those of equal
        terms follow one another and have one number.
    asked : int
        Number of inputs that must be there.
    fits : dict of int to bool
        Nodes known to fit or not, whatever stands at the labels.
    """

    cell: int
    op: Op
    inputs: tuple[Place, ...] = ()
    telling: tuple[tuple[int, Place], ...] = ()
    seated: tuple[tuple[int, Place], ...] = ()
    asked: int = 0
    fits: dict[int, bool] = field(default_factory=dict)

    def any_order(self, op_type: str) -> bool:
        """Whether the inputs of a node of this op type may stand in any order."""
        return op_type in SYMMETRIC if self.op.any_order is None else self.op.any_order


@dataclass(frozen=True, slots=True, eq=False)
class ReadPlace:
    """A value that a node of the pattern writes: the node, the output, allowed dtypes."""

    node: NodePlace
    port: int
    dtypes: frozenset[str] | None


@dataclass(frozen=True, slots=True, eq=False)
class ChoicePlace:
    """One of several places, in the order in which they are written."""

    options: tuple[ValuePlace | ReadPlace, ...]


Place: TypeAlias = ValuePlace | ReadPlace | ChoicePlace


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """A pattern with its places.

    Attributes
    ----------
    ends : tuple of tuple of ReadPlace
        What each end may stand for, in the order in which it is written.
    links : tuple of tuple of (bool, int)
        For each end the labels that it is sure to share with ends before it: whether the
        label is that of a node, and its cell.
    nodes : int
        Number of cells for nodes.
    values : int
        Number of cells for values.
    constants : tuple of int
        Cells of the values that are members of a match.
    shared : frozenset of int
        Cells of the nodes that others may read wherever they stand.
    """

    pattern: Pattern
    ends: tuple[tuple[ReadPlace, ...], ...]
    links: tuple[tuple[tuple[bool, int], ...], ...]
    nodes: int
    values: int
    constants: tuple[int, ...]
    shared: frozenset[int]


def lay_out(pattern: Pattern) -> Layout:
    """Give every part of the pattern its cell. O(terms)."""
    builder = _Builder(labelled_nodes(pattern.ends))
    ends = [flat(builder.place(end)) for end in pattern.ends]
    links: list[tuple[tuple[bool, int], ...]] = []
    before: frozenset[str] = frozenset()
    sure: dict[str, frozenset[str]] = {}
    for end in pattern.ends:
        labels = sure_labels(end, builder.described, sure)
        links.append(tuple(builder.cell_of(label) for label in sorted(labels & before)))
        before |= labels
    return Layout(
        pattern=pattern,
        ends=tuple(tuple(p for p in end if isinstance(p, ReadPlace)) for end in ends),
        links=tuple(links),
        nodes=builder.nodes,
        values=builder.values,
        constants=tuple(builder.constants),
        shared=frozenset(builder.shared),
    )


def flat(place: Place) -> tuple[ValuePlace | ReadPlace, ...]:
    """Return what may stand at a place."""
    return place.options if isinstance(place, ChoicePlace) else (place,)


class _Builder:
    def __init__(self, described: dict[str, Op]) -> None:
        self.described = described
        self.nodes = 0
        self.values = 0
        self.constants: list[int] = []
        self.shared: list[int] = []
        self._labelled: dict[str, NodePlace] = {}
        self._cells: dict[str, int] = {}

    def cell_of(self, label: str) -> tuple[bool, int]:
        """Whether the label is that of a node, and its cell."""
        node = self._labelled.get(label)
        return (False, self._cells[label]) if node is None else (True, node.cell)

    def place(self, term: Term) -> Place:
        """Lay a term out, with all within it."""
        if isinstance(term, Wild):
            return ValuePlace(self._label(term.label), -1, term.dtypes, term.optional)
        if isinstance(term, Constant):
            label, member = self._label(term.label), self._cell()
            self.constants.append(member)
            return ValuePlace(label, member, term.dtypes, optional=False)
        if isinstance(term, Reference):
            op = self.described[term.label]
            port = op.port if term.port is None else term.port
            return ReadPlace(self._node(op), port, op.dtypes if port == op.port else None)
        if isinstance(term, Op):
            return ReadPlace(self._node(term), term.port, term.dtypes)
        if isinstance(term, Maybe):
            read = ReadPlace(self._node(term.op), term.op.port, term.op.dtypes)
            return ChoicePlace((read, *flat(read.node.inputs[0])))
        return ChoicePlace(tuple(one for t in term.terms for one in flat(self.place(t))))

    def _label(self, label: str) -> int:
        if not label:
            return -1
        if label not in self._cells:
            self._cells[label] = self._cell()
        return self._cells[label]

    def _cell(self) -> int:
        self.values += 1
        return self.values - 1

    def _node(self, op: Op) -> NodePlace:
        if op.label in self._labelled:
            return self._labelled[op.label]
        node = NodePlace(self.nodes, op)
        self.nodes += 1
        if op.label:
            self._labelled[op.label] = node
        if op.shared:
            self.shared.append(node.cell)
        node.inputs = tuple(self.place(term) for term in op.inputs)
        node.asked = sum(not (isinstance(p, ValuePlace) and p.optional) for p in node.inputs)
        node.telling = tuple(
            (port, place) for port, place in enumerate(node.inputs) if _tells(place)
        )
        node.seated = tuple(
            sorted(
                (
                    (op.inputs.index(term), place)
                    for term, place in zip(op.inputs, node.inputs, strict=True)
                    if _tells(place) or (isinstance(place, ValuePlace) and place.dtypes is not None)
                ),
                key=itemgetter(0),
            )
        )
        return node


def _tells(place: Place) -> bool:
    return not isinstance(place, ValuePlace) or place.binds
