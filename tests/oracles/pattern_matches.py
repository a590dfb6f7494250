"""Matches of patterns by trying every assignment of nodes to the parts of a pattern."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations, product

import networkx as nx

from hetsim.graph.graph import Graph, Node
from hetsim.graph.patterns.pattern import (
    SYMMETRIC,
    AttributeTest,
    Either,
    Maybe,
    Op,
    Pattern,
    Reference,
    Term,
    Wild,
    WildConstant,
    children,
)
from hetsim.graph.work import op_key

Part = tuple[str, int]
"""A node of the pattern, by name, and an output of it."""

Variant = dict[str, tuple[Op, tuple["Part | Wild | WildConstant", ...]]]
"""The pattern with every alternative chosen: each node with what it reads."""


@dataclass(frozen=True)
class Way:
    """One way in which some nodes fit: those that others may read, and the constants."""

    readable: frozenset[int]
    constants: tuple[str, ...]


def oracle_matches(
    graph: Graph, patterns: Sequence[Pattern]
) -> tuple[
    list[tuple[str, tuple[int, ...], set[tuple[str, ...]]]], set[tuple[str, tuple[int, ...]]]
]:
    """Matches with the constants that each may have, and what is refused."""
    taken: list[tuple[int, ...]] = []
    found = []
    refused = set()
    for pattern in patterns:
        ways = all_fits(graph, pattern)
        own: list[tuple[int, ...]] = []
        turned_down = []
        for nodes in sorted(ways, key=lambda nodes: (nodes[0], -len(nodes), nodes)):
            good = [way for way in ways[nodes] if closed(graph, nodes, way)]
            if (
                not any(set(nodes) & set(other) for other in taken)
                and good
                and (pattern.check is None or pattern.check(graph, nodes))
                and jointly_acyclic(graph, [*taken, nodes])
            ):
                taken.append(nodes)
                own.append(nodes)
                found.append((pattern.name, nodes, {way.constants for way in good}))
            else:
                turned_down.append(nodes)
        refused |= {
            (pattern.name, nodes)
            for nodes in turned_down
            if not any(set(nodes) <= set(match) for match in own)
        }
    return sorted(found, key=lambda match: match[1]), refused


def jointly_acyclic(graph: Graph, sets: Sequence[tuple[int, ...]]) -> bool:
    """Whether the graph with all sets contracted has an execution order."""
    of = {node: number for number, nodes in enumerate(sets) for node in nodes}
    writer = {value: node.id for node in graph.nodes for value in node.writes}
    contracted = nx.DiGraph()
    for node in graph.nodes:
        for value in node.reads:
            if value in writer:
                ends = [of.get(n, n + len(sets)) for n in (writer[value], node.id)]
                if ends[0] != ends[1]:
                    contracted.add_edge(*ends)
    return nx.is_directed_acyclic_graph(contracted)


def closed(graph: Graph, nodes: tuple[int, ...], way: Way) -> bool:
    """Whether what only the match may read is read in it alone."""
    for member in nodes:
        if member in way.readable:
            continue
        for value in graph.nodes[member].writes:
            if value in graph.outputs:
                return False
            if any(value in other.reads and other.id not in nodes for other in graph.nodes):
                return False
    return True


def all_fits(graph: Graph, pattern: Pattern) -> dict[tuple[int, ...], set[Way]]:
    """Every node set that the pattern fits, and how."""
    found: dict[tuple[int, ...], set[Way]] = {}
    for variant, ends in variants(pattern):
        names = list(variant)
        for chosen in assignments(graph, [variant[name][0] for name in names]):
            at = dict(zip(names, chosen, strict=True))
            if not all(readable(graph, variant, at, end) for end in ends):
                continue
            free = {at[name] for name, _ in ends} | {
                at[name] for name in names if variant[name][0].shared
            }
            for constants in readings(graph, variant, at):
                way = Way(frozenset(free), constants)
                found.setdefault(tuple(sorted(chosen)), set()).add(way)
    return found


def variants(pattern: Pattern) -> Iterator[tuple[Variant, list[Part]]]:
    """The pattern once for each choice of its alternatives."""
    described = {
        term.label: term
        for end in pattern.ends
        for term in everything(end)
        if isinstance(term, Op) and term.label
    }

    def ways(term: Term, path: str, known: Variant) -> Iterator[tuple[object, Variant]]:
        if isinstance(term, Either):
            for number, option in enumerate(term.terms):
                yield from ways(option, f"{path}|{number}", known)
        elif isinstance(term, Maybe):
            yield from ways(term.op, path, known)
            yield from ways(term.op.inputs[0], f"{path}.0", known)
        elif isinstance(term, Reference):
            op = described[term.label]
            for _, after in ways(op, path, known):
                yield (term.label, op.port if term.port is None else term.port), after
        elif isinstance(term, Op):
            name = term.label or path
            if name in known:
                yield (name, term.port), known
                return
            partial: list[tuple[tuple[object, ...], Variant]] = [((), {**known, name: (term, ())})]
            for port, inner in enumerate(term.inputs):
                partial = [
                    ((*reads, read), after)
                    for reads, before in partial
                    for read, after in ways(inner, f"{path}.{port}", before)
                ]
            for reads, after in partial:
                yield (name, term.port), {**after, name: (term, reads)}  # type: ignore[dict-item]
        else:
            yield term, known

    partial: list[tuple[list[object], Variant]] = [([], {})]
    for number, end in enumerate(pattern.ends):
        partial = [
            ([*ends, read], after)
            for ends, before in partial
            for read, after in ways(end, f";{number}", before)
        ]
    for ends, variant in partial:
        yield variant, ends  # type: ignore[misc]


def everything(term: Term) -> Iterator[Term]:
    """A term and all within it."""
    yield term
    for inner in children(term):
        yield from everything(inner)


def assignments(graph: Graph, ops: Sequence[Op]) -> Iterator[tuple[int, ...]]:
    """Different nodes for the parts, of the right types and attributes."""
    fitting = [[node.id for node in graph.nodes if admits(op, node)] for op in ops]
    for chosen in product(*fitting):
        if len(set(chosen)) == len(chosen):
            yield chosen


def admits(op: Op, node: Node) -> bool:
    """Whether type and stated attributes fit."""
    return op_key(node) in op.types and all(passes(test, node) for test in op.attributes)


def passes(test: AttributeTest, node: Node) -> bool:
    """Whether an attribute without default is what it should be."""
    return (node.attributes.get(test.name) in test.values) is not test.negated


def readable(graph: Graph, variant: Variant, at: dict[str, int], part: Part) -> str:
    """The value at an output of a part, "" where it may not be read there."""
    name, port = part
    op, outputs = variant[name][0], graph.nodes[at[name]].outputs
    value = outputs[port] if port < len(outputs) else ""
    typed = op.dtypes is None or port != op.port
    return value if value and (typed or graph.tensors[value].dtype in op.dtypes) else ""  # type: ignore[operator]


def readings(graph: Graph, variant: Variant, at: dict[str, int]) -> set[tuple[str, ...]]:
    """The constants of each way in which all parts read what they should."""
    orders = []
    for name, (op, reads) in variant.items():
        node = graph.nodes[at[name]]
        any_order = op_key(node) in SYMMETRIC if op.any_order is None else op.any_order
        if any_order:
            asked = [read for read in reads if not (isinstance(read, Wild) and read.optional)]
            seats = permutations([value for value in node.inputs if value], len(asked))
            orders.append([list(zip(asked, values, strict=True)) for values in seats])
        else:
            padded = [*node.inputs, *[""] * len(reads)]
            orders.append([list(zip(reads, padded, strict=False))])
        # One order that fails by itself fails with all others.
        orders[-1] = [
            seated
            for seated in orders[-1]
            if all(stands(graph, variant, at, *pair, {}, set()) for pair in seated)
        ]
        if not orders[-1]:
            return set()
    found = set()
    for combination in product(*orders):
        labels: dict[str, str] = {}
        constants: set[str] = set()
        if all(
            stands(graph, variant, at, read, value, labels, constants)
            for seated in combination
            for read, value in seated
        ):
            found.add(tuple(sorted(constants)))
    return found


def stands(
    graph: Graph,
    variant: Variant,
    at: dict[str, int],
    read: object,
    value: str,
    labels: dict[str, str],
    constants: set[str],
) -> bool:
    """Whether `value` is what is asked for; note its label and whether it is a constant."""
    if isinstance(read, tuple):
        return value != "" and readable(graph, variant, at, read) == value
    assert isinstance(read, Wild | WildConstant)
    if not value:
        return isinstance(read, Wild) and read.optional
    if isinstance(read, WildConstant):
        if value not in graph.constants:
            return False
        constants.add(value)
    if read.dtypes is not None and graph.tensors[value].dtype not in read.dtypes:
        return False
    return not read.label or labels.setdefault(read.label, value) == value
