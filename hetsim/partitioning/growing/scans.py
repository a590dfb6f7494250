"""Contractions of a graph's edges by one scan, or by a walk; of large graphs by machine code."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.core import left_to_python
from hetsim.core.machine_code import machine_code
from hetsim.graph.dag import Dag, Ints, Rows
from hetsim.partitioning.growing.condensed import PARTS, find, scan
from hetsim.partitioning.growing.positions import standing
from hetsim.partitioning.growing.walking import LANDMARKS, WALK_PARTS, walk
from hetsim.problem.groups import first_of_label, least_order

COMPILE_FROM, LEAST = 200_000, 1_000
"""Nodes that take plain Python a second, of all scans of a process; of one scan, those that
outweigh handing over its arrays."""

SMALL = np.int32
"""Of node and edge ids where they are looked up out of order: half of them fit a cache more."""


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
    """Contract every edge within a kind, node by node, unless that closes a cycle.

    Parameters
    ----------
    dag : Dag
    kind : sequence of int
        An edge is contracted where its ends are of one.
    budget : int
        Edges that searches may look at before the scan ends, after the node at hand.
    groups : sequence of int, optional
        Labels of the groups to start from, which must not depend on each other in a circle;
        absent: single nodes.
    order : sequence of int, optional
        The nodes in the order of the scan; absent: as they are numbered.
    by_producer : bool
        Whether a node's edges are those that leave it, or those that enter it.
    downwards : bool
        Whether its last neighbour comes first.

    Returns
    -------
    A node of its group by node, and whether the budget has lasted.
    """
    near = dag.succ_rows if by_producer else dag.pred_rows
    nodes = range(dag.n) if order is None else order
    return _contracted(_SCAN, dag, groups, nodes, near, kind, [], downwards, budget)


def walked(
    dag: Dag, kind: Sequence[int], order: Sequence[int], budget: int
) -> tuple[list[int], bool]:
    """Do the walk of ``convex.solve`` from the nodes in `order`; see ``scanned``."""
    n, rows = dag.n, dag.succ_rows
    room: list[NDArray[Any]] = [
        np.full(n, -1, SMALL), np.arange(n, dtype=SMALL), np.zeros(n, SMALL), np.empty(n, SMALL),
        np.full(rows.node.size, -1, SMALL), np.empty(n, SMALL),
        *np.zeros((3, n), dtype=np.int64), np.empty(LANDMARKS + 1, dtype=np.int64),
    ]  # fmt: skip
    return _contracted(_WALK, dag, None, order, rows, kind, room, budget)


@dataclass(frozen=True)
class _Code:
    """A function as it stands and compiled."""

    plain: Callable[..., Any]
    compiled: Callable[[], Callable[..., Any]]

    def pays(self, nodes: int) -> bool:
        """Whether it is to be compiled for so many nodes."""
        return left_to_python.pays(self.compiled, self.plain, nodes, LEAST, COMPILE_FROM)


_SCAN = _Code(scan, functools.cache(lambda: machine_code(scan, *PARTS, inline=True)))
_WALK = _Code(walk, functools.cache(lambda: machine_code(walk, *WALK_PARTS, inline=True)))


def _contracted(
    code: _Code,
    dag: Dag,
    groups: Sequence[int] | None,
    order: Sequence[int],
    near: Rows,
    kind: Sequence[int],
    room: Sequence[NDArray[Any]],
    *more: int,
) -> tuple[list[int], bool]:
    """Call `code` on the graph of groups; the groups that it leaves, and what it says."""
    state = graph_of_groups(dag, groups)
    if code.pays(dag.n):
        nodes, kinds = np.array(order, dtype=np.int64), np.array(kind, dtype=np.int64)
        within = code.compiled()(*state, nodes, near.at, near.node, kinds, *room, *more)
        found = state[0]
        while not np.array_equal(above := found[found], found):
            found = above
        return found.tolist(), bool(within)
    lists = [array.tolist() for array in state]
    rows = near.at.tolist(), near.node.tolist()
    within = code.plain(*lists, order, *rows, kind, *(one.tolist() for one in room), *more)
    return [find(lists[0], node) for node in range(dag.n)], within


def graph_of_groups(dag: Dag, labels: Sequence[int] | None = None) -> list[NDArray[Any]]:
    """The graph of groups before the first contraction: of single nodes, or those of `labels`.

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
            raise AssertionError("the groups to start from depend on each other in a circle")
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


def _outside(rows: Rows, parent: Ints) -> Rows:
    """The lists of groups: what those of their nodes hold that is not in the group itself."""
    group = parent[rows.owner]
    apart = group != parent[rows.node]
    return Rows.sorted_by(len(parent), group[apart], rows.node[apart])
