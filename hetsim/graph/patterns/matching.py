"""Disjoint matches of patterns in a graph whose contraction closes no cycle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import TypeAlias, TypeVar

from hetsim.errors import UsageError
from hetsim.graph.dag import Contraction, Dag
from hetsim.graph.graph import Graph
from hetsim.graph.patterns.pattern import (
    SYMMETRIC,
    Either,
    Maybe,
    Op,
    Pattern,
    Reference,
    Term,
    WildConstant,
    labelled_nodes,
    sure_labels,
)
from hetsim.graph.work import op_key


@dataclass(frozen=True, slots=True)
class Match:
    """Match of a pattern: nodes, ascending, and stored values that are members,
    sorted."""

    pattern: str
    nodes: tuple[int, ...]
    constants: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RefusedMatch:
    """Nodes that fit a pattern, ascending, and the reason why they are not a match."""

    pattern: str
    nodes: tuple[int, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Matches:
    """Disjoint matches by first node, and refused ones in the order of attempts."""

    found: tuple[Match, ...]
    refused: tuple[RefusedMatch, ...]


def find_matches(
    graph: Graph,
    patterns: Sequence[Pattern],
    refuse: Callable[[int], str | None] | None = None,
) -> Matches:
    """Return the matches of patterns in the given order.

    `refuse` returns the reason why a node may not be in any match, or None if it may.

    Of overlapping fits that of the earlier pattern stays; within a pattern the one whose first node
    comes first, then the one with more nodes, then the one whose nodes come first. A fit is refused
    if it overlaps an accepted match, if a value of a node that is neither shared nor an end is read
    outside or is an output of the graph, if its check fails, or if contracting it together with the
    accepted matches closes a cycle. A refused fit is not recorded if a match of the same pattern
    contains it. If the same nodes fit in several ways, the first in which no inner value is read
    outside counts, in the order of the pattern's text.

    Raises UsageError if a pattern fits in too many ways to try them all. Complexity: O(V + E log
    E), and for each pattern what `_Search.fits` and `Contraction` take.
    """
    keys = [op_key(node) for node in graph.nodes]
    state = Contraction(Dag.from_edges(len(keys), graph.edges()))
    owner: dict[int, str] = {}
    found: list[Match] = []
    refused: dict[RefusedMatch, None] = {}
    for pattern in patterns:
        search = _Search(graph, keys, pattern)
        fits: dict[tuple[int, ...], list[Fit]] = {}
        for fit in search.fits():
            fits.setdefault(tuple(sorted(node for node in fit[0] if node >= 0)), []).append(fit)
        matched: list[Match] = []
        turned_down: list[RefusedMatch] = []
        for nodes in sorted(fits, key=lambda nodes: (nodes[0], -len(nodes), nodes)):
            answer = _judge(search, fits[nodes], nodes, owner, state, refuse)
            if isinstance(answer, str):
                turned_down.append(RefusedMatch(pattern.name, nodes, answer))
                continue
            state.add(nodes)
            owner.update(dict.fromkeys(nodes, pattern.name))
            constants = {answer[1][cell] for cell in search.members} - {""}
            matched.append(Match(pattern.name, nodes, tuple(sorted(constants))))
        holder = {node: number for number, match in enumerate(matched) for node in match.nodes}
        for refusal in turned_down:
            around = {holder.get(node, -1) for node in refusal.nodes}
            if len(around) > 1 or -1 in around:
                refused[refusal] = None
        found.extend(matched)
    return Matches(tuple(sorted(found, key=lambda match: match.nodes)), tuple(refused))


def _judge(
    search: _Search,
    fits: Sequence[Fit],
    nodes: tuple[int, ...],
    owner: dict[int, str],
    state: Contraction,
    refuse: Callable[[int], str | None] | None,
) -> Fit | str:
    """Return the fit that is a match, or the reason why none is."""
    graph = search.graph
    for node in nodes:
        if node in owner:
            return f"node '{graph.nodes[node].name}' is in a match of '{owner[node]}'"
        refusal = refuse(node) if refuse is not None else None
        if refusal is not None:
            return f"node '{graph.nodes[node].name}': {refusal}"
    reasons = [search.read_outside(fit, nodes) for fit in fits]
    if None not in reasons:
        return str(reasons[0])
    check = search.pattern.check
    if check is not None and not check(graph, nodes):
        return "its check returns False"
    path = state.cycle(nodes)
    if path:
        names = " > ".join(graph.nodes[node].name for node in path)
        return f"contracting it would close the cycle {names}"
    return fits[reasons.index(None)]


@dataclass(frozen=True, slots=True, eq=False)
class _Place:
    """Place of a value: output `port` of a `node`, or a value written by no pattern node.

    The latter has the cells of its label and of a constant, -1 for none. `dtypes` are allowed.
    """

    node: _NodePlace | None = None
    port: int = 0
    dtypes: frozenset[str] | None = None
    label: int = -1
    member: int = -1
    optional: bool = False

    @property
    def tells(self) -> bool:
        """Whether it matters which value is there, given that it is allowed."""
        return self.node is not None or self.label >= 0 or self.member >= 0


_Choice: TypeAlias = tuple[_Place, ...]
"""Alternatives of a term, in the order in which they are written."""


@dataclass(slots=True, eq=False)
class _NodePlace:
    """Place of a pattern node, kept in `cell`.

    `telling` has the inputs, with ports, for which it matters which value is there; `seated` those
    of them in free order, equal terms with one number; `asked` must exist; `fits` is a cache.
    """

    cell: int
    op: Op
    inputs: tuple[_Choice, ...] = ()
    telling: tuple[tuple[int, _Choice], ...] = ()
    seated: tuple[tuple[int, _Choice], ...] = ()
    asked: int = 0
    fits: dict[int, bool] = field(default_factory=dict)

    def any_order(self, op_type: str) -> bool:
        """Return whether the inputs of a node of this op type may be in any order."""
        return op_type in SYMMETRIC if self.op.any_order is None else self.op.any_order


Fit: TypeAlias = tuple[tuple[int, ...], tuple[str, ...], tuple[int, ...]]
"""Node by node cell (-1: none), value by value cell ("": none), and the node cell of each end."""

_Entry = TypeVar("_Entry", int, str)

LEAST_CAP = 200_000
CAP_A_NODE = 20


class _Search:
    """Search for one pattern in one graph, with cached node tests.

    `members` are the cells of constants, `_links` by end the labels that it always shares with
    earlier ends: whether the label is that of a node, and its cell.
    """

    def __init__(self, graph: Graph, keys: Sequence[str], pattern: Pattern) -> None:
        self.graph, self.pattern = graph, pattern
        self._keys = keys
        self._producers, self._readers = graph.producers(), graph.consumers()
        self._outputs = frozenset(graph.outputs)
        self._cap = LEAST_CAP + CAP_A_NODE * len(keys)
        self._steps = 0
        self.members: list[int] = []
        self._nodes: list[_NodePlace] = []
        self._values = 0
        self._of_label: dict[str, _NodePlace] = {}
        self._cells: dict[str, int] = {}
        self._described = labelled_nodes(pattern.ends)
        self._ends = [self._place(end) for end in pattern.ends]
        self._links: list[list[tuple[bool, int]]] = []
        before: frozenset[str] = frozenset()
        sure: dict[str, frozenset[str]] = {}
        for end in pattern.ends:
            labels = sure_labels(end, self._described, sure)
            self._links.append([self._cell_of(label) for label in sorted(labels & before)])
            before |= labels

    def _place(self, term: Term) -> _Choice:
        """Return the places of a term and all terms within it."""
        if isinstance(term, Either):
            return tuple(one for each in term.terms for one in self._place(each))
        if isinstance(term, Maybe):
            own = self._node(term.op)
            return (_Place(own, term.op.port, term.op.dtypes), *own.inputs[0])
        if isinstance(term, Reference):
            op = self._described[term.label]
            port = op.port if term.port is None else term.port
            return (_Place(self._node(op), port, op.dtypes if port == op.port else None),)
        if isinstance(term, Op):
            return (_Place(self._node(term), term.port, term.dtypes),)
        label = -1
        if term.label:
            if term.label not in self._cells:
                self._cells[term.label] = self._cell()
            label = self._cells[term.label]
        if not isinstance(term, WildConstant):
            return (_Place(None, 0, term.dtypes, label, -1, term.optional),)
        self.members.append(self._cell())
        return (_Place(None, 0, term.dtypes, label, self.members[-1]),)

    def _cell(self) -> int:
        self._values += 1
        return self._values - 1

    def _cell_of(self, label: str) -> tuple[bool, int]:
        """Return whether the label is that of a node, and its cell."""
        node = self._of_label.get(label)
        return (False, self._cells[label]) if node is None else (True, node.cell)

    def _node(self, op: Op) -> _NodePlace:
        if op.label in self._of_label:
            return self._of_label[op.label]
        node = _NodePlace(len(self._nodes), op)
        self._nodes.append(node)
        if op.label:
            self._of_label[op.label] = node
        node.inputs = tuple(self._place(term) for term in op.inputs)
        node.asked = sum(not (len(one) == 1 and one[0].optional) for one in node.inputs)
        ports = [*enumerate(node.inputs)]
        node.telling = tuple(
            (port, choice) for port, choice in ports if len(choice) > 1 or choice[0].tells
        )
        seated = [
            (op.inputs.index(op.inputs[port]), choice)
            for port, choice in ports
            if len(choice) > 1 or choice[0].tells or choice[0].dtypes is not None
        ]
        node.seated = tuple(sorted(seated, key=lambda one: one[0]))
        return node

    def fits(self) -> Iterator[Fit]:
        """Yield every fit. O(terms * (V + E)), plus the steps that combine them.

        Raises UsageError if these exceed ``LEAST_CAP + CAP_A_NODE * V``.
        """
        start: Fit = ((-1,) * len(self._nodes), ("",) * self._values, (-1,) * len(self._ends))
        for place in self._ends[0]:
            for node, key in enumerate(self._keys):
                own = place.node
                if own is not None and key in own.op.types and self._possible(own, node):
                    yield from self._further(self._at_end(0, place, node, start))

    def _further(self, fits: list[Fit]) -> list[Fit]:
        """Return fits of all ends, from those of the first."""
        for end in range(1, len(self._ends)):
            fits = _unique(
                extended
                for fit in fits
                for place in self._ends[end]
                if place.node is not None
                for node in self._candidates(end, place.node, fit)
                for extended in self._at_end(end, place, node, fit)
            )
        return fits

    def _at_end(self, end: int, place: _Place, node: int, fit: Fit) -> list[Fit]:
        assert place.node is not None
        outputs = self.graph.nodes[node].outputs
        if place.port >= len(outputs) or not self._readable(place, outputs[place.port]):
            return []
        return [
            (nodes, values, _put(ends, end, place.node.cell))
            for nodes, values, ends in self._at_node(place.node, node, fit)
        ]

    def _candidates(self, end: int, place: _NodePlace, fit: Fit) -> list[int]:
        """Return candidate nodes for an end, by the label with the fewest candidates."""
        is_node, cell = min(
            self._links[end],
            key=lambda link: 1 if link[0] else len(self._readers[fit[1][link[1]]]),
        )
        return sorted(self._reach(place, -1 if is_node else cell, fit, {}))

    def _reach(
        self, place: _NodePlace, value_cell: int, fit: Fit, known: dict[int, set[int]]
    ) -> set[int]:
        """Return candidate nodes for a place, by its inputs from nodes and a value of the fit."""
        if fit[0][place.cell] >= 0:
            return {fit[0][place.cell]}
        if place.cell in known:
            return known[place.cell]
        found: set[int] = set()
        for one in (one for _, choice in place.telling for one in choice):
            if one.node is None:
                if one.label == value_cell >= 0:
                    found.update(self._readers[fit[1][value_cell]])
                continue
            for node in self._reach(one.node, value_cell, fit, known):
                outputs = self.graph.nodes[node].outputs
                if one.port < len(outputs):
                    found.update(self._readers.get(outputs[one.port], ()))
        self._count(1 + len(found))
        known[place.cell] = {node for node in found if self._possible(place, node)}
        return known[place.cell]

    def _at_node(self, place: _NodePlace, node: int, fit: Fit) -> list[Fit]:
        """Return fits with `node` at `place`, and its inputs."""
        nodes, values, ends = fit
        if nodes[place.cell] >= 0:
            return [fit] if nodes[place.cell] == node else []
        if node in nodes or not self._possible(place, node):
            return []
        fits: list[Fit] = [(_put(nodes, place.cell, node), values, ends)]
        reads = self.graph.nodes[node].inputs
        if place.any_order(self._keys[node]):
            return self._seat(place.seated, reads, fits)
        for port, choice in place.telling:
            if len(fits) == 1:
                fits = self._at_value(choice, reads[port], fits[0])
            else:
                fits = _unique(n for old in fits for n in self._at_value(choice, reads[port], old))
        return fits

    def _seat(
        self, places: Sequence[tuple[int, _Choice]], reads: Sequence[str], fits: list[Fit]
    ) -> list[Fit]:
        """Return fits with each place at a different port."""
        partial: dict[tuple[int, int, Fit], None] = {(0, -1, fit): None for fit in fits}
        before = -1
        for group, choice in places:
            open_ports = [
                (port, value)
                for port, value in enumerate(reads)
                if value and self._any_readable(choice, value)
            ]
            seated: dict[tuple[int, int, Fit], None] = {}
            for used, last, fit in partial:
                for port, value in open_ports:
                    if not used >> port & 1 and (group != before or port > last):
                        for new in self._at_value(choice, value, fit):
                            seated[used | 1 << port, port, new] = None
            partial, before = seated, group
        return _unique(fit for _, _, fit in partial)

    def _at_value(self, choice: _Choice, value: str, fit: Fit) -> list[Fit]:
        """Return fits with `value` at one of the places."""
        fits: list[Fit] = []
        for place in choice:
            if not self._readable(place, value):
                continue
            self._count(1)
            if place.node is not None:
                fits += self._at_node(place.node, self._producers[value], fit)
                continue
            nodes, values, ends = fit
            if place.label >= 0:
                if values[place.label] not in ("", value):
                    continue
                values = _put(values, place.label, value)
            if place.member >= 0:
                values = _put(values, place.member, value)
            fits.append((nodes, values, ends))
        return fits if len(choice) == 1 else _unique(fits)

    def _any_readable(self, choice: _Choice, value: str) -> bool:
        return any(map(self._readable, choice, repeat(value)))

    def _readable(self, place: _Place, value: str) -> bool:
        """Return whether `value` may be at `place`, ignoring labels."""
        if not value:
            return place.optional
        if place.node is not None:
            node = self._producers.get(value)
            if node is None or self._keys[node] not in place.node.op.types:
                return False
        if place.dtypes is not None:
            tensor = self.graph.tensors.get(value)
            if tensor is None or tensor.dtype not in place.dtypes:
                return False
        if place.node is None or node is None:
            return place.member < 0 or value in self.graph.constants
        outputs = self.graph.nodes[node].outputs
        if place.port >= len(outputs) or outputs[place.port] != value:
            return False
        return self._possible(place.node, node)

    def _possible(self, place: _NodePlace, node: int) -> bool:
        """Return whether `node` may be at `place`, ignoring labels."""
        known = place.fits.get(node)
        if known is None:
            known = place.fits[node] = self._admits(place, node)
        return known

    def _admits(self, place: _NodePlace, node: int) -> bool:
        op, found, key = place.op, self.graph.nodes[node], self._keys[node]
        if key not in op.types or not all(test.holds(self.graph, found) for test in op.attributes):
            return False
        if op.condition is not None and not op.condition(self.graph, found):
            return False
        if not place.any_order(key):
            absent = ("",) * (len(place.inputs) - len(found.inputs))
            return all(map(self._any_readable, place.inputs, (*found.inputs, *absent)))
        present = [value for value in found.inputs if value]
        return place.asked <= len(present) and all(
            any(self._any_readable(choice, value) for value in present)
            for _, choice in place.seated
        )

    def _count(self, steps: int) -> None:
        self._steps += steps
        if self._steps > self._cap:
            raise UsageError(
                f"the search for matches did not finish within {self._cap} steps: the pattern is "
                "ambiguous",
                where=f"pattern '{self.pattern.name}'",
                hint=(
                    "describe its nodes more precisely, or fix the order of inputs, as in Add^(...)"
                ),
            )

    def read_outside(self, fit: Fit, members: Sequence[int]) -> str | None:
        """Return the value that only the match may read but others read, if any."""
        cells, _, ends = fit
        for place, node in zip(self._nodes, cells, strict=True):
            if node < 0 or place.op.shared or place.cell in ends:
                continue
            for value in self.graph.nodes[node].writes:
                if value in self._outputs:
                    return f"inner value '{value}' is an output of the graph"
                for reader in self._readers.get(value, ()):
                    if reader not in members:
                        outside = self.graph.nodes[reader].name
                        return (
                            f"inner value '{value}' is also read by node '{outside}', outside the "
                            "match"
                        )
        return None


def _put(cells: tuple[_Entry, ...], cell: int, entry: _Entry) -> tuple[_Entry, ...]:
    return cells[:cell] + (entry,) + cells[cell + 1 :]  # noqa: RUF005


def _unique(fits: Iterable[Fit]) -> list[Fit]:
    return list(dict.fromkeys(fits))
