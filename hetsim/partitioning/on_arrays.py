"""What ``groups`` and ``validator`` answer, of large graphs: the same, on arrays."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from hetsim.graph.dag import Dag, Ints, Rows, different_pairs

LARGE_FROM = 1_000
"""Nodes from which arrays are quicker than plain loops."""


def order_groups(
    dag: Dag, labels: Sequence[int], rank: Sequence[float] | None = None
) -> list[tuple[int, ...]] | None:
    """Return what ``groups.order_groups`` does. O((V + E) log (V + E))."""
    found = owners_in_order(dag, np.asarray(labels, dtype=np.int64), rank)
    if found is None:
        return None
    owner, count = found
    return list(Rows.sorted_by(count, owner, np.arange(dag.n)).tuples())


def owners_in_order(
    dag: Dag, labels: Ints, rank: Sequence[float] | Ints | None = None
) -> tuple[Ints, int] | None:
    """Return the place of each node's group in that order, and how many groups there are."""
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
    source, target = owner[dag.succ_rows.owner], owner[dag.succ_rows.node]
    apart = source != target
    source, target = different_pairs(count, source[apart], target[apart])
    if (source > target).any():
        order = least_order(count, source, target)
        if order is None:
            return None
        later = np.empty(count, dtype=np.int64)
        later[order] = np.arange(count)
        owner = later[owner]
    return owner, count


def first_of_label(labels: Ints) -> Ints:
    """Return, by node, the first node of its label. O(n), or a sort where labels are far apart."""
    least = int(labels.min()) if labels.size else 0
    if labels.size and int(labels.max()) - least > 4 * labels.size:
        labels, least = np.unique(labels, return_inverse=True)[1], 0
    found = np.empty(int(labels.max()) - least + 1 if labels.size else 0, dtype=np.int64)
    # Of what is written to one place, the last stays.
    found[labels[::-1] - least] = np.arange(labels.size - 1, -1, -1)
    first: Ints = found[labels - least]
    return first


def least_order(count: int, source: Ints, target: Ints) -> list[int] | None:
    """The topological order of 0 .. count - 1 that is least at every step; None on a cycle.

    Where no edge leads from a number above k to one up to k, those up to k all come first: in
    each of them that is left there is one that could stand next, and it is less than the rest.
    So numbers between two such k need no sorting where they are one.
    """
    back = source > target
    closed = np.zeros(count + 1, dtype=np.int64)
    np.add.at(closed, target[back], 1)
    np.add.at(closed, source[back], -1)
    open_after = np.cumsum(closed[:-1]) == 0
    alone = open_after & np.concatenate(([True], open_after[:-1]))
    part = np.cumsum(open_after) - open_after
    within = part[source] == part[target]
    succs = Rows.sorted_by(count, source[within], target[within])
    indegree = np.bincount(target[within], minlength=count)
    ready = np.flatnonzero(~alone & (indegree == 0)).tolist()
    waiting, at, node = indegree.tolist(), succs.at.tolist(), succs.node.tolist()
    sorted_ones: list[int] = []
    while ready:
        u = heapq.heappop(ready)
        sorted_ones.append(u)
        for v in node[at[u] : at[u + 1]]:
            waiting[v] -= 1
            if not waiting[v]:
                heapq.heappush(ready, v)
    mixed = np.flatnonzero(~alone)
    if len(sorted_ones) < mixed.size:
        return None
    order = np.arange(count)
    order[mixed] = sorted_ones
    return [int(index) for index in order.tolist()]


def is_valid(
    dag: Dag,
    groups: Rows,
    devices: Ints,
    supported: NDArray[np.bool_] | None,
    composites: Sequence[tuple[int, tuple[int, ...]]],
    *,
    connected: bool,
) -> bool:
    """Return whether ``validator.problems_of`` has nothing to say. O((V + E) log (V + E)).

    Parameters
    ----------
    dag : Dag
    groups : Rows
        The nodes of each, in execution order.
    devices : int array
        The index of each one's device; -1 where there is none.
    supported : bool array [n, P], optional
    composites : sequence of (device index, nodes)
    connected : bool
    """
    nodes, owner_at = groups.node, groups.owner
    if nodes.size != dag.n or (nodes.size and not 0 <= nodes.min() <= nodes.max() < dag.n):
        return False
    if (np.diff(groups.at) == 0).any() or (devices < 0).any():
        return False
    owner = np.full(dag.n, -1, dtype=np.int64)
    owner[nodes] = owner_at
    # As many as there are, and in the end none without an owner: each once.
    if (owner < 0).any() or ((nodes[1:] <= nodes[:-1]) & (owner_at[1:] == owner_at[:-1])).any():
        return False
    column = devices[owner]
    whole = [
        members
        for device, members in composites
        if column[members[0]] == device and (owner[list(members)] == owner[members[0]]).all()
    ]
    if supported is not None:
        able = supported[np.arange(dag.n), column]
        able[list(chain.from_iterable(whole))] = True
        if not able.all():
            return False
    source, target = dag.succ_rows.owner, dag.succ_rows.node
    if (owner[source] > owner[target]).any():
        return False
    if not connected:
        return True
    inside = owner[source] == owner[target]
    ties = [pair for members in whole for pair in pairwise(members)]
    tied = np.array(ties, dtype=np.int64).reshape(-1, 2)
    parts = joined(
        dag.n,
        np.concatenate((source[inside], tied[:, 0])),
        np.concatenate((target[inside], tied[:, 1])),
    )
    return int((parts == np.arange(dag.n)).sum()) == devices.size


def joined(n: int, u: Ints, v: Ints) -> Ints:
    """Return what ``dag.joined`` does of the pairs (u, v), on arrays.

    In every round each tree that touches one with an earlier root hangs below it.
    """
    root = np.arange(n)
    while True:
        a, b = root[u], root[v]
        apart = a != b
        if not apart.any():
            return root
        u, v = a[apart], b[apart]
        np.minimum.at(root, np.maximum(u, v), np.minimum(u, v))
        while not np.array_equal(above := root[root], root):
            root = above
