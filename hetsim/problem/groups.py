"""Groups of nodes: their record, dependencies and execution order."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from hetsim.core.text import grouped
from hetsim.graph.dag import Dag, Ints, NodeRows, different_pairs, least_joined


@dataclass(frozen=True, slots=True)
class Group:
    """Group of nodes that a device runs as a subgraph: device name, and node ids in graph order."""

    device: str
    nodes: tuple[int, ...]


def owners(n: int, groups: Sequence[Group]) -> list[int]:
    """Return the group index of each node, -1 for none; the last group wins. O(n)."""
    owner = [-1] * n
    for index, group in enumerate(groups):
        for node in group.nodes:
            if 0 <= node < n:
                owner[node] = index
    return owner


def condense(dag: Dag, owner: Sequence[int] | Ints, count: int) -> tuple[tuple[int, ...], ...]:
    """Return the successors of each of `count` groups, ascending. O(V + E log E)."""
    pairs = _crossing(dag, np.asarray(owner, dtype=np.int64), count)
    return NodeRows.sorted_by(count, *pairs).tuples()


def _crossing(dag: Dag, owner: Ints, count: int) -> tuple[Ints, Ints]:
    """Return the distinct edges between different groups."""
    source, target = owner[dag.succ_rows.owner], owner[dag.succ_rows.node]
    apart = source != target
    return different_pairs(count, source[apart], target[apart])


def order_groups(
    dag: Dag, labels: Sequence[int], rank: Sequence[float] | None = None
) -> list[tuple[int, ...]] | None:
    """Return the nodes of each group in execution order; None if the graph of groups has a cycle.

    - `labels`: one per node; nodes with equal labels form a group.
    - `rank`: priority by node, smaller first; a group has that of its smallest. Absent: the id.

    Nodes ascend. Every group follows all that feed it; among those possible next, the least rank
    comes first. O((V + E) log (V + E)).
    """
    found = owners_in_order(dag, np.asarray(labels, dtype=np.int64), rank)
    if found is None:
        return None
    owner, count = found
    return list(NodeRows.sorted_by(count, owner, np.arange(dag.n)).tuples())


def owners_in_order(
    dag: Dag, labels: Ints, rank: Sequence[float] | Ints | None = None
) -> tuple[Ints, int] | None:
    """Return the position of each node's group in execution order, and the number of groups."""
    nodes = np.arange(dag.n)
    first = first_of_label(labels)
    leaders = np.flatnonzero(first == nodes)
    place = np.empty(dag.n, dtype=np.int64)
    if rank is not None:
        place[np.argsort(np.asarray(rank), kind="stable")] = nodes
        best = np.full(dag.n, dag.n)
        np.minimum.at(best, first, place)
        leaders = leaders[np.argsort(best[leaders])]
    place[leaders] = np.arange(leaders.size)
    owner, count = place[first], leaders.size
    if (owner[dag.succ_rows.owner] > owner[dag.succ_rows.node]).any():
        order = least_order(count, *_crossing(dag, owner, count))
        if order is None:
            return None
        later = np.empty(count, dtype=np.int64)
        later[order] = np.arange(count)
        owner = later[owner]
    return owner, count


def first_of_label(labels: Ints) -> Ints:
    """Return by node the first node with its label. O(n), or a sort if labels are sparse."""
    least = int(labels.min()) if labels.size else 0
    if labels.size and int(labels.max()) - least > 4 * labels.size:
        labels, least = np.unique(labels, return_inverse=True)[1], 0
    found = np.empty(int(labels.max()) - least + 1 if labels.size else 0, dtype=np.int64)
    # Of several writes to one index, the last one stays.
    found[labels[::-1] - least] = np.arange(labels.size - 1, -1, -1)
    first: Ints = found[labels - least]
    return first


def by_label(labels: Sequence[int]) -> dict[int, list[int]]:
    """Return the nodes of each label, ascending, in order of their first nodes. O(n)."""
    return grouped(zip(labels, range(len(labels)), strict=True))


def least_order(count: int, source: Ints, target: Ints) -> list[int] | None:
    """Return the lexicographically least topological order of 0 .. count - 1; None on a cycle."""
    succs = NodeRows.sorted_by(count, source, target)
    at, node = succs.at.tolist(), succs.node.tolist()
    waiting = np.bincount(target, minlength=count).tolist()
    ready = [u for u in range(count) if not waiting[u]]
    order: list[int] = []
    while ready:
        u = heapq.heappop(ready)
        order.append(u)
        for v in node[at[u] : at[u + 1]]:
            waiting[v] -= 1
            if not waiting[v]:
                heapq.heappush(ready, v)
    return order if len(order) == count else None


def components(dag: Dag, labels: Sequence[int]) -> list[int]:
    """Return by node the first node of its weakly connected part within its label."""
    first: list[int] = _first_of_part(dag, np.asarray(labels, dtype=np.int64), ()).tolist()
    return first


def component_counts(
    dag: Dag, owner: Sequence[int] | Ints, count: int, ties: Iterable[Sequence[int]] = ()
) -> list[int]:
    """Return the number of weakly connected parts of each of `count` groups.

    Nodes of one tie count as connected.
    """
    label = np.asarray(owner, dtype=np.int64)
    leads = _first_of_part(dag, label, ties) == np.arange(dag.n)
    parts: list[int] = np.bincount(label[leads], minlength=count).tolist()
    return parts


def _first_of_part(dag: Dag, label: Ints, ties: Iterable[Sequence[int]]) -> Ints:
    u, v = dag.succ_rows.owner, dag.succ_rows.node
    tied = [(nodes[0], node) for nodes in ties for node in nodes]
    if tied:
        pairs = np.array(tied, dtype=np.int64)
        u, v = np.concatenate((u, pairs[:, 0])), np.concatenate((v, pairs[:, 1]))
    alike = label[u] == label[v]
    return least_joined(dag.n, u[alike], v[alike])


def as_groups(
    parts: Iterable[tuple[int, ...]], device_of: Sequence[int], devices: Sequence[str]
) -> tuple[Group, ...]:
    """Return the groups of parts, each on the device of its first node."""
    return tuple(Group(devices[device_of[nodes[0]]], nodes) for nodes in parts)
