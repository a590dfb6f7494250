"""The walk of ``convex`` on arrays alone: for machine code, over what ``kernels`` contracts.

Contraction by contraction the groups, and what searches cost, are those of ``convex``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from hetsim.base.machine_code import machine_code
from hetsim.partitioning.growing.kernels import (
    BEHIND,
    BETWEEN,
    COUNT,
    PARENT,
    PARTS,
    POSITION,
    PREDS,
    RAW,
    SEEN,
    SUCCS,
    contract,
    find,
    pop,
    push,
)

Array = Any

OWN = 2
"""In `bits`, behind PREDS and SUCCS."""

LANDMARKS = 62
"""Groups that a sweep keeps a bit of; with the sign and one more a number has 64."""

SWEEP_AFTER = 2
"""A sweep is made whenever searches have looked at so many times as many edges as it looks at."""


def swept(
    parent: Array, following: Array, leading: Array, head: Array, size: Array, behind: Array,
    raw: Array, bits: Array, heap: Array,
) -> None:  # fmt: skip
    """Find landmarks, and which of them lead to each group, and are led to, along its edges.

    Parameters
    ----------
    bits : int [n, 3]
        By group the landmarks that lead to it, that it leads to, and that are in it.
    heap : int [LANDMARKS + 1], room to work in
    """
    n = len(parent) - 1
    count = 0
    group = following[n]
    while group != n:
        bits[group, OWN] = 0
        key = min(size[PREDS, group], size[SUCCS, group]) * n + group
        if key > group and (count < LANDMARKS or key > heap[0]):
            push(heap, count, key)
            count += 1
            if count > LANDMARKS:
                pop(heap, count)
                count -= 1
        group = following[group]
    for k in range(count):
        bits[heap[k] % n, OWN] = 1 << k
    for way in range(2):
        towards = following if way == PREDS else leading
        group = towards[n]
        while group != n:
            # What lies inside the group adds nothing.
            met = bits[group, way] = bits[group, OWN]
            at = head[way, group]
            while at >= 0:
                met |= bits[find(parent, raw[way, at]), way]
                at = behind[way, at]
            bits[group, way] = met
            group = towards[group]


def walk(
    groups: Array, edges: Array, following: Array, leading: Array, head: Array, tail: Array,
    size: Array, above: Array, below: Array, tally: Array, order: Array, at: Array, succ: Array,
    kind: Array, member: Array, last: Array, met: Array, edge: Array, barrier: Array, ends: Array,
    bits: Array, heap: Array, budget: int,
) -> bool:  # fmt: skip
    """Do the passes of ``convex.solve``; whether the budget has lasted.

    Parameters
    ----------
    order : int [n]
        Nodes in the order in which they are to be starts.
    at : int [n + 1]
    succ : int
        The nodes that each feeds.
    kind : int [n]
    member, last : int [n], -1 and the node itself
        By node the one behind it in its group, and by group its last.
    met : int [n], 0
        By node the last start that has looked at it.
    edge, ends : int [n], room to work in
        By node the edge by which it was met.
    barrier : int [E], -1
        By edge a group on a path that forbade its contraction.
    bits, heap
        As ``swept`` takes them.
    """
    parent, seen, position = groups[:, PARENT], groups[:, SEEN], groups[:, POSITION]
    raw, behind = edges[:, :, RAW], edges[:, :, BEHIND]
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
                common = bits[start, SUCCS] & bits[other, PREDS]
                if common & ~(bits[start, OWN] | bits[other, OWN]):
                    continue
                joined = contract(
                    parent, position, following, leading, head, tail, size, behind, raw, seen,
                    above, below, tally, start, other,
                )  # fmt: skip
                if joined:
                    changed = True
                    fresh = other
                    for k in range(3):
                        bits[start, k] |= bits[other, k]
                    member[last[start]], last[start] = other, last[other]
                else:
                    barrier[edge[end]] = tally[BETWEEN]
                if tally[COUNT] > budget:
                    return False
                if tally[COUNT] > due:
                    swept(parent, following, leading, head, size, behind, raw, bits, heap)
                    due = tally[COUNT] + wait
    return True


@functools.cache
def compiled_walk() -> Callable[..., Any]:
    """Return ``walk`` as machine code."""
    return machine_code(walk, *PARTS, swept, inline=True)
