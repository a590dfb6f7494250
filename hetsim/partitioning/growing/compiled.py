"""Contractions of large graphs by machine code: what ``Condensed`` gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from hetsim.graph.dag import Ints, Rows
from hetsim.partitioning.growing.kernels import (
    BEHIND,
    PARENT,
    POSITION,
    RAW,
    compiled_scan,
    scan_is_kept,
)
from hetsim.partitioning.growing.positions import WIDTH
from hetsim.partitioning.growing.selecting import compiled_select
from hetsim.partitioning.growing.walking import LANDMARKS, compiled_walk
from hetsim.partitioning.on_arrays import first_of_label, least_order

COMPILE_FROM, KEPT_FROM = 50_000, 4_000
"""Nodes from which machine code pays, though numba must be loaded for it; and where it is kept."""

LOADED_FROM = 2_000
"""The same where this process has loaded it already."""

SCANNED_FROM = 100
"""The same of a scan, where it is that which was loaded."""

LOAD_AFTER, COMPILE_AFTER = 6_000, 600_000
"""Nodes of all scans that were left to Python, from which on loading the machine code costs less
than it saves; and the same where none is kept."""

SMALL = np.int32
"""Of node and edge ids where they are looked up out of order: half of them fit a cache more."""

_left = [0]


def pays(n: int, loaded: int | None = None, kept: Callable[[], bool] = scan_is_kept) -> bool:
    """Whether a graph of `n` nodes is for machine code; the answers are the same.

    Parameters
    ----------
    n : int
    loaded : int, optional
        How many of the functions that are to be called this process has loaded; absent: of those
        that contract edges.
    kept : callable
        Whether object code of them is.
    """
    if loaded is None:
        loaded = sum(one.cache_info().currsize for one in (compiled_scan, compiled_walk))
    if loaded or n >= COMPILE_FROM:
        return n >= LOADED_FROM
    return n >= KEPT_FROM and kept()


def scan_pays(n: int) -> bool:
    """Whether a scan of `n` nodes, one of many, is for machine code; see ``pays``."""
    if pays(n):
        return True
    if n < SCANNED_FROM:
        return False
    if compiled_scan.cache_info().currsize:
        return True
    _left[0] += n
    return _left[0] >= COMPILE_AFTER or (_left[0] >= LOAD_AFTER and scan_is_kept())


def scanned(
    preds: Rows,
    succs: Rows,
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
    preds, succs : Rows
        Of a DAG whose ids are a topological order.
    kind : sequence of int
        An edge is contracted where its ends are of one.
    budget : int
        Edges that searches may look at before the scan ends, after the node at hand.
    groups : sequence of int, optional
        Labels of the groups to start from, as in ``Condensed.adopt``; absent: single nodes.
    order : sequence of int, optional
        The nodes in the order of the scan; absent: as they are numbered.
    by_producer : bool
        Whether a node's edges are those that leave it, or those that enter it.
    downwards : bool
        Whether its last neighbour comes first.

    Returns
    -------
    By node what ``Condensed.find`` gives after the same contractions, and whether the budget has
    lasted.
    """
    n = len(preds.at) - 1
    near = succs if by_producer else preds
    state = _State(preds, succs, groups)
    within = compiled_scan()(
        *state.arrays, np.arange(n) if order is None else np.array(order, dtype=np.int64),
        near.at, near.node, np.array(kind, dtype=np.int64), downwards, budget,
    )  # fmt: skip
    return state.labels(), bool(within)


def walked(
    preds: Rows, succs: Rows, kind: Sequence[int], order: Sequence[int], budget: int
) -> tuple[list[int], bool]:
    """Do the walk of ``convex.solve`` from the nodes in `order`; see ``scanned``."""
    n = len(preds.at) - 1
    state = _State(preds, succs, None)
    within = compiled_walk()(
        *state.arrays, np.array(order, dtype=np.int64), succs.at, succs.node,
        np.array(kind, dtype=np.int64), np.full(n, -1, dtype=SMALL), np.arange(n, dtype=SMALL),
        np.zeros(n, dtype=SMALL), np.empty(n, dtype=SMALL), np.full(succs.node.size, -1, SMALL),
        np.empty(n, dtype=SMALL), np.zeros((n, 3), dtype=np.int64),
        np.empty(LANDMARKS + 1, dtype=np.int64), budget,
    )  # fmt: skip
    return state.labels(), bool(within)


def selected(preds: Rows, succs: Rows, kind: Sequence[int]) -> list[int]:
    """By node the first node of its group, as the rounds of ``greedy.solve`` leave it."""
    kinds = np.array(kind, dtype=np.int64)
    labels: list[int] = compiled_select()(
        succs.at, succs.node, preds.at, preds.node, kinds, np.unique(kinds)
    ).tolist()
    return labels


class _State:
    """The arrays that the kernels take, as they are before the first contraction."""

    def __init__(self, preds: Rows, succs: Rows, groups: Sequence[int] | None) -> None:
        n = len(preds.at) - 1
        edges = preds.node.size
        parent = np.arange(n)
        order: Sequence[int] | None = range(n)
        lists = [preds, succs]
        if groups is not None:
            parent = first_of_label(np.array(groups, dtype=np.int64))
            source, target = parent[succs.owner], parent[succs.node]
            apart = source != target
            order = least_order(n, source[apart], target[apart])
            if order is None:
                raise AssertionError("the groups to start from depend on each other in a circle")
            lists = [_outside(rows, parent) for rows in lists]
        joined = np.full((2, edges, 2), -1, dtype=SMALL)
        raw, behind = joined[:, :, RAW], joined[:, :, BEHIND]
        head = np.full((2, n), -1, dtype=SMALL)
        tail = np.full((2, n), -1, dtype=SMALL)
        size = np.zeros((2, n), dtype=SMALL)
        for way, rows in enumerate(lists):
            count = rows.node.size
            raw[way, :count] = rows.node
            size[way] = np.diff(rows.at)
            some = np.flatnonzero(size[way])
            head[way, some] = rows.at[some]
            tail[way, some] = rows.at[some + 1] - 1
            behind[way, :count] = np.arange(1, count + 1)
            behind[way, tail[way, some]] = -1
        position, following, leading = _standing(np.array(order, dtype=np.int64))
        self.groups = np.zeros((n + 1, 3), dtype=np.int64)
        self.groups[:n, PARENT], self.groups[:, POSITION] = parent, position
        self.arrays = (
            self.groups, joined, following, leading, head, tail, size,
            np.empty(n, dtype=SMALL), np.empty(n, dtype=SMALL), np.zeros(4, dtype=np.int64),
        )  # fmt: skip

    def labels(self) -> list[int]:
        """The representative of each node's group."""
        found = self.groups[:-1, PARENT]
        while not np.array_equal(above := found[found], found):
            found = above
        labels: list[int] = found.tolist()
        return labels


def _standing(order: Ints) -> tuple[Ints, NDArray[np.int32], NDArray[np.int32]]:
    """Return what ``positions.standing`` does."""
    n = order.size
    position = np.full(n + 1, -1)
    position[order] = np.arange(n) * (WIDTH // (n + 1))
    following, leading = np.empty(n + 1, dtype=SMALL), np.empty(n + 1, dtype=SMALL)
    around = np.concatenate(([n], order, [n]))
    following[around[:-1]] = around[1:]
    leading[around[1:]] = around[:-1]
    return position, following, leading


def _outside(rows: Rows, parent: Ints) -> Rows:
    """The lists of groups: what those of their nodes hold that is not in the group itself."""
    group = parent[rows.owner]
    apart = group != parent[rows.node]
    return Rows.sorted_by(len(parent), group[apart], rows.node[apart])
