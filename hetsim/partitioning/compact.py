"""Merge method ``compact``: few connected groups, by contraction that never closes a cycle."""

from __future__ import annotations

from collections.abc import Sequence

from hetsim.graph.dag import Dag
from hetsim.partitioning import stage
from hetsim.partitioning.condensed import Condensed
from hetsim.partitioning.partition import components

VISITS_PER_EDGE = 32
"""Search steps allowed an edge and node before the method gives up; graphs of layers need a few."""


THOROUGH_UP_TO = 10_000
"""Nodes up to which all four scans are made; above, the two that differ most."""

_SCANS = ((False, False), (True, True), (False, True), (True, False))
"""(from the sinks, producer by producer) of each scan, in the order they are made."""


def merge(dag: Dag, device_of: Sequence[int]) -> list[int]:
    """Label every node with a connected group, aiming at the fewest groups.

    Edges inside a device are contracted one by one on the graph of groups, whose
    topological order is maintained; an edge stays uncontracted where another path joins
    its ends, for then the contraction would close a cycle. What is contracted first decides
    what can be contracted later, so the edges are scanned from the sources, reader by
    reader, and from the sinks, producer by producer; graphs of up to THOROUGH_UP_TO nodes
    are also scanned the other two ways. The smallest result is kept, of equals the first.
    Where long edges make the searches too dear, a scan ends early, and its groups so far
    are valid; a last scan then starts from the connected parts of the ``stage`` groups.

    Complexity: O((V + E) * VISITS_PER_EDGE) at most; near linear on layered graphs.
    """
    mirror = Dag(preds=_mirrored(dag.succs), succs=_mirrored(dag.preds))
    best: list[int] = []
    fewest = dag.n + 1
    for backwards, by_producer in _SCANS if dag.n <= THOROUGH_UP_TO else _SCANS[:2]:
        if backwards:
            labels, finished = _contract(mirror, device_of[::-1], None, by_producer=by_producer)
            labels.reverse()
        else:
            labels, finished = _contract(dag, device_of, None, by_producer=by_producer)
        count = len(set(labels))
        if count < fewest:
            best, fewest = labels, count
        if not finished:
            parts = components(dag, stage.merge(dag, device_of))
            labels, _ = _contract(dag, device_of, parts, by_producer=False)
            return min(best, labels, key=lambda found: len(set(found)))
    return best


def _mirrored(neighbours: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """The same graph with node v as n - 1 - v."""
    last = len(neighbours) - 1
    return tuple(tuple(last - u for u in reversed(row)) for row in reversed(neighbours))


def _contract(
    dag: Dag, device_of: Sequence[int], groups: Sequence[int] | None, *, by_producer: bool
) -> tuple[list[int], bool]:
    """Scan the edges once, from `groups` or single nodes on; whether the visit budget lasted."""
    n = dag.n
    budget = VISITS_PER_EDGE * (n + sum(map(len, dag.preds)))
    condensed = Condensed(dag.preds, dag.succs, budget)
    if groups is not None:
        condensed.adopt(groups)
    neighbours = dag.succs if by_producer else dag.preds
    for node in range(n):
        for other in reversed(neighbours[node]):
            if device_of[other] == device_of[node]:
                condensed.contract(min(node, other), max(node, other))
        if condensed.budget < 0:
            break
    return [condensed.find(v) for v in range(n)], condensed.budget >= 0
