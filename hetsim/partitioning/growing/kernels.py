"""``Condensed`` on arrays alone, and the walks of merge methods over it: for machine code.

The groups are the same, contraction by contraction. What searches cost is not: ``Condensed`` keeps
neighbours in sets, ends a search at the first path that forbids a contraction, and what it has
seen by then depends on how Python orders a set. Here every search is made to its end, and counted
at no less than any order of a set could: lists hold a node once for each edge, and are rid of
what lies inside groups only where ``Condensed`` surely has done so. So a count within the budget
says that ``Condensed`` would have come through as well, with these groups.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from hetsim.base.code_folder import is_kept
from hetsim.base.machine_code import machine_code

Array = Any

PREDS, SUCCS = 0, 1
COUNT, CLOCK = 0, 1
"""In `tally`: what searches have cost so far, and how many there were."""


def find(parent: Array, node: int) -> int:
    """Representative of the node's group."""
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


def between(
    parent: Array, position: Array, head: Array, tail: Array, size: Array, behind: Array,
    raw: Array, seen: Array, found: Array, tally: Array, way: int, start: int, goal: int,
) -> int:  # fmt: skip
    """Do what ``Condensed._between`` does; how many are in `found`, -1 where it is to be None."""
    limit = position[goal]
    # By group: below `now` where not seen, above it where something in its list lies inside.
    now = tally[CLOCK] + 2
    tally[CLOCK] = now
    seen[start] = now
    seen[goal] = now
    found[0] = start
    count, done, closed = 1, 0, False
    while done < count:
        group = found[done]
        done += 1
        tally[COUNT] += size[way, group]
        at = head[way, group]
        while at >= 0:
            other = find(parent, raw[way, at])
            if other == group:
                seen[group] = now + 1
            elif other == goal:
                closed = closed or group != start
            elif seen[other] < now and (position[other] < limit) == (way == SUCCS):
                seen[other] = now
                found[count] = other
                count += 1
            at = behind[way, at]
    if closed:
        return -1
    for k in range(count):
        group = found[k]
        if seen[group] == now:
            continue
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
    for k in range(1, count):
        found[k - 1] = found[k]
    return count - 1


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
    parent: Array, position: Array, standing: Array, head: Array, tail: Array, size: Array,
    behind: Array, raw: Array, seen: Array, found: Array, heap: Array, slots: Array, tally: Array,
    u: int, v: int,
) -> bool:  # fmt: skip
    """Do what ``Condensed.contract`` does."""
    a, b = find(parent, u), find(parent, v)
    if a == b:
        return True
    before = between(
        parent, position, head, tail, size, behind, raw, seen, found, tally, PREDS, b, a
    )
    if before < 0:
        return False
    if before:
        count = 0
        for k in range(before):
            push(heap, count, position[found[k]])
            count += 1
        after = between(
            parent, position, head, tail, size, behind, raw, seen, found, tally, SUCCS, a, b
        )
        for k in range(after):
            push(heap, count, position[found[k]])
            count += 1
        push(heap, count, position[a])
        push(heap, count + 1, position[b])
        # Two that stay in their order each: those before, seen by the first search alone, and
        # those after. `slots` has the places from its beginning, the groups behind these.
        count += 2
        low, high = count, count + before
        slots[high] = a
        high += 1
        for k in range(count):
            place = pop(heap, count - k)
            slots[k] = place
            group = standing[place]
            if group != a and group != b:
                if seen[group] < tally[CLOCK]:
                    slots[low] = group
                    low += 1
                else:
                    slots[high] = group
                    high += 1
        for k in range(count - 1):
            position[slots[count + k]] = slots[k]
            standing[slots[k]] = slots[count + k]
    parent[b] = a
    for way in range(2):
        if head[way, b] >= 0:
            if head[way, a] >= 0:
                behind[way, tail[way, a]] = head[way, b]
            else:
                head[way, a] = head[way, b]
            tail[way, a] = tail[way, b]
            size[way, a] += size[way, b]
            head[way, b] = -1
    return True


def scan(
    parent: Array, position: Array, standing: Array, head: Array, tail: Array, size: Array,
    behind: Array, raw: Array, seen: Array, found: Array, heap: Array, slots: Array, tally: Array,
    order: Array, at: Array, near: Array, kind: Array, downwards: bool, budget: int,
) -> bool:  # fmt: skip
    """Contract the edges within a kind once; whether the count has stayed within the budget.

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
    for node in order:
        first, count = at[node], at[node + 1] - at[node]
        for k in range(count):
            other = near[first + (count - 1 - k if downwards else k)]
            if kind[other] == kind[node]:
                contract(
                    parent, position, standing, head, tail, size, behind, raw, seen, found, heap,
                    slots, tally, min(node, other), max(node, other),
                )  # fmt: skip
        if tally[COUNT] > budget:
            return False
    return True


def walk(
    parent: Array, position: Array, standing: Array, head: Array, tail: Array, size: Array,
    behind: Array, raw: Array, seen: Array, found: Array, heap: Array, slots: Array, tally: Array,
    order: Array, kind: Array, queued: Array, ends: Array, budget: int,
) -> bool:  # fmt: skip
    """Do the passes of ``convex.solve``; whether the count has stayed within the budget.

    Parameters
    ----------
    order : int [n]
        Nodes in the order in which they are to be starts.
    kind : int [n]
    queued : int [n], 0
        By node: the last start that has looked at it.
    ends : int [n], room to work in
    """
    turn = 0
    changed = True
    while changed:
        changed = False
        for start in order:
            if parent[start] != start:
                continue
            turn += 1
            waiting = 0
            at = head[SUCCS, start]
            while at >= 0:
                end = raw[SUCCS, at]
                if queued[end] != turn:
                    queued[end] = turn
                    push(ends, waiting, end)
                    waiting += 1
                at = behind[SUCCS, at]
            while waiting:
                end = pop(ends, waiting)
                waiting -= 1
                if kind[end] != kind[start]:
                    continue
                other = find(parent, end)
                if other == start:
                    continue
                # Joined, the other's list is the tail of the start's.
                fresh = head[SUCCS, other]
                joined = contract(
                    parent, position, standing, head, tail, size, behind, raw, seen, found, heap,
                    slots, tally, start, other,
                )  # fmt: skip
                if tally[COUNT] > budget:
                    return False
                if not joined:
                    continue
                changed = True
                at = fresh
                while at >= 0:
                    end = raw[SUCCS, at]
                    if queued[end] != turn:
                        queued[end] = turn
                        push(ends, waiting, end)
                        waiting += 1
                    at = behind[SUCCS, at]
    return True


PARTS = (find, between, push, pop, contract)


@functools.cache
def compiled_scan() -> Callable[..., Any]:
    """Return ``scan`` as machine code."""
    return machine_code(scan, *PARTS)


@functools.cache
def scan_is_kept() -> bool:
    """Whether machine code of ``scan`` was most likely kept when this was first asked."""
    return is_kept(scan, *PARTS)


@functools.cache
def compiled_walk() -> Callable[..., Any]:
    """Return ``walk`` as machine code."""
    return machine_code(walk, *PARTS)
