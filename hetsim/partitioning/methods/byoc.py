"""Merge method ``byoc``: TVM's merging of compiler regions, without its stale restrictions."""

from __future__ import annotations

from collections.abc import Sequence

from hetsim.graph.dag import Dag
from hetsim.partitioning.scans import scanned

VISITS_PER_EDGE = 256
"""Edges that searches may look at, an edge and node, before the walk stops; it needs a few."""


def merge(dag: Dag, device_of: Sequence[int]) -> list[int]:
    """Label every node with a connected group; see ``merge_with_notes``."""
    return merge_with_notes(dag, device_of)[0]


def merge_with_notes(dag: Dag, device_of: Sequence[int]) -> tuple[list[int], tuple[str, ...]]:
    """Label every node with a connected group, merging each region with those that feed it.

    Regions are visited once, in graph order. A region is merged with each input region of its
    own device, the earliest first, unless it is restricted: unless it also depends on that
    region by way of another one. In the source, what a region is restricted by is a set that
    is copied when regions merge, and goes stale for the regions that are not a part of the
    merge; here a path is sought in the graph of regions as it is at that moment, so that no
    two regions can end up feeding each other. Regions may have several outputs.

    Complexity: O((V + E) * VISITS_PER_EDGE) at most; near linear on layered graphs. Where
    the search budget runs out, the regions so far are the answer, and a note says so.
    Source: TVM RFC, Improved graph partitioning algorithm, as steps 3 and 4 of An extended
    graph partitioning flow.
    """
    budget = VISITS_PER_EDGE * (dag.n + sum(map(len, dag.preds)))
    labels, lasted = scanned(dag, device_of, budget, downwards=False)
    notes = () if lasted else ("the search budget ended before all regions were visited",)
    return labels, notes
