"""Merge method ``byoc``: TVM's merging of compiler regions, without its stale restrictions."""

from __future__ import annotations

from collections.abc import Sequence

from hetsim.graph.dag import Dag
from hetsim.partitioning.scans import scanned

VISITS_PER_EDGE = 256
"""Visits of edges by searches, per edge and node, before the walk stops; few are needed."""


def merge(dag: Dag, device_of: Sequence[int]) -> list[int]:
    """Return a connected group label per node; see ``merge_with_notes``."""
    return merge_with_notes(dag, device_of)[0]


def merge_with_notes(dag: Dag, device_of: Sequence[int]) -> tuple[list[int], tuple[str, ...]]:
    """Return a connected group label per node, merging each region with those that feed it.

    Regions are visited once, in graph order. A region is merged with each input region of its own
    device, earliest first, unless it also depends on that region through another one. The source
    keeps the set of such restrictions per region and copies it on merging, so that it becomes stale
    for regions outside the merge; here a path is searched in the current graph of regions, so no
    two regions can feed each other. Regions may have several outputs.

    Complexity: O((V + E) * VISITS_PER_EDGE) at most; near linear on layered graphs. If the search
    budget runs out, the regions so far are returned with a note. Source: TVM RFC, Improved graph
    partitioning algorithm, as steps 3 and 4 of An extended graph partitioning flow.
    """
    budget = VISITS_PER_EDGE * (dag.n + sum(map(len, dag.preds)))
    labels, lasted = scanned(dag, device_of, budget, downwards=False)
    notes = () if lasted else ("the search budget ended before all regions were visited",)
    return labels, notes
