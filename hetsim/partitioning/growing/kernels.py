"""``Condensed`` on arrays alone, and a scan of edges over it: for machine code.

Contraction by contraction the groups, and what searches cost, are the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from hetsim.base.code_folder import is_kept
from hetsim.base.machine_code import machine_code
from hetsim.partitioning.growing.positions import move, put_behind, take_out

Array = Any

PREDS, SUCCS = 0, 1
COUNT, CLOCK, BETWEEN, MOVED = 0, 1, 2, 3
"""In `tally`: edges that searches have looked at, a mark of the last search, and of it the group
on the path that it found, and how many groups are to be moved."""

PARENT, SEEN, POSITION = 0, 1, 2
"""In `groups`, side by side, for a search asks for all three of a group."""

RAW, BEHIND = 0, 1
"""In `edges`, the same."""

PATH, BEFORE, AFTER = 0, 1, 2
"""What a search finds: another path, or what is to be moved, before the one or after the other."""


def find(parent: Array, node: int) -> int:
    """Representative of the node's group."""
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


def looked(
    parent: Array, position: Array, head: Array, tail: Array, size: Array, behind: Array,
    raw: Array, seen: Array, found: Array, tally: Array, count: int, way: int, group: int,
    start: int, goal: int, mine: int, theirs: int,
) -> int:  # fmt: skip
    """Do what ``Condensed._looked`` does; how many are in `found`, -1 where there is a path."""
    tally[COUNT] += size[way, group]
    limit = position[goal]
    inner = False
    at = head[way, group]
    while at >= 0:
        other = find(parent, raw[way, at])
        raw[way, at] = other
        if seen[other] == theirs:
            if other != goal or group != start:
                tally[BETWEEN] = other if other != goal else group
                return -1
        elif other == group:
            inner = True
        elif seen[other] != mine and (position[other] < limit) == (way == SUCCS):
            seen[other] = mine
            found[count] = other
            count += 1
        at = behind[way, at]
    if inner:
        last, at = -1, head[way, group]
        head[way, group] = -1
        while at >= 0:
            if find(parent, raw[way, at]) == group:
                size[way, group] -= 1
            else:
                if last < 0:
                    head[way, group] = at
                else:
                    behind[way, last] = at
                last = at
            at = behind[way, at]
        if last >= 0:
            behind[way, last] = -1
        tail[way, group] = last
    return count


def searched(
    parent: Array, position: Array, head: Array, tail: Array, size: Array, behind: Array,
    raw: Array, seen: Array, above: Array, below: Array, tally: Array, a: int, b: int,
) -> int:  # fmt: skip
    """Do what ``Condensed._searched`` does; what is to be moved is in `above` or `below`."""
    tally[CLOCK] += 2
    leads, reached = tally[CLOCK], tally[CLOCK] + 1
    seen[b], seen[a] = leads, reached
    above[0], below[0] = b, a
    up, ups, down, downs = 0, 1, 0, 1
    up_steps, down_steps = size[PREDS, b], size[SUCCS, a]
    while True:
        if up_steps <= down_steps:
            ups = looked(
                parent, position, head, tail, size, behind, raw, seen, above, tally, ups, PREDS,
                above[up], b, a, leads, reached,
            )  # fmt: skip
            up += 1
            if ups < 0:
                return PATH
            if up == ups:
                tally[MOVED] = ups - 1
                return BEFORE
            up_steps += size[PREDS, above[up]]
        else:
            downs = looked(
                parent, position, head, tail, size, behind, raw, seen, below, tally, downs, SUCCS,
                below[down], a, b, reached, leads,
            )  # fmt: skip
            down += 1
            if downs < 0:
                return PATH
            if down == downs:
                tally[MOVED] = downs - 1
                return AFTER
            down_steps += size[SUCCS, below[down]]


def sort(position: Array, nodes: Array, first: int, end: int) -> None:
    """Sort nodes[first:end] by their positions, in a heap whose greatest goes to the end."""
    count = end - first
    begin = count // 2
    while count > 1:
        if begin > 0:
            begin -= 1
            node = nodes[first + begin]
        else:
            count -= 1
            node = nodes[first + count]
            nodes[first + count] = nodes[first]
        at = begin
        while 2 * at + 1 < count:
            below = 2 * at + 1
            if below + 1 < count:
                left, right = nodes[first + below], nodes[first + below + 1]
                below += position[left] < position[right]
            if position[nodes[first + below]] <= position[node]:
                break
            nodes[first + at] = nodes[first + below]
            at = below
        nodes[first + at] = node


def push(heap: Array, count: int, value: int) -> None:
    """Add to a heap of `count` numbers, the least first."""
    at = count
    while at > 0 and heap[(at - 1) // 2] > value:
        heap[at] = heap[(at - 1) // 2]
        at = (at - 1) // 2
    heap[at] = value


def pop(heap: Array, count: int) -> int:
    """Take the least out of a heap of `count` numbers."""
    least, value, count = heap[0], heap[count - 1], count - 1
    at = 0
    while 2 * at + 1 < count:
        below = 2 * at + 1
        if below + 1 < count and heap[below + 1] < heap[below]:
            below += 1
        if heap[below] >= value:
            break
        heap[at] = heap[below]
        at = below
    heap[at] = value
    return int(least)


def contract(
    parent: Array, position: Array, following: Array, leading: Array, head: Array, tail: Array,
    size: Array, behind: Array, raw: Array, seen: Array, above: Array, below: Array,
    tally: Array, u: int, v: int,
) -> bool:  # fmt: skip
    """Do what ``Condensed.contract`` does."""
    a, b = find(parent, u), find(parent, v)
    if a == b:
        return True
    found = searched(
        parent, position, head, tail, size, behind, raw, seen, above, below, tally, a, b
    )
    if found == PATH:
        return False
    nodes, end = above if found == BEFORE else below, tally[MOVED] + 1
    sort(position, nodes, 1, end)
    before = leading[a]
    if found == AFTER:
        take_out(following, leading, a)
        put_behind(following, leading, b, a)
        position[a] = position[b]
        before = a
    take_out(following, leading, b)
    if end > 1:
        move(position, following, leading, before, nodes, 1, end)
    parent[b] = a
    for way in range(2):
        first, second = (a, b) if size[way, a] >= size[way, b] else (b, a)
        if head[way, second] >= 0:
            behind[way, tail[way, first]] = head[way, second]
            tail[way, first] = tail[way, second]
        head[way, a], tail[way, a] = head[way, first], tail[way, first]
        size[way, a] += size[way, b]
    return True


def scan(
    groups: Array, edges: Array, following: Array, leading: Array, head: Array, tail: Array,
    size: Array, above: Array, below: Array, tally: Array, order: Array, at: Array, near: Array,
    kind: Array, downwards: bool, budget: int,
) -> bool:  # fmt: skip
    """Contract the edges within a kind once; whether the budget has lasted.

    Parameters
    ----------
    order : int [n]
        Nodes in the order of the scan.
    at : int [n + 1]
    near : int
        The neighbours on one side, ascending by node: the nodes that feed it, or that it feeds.
    kind : int [n]
        An edge is contracted where its ends are of one.
    downwards : bool
        Whether a node's last neighbour comes first.
    """
    parent, seen, position = groups[:, PARENT], groups[:, SEEN], groups[:, POSITION]
    raw, behind = edges[:, :, RAW], edges[:, :, BEHIND]
    for node in order:
        first, count = at[node], at[node + 1] - at[node]
        for k in range(count):
            other = near[first + (count - 1 - k if downwards else k)]
            if kind[other] == kind[node]:
                contract(
                    parent, position, following, leading, head, tail, size, behind, raw, seen,
                    above, below, tally, min(node, other), max(node, other),
                )  # fmt: skip
        if tally[COUNT] > budget:
            return False
    return True


PARTS = (find, looked, searched, sort, push, pop, take_out, put_behind, move, contract)


@functools.cache
def compiled_scan() -> Callable[..., Any]:
    """Return ``scan`` as machine code."""
    return machine_code(scan, *PARTS, inline=True)


@functools.cache
def scan_is_kept() -> bool:
    """Whether machine code of ``scan`` was most likely kept when this was first asked."""
    return is_kept(scan, *PARTS, inline=True)
