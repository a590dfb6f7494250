"""Search for every fit of a pattern in a graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TypeAlias, TypeVar

from hetsim.errors import UsageError
from hetsim.graph.dag import Dag
from hetsim.graph.graph import Graph
from hetsim.graph.patterns.pattern import Pattern, labelled_nodes, sure_labels
from hetsim.graph.patterns.terms import SYMMETRIC, Constant, Maybe, Op, Reference, Term, Wild
from hetsim.graph.work import op_key


@dataclass(frozen=True, slots=True)
class GraphIndex:
    """Index of a graph: op keys (see ``op_key``), producers and readers."""

    graph: Graph
    keys: Sequence[str]
    of_type: Mapping[str, Sequence[int]]
    producers: Mapping[str, int]
    readers: Mapping[str, tuple[int, ...]]
    outputs: frozenset[str]
    dag: Dag

    @classmethod
    def of(cls, graph: Graph) -> GraphIndex:
        """Build the index. O(V + E log E)."""
        keys = [op_key(node) for node in graph.nodes]
        of_type: dict[str, list[int]] = {}
        for node, key in enumerate(keys):
            of_type.setdefault(key, []).append(node)
        return cls(
            graph=graph,
            keys=keys,
            of_type=of_type,
            producers=graph.producers(),
            readers=graph.consumers(),
            outputs=frozenset(graph.outputs),
            dag=Dag.from_edges(len(keys), graph.edges()),
        )

    def dtype(self, value: str) -> str:
        """Element type of a value; ``""`` where it is not known."""
        tensor = self.graph.tensors.get(value)
        return "" if tensor is None else tensor.dtype


@dataclass(frozen=True, slots=True)
class ValuePlace:
    """A value that no node of the pattern writes; cells of label and constant, -1 for none."""

    label: int
    member: int
    dtypes: frozenset[str] | None
    optional: bool

    @property
    def binds(self) -> bool:
        """Whether the identity of the value matters, given that it is allowed."""
        return self.label >= 0 or self.member >= 0


@dataclass(slots=True, eq=False)
class NodePlace:
    """Place of a pattern node, kept in `cell`.

    `telling` has the inputs, with ports, at which it matters what stands there; `seated` those of
    them in free order, equal terms with one number; `asked` must be there; `fits` keeps answers.
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
    """Place of a value that a pattern node writes: the node, the output, allowed dtypes."""

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
    """Pattern with its places by cell; `shared` are nodes that others may read.

    `ends` has what each end may stand for, `links` for each the labels that it is sure to share
    with ends before it: whether the label is that of a node, and its cell.
    """

    pattern: Pattern
    ends: tuple[tuple[ReadPlace, ...], ...]
    links: tuple[tuple[tuple[bool, int], ...], ...]
    nodes: int
    values: int
    constants: tuple[int, ...]
    shared: frozenset[int]


def lay_out(pattern: Pattern) -> Layout:
    """Assign a cell to every part of the pattern. O(terms)."""
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
    """Return the alternatives of a place."""
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


Fit: TypeAlias = tuple[tuple[int, ...], tuple[str, ...], tuple[int, ...]]
"""Node by node cell (-1: none), value by value cell ("": none), and the node cell of each end."""

_Entry = TypeVar("_Entry", int, str)

LEAST_CAP = 200_000
CAP_A_NODE = 20


class Search:
    """Search for one pattern in one graph; tests of nodes are cached."""

    def __init__(self, index: GraphIndex, layout: Layout) -> None:
        self._index = index
        self._layout = layout
        self._cap = LEAST_CAP + CAP_A_NODE * len(index.keys)
        self._steps = 0

    def fits(self) -> Iterator[Fit]:
        """Yield every fit. O(terms * (V + E)), and the steps that combine them.

        Raises UsageError where these are more than ``LEAST_CAP + CAP_A_NODE * V``.
        """
        layout = self._layout
        start: Fit = ((-1,) * layout.nodes, ("",) * layout.values, (-1,) * len(layout.ends))
        for place in layout.ends[0]:
            types = dict.fromkeys(place.node.op.types)
            for node in sorted(n for key in types for n in self._index.of_type.get(key, ())):
                if self._possible(place.node, node):
                    yield from self._further(1, self._at_end(0, place, node, start))

    def _further(self, number: int, fits: list[Fit]) -> list[Fit]:
        """Fits with all ends, from those with the first `number`."""
        for end in range(number, len(self._layout.ends)):
            fits = _unique(
                extended
                for fit in fits
                for place in self._layout.ends[end]
                for node in self._candidates(end, place, fit)
                for extended in self._at_end(end, place, node, fit)
            )
        return fits

    def _at_end(self, end: int, place: ReadPlace, node: int, fit: Fit) -> list[Fit]:
        outputs = self._index.graph.nodes[node].outputs
        if place.port >= len(outputs) or not self._readable(place, outputs[place.port]):
            return []
        return [
            (nodes, values, _put(ends, end, place.node.cell))
            for nodes, values, ends in self._at_node(place.node, node, fit)
        ]

    def _candidates(self, end: int, place: ReadPlace, fit: Fit) -> list[int]:
        """Nodes at which an end may stand, by the label that leaves the fewest starts."""
        is_node, cell = min(
            self._layout.links[end],
            key=lambda link: 1 if link[0] else len(self._index.readers[fit[1][link[1]]]),
        )
        return sorted(self._reach(place.node, -1 if is_node else cell, fit, {}))

    def _reach(
        self, place: NodePlace, value_cell: int, fit: Fit, known: dict[int, set[int]]
    ) -> set[int]:
        """Nodes at which a place may stand by what it reads of nodes and of a value in the fit."""
        if fit[0][place.cell] >= 0:
            return {fit[0][place.cell]}
        if place.cell in known:
            return known[place.cell]
        found: set[int] = set()
        for _, inner in place.telling:
            for one in flat(inner):
                if isinstance(one, ValuePlace):
                    if one.label == value_cell >= 0:
                        found.update(self._index.readers[fit[1][value_cell]])
                    continue
                for node in self._reach(one.node, value_cell, fit, known):
                    outputs = self._index.graph.nodes[node].outputs
                    if one.port < len(outputs):
                        found.update(self._index.readers.get(outputs[one.port], ()))
        self._count(1 + len(found))
        known[place.cell] = {node for node in found if self._possible(place, node)}
        return known[place.cell]

    def _at_node(self, place: NodePlace, node: int, fit: Fit) -> list[Fit]:
        """Fits in which `node` stands at `place`, with what it reads."""
        nodes, values, ends = fit
        if nodes[place.cell] >= 0:
            return [fit] if nodes[place.cell] == node else []
        if node in nodes or not self._possible(place, node):
            return []
        fits: list[Fit] = [(_put(nodes, place.cell, node), values, ends)]
        reads = self._index.graph.nodes[node].inputs
        if place.any_order(self._index.keys[node]):
            return self._seat(place.seated, reads, fits)
        for port, inner in place.telling:
            if len(fits) == 1:
                fits = self._at_value(inner, reads[port], fits[0])
            else:
                fits = _unique(n for old in fits for n in self._at_value(inner, reads[port], old))
        return fits

    def _seat(
        self, places: Sequence[tuple[int, Place]], reads: Sequence[str], fits: list[Fit]
    ) -> list[Fit]:
        """Fits in which each place stands at a port of its own."""
        if not places:
            return fits
        partial: dict[tuple[int, int, Fit], None] = {(0, -1, fit): None for fit in fits}
        before = -1
        for group, place in places:
            open_ports = [
                (port, value)
                for port, value in enumerate(reads)
                if value and self._readable(place, value)
            ]
            seated: dict[tuple[int, int, Fit], None] = {}
            for used, last, fit in partial:
                for port, value in open_ports:
                    if not used >> port & 1 and (group != before or port > last):
                        for new in self._at_value(place, value, fit):
                            seated[used | 1 << port, port, new] = None
            partial, before = seated, group
        return _unique(fit for _, _, fit in partial)

    def _at_value(self, place: Place, value: str, fit: Fit) -> list[Fit]:
        """Fits in which `value` stands at `place`."""
        if isinstance(place, ChoicePlace):
            return _unique(
                new for option in place.options for new in self._at_value(option, value, fit)
            )
        if not self._readable(place, value):
            return []
        self._count(1)
        if isinstance(place, ReadPlace):
            return self._at_node(place.node, self._index.producers[value], fit)
        nodes, values, ends = fit
        if place.label >= 0:
            if values[place.label] not in ("", value):
                return []
            values = _put(values, place.label, value)
        if place.member >= 0:
            values = _put(values, place.member, value)
        return [(nodes, values, ends)]

    def _readable(self, place: Place, value: str) -> bool:
        """Whether `value` may stand at `place`, labels aside."""
        if isinstance(place, ReadPlace):
            index = self._index
            node = index.producers.get(value)
            if node is None or index.keys[node] not in place.node.op.types:
                return False
            if place.dtypes is not None and index.dtype(value) not in place.dtypes:
                return False
            outputs = index.graph.nodes[node].outputs
            if place.port >= len(outputs) or outputs[place.port] != value:
                return False
            return self._possible(place.node, node)
        if isinstance(place, ChoicePlace):
            return any(self._readable(option, value) for option in place.options)
        if not value:
            return place.optional
        if place.dtypes is not None and self._index.dtype(value) not in place.dtypes:
            return False
        return place.member < 0 or value in self._index.graph.constants

    def _possible(self, place: NodePlace, node: int) -> bool:
        """Whether `node` may stand at `place`, labels aside."""
        known = place.fits.get(node)
        if known is None:
            known = place.fits[node] = self._admits(place, node)
        return known

    def _admits(self, place: NodePlace, node: int) -> bool:
        op, found = place.op, self._index.graph.nodes[node]
        graph, key = self._index.graph, self._index.keys[node]
        if key not in op.types:
            return False
        for test in op.attributes:
            if not test.holds(graph, found):
                return False
        if op.condition is not None and not op.condition(graph, found):
            return False
        reads = found.inputs
        if not place.any_order(key):
            for port, inner in enumerate(place.inputs):
                if not self._readable(inner, reads[port] if port < len(reads) else ""):
                    return False
            return True
        present = [value for value in reads if value]
        if place.asked > len(present):
            return False
        for _, inner in place.seated:
            for value in present:
                if self._readable(inner, value):
                    break
            else:
                return False
        return True

    def _count(self, steps: int) -> None:
        self._steps += steps
        if self._steps > self._cap:
            raise UsageError(
                f"the search for matches did not finish within {self._cap} steps: the pattern is "
                "ambiguous",
                where=f"pattern '{self._layout.pattern.name}'",
                hint=(
                    "describe its nodes more precisely, or fix the order of inputs, as in Add^(...)"
                ),
            )


def _put(cells: tuple[_Entry, ...], cell: int, entry: _Entry) -> tuple[_Entry, ...]:
    return cells[:cell] + (entry,) + cells[cell + 1 :]  # noqa: RUF005


def _unique(fits: Iterable[Fit]) -> list[Fit]:
    return list(dict.fromkeys(fits))
