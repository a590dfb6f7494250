"""Groups of nodes: the record, how they feed each other, and their execution order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from hetsim.graph.dag import Dag, joined, topological_order
from hetsim.partitioning import on_arrays


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes that one device takes as a subgraph: its name, and the node ids in graph order."""

    device: str
    nodes: tuple[int, ...]


def owners(n: int, groups: Sequence[Group]) -> list[int]:
    """Return the index of each node's group, -1 where it is in none; a later group wins. O(n)."""
    owner = [-1] * n
    for index, group in enumerate(groups):
        for node in group.nodes:
            if 0 <= node < n:
                owner[node] = index
    return owner


def condense(dag: Dag, owner: Sequence[int], count: int) -> list[list[int]]:
    """Return the successors of each of `count` groups, ascending. O(V + E)."""
    succs: list[set[int]] = [set() for _ in range(count)]
    for u, v in dag.edges():
        if owner[u] != owner[v]:
            succs[owner[u]].add(owner[v])
    return [sorted(targets) for targets in succs]


def order_groups(
    dag: Dag, labels: Sequence[int], rank: Sequence[float] | None = None
) -> list[tuple[int, ...]] | None:
    """Sort the groups that `labels` names into execution order.

    Parameters
    ----------
    dag : Dag
    labels : sequence of int
        Any label a node; nodes of one label form a group.
    rank : sequence of float, optional
        Priority by node, smaller first; a group takes its least. Absent: the node id.

    Returns
    -------
    The groups' nodes, each ascending, so that every group stands after all that feed it
    and, among those that could stand next, the least rank comes first; None where the
    graph of groups has a cycle. O(V + E + G log G).
    """
    if dag.n >= on_arrays.LARGE_FROM:
        return on_arrays.order_groups(dag, labels, rank)
    index_of: dict[int, int] = {}
    members: list[list[int]] = []
    owner: list[int] = []
    for node, label in enumerate(labels):
        index = index_of.setdefault(label, len(members))
        if index == len(members):
            members.append([])
        members[index].append(node)
        owner.append(index)
    if rank is None:
        key = [(float(nodes[0]), nodes[0]) for nodes in members]
    else:
        key = [min((rank[node], node) for node in nodes) for nodes in members]
    order = topological_order(condense(dag, owner, len(members)), key)
    return None if order is None else [tuple(members[index]) for index in order]


def components(dag: Dag, labels: Sequence[int], ties: Iterable[Sequence[int]] = ()) -> list[int]:
    """Split every label into weakly connected parts: a fresh label a node. O(V + E).

    Nodes of one tie count as joined by edges.
    """
    tied = ((nodes[0], node) for nodes in ties for node in nodes)
    return joined(dag.n, ((u, v) for u, v in chain(dag.edges(), tied) if labels[u] == labels[v]))


def component_counts(
    dag: Dag, owner: Sequence[int], count: int, ties: Iterable[Sequence[int]] = ()
) -> list[int]:
    """Return how many weakly connected parts each of `count` groups has. O(V + E)."""
    roots: list[set[int]] = [set() for _ in range(count)]
    for node, root in enumerate(components(dag, owner, ties)):
        roots[owner[node]].add(root)
    return [len(parts) for parts in roots]


def as_groups(
    parts: Iterable[tuple[int, ...]], device_of: Sequence[int], devices: Sequence[str]
) -> tuple[Group, ...]:
    """Name the device of each part by that of its first node."""
    return tuple(Group(devices[device_of[nodes[0]]], nodes) for nodes in parts)
