"""Disjoint matches of patterns in a graph whose contraction closes no cycle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hetsim.graph.dag import Contraction
from hetsim.graph.graph import Graph
from hetsim.graph.patterns.pattern import Pattern
from hetsim.graph.patterns.search import Fit, GraphIndex, Layout, Search, lay_out


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
    """Match patterns in the given order.

    `refuse` says why a node may not be a member of any match, or None where it may.

    Of overlapping fits the one of the earlier pattern stays; within a pattern the one whose
    first node comes first, then the one with more nodes, then the one whose nodes come first.
    A fit is refused where it overlaps a match that stands, where a value of a node that is
    neither shared nor an end is read outside or is an output of the graph, where its check
    fails, and where contracting it together with the matches that stand closes a cycle.
    A refused fit is left out of the record where a match of the same pattern holds it whole.
    Where the same nodes fit in several ways, the first in which nothing inner is read outside
    counts, in the order in which the pattern is written.

    Raises UsageError where a pattern fits in too many ways to try them all. Complexity:
    O(V + E log E), and for each pattern what `Search.fits` and `Contraction` take.
    """
    index = GraphIndex.of(graph)
    state = Contraction(index.dag)
    owner: dict[int, str] = {}
    found: list[Match] = []
    refused: dict[RefusedMatch, None] = {}
    for pattern in patterns:
        layout = lay_out(pattern)
        fits: dict[tuple[int, ...], list[Fit]] = {}
        for fit in Search(index, layout).fits():
            fits.setdefault(tuple(sorted(node for node in fit[0] if node >= 0)), []).append(fit)
        matched: list[Match] = []
        turned_down: list[RefusedMatch] = []
        for nodes in sorted(fits, key=lambda nodes: (nodes[0], -len(nodes), nodes)):
            answer = _judge(index, layout, fits[nodes], nodes, owner, state, refuse)
            if isinstance(answer, str):
                turned_down.append(RefusedMatch(pattern.name, nodes, answer))
                continue
            state.add(nodes)
            owner.update(dict.fromkeys(nodes, pattern.name))
            values = answer[1]
            constants = {values[cell] for cell in layout.constants if values[cell]}
            matched.append(Match(pattern.name, nodes, tuple(sorted(constants))))
        holder = {node: number for number, match in enumerate(matched) for node in match.nodes}
        for refusal in turned_down:
            around = {holder.get(node, -1) for node in refusal.nodes}
            if len(around) > 1 or -1 in around:
                refused[refusal] = None
        found.extend(matched)
    return Matches(tuple(sorted(found, key=lambda match: match.nodes)), tuple(refused))


def _judge(
    index: GraphIndex,
    layout: Layout,
    fits: Sequence[Fit],
    nodes: tuple[int, ...],
    owner: dict[int, str],
    state: Contraction,
    refuse: Callable[[int], str | None] | None,
) -> Fit | str:
    """Return the fit that is a match, or why none is."""
    graph = index.graph
    for node in nodes:
        if node in owner:
            return f"node '{graph.nodes[node].name}' is in a match of '{owner[node]}'"
        refusal = refuse(node) if refuse is not None else None
        if refusal is not None:
            return f"node '{graph.nodes[node].name}': {refusal}"
    reasons = [_read_outside(index, fit, layout.shared, frozenset(nodes)) for fit in fits]
    if None not in reasons:
        return str(reasons[0])
    check = layout.pattern.check
    if check is not None and not check(graph, nodes):
        return "its check returns False"
    path = state.cycle(nodes)
    if path:
        names = " > ".join(graph.nodes[node].name for node in path)
        return f"contracting it would close the cycle {names}"
    return fits[reasons.index(None)]


def _read_outside(
    index: GraphIndex, fit: Fit, shared: frozenset[int], members: frozenset[int]
) -> str | None:
    """Say which value that only the match may read is read by others, if one is."""
    cells, _, ends = fit
    for cell, node in enumerate(cells):
        if node < 0 or cell in shared or cell in ends:
            continue
        for value in index.graph.nodes[node].writes:
            if value in index.outputs:
                return f"inner value '{value}' is an output of the graph"
            for reader in index.readers.get(value, ()):
                if reader not in members:
                    outside = index.graph.nodes[reader].name
                    return (
                        f"inner value '{value}' is also read by node '{outside}', outside the match"
                    )
    return None
