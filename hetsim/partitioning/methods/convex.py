"""Merge method ``convex``: the source-first walk of the node-partitioning patent."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from hetsim.graph.dag import Dag
from hetsim.partitioning.scans import walked

VISITS_PER_EDGE = 256
"""Visits of edges by searches, per edge and node, before the walk stops; few are needed."""


def merge(dag: Dag, device_of: Sequence[int]) -> list[int]:
    """Return a connected group label per node; see ``merge_with_notes``."""
    return merge_with_notes(dag, device_of)[0]


def merge_with_notes(dag: Dag, device_of: Sequence[int]) -> tuple[list[int], tuple[str, ...]]:
    """Return the labels of a walk from the sources that contracts edges without a parallel path.

    Start nodes are taken breadth first, sources first. From each, the ends of outgoing edges are
    examined in graph order: an end on the same device that no other path leads to joins the start,
    which takes over its edges. Passes repeat until one contracts nothing. Paths are searched in the
    graph of groups instead of nodes, so no two groups can feed each other.

    A node that its device must run separately has a unique device number.

    Complexity: O((V + E) * VISITS_PER_EDGE) at most, and a sort; near linear on layered graphs, and
    less than that times the root of V where edges join nodes anywhere. If the search budget runs
    out, the groups so far are returned with a note. Not always the fewest groups, whatever the
    source claims. Source: publication of 2021-10-26, node partitioning of a computation graph,
    steps 1 to 3 and examples 1 and 2. How another path between an edge's ends is sought, which the
    source leaves open, is said at ``condensed`` and ``scans.walk``.
    """
    budget = VISITS_PER_EDGE * (dag.n + sum(map(len, dag.preds)))
    labels, lasted = walked(dag, device_of, list(_breadth_first(dag)), budget)
    return labels, () if lasted else ("the search budget ended before the walk did",)


def _breadth_first(dag: Dag) -> Iterator[int]:
    """Yield every node once, the sources first."""
    queue = deque(node for node, preds in enumerate(dag.preds) if not preds)
    seen = set(queue)
    while queue:
        node = queue.popleft()
        yield node
        for target in dag.succs[node]:
            if target not in seen:
                seen.add(target)
                queue.append(target)
