"""List scheduling without a fixed order: of all ready nodes and devices, the best pair is next."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from hetsim.core.machine_code import machine_code
from hetsim.placement.listing.list_schedule import (
    INFINITY,
    Array,
    Listing,
    Lists,
    Schedule,
    add,
    commit,
    needs,
    remove,
)
from hetsim.problem.problem import Problem

COMPILE_FROM = 1_500
"""Nodes from which loading the machine code costs less CPU time than it saves."""


def schedule_pairs(
    problem: Problem,
    homes: Sequence[int] | None,
    *,
    worth: Sequence[float] = (),
    rank: Sequence[int] = (),
    machine_code: bool | None = None,
) -> Schedule:
    """Place pairs until nothing is left; no gap is filled. O(n W P) for W ready nodes at once.

    The pair whose end less its node's `worth` is least is next, or with `rank` the pair that ends
    first, of equals that of the least rank; ties go to the lower node, then to the lower device.
    """
    n, dag = problem.n, problem.dag
    compiled = n >= COMPILE_FROM if machine_code is None else machine_code
    listing = Listing(problem, homes, compiled=compiled)
    ints = functools.partial(np.array, dtype=np.int64)
    columns = (
        np.array(worth or np.zeros(n), dtype=np.float64),
        ints(rank or [0] * n),
        np.diff(dag.pred_rows.at),
        dag.succ_rows.at,
        dag.succ_rows.node,
        np.zeros(sum(problem.streams)),
        np.zeros(len(problem.devices), dtype=np.int64),
        np.zeros(n, dtype=np.int64),
    )
    place = _compiled() if compiled else place_pairs
    lost = place(listing.lists, bool(rank), *map(listing.given, columns))
    if lost >= 0:
        listing.refuse(lost)
    return listing.schedule()


def place_pairs(
    lists: Lists,
    earliest: bool,
    worth: Array,
    rank: Array,
    waits: Array,
    follower_at: Array,
    followers: Array,
    lane_free: Array,
    lane_of: Array,
    queue: Array,
) -> int:
    """Place the best pair of ready node and device until nothing is left; see ``schedule_pairs``.

    Returns -1, or the node that found no device.
    """
    n, count, lane_at, left = len(waits), lists.devices, lists.lane_at, lists.left
    seconds, near, dispatch, arrival = lists.seconds, lists.near, lists.dispatch, lists.ready
    weight_at, bounded = lists.at, len(lists.left) > 0
    ready = 0
    for v in range(n):
        if waits[v] == 0:
            queue[ready] = v
            ready += 1
    while ready > 0:
        for p in range(count):
            lane = lane_at[p]
            for other in range(lane + 1, lane_at[p + 1]):
                if lane_free[other] < lane_free[lane]:
                    lane = other
            lane_of[p] = lane
        best_score, best_rank, best_at, best_device, lost = INFINITY, n, -1, -1, n
        for at in range(ready):
            v = queue[at]
            able = False
            row = v * count
            for p in range(count):
                cost = seconds[row + p]
                if cost == INFINITY:
                    continue
                if near[row + p] == 0:
                    cost += dispatch[p]
                if bounded and weight_at[v] < weight_at[v + 1]:
                    needed = needs(weight_at, lists.of, lists.nbytes, lists.held, v, p)
                    if needed > left[p]:
                        continue
                able = True
                free = lane_free[lane_of[p]]
                start = arrival[row + p]
                if free > start:
                    start = free
                score = start + cost
                if earliest:
                    better = score < best_score or (score == best_score and rank[v] < best_rank)
                else:
                    score -= worth[v]
                    better = score < best_score or (
                        score == best_score and best_at >= 0 and v < queue[best_at]
                    )
                if better or best_at < 0:
                    best_score, best_rank, best_at, best_device = score, rank[v], at, p
            if not able and v < lost:
                lost = v
        if lost < n:
            return lost
        node, p = queue[best_at], best_device
        ready -= 1
        queue[best_at] = queue[ready]
        cost, lane = seconds[node * count + p], lane_of[p]
        if near[node * count + p] == 0:
            cost += dispatch[p]
        start = max(arrival[node * count + p], lane_free[lane])
        lane_free[lane] = start + cost
        lists.begin[node], lists.end[node] = start, start + cost
        commit(lists, node, p)
        for index in range(follower_at[node], follower_at[node + 1]):
            v = followers[index]
            waits[v] -= 1
            if waits[v] == 0:
                queue[ready] = v
                ready += 1
    return -1


@functools.cache
def _compiled() -> Callable[..., int]:
    return machine_code(place_pairs, needs, add, remove, commit, inline=True)
