"""Split groups that depend on each other, so that a partition has an execution order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hetsim.graph.dag import Dag
from hetsim.partitioning.growing.scans import scanned
from hetsim.problem.groups import order_groups


@dataclass(frozen=True, slots=True)
class Split:
    """A group that could not stay whole, and the connected parts it became, by first node."""

    nodes: tuple[int, ...]
    parts: tuple[tuple[int, ...], ...]


def repair(dag: Dag, labels: Sequence[int]) -> tuple[list[int], tuple[Split, ...]]:
    """Split groups until the graph of groups is acyclic.

    Groups are put together anew from single nodes, the largest first (ties: the earliest
    node first), edge by edge in graph order; an edge whose contraction would close a cycle
    with what stands already is left cut. A group that is on no cycle is therefore never
    split, and of two convex ones that feed each other the larger stays whole.

    Parameters
    ----------
    labels : sequence of int
        A group label by node; each group weakly connected.

    Returns
    -------
    Labels, and the groups that were split, by first node. Where the groups were acyclic:
    the labels as given, and none.

    Complexity: O((V + E) V) at most; near linear where paths between groups are short.
    """
    if order_groups(dag, labels) is not None:
        return list(labels), ()
    members: dict[int, list[int]] = {}
    for node, label in enumerate(labels):
        members.setdefault(label, []).append(node)
    grown = sorted(members.values(), key=lambda nodes: (-len(nodes), nodes[0]))
    first: dict[int, int] = {}
    fresh = [first.setdefault(part, node) for node, part in enumerate(_grown(dag, labels, grown))]
    splits: list[Split] = []
    for nodes in members.values():
        parts: dict[int, list[int]] = {}
        for node in nodes:
            parts.setdefault(fresh[node], []).append(node)
        if len(parts) > 1:
            splits.append(Split(tuple(nodes), tuple(tuple(part) for part in parts.values())))
    return fresh, tuple(splits)


def _grown(dag: Dag, labels: Sequence[int], members: Sequence[Sequence[int]]) -> list[int]:
    """Put `members` together anew, one after another; a label a node."""
    order = [node for nodes in members for node in nodes]
    return scanned(dag, labels, 2**62, order=order)[0]
