"""Merge method ``boundary``: OpenVINO's HETERO of today, every edge between devices a boundary."""

from __future__ import annotations

from collections.abc import Sequence

from hetsim.graph.dag import Dag
from hetsim.partitioning.growing import compiled
from hetsim.partitioning.methods.boundary import on_arrays
from hetsim.partitioning.methods.boundary.cuts import Cuts, Wiring
from hetsim.partitioning.methods.boundary.cycles import cut_cycles
from hetsim.partitioning.methods.boundary.reentry import cut_reentry


def merge(dag: Dag, device_of: Sequence[int]) -> list[int]:
    """Label every node with a connected group, cutting only where a rule asks for it.

    Every edge between devices is a boundary, and what the other edges connect is a group.
    Then edges inside groups are promoted to boundaries: first where data that has left a
    group comes back into it (``cut_reentry``), then, where groups still feed each other,
    around one node after another (``cut_cycles``). A constant is no node here, so one that
    several nodes share never connects them.

    Complexity: near linear where groups are local. On a chain that changes device at every
    node, O(V). Large graphs are worked off by machine code, to the same groups.
    Source: OpenVINO 2026.4, HETERO plugin, subgraph collector, re-expressed. It keeps a bit
    set of all boundaries at every node, which makes it quadratic in the groups; here every
    group is worked off by itself.
    """
    if compiled.pays(
        2 * dag.n, on_arrays.compiled_bounds.cache_info().currsize, on_arrays.bounds_are_kept
    ):
        return on_arrays.groups_of(dag, device_of)
    return groups_of(Wiring.of_dag(dag), device_of).label


def groups_of(wiring: Wiring, device_of: Sequence[int]) -> Cuts:
    """Apply the whole rule; return the boundaries and the groups they leave."""
    cuts = Cuts(wiring, device_of)
    cut_reentry(cuts)
    cut_cycles(cuts)
    return cuts
