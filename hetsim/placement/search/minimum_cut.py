"""The nodes on the source's side of a minimum cut: the same by three ways to a maximum flow."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hetsim.base import left_to_python
from hetsim.placement.search import cut_kernel

PLAIN_ARCS = 500
"""Arcs up to which plain loops take less than loading anything does."""

COMPILE_FROM = 500_000
"""Arcs of all cuts from which making machine code pays, where none is kept; till then scipy's."""

_MOST = 2**30
"""Of a capacity, and of those between the same two nodes together: more is without end."""

Ints = NDArray[np.int64]


def source_side(
    size: int, tails: Ints, heads: Ints, capacities: Ints, source: int, sink: int
) -> NDArray[np.bool_]:
    """Return which nodes the source reaches where a maximum flow leaves room.

    Whichever maximum flow it is, these are the nodes on the source's side in every minimum cut, so
    that all ways give the same.

    Parameters
    ----------
    size : int
        Number of nodes.
    tails, heads, capacities : int array [m]
        Of the arcs; those between the same two nodes add up.
    source, sink : int

    Complexity: one maximum flow (Dinic, by machine code or in scipy; by shortest augmenting paths
    in small networks, where neither is loaded yet).
    """
    compiled = cut_kernel.compiled_flow.cache_info().currsize > 0
    loaded = compiled or "scipy.sparse.csgraph" in sys.modules
    if len(tails) <= PLAIN_ARCS and not loaded:
        found = _plain(size, tails.tolist(), heads.tolist(), capacities.tolist(), source, sink)
        return np.array(found, dtype=bool)
    flow, arcs = cut_kernel.compiled_flow, len(tails)
    if left_to_python.pays(flow, cut_kernel.saturate, arcs, 0, COMPILE_FROM):
        return _compiled(size, tails, heads, capacities, source, sink)
    return _by_scipy(size, tails, heads, capacities, source, sink)


def _compiled(
    size: int, tails: Ints, heads: Ints, capacities: Ints, source: int, sink: int
) -> NDArray[np.bool_]:
    arcs = len(tails)
    level = np.empty(size + 1, dtype=np.int64)
    by_node = [np.empty(size + 1, dtype=np.int64) for _ in range(3)]
    by_arc = [np.empty(2 * arcs, dtype=np.int64) for _ in range(4)]
    cut_kernel.compiled_flow()(
        source, sink, _MOST, tails.copy(), heads.copy(), capacities.copy(),
        by_node[0], *by_arc, level, *by_node[1:],
    )  # fmt: skip
    reached: NDArray[np.bool_] = level[:size] >= 0
    return reached


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
