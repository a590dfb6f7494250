"""A device's answer about the graph it makes of a model, in terms of the model's own nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hetsim.device.support.rules import Support
from hetsim.graph.graph import Graph
from hetsim.graph.patterns.matching import Match
from hetsim.graph.work import op_key


def traceable(graph: Graph) -> Graph:
    """Return the graph with each node's `origins` being its own name alone. O(V)."""
    return replace(graph, nodes=tuple(replace(node, origins=(node.name,)) for node in graph.nodes))


def mapped_back(graph: Graph, alone: Support, changed: Graph, answer: Support) -> Support:
    """Return what a device says of `graph`, from what it says of what it makes of it."""
    ids = {node.name: node.id for node in graph.nodes}
    composites: list[Match] = []
    refused: dict[int, str] = {}
    kept: set[int] = set()
    in_composite = {node: match for match in answer.composites for node in match.nodes}
    for node in changed.nodes:
        own = sorted({ids[name] for name in node.origins if name in ids})
        match = in_composite.get(node.id)
        if not answer.supported[node.id] and match is None:
            what = op_key(node)
            for v in own:
                refused[v] = f"part of {what} on this device: {answer.reasons[node.id]}"
            if own == [ids.get(node.name, -1)] and what == op_key(graph.nodes[own[0]]):
                refused[own[0]] = answer.reasons[node.id]
        elif match is None and len(own) > 1:
            composites.append(Match(f"fused {op_key(node)}", tuple(own)))
        elif match is None:
            kept.update(own)
    for match in answer.composites:
        names = (name for v in match.nodes for name in changed.nodes[v].origins)
        own = sorted({ids[name] for name in names if name in ids})
        composites.append(replace(match, nodes=tuple(own)))
    whole = _disjoint(composites, refused)
    members = {v for match in whole for v in match.nodes}
    reasons = {v: why for v, why in alone.reasons.items() if v not in kept or v in refused}
    reasons.update(refused)
    for v in members:
        if v in reasons:
            reasons[v] = f"{reasons[v]}; taken only together with what it is fused with"
    supported = tuple(v not in reasons for v in range(len(graph.nodes)))
    return Support(alone.device, supported, dict(sorted(reasons.items())), whole)


def _disjoint(composites: Sequence[Match], refused: dict[int, str]) -> tuple[Match, ...]:
    """Those that share no node with an earlier one nor with what is refused."""
    taken: set[int] = set(refused)
    kept: list[Match] = []
    for match in composites:
        if taken.isdisjoint(match.nodes):
            taken.update(match.nodes)
            kept.append(match)
    return tuple(sorted(kept, key=lambda match: match.nodes))
