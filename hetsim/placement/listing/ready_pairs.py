"""List scheduling without a fixed order: of all ready nodes and devices, the best pair is next."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from hetsim.core.machine_code import machine_code
from hetsim.graph.dag import Ints
from hetsim.placement.listing.list_schedule import (
    INFINITY,
    Array,
    Listing,
    Room,
    Schedule,
    add,
    needs,
    remove,
)
from hetsim.placement.listing.ranks import columns_of
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
    """Place pairs until nothing is left; no gap is filled."""
    n, count = problem.n, len(problem.devices)
    shared, dag = columns_of(problem), problem.dag
    room = Room(problem, homes) if problem.capacity_bytes is not None else None
    lanes = list(accumulate(problem.streams, initial=0))
    device, begin, end = np.full(n, -1), np.zeros(n), np.zeros(n)
    columns = (
        shared.seconds,
        np.array(problem.dispatch_s, dtype=np.float64),
        _ints(lanes),
        np.zeros(lanes[-1]),
        np.zeros(count, dtype=np.int64),
        shared.made_at,
        shared.made_bytes,
        shared.reader_at,
        shared.readers,
        shared.latency,
        shared.bandwidth,
        shared.arrival.copy(),
        np.diff(dag.pred_rows.at),
        dag.succ_rows.at,
        dag.succ_rows.node,
        np.array(worth or np.zeros(n), dtype=np.float64),
        _ints(rank or [0] * n),
        np.array([bool(rank)]),
        *(
            _ints(getattr(room, name, ()))
            for name in ("at", "of", "nbytes", "readers", "left", "homes")
        ),
        np.zeros(n * count, dtype=np.int64),
        np.zeros(n, dtype=np.int64),
        device,
        begin,
        end,
    )
    if n >= COMPILE_FROM if machine_code is None else machine_code:
        lost = _compiled()(count, *columns)
        made: Any = [column.tolist() for column in (device, begin, end)]
    else:
        rows = [column.tolist() for column in columns]
        lost = place_pairs(count, *rows)
        made = rows[-3:]
    if lost >= 0:
        Listing(problem, homes).refuse(lost)
    return Schedule(tuple(made[0]), tuple(made[1]), tuple(made[2]))


def _ints(numbers: Sequence[int]) -> Ints:
    return np.array(numbers, dtype=np.int64)


def place_pairs(
    count: int,
    seconds: Array,
    dispatch: Array,
    lane_at: Array,
    lane_free: Array,
    lane_of: Array,
    made_at: Array,
    made_bytes: Array,
    reader_at: Array,
    readers: Array,
    latency: Array,
    bandwidth: Array,
    arrival: Array,
    waits: Array,
    follower_at: Array,
    followers: Array,
    worth: Array,
    rank: Array,
    earliest: Array,
    weight_at: Array,
    weights: Array,
    weight_bytes: Array,
    held: Array,
    left: Array,
    home: Array,
    near: Array,
    queue: Array,
    device: Array,
    begin: Array,
    end: Array,
) -> int:
    """Place the best pair of ready node and device until nothing is left.

    With `earliest` the best pair ends first, of equals that of the least `rank`; otherwise its
    end less the node's `worth` is least. Ties go to the lower node, then to the lower device.

    Parameters
    ----------
    count : int
        Devices.
    seconds : float [n count]
        Dispatch left out; inf where a device does not take a node.
    dispatch : float [count]
        Paid where none of a node's predecessors runs on the device.
    lane_at : int [count + 1]
        Where each device's streams stand in `lane_free`, when each is free.
    lane_of : int [count]
        Scratch: the stream of each device that is free first.
    made_at, made_bytes : int [n + 1], float [values]
        What each node makes.
    reader_at, readers : int [values + 1], int [..]
        Who reads each value.
    latency, bandwidth : float [count count]
    arrival : float [n count]
        When all that a node reads is on each device, as far as it is known. Changed.
    waits, follower_at, followers : int
        How many nodes each waits for (changed), and who waits for it.
    worth, rank, earliest : float [n], int [n], bool [1]
    weight_at, weights, weight_bytes : int [n + 1], int [..], int [constants]
        The constants of each node.
    held, left, home : int [count constants], int [count], int [n]
        Readers by device and constant, bytes free by device, and the device where room is kept
        for a node, or -1; see ``room.Room``. No capacities: `left` is empty. Changed.
    near, queue : int [n count], int [n]
        Scratch, zeros.
    device, begin, end : int, float, float [n]
        The schedule. Written.

    Returns
    -------
    -1, or the node that found no device. O(n W count) for W ready nodes at once.
    """
    n = len(waits)
    bounded = len(left) > 0
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
        best_score = INFINITY
        best_rank = n
        best_at = -1
        best_device = -1
        lost = n
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
                    needed = needs(weight_at, weights, weight_bytes, held, v, p)
                    if needed > left[p]:
                        continue
                able = True
                free = lane_free[lane_of[p]]
                start = arrival[row + p]
                if free > start:
                    start = free
                score = start + cost
                if earliest[0]:
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
        node = queue[best_at]
        p = best_device
        ready -= 1
        queue[best_at] = queue[ready]
        lane = lane_of[p]
        cost = seconds[node * count + p]
        if near[node * count + p] == 0:
            cost += dispatch[p]
        start = arrival[node * count + p]
        if lane_free[lane] > start:
            start = lane_free[lane]
        over = start + cost
        lane_free[lane] = over
        device[node], begin[node], end[node] = p, start, over
        if bounded and home[node] != p:
            kept = home[node]
            if kept >= 0:
                remove(weight_at, weights, weight_bytes, held, left, node, kept)
            add(weight_at, weights, weight_bytes, held, left, node, p)
        for value in range(made_at[node], made_at[node + 1]):
            for q in range(count):
                way = p * count + q
                there = over + (latency[way] + made_bytes[value] / bandwidth[way])
                for index in range(reader_at[value], reader_at[value + 1]):
                    v = readers[index]
                    if there > arrival[v * count + q]:
                        arrival[v * count + q] = there
        for index in range(follower_at[node], follower_at[node + 1]):
            v = followers[index]
            near[v * count + p] = 1
            waits[v] -= 1
            if waits[v] == 0:
                queue[ready] = v
                ready += 1
    return -1


@functools.cache
def _compiled() -> Callable[..., int]:
    """Return ``place_pairs`` as machine code for int64 and float64 arrays."""
    return machine_code(place_pairs, needs, add, remove)
