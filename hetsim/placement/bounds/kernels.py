"""The loops of the bounds over many nodes, on arrays alone: compiled where there are many."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from hetsim.base.machine_code import machine_code

Array = Any

INFINITY = float("inf")


def sweep_nodes(
    order: Array,
    near_at: Array,
    near: Array,
    nbytes: Array,
    shares: Array,
    enter: Array,
    per_byte: Array,
    streams: Array,
    widest: int,
    found: Array,
    ends: Array,
    off: Array,
    rank: Array,
    inside: Array,
) -> None:
    """Do what ``paths.sweep`` does, operation by operation.

    Parameters
    ----------
    order : int [n]
    near_at : int [n + 1]
        By node, where its neighbours begin in `near`, which has them, and `nbytes`.
    shares, found, ends : float [n, P]
        `found` begins as the least there is, and ends as the answer.
    enter, per_byte : float [P, P]
    streams : int [P]
    widest : int
        Neighbours that the join rule weighs.
    off : float [most neighbours, P]
    rank, inside : int [most neighbours], room to work in
    """
    count = shares.shape[1]
    for node in order:
        first, size = near_at[node], near_at[node + 1] - near_at[node]
        for i in range(size):
            u, moved = near[first + i], nbytes[first + i]
            for p in range(count):
                least = INFINITY
                for q in range(count):
                    arrived = ends[u, q] + enter[q, p] + per_byte[q, p] * moved
                    least = min(least, arrived)
                off[i, p] = least
        for p in range(count):
            joined = found[node, p]
            if size == 1:
                joined = min(off[0, p], ends[near[first], p])
            elif size > 1:
                # Those that end last, by insertion; of equals the first.
                kept = 0
                for i in range(size):
                    k = min(kept, widest - 1)
                    if kept == widest and off[i, p] <= off[rank[k], p]:
                        continue
                    while k > 0 and off[rank[k - 1], p] < off[i, p]:
                        rank[k] = rank[k - 1]
                        k -= 1
                    rank[k] = i
                    kept = min(kept + 1, widest)
                joined = off[rank[0], p]
                for place in range(kept):
                    i = rank[place]
                    u = near[first + i]
                    k = place
                    while k > 0 and found[near[first + inside[k - 1]], p] < found[u, p]:
                        inside[k] = inside[k - 1]
                        k -= 1
                    inside[k] = i
                    if ends[u, p] == INFINITY:
                        break
                    work, occupied = 0.0, 0.0
                    for k in range(place + 1):
                        w = near[first + inside[k]]
                        work += shares[w, p] / streams[p]
                        occupied = max(occupied, max(found[w, p] + work, ends[w, p]))
                    if occupied >= joined:
                        break
                    rest = off[rank[place + 1], p] if place + 1 < kept else 0.0
                    joined = min(joined, max(occupied, rest))
            found[node, p] = max(found[node, p], joined)
        for p in range(count):
            ends[node, p] = found[node, p] + shares[node, p]


def fullest(
    head: Array,
    rest: Array,
    work: Array,
    remains: Array,
    width: float,
    limit: float,
    top: Array,
    late: Array,
    excess: Array,
    starts: Array,
    ends: Array,
) -> int:
    """Find by head the window that holds most beyond its room; return how many heads there are.

    From the latest head on, nodes are added to a tree over what remains behind them: a leaf has
    the work of those with at least so much, and what the room lacks for it; a branch has the
    largest leaf of those under it (`top`), and what was added to all of them (`late`).

    Parameters
    ----------
    head : float [n], descending
    rest : int [n]
        By node the place of its tail in `remains`.
    work : float [n]
        In shares of the limit.
    remains : float [m], ascending
    width : float
    limit : float
    top, late : float [4 m], room to work in, 0
    excess : float [n]
    starts, ends : float [n]
        By head found: excess, head and tail of the window that is fullest.

    O((n + m) log m).
    """
    n, m = len(head), len(remains)
    size = 1
    while size < m:
        size *= 2
    for leaf in range(size):
        top[size + leaf] = width * remains[leaf] / limit if leaf < m else -INFINITY
    for branch in range(size - 1, 0, -1):
        top[branch] = max(top[2 * branch], top[2 * branch + 1])
    heads, v = 0, 0
    while v < n:
        start = head[v]
        while v < n and head[v] == start:
            # Added to leaves 0 to rest[v]: the leaf, and every left brother on the way up.
            at = size + rest[v]
            top[at] += work[v]
            late[at] += work[v]
            while at > 1:
                if at % 2 == 1:
                    top[at - 1] += work[v]
                    late[at - 1] += work[v]
                at //= 2
                top[at] = late[at] + max(top[2 * at], top[2 * at + 1])
            v += 1
        # Of the leaves whose window does not end before it begins, the first `inside`.
        low, inside = 0, m
        while low < inside:
            middle = (low + inside) // 2
            if start + remains[middle] <= limit:
                low = middle + 1
            else:
                inside = middle
        if inside == 0:
            continue
        best, leaf, lifted, at = -INFINITY, 0, 0.0, 1
        covered = 0
        span = size
        while True:
            if covered + span <= inside:
                if top[at] + lifted > best:
                    best, leaf = top[at] + lifted, at
                break
            lifted += late[at]
            span //= 2
            if inside > covered + span:
                if top[2 * at] + lifted > best:
                    best, leaf = top[2 * at] + lifted, 2 * at
                covered += span
                at = 2 * at + 1
            else:
                at = 2 * at
        while leaf < size:
            leaf = 2 * leaf if top[2 * leaf] >= top[2 * leaf + 1] else 2 * leaf + 1
        excess[heads] = best + width * start / limit - width
        starts[heads], ends[heads] = start, remains[leaf - size]
        heads += 1
    return heads


@functools.cache
def compiled_sweep() -> Callable[..., Any]:
    """Return ``sweep_nodes`` as machine code."""
    return machine_code(sweep_nodes)


@functools.cache
def compiled_fullest() -> Callable[..., Any]:
    """Return ``fullest`` as machine code."""
    return machine_code(fullest)
