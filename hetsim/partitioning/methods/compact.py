"""Merge method ``compact``: few connected groups, by contraction that never closes a cycle."""

from __future__ import annotations

from collections.abc import Sequence

from hetsim.graph.dag import Dag
from hetsim.partitioning.growing.fewest import improve
from hetsim.partitioning.growing.scans import scanned
from hetsim.partitioning.methods import stage
from hetsim.problem.groups import components

VISITS_PER_EDGE = 32
"""Edges that searches may look at, an edge and node, before the method gives up; it needs few."""


LEAST_BUDGETED = 30_000
"""Nodes and edges that smaller graphs are budgeted as: a search there is soon over anyway."""

VISITS_WITH_HOST = 8
"""The same for large graphs with the host's nodes left alone, before that is given up."""

THOROUGH_UP_TO = 10_000
"""Nodes up to which all four scans are made; above, the two that differ most."""

EVERY_START_UP_TO = 4_000
"""Nodes, times results to start from, up to which each equally good one is completed."""

_SCANS = ((False, False), (True, True), (False, True), (True, False))
"""(from the sinks, producer by producer) of each scan, in the order they are made."""


def merge(dag: Dag, device_of: Sequence[int], host: int | None = None) -> list[int]:
    """Label every node with a connected group, aiming at the fewest groups.

    Edges inside a device are contracted one by one on the graph of groups, whose
    topological order is maintained; an edge stays uncontracted where another path joins
    its ends, for then the contraction would close a cycle. What is contracted first decides
    what can be contracted later, so the edges are scanned from the sources, reader by
    reader, and from the sinks, producer by producer; graphs of up to THOROUGH_UP_TO nodes
    are also scanned the other two ways. The smallest result is kept, of equals the first.
    Where long edges make the searches too dear, a scan ends early, and its groups so far
    are valid; a last scan then starts from the connected parts of the ``stage`` groups.

    With a `host`, groups on the other devices count first, for those are what is compiled
    and dispatched elsewhere: they are made as few as possible while the host's nodes are
    left alone, and the host's nodes are merged in what room that leaves. Graphs of up to
    THOROUGH_UP_TO nodes are also solved without that, and the better result is kept; larger
    ones are scanned once for each of the two steps.

    A scan decides every edge once and takes nothing back, so that it can miss the minimum.
    Weakly connected parts of up to ``fewest.SEARCHED_UP_TO`` nodes, of graphs of up to
    THOROUGH_UP_TO, are searched for it: there are no fewer groups, off the host first, there.

    Complexity: O((V + E) * VISITS_PER_EDGE) at most; near linear on layered graphs.
    """
    if host is None or host not in device_of:
        scanned = min(_scans(dag, device_of), key=_count)
        return improve(dag, device_of, scanned) if dag.n <= THOROUGH_UP_TO else scanned
    apart = [device if device != host else -1 - v for v, device in enumerate(device_of)]
    if dag.n > THOROUGH_UP_TO:
        labels, finished = _contract(dag, apart, None, by_producer=False, visits=VISITS_WITH_HOST)
        if not finished:
            return min(_scans(dag, device_of), key=_count)
        return _contract(dag, device_of, labels, by_producer=False)[0]
    starts = sorted(_scans(dag, apart), key=_count)
    most = EVERY_START_UP_TO // max(dag.n, 1)
    starts = [labels for labels in starts if _count(labels) == _count(starts[0])][: max(1, most)]
    found = [labels for start in starts for labels in _around(dag, device_of, start)]
    found += _scans(dag, device_of)

    def size(labels: Sequence[int]) -> tuple[int, int]:
        pairs = zip(labels, device_of, strict=True)
        return len({label for label, device in pairs if device != host}), _count(labels)

    return improve(dag, device_of, min(found, key=size), host)


def _count(labels: Sequence[int]) -> int:
    return len(set(labels))


def _around(dag: Dag, device_of: Sequence[int], groups: Sequence[int]) -> list[list[int]]:
    """Merge what can still be merged around `groups`, scanned from either end."""
    mirror = dag.mirrored()
    forwards, _ = _contract(dag, device_of, groups, by_producer=False)
    backwards, _ = _contract(mirror, device_of[::-1], groups[::-1], by_producer=True)
    return [forwards, backwards[::-1]]


def _scans(dag: Dag, device_of: Sequence[int]) -> list[list[int]]:
    """What each scan gives, in the order they are made; see ``merge``."""
    mirror = dag.mirrored()
    found: list[list[int]] = []
    for backwards, by_producer in _SCANS if dag.n <= THOROUGH_UP_TO else _SCANS[:2]:
        if backwards:
            labels, finished = _contract(mirror, device_of[::-1], None, by_producer=by_producer)
            labels.reverse()
        else:
            labels, finished = _contract(dag, device_of, None, by_producer=by_producer)
        found.append(labels)
        if not finished:
            parts = components(dag, stage.merge(dag, device_of))
            found.append(_contract(dag, device_of, parts, by_producer=False)[0])
            break
    return found


def _contract(
    dag: Dag,
    device_of: Sequence[int],
    groups: Sequence[int] | None,
    *,
    by_producer: bool,
    visits: int | None = None,
) -> tuple[list[int], bool]:
    """Scan the edges once, from `groups` or single nodes on; whether the visit budget lasted."""
    each = VISITS_PER_EDGE if visits is None else visits
    budget = each * max(dag.n + sum(map(len, dag.preds)), LEAST_BUDGETED)
    return scanned(dag, device_of, budget, groups=groups, by_producer=by_producer)
