"""The rounds of ``greedy`` on arrays alone: for machine code.

The groups are those of ``growth`` and ``greedy``, node by node. There a set of bits says what comes
after and before the members of a group that grows. Here a mark at each node does, within a window
of ids around the members: what stands between two members has an id between theirs. A window is
made anew, wider by half, where a member is found outside. So a growth costs what is near it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from hetsim.base.machine_code import machine_code

Array = Any

AFTER, BEFORE, REJECTED, TRIED = 1, 2, 4, 8
"""In `state`: reached from a member, reaching a member, never to be one, looked at."""

WRONG = 7
"""A rejected node between members: the first three."""

LEAST_ASIDE = 32
"""Ids that a window goes on for on either side of the members at least."""

OUTSIDE, DOWN, UP, LOW, HIGH = 0, 1, 2, 3, 4
"""In `tally`: rejected nodes between members, nodes marked either way, and the window's ends."""


def spread(
    at: Array, node: Array, state: Array, mark: int, log: Array, tally: Array, which: int,
    start: int,
) -> None:  # fmt: skip
    """Mark what edges lead to from `start` within the window, and note it in the log."""
    low, high = tally[LOW], tally[HIGH]
    count = tally[which]
    done = count
    here = start
    while True:
        for k in range(at[here], at[here + 1]):
            other = node[k]
            if low <= other <= high and not state[other] & mark:
                state[other] |= mark
                if state[other] & WRONG == WRONG:
                    tally[OUTSIDE] += 1
                log[count] = other
                count += 1
        if done == count:
            break
        here = log[done]
        done += 1
    tally[which] = count


def forget(state: Array, mark: int, log: Array, tally: Array, which: int, until: int) -> None:
    """Take back what was marked since the log had `until` entries."""
    for k in range(until, tally[which]):
        other = log[k]
        if state[other] & WRONG == WRONG:
            tally[OUTSIDE] -= 1
        state[other] ^= mark
    tally[which] = until


def reject(state: Array, tally: Array, node: int) -> None:
    """Note that `node` can never be a member."""
    state[node] |= REJECTED
    if state[node] & WRONG == WRONG:
        tally[OUTSIDE] += 1


def grown(
    s_at: Array, s_node: Array, p_at: Array, p_node: Array, free: Array, root: int,
    state: Array, tried: Array, members: Array, lost: Array, active: Array, turn: Array,
    down: Array, up: Array, down_at: Array, up_at: Array, tally: Array,
) -> tuple[int, int]:  # fmt: skip
    """Do what ``growth.grow`` does; how many are in `members`, and how many, in `lost`, were."""
    last = len(free) - 1
    tally[:] = 0
    tally[LOW] = tally[HIGH] = root
    least = most = root
    count, gone, looked, waiting = 0, 0, 0, 0
    node = root
    while True:
        state[node] |= TRIED
        tried[looked] = node
        looked += 1
        if free[node]:
            least, most = min(least, node), max(most, node)
            if not tally[LOW] <= node <= tally[HIGH]:
                aside = max(LEAST_ASIDE, (most - least) // 2)
                forget(state, AFTER, down, tally, DOWN, 0)
                forget(state, BEFORE, up, tally, UP, 0)
                tally[LOW], tally[HIGH] = max(0, least - aside), min(last, most + aside)
                for k in range(count):
                    down_at[k], up_at[k] = tally[DOWN], tally[UP]
                    spread(s_at, s_node, state, AFTER, down, tally, DOWN, members[k])
                    spread(p_at, p_node, state, BEFORE, up, tally, UP, members[k])
            members[count] = node
            down_at[count], up_at[count] = tally[DOWN], tally[UP]
            count += 1
            spread(s_at, s_node, state, AFTER, down, tally, DOWN, node)
            spread(p_at, p_node, state, BEFORE, up, tally, UP, node)
            active[waiting] = node
            waiting += 1
            turn[node] = 0
        else:
            reject(state, tally, node)
        while tally[OUTSIDE]:
            count -= 1
            node = members[count]
            lost[gone] = node
            gone += 1
            forget(state, AFTER, down, tally, DOWN, down_at[count])
            forget(state, BEFORE, up, tally, UP, up_at[count])
            reject(state, tally, node)
            if active[waiting - 1] == node:
                waiting -= 1
        node = -1
        while waiting and node < 0:
            newest = active[waiting - 1]
            after = s_at[newest + 1] - s_at[newest]
            around = after + p_at[newest + 1] - p_at[newest]
            k = turn[newest]
            while k < around and node < 0:
                late = k >= after
                other = p_node[p_at[newest] + k - after] if late else s_node[s_at[newest] + k]
                k += 1
                if not state[other] & TRIED:
                    node = other
            turn[newest] = k
            if node < 0:
                waiting -= 1
        if node < 0:
            break
    forget(state, AFTER, down, tally, DOWN, 0)
    forget(state, BEFORE, up, tally, UP, 0)
    for k in range(looked):
        state[tried[k]] = 0
    return count, gone


def undisturbed(
    s_at: Array, s_node: Array, p_at: Array, p_node: Array, free: Array, line: Array,
    first: int, end: int,
) -> bool:  # fmt: skip
    """Whether no node that fails can be on a path within a part: its growth is all of it."""
    low, high = line[first], line[end - 1]
    for at in range(first, end):
        node = line[at]
        for k in range(s_at[node], s_at[node + 1]):
            if not free[s_node[k]] and s_node[k] < high:
                return False
        for k in range(p_at[node], p_at[node + 1]):
            if not free[p_node[k]] and p_node[k] > low:
                return False
    return True


def parted(
    s_at: Array, s_node: Array, p_at: Array, p_node: Array, free: Array, line: Array,
    first: int, end: int, piece: Array, queue: Array, ends: Array,
) -> int:  # fmt: skip
    """Sort free nodes of `line`, ascending, into connected parts, each ascending; their number.

    Where each ends is in `ends`.
    """
    for at in range(first, end):
        piece[line[at]] = -1
    count = 0
    for at in range(first, end):
        if piece[line[at]] >= 0:
            continue
        queue[0] = line[at]
        piece[line[at]] = count
        found, done = 1, 0
        while done < found:
            node = queue[done]
            done += 1
            for k in range(s_at[node], s_at[node + 1]):
                other = s_node[k]
                if free[other] and piece[other] < 0:
                    piece[other] = count
                    queue[found] = other
                    found += 1
            for k in range(p_at[node], p_at[node + 1]):
                other = p_node[k]
                if free[other] and piece[other] < 0:
                    piece[other] = count
                    queue[found] = other
                    found += 1
        ends[count] = found
        count += 1
    begin = first
    for k in range(count):
        size = ends[k]
        ends[k] = begin
        begin += size
    for at in range(first, end):
        queue[at - first] = line[at]
    for k in range(end - first):
        node = queue[k]
        line[ends[piece[node]]] = node
        ends[piece[node]] += 1
    return count


def roomier(
    pool: Array, begin: Array, every: Array, free: Array, used: int, needed: int
) -> tuple[Array, int]:
    """A pool with room for `needed` more, without the candidates that hold a node taken since."""
    live = 0
    for root in range(len(begin)):
        if begin[root] >= 0:
            for k in range(begin[root], begin[root] + every[root]):
                if not free[pool[k]]:
                    begin[root] = -1
                    break
            else:
                live += every[root]
    wider = np.empty(2 * (live + needed) + len(begin), dtype=np.int64)
    used = 0
    for root in range(len(begin)):
        if begin[root] >= 0:
            for k in range(every[root]):
                wider[used + k] = pool[begin[root] + k]
            begin[root] = used
            used += every[root]
    return wider, used


def select(
    s_at: Array, s_node: Array, p_at: Array, p_node: Array, kind: Array, kinds: Array
) -> Array:
    """By node the first node of its group, before ``repair``.

    Parameters
    ----------
    s_at, s_node, p_at, p_node : int arrays
        The nodes after and before each, as in ``Rows``.
    kind : int [n]
    kinds : int
        Each of `kind` once.
    """
    n = len(kind)
    label = np.full(n, -1, dtype=np.int64)
    free = np.zeros(n, dtype=np.bool_)
    state = np.zeros(n, dtype=np.uint8)
    tried, members, lost = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    active, turn = np.empty(n, np.int64), np.empty(n, np.int64)
    down, up = np.empty(n, np.int64), np.empty(n, np.int64)
    down_at, up_at = np.empty(n, np.int64), np.empty(n, np.int64)
    tally = np.zeros(5, np.int64)
    line, piece, queue = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    ends, covered = np.empty(n, np.int64), np.zeros(n, np.int64)
    waiting_from, waiting_to = np.empty(n + 1, np.int64), np.empty(n + 1, np.int64)
    # Candidates: by root where its nodes begin in the pool, how many are members, and how many
    # were ever, which come behind.
    begin, size, every = np.full(n, -1, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    pool = np.empty(2 * n, np.int64)
    used, rounds = 0, 0
    for one in kinds:
        end = 0
        for node in range(n):
            free[node] = kind[node] == one
            if free[node]:
                line[end] = node
                end += 1
        waiting = 0
        first = 0
        while True:
            count = parted(
                s_at, s_node, p_at, p_node, free, line, first, end, piece, queue, ends
            )  # fmt: skip
            for k in range(count):
                waiting_from[waiting], waiting_to[waiting] = first, ends[k]
                first = ends[k]
                waiting += 1
            if not waiting:
                break
            waiting -= 1
            first, end = waiting_from[waiting], waiting_to[waiting]
            if undisturbed(s_at, s_node, p_at, p_node, free, line, first, end):
                for at in range(first, end):
                    label[line[at]] = line[first]
                    free[line[at]] = False
                end = first
                continue
            rounds += 1
            best, most = -1, 0
            for at in range(first, end):
                root = line[at]
                if covered[root] == rounds:
                    continue
                kept = begin[root] >= 0
                if kept:
                    for k in range(begin[root], begin[root] + every[root]):
                        if not free[pool[k]]:
                            kept = False
                            break
                if not kept:
                    many, gone = grown(
                        s_at, s_node, p_at, p_node, free, root, state, tried, members, lost,
                        active, turn, down, up, down_at, up_at, tally,
                    )  # fmt: skip
                    begin[root] = -1
                    if used + many + gone > len(pool):
                        pool, used = roomier(pool, begin, every, free, used, many + gone)
                    begin[root], size[root], every[root] = used, many, many + gone
                    for k in range(many):
                        pool[used + k] = members[k]
                    for k in range(gone):
                        pool[used + many + k] = lost[k]
                    used += many + gone
                for k in range(begin[root], begin[root] + size[root]):
                    covered[pool[k]] = rounds
                if size[root] > most:
                    best, most = root, size[root]
            lowest = n
            for k in range(begin[best], begin[best] + most):
                lowest = min(lowest, pool[k])
            for k in range(begin[best], begin[best] + most):
                label[pool[k]] = lowest
                free[pool[k]] = False
            left = first
            for at in range(first, end):
                if free[line[at]]:
                    line[left] = line[at]
                    left += 1
            end = left
    return label


@functools.cache
def compiled_select() -> Callable[..., Any]:
    """Return ``select`` as machine code."""
    return machine_code(select, spread, forget, reject, grown, undisturbed, parted, roomier)
