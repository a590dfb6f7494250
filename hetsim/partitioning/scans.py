"""Contractions of a graph's edges by one scan or by the walk of ``convex``, and repair.

Large graphs are processed in machine code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.core import compile_threshold
from hetsim.core.heaps import pop_key, push_key
from hetsim.core.machine_code import Compiled, machine_code
from hetsim.graph.dag import Dag, NodeRows
from hetsim.partitioning.condensed import (
    BETWEEN,
    COUNT,
    PARTS,
    Ints,
    contract,
    find,
    scan,
    standing,
)
from hetsim.problem.groups import by_label, first_of_label, least_order, order_groups


def walk(
    parent: Ints, position: Ints, following: Ints, leading: Ints, head: Any, tail: Any, size: Any,
    behind: Any, raw: Any, seen: Ints, above: Ints, below: Ints, tally: Ints, order: Ints,
    at: Ints, succ: Ints, kind: Ints, member: Ints, last: Ints, met: Ints, edge: Ints,
    barrier: Ints, ends: Ints, budget: int,
) -> bool:  # fmt: skip
    """Run the passes of method ``convex``; return whether the budget lasted.

    If a path forbade a contraction, a group on it is stored with the edge: as long as that group is
    neither end's, the path still exists, and no search is needed.

    Parameters
    ----------
    parent, ..., tally
        Graph of groups, as in ``condensed.scan``.
    order : int [n]
        Start nodes in order.
    at, succ : int
        Successors of each node, as in ``NodeRows``.
    kind : int [n]
    member, last : int [n], -1 and the node itself
        By node the next one in its group, and by group its last.
    met : int [n], 0
        By node the last start that examined it.
    edge, ends : int [n], room to work in
        By node the edge by which it was reached.
    barrier : int [E], -1
        By edge a group on a path that forbade its contraction.
    budget : int
        Edges that searches may visit.
    """
    groups, search = (parent, position, following, leading), (seen, above, below, tally)
    preds = head[0], tail[0], size[0], behind[0], raw[0]
    succs = head[1], tail[1], size[1], behind[1], raw[1]
    turn = 0
    changed = True
    while changed:
        changed = False
        for start in order:
            if parent[start] != start:
                continue
            turn += 1
            waiting = 0
            fresh = start
            while True:
                while fresh >= 0:
                    for k in range(at[fresh], at[fresh + 1]):
                        end = succ[k]
                        if kind[end] == kind[start] and met[end] != turn:
                            met[end], edge[end] = turn, k
                            push_key(ends, 0, waiting, end)
                            waiting += 1
                    fresh = member[fresh]
                if not waiting:
                    break
                end = ends[0]
                pop_key(ends, 0, waiting)
                waiting -= 1
                other = find(parent, end)
                if other == start:
                    continue
                if barrier[edge[end]] >= 0:
                    between = find(parent, barrier[edge[end]])
                    if between != start and between != other:
                        continue
                if contract(groups, preds, succs, search, start, other):
                    changed = True
                    fresh = other
                    member[last[start]], last[start] = other, last[other]
                else:
                    barrier[edge[end]] = tally[BETWEEN]
                if tally[COUNT] > budget:
                    return False
    return True


COMPILE_FROM, LEAST = 200_000, 1_000
"""Nodes scanned by a process from which machine code pays off (interpreted in about one second),
and nodes of one scan, whose arrays take time to hand over."""

SMALL = np.int32
"""Type of node and edge ids in random access, half the size for better caching."""


def scanned(
    dag: Dag,
    kind: Sequence[int],
    budget: int,
    *,
    groups: Sequence[int] | None = None,
    order: Sequence[int] | None = None,
    by_producer: bool = False,
    downwards: bool = True,
) -> tuple[list[int], bool]:
    """Return the groups after contracting all same-kind edges that close no cycle.

    Parameters
    ----------
    dag : Dag
    kind : sequence of int
        An edge is contracted if its ends have the same kind.
    budget : int
        Edges that searches may visit before the scan ends, after the current node.
    groups : sequence of int, optional
        Labels of the initial groups, whose graph must be acyclic; absent: single nodes.
    order : sequence of int, optional
        Nodes in the order of the scan; absent: by number.
    by_producer : bool
        Whether a node's outgoing edges are scanned, or its incoming ones.
    downwards : bool
        Whether a node's last neighbour comes first.

    Returns
    -------
    By node a node of its group, and whether the budget lasted.
    """
    near = dag.succ_rows if by_producer else dag.pred_rows
    nodes = range(dag.n) if order is None else order
    return _contracted(_SCAN, dag, groups, nodes, near, kind, [], downwards, budget)


def walked(
    dag: Dag, kind: Sequence[int], order: Sequence[int], budget: int
) -> tuple[list[int], bool]:
    """Return the groups of the walk of ``convex`` from the nodes in `order`; see ``scanned``."""
    n, rows = dag.n, dag.succ_rows
    room: list[NDArray[Any]] = [
        np.full(n, -1, SMALL), np.arange(n, dtype=SMALL), np.zeros(n, SMALL), np.empty(n, SMALL),
        np.full(rows.node.size, -1, SMALL), np.empty(n, SMALL),
    ]  # fmt: skip
    return _contracted(_WALK, dag, None, order, rows, kind, room, budget)


_SCAN = machine_code(scan, *PARTS, inline=True)
_WALK = machine_code(walk, *PARTS, push_key, pop_key, inline=True)


def _contracted(
    code: Compiled,
    dag: Dag,
    groups: Sequence[int] | None,
    order: Sequence[int],
    near: NodeRows,
    kind: Sequence[int],
    room: Sequence[NDArray[Any]],
    *more: int,
) -> tuple[list[int], bool]:
    """Return the groups after running `code` on the graph of groups, and its result."""
    state = graph_of_groups(dag, groups)
    if compile_threshold.pays(code, dag.n, LEAST, COMPILE_FROM):
        nodes, kinds = np.array(order, dtype=np.int64), np.array(kind, dtype=np.int64)
        within = code(*state, nodes, near.at, near.node, kinds, *room, *more)
        found = state[0]
        while not np.array_equal(above := found[found], found):
            found = above
        return found.tolist(), bool(within)
    lists = [array.tolist() for array in state]
    rows = near.at.tolist(), near.node.tolist()
    within = code.plain(*lists, order, *rows, kind, *(one.tolist() for one in room), *more)
    return [find(lists[0], node) for node in range(dag.n)], within


def graph_of_groups(dag: Dag, labels: Sequence[int] | None = None) -> list[NDArray[Any]]:
    """Return the graph of groups before the first contraction: single nodes, or `labels`.

    The arrays are the first arguments of ``condensed.scan``.
    """
    n = dag.n
    parent = order = np.arange(n)
    preds, succs = dag.pred_rows, dag.succ_rows
    if labels is not None:
        parent = first_of_label(np.array(labels, dtype=np.int64))
        source, target = parent[succs.owner], parent[succs.node]
        apart = source != target
        found = least_order(n, source[apart], target[apart])
        if found is None:
            raise AssertionError("the initial groups form a cycle")
        order = np.array(found, dtype=np.int64)
        preds, succs = _outside(preds, parent), _outside(succs, parent)
    edges = preds.node.size
    head, tail, size = (np.empty((2, n), dtype=SMALL) for _ in range(3))
    behind, raw = np.empty((2, edges), dtype=SMALL), np.empty((2, edges), dtype=SMALL)
    for way, rows in enumerate((preds, succs)):
        size[way] = np.diff(rows.at)
        some = size[way] > 0
        head[way] = np.where(some, rows.at[:-1], -1)
        tail[way] = np.where(some, rows.at[1:] - 1, -1)
        behind[way] = np.arange(1, edges + 1)
        behind[way, tail[way, some]] = -1
        raw[way] = rows.node
    seen, above, below = np.zeros(n, SMALL), np.empty(n, SMALL), np.empty(n, SMALL)
    return [
        parent.astype(SMALL), *standing(order), head, tail, size, behind, raw, seen, above, below,
        np.zeros(4, dtype=np.int64),
    ]  # fmt: skip


def _outside(rows: NodeRows, parent: NDArray[np.int64]) -> NodeRows:
    """Return the edges of groups that leave them, from those of their nodes."""
    group = parent[rows.owner]
    apart = group != parent[rows.node]
    return NodeRows.sorted_by(len(parent), group[apart], rows.node[apart])


@dataclass(frozen=True, slots=True)
class SplitGroup:
    """Group that was split, and its connected parts by first node."""

    nodes: tuple[int, ...]
    parts: tuple[tuple[int, ...], ...]


def repair(dag: Dag, labels: Sequence[int]) -> tuple[list[int], tuple[SplitGroup, ...]]:
    """Return the labels after splitting groups until their graph is acyclic.

    Groups are rebuilt from single nodes, the largest first (ties: the earliest node first), edge by
    edge in graph order; an edge whose contraction would close a cycle with existing groups stays
    cut. So a group that is on no cycle is never split, and of two convex ones that feed each other
    the larger stays whole.

    Complexity: O((V + E) V) at most; near linear where paths between groups are short.
    """
    if order_groups(dag, labels) is not None:
        return list(labels), ()
    members = by_label(labels)
    grown = sorted(members.values(), key=lambda nodes: (-len(nodes), nodes[0]))
    first: dict[int, int] = {}
    fresh = [first.setdefault(part, node) for node, part in enumerate(_grown(dag, labels, grown))]
    splits: list[SplitGroup] = []
    for nodes in members.values():
        parts: dict[int, list[int]] = {}
        for node in nodes:
            parts.setdefault(fresh[node], []).append(node)
        if len(parts) > 1:
            splits.append(SplitGroup(tuple(nodes), tuple(tuple(part) for part in parts.values())))
    return fresh, tuple(splits)


def _grown(dag: Dag, labels: Sequence[int], members: Sequence[Sequence[int]]) -> list[int]:
    """Return the labels after rebuilding `members` one after another; one label per node."""
    order = [node for nodes in members for node in nodes]
    return scanned(dag, labels, 2**62, order=order)[0]
