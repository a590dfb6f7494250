"""Merge method ``compact``: few connected groups, by contraction that never closes a cycle."""

from __future__ import annotations

from collections.abc import Sequence

from hetsim.graph.dag import Dag
from hetsim.partitioning import stage
from hetsim.partitioning.condensed import Condensed
from hetsim.partitioning.partition import components

VISITS_PER_EDGE = 32
"""Search steps allowed an edge and node before the method gives up; graphs of layers need a few."""


def merge(dag: Dag, device_of: Sequence[int]) -> list[int]:
    """Label every node with a connected group, aiming at the fewest groups.

    Edges inside a device are contracted one by one on the graph of groups, whose
    topological order is maintained; an edge stays uncontracted where another path joins
    its ends, for then the contraction would close a cycle. The scan runs once from the
    sources and once from the sinks, and the smaller result is kept. Where long edges make
    the searches too dear, a scan ends early, and its groups so far are valid; the second
    scan then starts from the connected parts of the ``stage`` groups instead.

    Complexity: O((V + E) * VISITS_PER_EDGE) at most; near linear on layered graphs.
    """
    first, finished = _contract(dag, device_of, None)
    if finished:
        backwards = Dag(preds=_mirrored(dag.succs), succs=_mirrored(dag.preds))
        second, _ = _contract(backwards, device_of[::-1], None)
        second.reverse()
    else:
        second, _ = _contract(dag, device_of, components(dag, stage.merge(dag, device_of)))
    return min(first, second, key=lambda labels: len(set(labels)))


def _mirrored(neighbours: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """The same graph with node v as n - 1 - v."""
    last = len(neighbours) - 1
    return tuple(tuple(last - u for u in reversed(row)) for row in reversed(neighbours))


def _contract(
    dag: Dag, device_of: Sequence[int], groups: Sequence[int] | None
) -> tuple[list[int], bool]:
    """Scan the edges once, from `groups` or single nodes on; whether the visit budget lasted."""
    n = dag.n
    budget = VISITS_PER_EDGE * (n + sum(map(len, dag.preds)))
    condensed = Condensed(dag.preds, dag.succs, budget)
    if groups is not None:
        condensed.adopt(groups)
    for v in range(n):
        for u in reversed(dag.preds[v]):
            if device_of[u] == device_of[v]:
                condensed.contract(u, v)
        if condensed.budget < 0:
            break
    return [condensed.find(v) for v in range(n)], condensed.budget >= 0
