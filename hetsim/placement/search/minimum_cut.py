"""The nodes on the source's side of a minimum cut: the same set by scipy and by plain loops."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

PLAIN_ARCS = 500
"""Arcs up to which plain loops take less than loading scipy's graph algorithms does."""

_MOST = 2**30
"""Of a capacity, and of those between the same two nodes together: more is without end."""

Ints = NDArray[np.int64]


def source_side(
    size: int, tails: Ints, heads: Ints, capacities: Ints, source: int, sink: int
) -> NDArray[np.bool_]:
    """Return which nodes the source reaches where a maximum flow leaves room.

    Whichever maximum flow it is, these are the nodes on the source's side in every minimum cut, so
    that both ways give the same.

    Parameters
    ----------
    size : int
        Number of nodes.
    tails, heads, capacities : int array [m]
        Of the arcs; those between the same two nodes add up.
    source, sink : int

    Complexity: one maximum flow (Dinic, in scipy; by shortest augmenting paths in small networks,
    where scipy is not loaded yet).
    """
    if len(tails) <= PLAIN_ARCS and "scipy.sparse.csgraph" not in sys.modules:
        found = _plain(size, tails.tolist(), heads.tolist(), capacities.tolist(), source, sink)
        return np.array(found, dtype=bool)
    return _by_scipy(size, tails, heads, capacities, source, sink)


def _by_scipy(
    size: int, tails: Ints, heads: Ints, capacities: Ints, source: int, sink: int
) -> NDArray[np.bool_]:
    from scipy.sparse import coo_array, csr_array
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    network = coo_array((capacities, (tails, heads)), shape=(size, size)).tocsr()
    network.sum_duplicates()
    # The maximum flow counts in 32-bit integers.
    limited = np.minimum(network.data, _MOST).astype(np.int32)
    network = csr_array((limited, network.indices, network.indptr), shape=network.shape)
    flow = maximum_flow(network, source, sink).flow
    residual = csr_array(network - flow)
    residual.data = np.maximum(residual.data, 0)
    residual.eliminate_zeros()
    reached = np.zeros(size, dtype=bool)
    reached[breadth_first_order(residual, source, return_predecessors=False)] = True
    return reached


def _plain(
    size: int,
    tails: Sequence[int],
    heads: Sequence[int],
    capacities: Sequence[int],
    source: int,
    sink: int,
) -> list[bool]:
    """Edmonds and Karp, Theoretical Improvements in Algorithmic Efficiency, 1972."""
    room: list[dict[int, int]] = [{} for _ in range(size)]
    for tail, head, capacity in zip(tails, heads, capacities, strict=True):
        room[tail][head] = min(room[tail].get(head, 0) + capacity, _MOST)
        room[head].setdefault(tail, 0)
    while True:
        before = _reached(room, source, sink)
        if before[sink] < 0:
            return [node >= 0 for node in before]
        way = [sink]
        while way[-1] != source:
            way.append(before[way[-1]])
        arcs = list(zip(way[1:], way, strict=False))
        least = min(room[tail][head] for tail, head in arcs)
        for tail, head in arcs:
            room[tail][head] -= least
            room[head][tail] += least


def _reached(room: Sequence[dict[int, int]], source: int, sink: int) -> list[int]:
    """By node the one before it on a shortest way with room; -1 where there is none.

    Where the sink is reached, the search ends.
    """
    before = [-1] * len(room)
    before[source] = source
    queue = [source]
    for tail in queue:
        for head, left in room[tail].items():
            if left > 0 and before[head] < 0:
                before[head] = tail
                if head == sink:
                    return before
                queue.append(head)
    return before
