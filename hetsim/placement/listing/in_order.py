"""Nodes placed one by one in a known order, as machine code: what ``Listing`` does of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.base import left_to_python
from hetsim.base.machine_code import machine_code
from hetsim.placement.listing.columns import columns_of
from hetsim.placement.listing.list_schedule import Listing, Schedule
from hetsim.problem.problem import Problem

Array = Any

INFINITY = float("inf")

KEPT_FROM, COMPILE_FROM = 1_000, 50_000
"""Nodes from which machine code pays, where it is kept, and in all where it is not."""

MOST_ROOM = 40_000_000
"""Nodes times streams above which room for gaps is not taken."""


def earliest(
    starts: Array, ends: Array, base: int, gaps: int, ready: float, length: float
) -> float:
    """Do what ``Gaps.earliest`` does, of the gaps from `base` on."""
    if ready >= starts[base + gaps - 1]:
        return ready
    low, high = base, base + gaps
    while low < high:
        middle = (low + high) // 2
        if ends[middle] < ready + length:
            low = middle + 1
        else:
            high = middle
    while True:
        begin = starts[low]
        if begin < ready:
            begin = ready
        if begin + length <= ends[low]:
            return float(begin)
        low += 1


def take(
    starts: Array, ends: Array, base: int, gaps: int, begin: float, end: float, shortest: float
) -> int:
    """Do what ``Gaps.take`` does; return how many gaps there are then."""
    if begin == end:
        return gaps
    low, high = base, base + gaps
    while low < high:
        middle = (low + high) // 2
        if ends[middle] < end:
            low = middle + 1
        else:
            high = middle
    first, last = starts[low], ends[low]
    before, behind = begin - first >= shortest, last - end >= shortest
    if before and behind:
        for k in range(base + gaps, low, -1):
            starts[k], ends[k] = starts[k - 1], ends[k - 1]
        ends[low] = begin
        starts[low + 1] = end
        return gaps + 1
    if before:
        ends[low] = begin
        return gaps
    if behind:
        starts[low] = end
        return gaps
    for k in range(low, base + gaps - 1):
        starts[k], ends[k] = starts[k + 1], ends[k + 1]
    return gaps - 1


def place_all(
    count: int,
    room: int,
    order: Array,
    only: Array,
    ahead: Array,
    seconds: Array,
    made_at: Array,
    made_bytes: Array,
    reader_at: Array,
    readers: Array,
    latency: Array,
    bandwidth: Array,
    ready: Array,
    back: Array,
    dispatch: Array,
    shortest: Array,
    lane_at: Array,
    starts: Array,
    ends: Array,
    gaps: Array,
    near: Array,
    device: Array,
    begin: Array,
    end: Array,
) -> int:
    """Place nodes in `order`, each in its best slot; return one that no device takes, or -1.

    Parameters
    ----------
    count, room : int
        Devices; gaps that there is room for on a stream.
    order : int [n]
    only : int [n]
        The device that a node is to go to where it takes it; -1: any.
    ahead : float [n count], or none
        What counts beside the end of a slot: then the end, then the device decides. None: what
        outputs take back to the host, then the begin, then the device.
    seconds ... back
        As in ``columns.Columns``; `ready` is changed.
    dispatch, shortest : float [count]
        Of each device; gaps that are shorter are forgotten.
    lane_at : int [count + 1]
        Where each device's streams begin.
    starts, ends, gaps : float [streams room], float [streams room], int [streams]
        One gap on each stream, without end. Changed.
    near : int [n count], 0
        Whether a node's input was made on a device.
    device, begin, end : int, float, float [n]
        Out.

    Complexity: O(E count + n streams log n), and the gaps moved.
    """
    for node in order:
        best, second, where, lane, over = INFINITY, INFINITY, -1, -1, INFINITY
        forced = only[node]
        if forced >= 0 and seconds[node * count + forced] == INFINITY:
            forced = -1
        for p in range(count):
            at = node * count + p
            length = seconds[at]
            if length == INFINITY or (forced >= 0 and p != forced):
                continue
            if near[at] == 0:
                length += dispatch[p]
            found, slot = INFINITY, -1
            for stream in range(lane_at[p], lane_at[p + 1]):
                free = earliest(starts, ends, stream * room, gaps[stream], ready[at], length)
                if slot < 0 or free < found:
                    found, slot = free, stream
            last = found + length
            if len(ahead) > 0:
                worth, tie = last + ahead[at], last
            else:
                worth, tie = last + back[at], found
            if where < 0 or worth < best or (worth == best and tie < second):
                best, second, where, lane = worth, tie, p, slot
                begin[node], over = found, last
        if where < 0:
            return int(node)
        device[node], end[node] = where, over
        gaps[lane] = take(starts, ends, lane * room, gaps[lane], begin[node], over, shortest[where])
        for value in range(made_at[node], made_at[node + 1]):
            for q in range(count):
                way = where * count + q
                there = over + (latency[way] + made_bytes[value] / bandwidth[way])
                for k in range(reader_at[value], reader_at[value + 1]):
                    if there > ready[readers[k] * count + q]:
                        ready[readers[k] * count + q] = there
            for k in range(reader_at[value], reader_at[value + 1]):
                near[readers[k] * count + where] = 1
    return -1


@functools.cache
def compiled() -> Callable[..., int]:
    """Return ``place_all`` as machine code for int64 and float64 arrays."""
    return machine_code(place_all, earliest, take)


def pays(nodes: int) -> bool:
    """Whether so many nodes are for machine code."""
    return left_to_python.pays(compiled, place_all, nodes, KEPT_FROM, COMPILE_FROM, earliest, take)


def scheduled(
    problem: Problem,
    homes: Sequence[int] | None,
    order: Sequence[int],
    *,
    ahead: NDArray[np.float64] | None = None,
    only: Sequence[int] | None = None,
) -> Schedule | None:
    """Place nodes in `order` as machine code; None where that does not pay, or memory counts.

    Parameters
    ----------
    problem : Problem
    homes : sequence of int, optional
        See ``Listing``.
    order : sequence of int
        A topological order.
    ahead : float array [n, P], optional
        Each node goes where its end and this are least, of equals where it ends first. Absent: its
        end and its outputs' way back to the host, of equals where it begins first.
    only : sequence of int, optional
        A device by node, or -1: it goes there where it is supported.
    """
    lanes = list(accumulate(problem.streams, initial=0))
    if problem.capacity_bytes is not None or lanes[-1] * problem.n > MOST_ROOM:
        return None
    if not pays(problem.n):
        return None
    n, count, room = problem.n, len(problem.devices), problem.n + 2
    columns = columns_of(problem)
    table = columns.seconds.reshape(n, count)
    shortest = np.where(table > 0, table, np.inf).min(axis=0, initial=np.inf)
    starts, ends = np.zeros(lanes[-1] * room), np.full(lanes[-1] * room, np.inf)
    device, begin, end = np.full(n, -1), np.zeros(n), np.zeros(n)
    lost = compiled()(
        count, room, np.asarray(order, dtype=np.int64),
        np.full(n, -1) if only is None else np.asarray(only, dtype=np.int64),
        np.zeros(0) if ahead is None else np.ascontiguousarray(ahead).ravel(),
        columns.seconds, columns.made_at, columns.made_bytes, columns.reader_at, columns.readers,
        columns.latency, columns.bandwidth, columns.arrival.copy(), columns.back,
        np.array(problem.dispatch_s), shortest, np.array(lanes), starts, ends,
        np.ones(lanes[-1], dtype=np.int64), np.zeros(n * count, dtype=np.int64),
        device, begin, end,
    )  # fmt: skip
    if lost >= 0:
        Listing(problem, homes).refuse(lost)
    return Schedule(tuple(device.tolist()), tuple(begin.tolist()), tuple(end.tolist()))
