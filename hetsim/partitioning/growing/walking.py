"""The walk of ``convex`` over the graph of groups, in numba's subset of Python."""

from __future__ import annotations

from typing import Any

from hetsim.partitioning.growing.condensed import (
    BETWEEN,
    COUNT,
    PARTS,
    Edges,
    Groups,
    Ints,
    contract,
    find,
)

LANDMARKS = 62
"""Groups that a sweep keeps a bit of; with the sign and one more a number has 64."""

SWEEP_AFTER = 2
"""A sweep is made whenever searches have looked at so many times as many edges as it looks at."""


def push(heap: Ints, count: int, value: int) -> None:
    """Add to a heap of `count` numbers, the least first."""
    at = count
    while at > 0 and heap[(at - 1) // 2] > value:
        heap[at] = heap[(at - 1) // 2]
        at = (at - 1) // 2
    heap[at] = value


def pop(heap: Ints, count: int) -> int:
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


def spread(parent: Ints, towards: Ints, edges: Edges, own: Ints, bits: Ints) -> None:
    """Note by group the landmarks at the other ends of its edges and of theirs, its own too."""
    head, _, _, behind, raw = edges
    n = len(parent)
    group = towards[n]
    while group != n:
        # What lies inside the group adds nothing.
        met = bits[group] = own[group]
        at = head[group]
        while at >= 0:
            met |= bits[find(parent, raw[at])]
            at = behind[at]
        bits[group] = met
        group = towards[group]


def swept(
    groups: Groups, preds: Edges, succs: Edges, led_by: Ints, leads_to: Ints, own: Ints, heap: Ints
) -> None:
    """Choose the groups with the most edges, in and out, and note as bits which lead where.

    Parameters
    ----------
    led_by, leads_to, own : int [n]
        By group the landmarks that lead to it, that it leads to, and that are in it.
    heap : int [LANDMARKS + 1], room to work in
    """
    parent, _, following, leading = groups
    n = len(parent)
    count = 0
    group = following[n]
    while group != n:
        own[group] = 0
        key = min(preds[2][group], succs[2][group]) * n + group
        if key >= n and (count < LANDMARKS or key > heap[0]):
            push(heap, count, key)
            count += 1
            if count > LANDMARKS:
                pop(heap, count)
                count -= 1
        group = following[group]
    for k in range(count):
        own[heap[k] % n] = 1 << k
    spread(parent, following, preds, own, led_by)
    spread(parent, leading, succs, own, leads_to)


def walk(
    parent: Ints, position: Ints, following: Ints, leading: Ints, head: Any, tail: Any, size: Any,
    behind: Any, raw: Any, seen: Ints, above: Ints, below: Ints, tally: Ints, order: Ints,
    at: Ints, succ: Ints, kind: Ints, member: Ints, last: Ints, met: Ints, edge: Ints,
    barrier: Ints, ends: Ints, led_by: Ints, leads_to: Ints, own: Ints, heap: Ints, budget: int,
) -> bool:  # fmt: skip
    """Do the passes of ``convex.solve``; whether the budget has lasted.

    Two things forbid a contraction without a search. Where a path forbade it before, a group
    between the two ends is kept with the edge: as long as that is neither end's, the path is
    there. And of the groups with the most edges, in and out, a sweep along the order notes as
    bits which lead where, whenever searches have cost what a few sweeps do; paths stay.

    Parameters
    ----------
    parent, ..., tally
        The graph of groups, as ``condensed.scan`` takes it.
    order : int [n]
        Nodes in the order in which they are to be starts.
    at, succ : int
        The nodes that each feeds, as in ``Rows``.
    kind : int [n]
    member, last : int [n], -1 and the node itself
        By node the one behind it in its group, and by group its last.
    met : int [n], 0
        By node the last start that has looked at it.
    edge, ends : int [n], room to work in
        By node the edge by which it was met.
    barrier : int [E], -1
        By edge a group on a path that forbade its contraction.
    led_by, leads_to, own, heap
        As ``swept`` takes them.
    budget : int
        Edges that searches may look at.
    """
    groups, search = (parent, position, following, leading), (seen, above, below, tally)
    preds = head[0], tail[0], size[0], behind[0], raw[0]
    succs = head[1], tail[1], size[1], behind[1], raw[1]
    turn = 0
    wait = SWEEP_AFTER * (len(kind) + len(succ))
    due = wait
    changed = True
    while changed:
        changed = False
        for start in order:
            if parent[start] != start:
                continue
            turn += 1
            waiting = 0
            fresh = start
            while True:
                while fresh >= 0:
                    for k in range(at[fresh], at[fresh + 1]):
                        end = succ[k]
                        if kind[end] == kind[start] and met[end] != turn:
                            met[end], edge[end] = turn, k
                            push(ends, waiting, end)
                            waiting += 1
                    fresh = member[fresh]
                if not waiting:
                    break
                end = pop(ends, waiting)
                waiting -= 1
                other = find(parent, end)
                if other == start:
                    continue
                if barrier[edge[end]] >= 0:
                    between = find(parent, barrier[edge[end]])
                    if between != start and between != other:
                        continue
                common = leads_to[start] & led_by[other]
                if common & ~(own[start] | own[other]):
                    continue
                if contract(groups, preds, succs, search, start, other):
                    changed = True
                    fresh = other
                    led_by[start] |= led_by[other]
                    leads_to[start] |= leads_to[other]
                    own[start] |= own[other]
                    member[last[start]], last[start] = other, last[other]
                else:
                    barrier[edge[end]] = tally[BETWEEN]
                if tally[COUNT] > budget:
                    return False
                if tally[COUNT] > due:
                    swept(groups, preds, succs, led_by, leads_to, own, heap)
                    due = tally[COUNT] + wait
    return True


WALK_PARTS = (*PARTS, push, pop, spread, swept)
"""What ``walk`` calls, each behind what it calls itself."""
