"""What a change to a device costs as arcs, and a minimum cut of arcs, on arrays alone.

Plain where there are few, as machine code where there are many and it is kept: the same numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from hetsim.base import left_to_python
from hetsim.base.machine_code import machine_code

Array = Any
"""A list of numbers, or an array of them where it is compiled; matrices lie flat, by row."""

KEEP, CHANGE = 0, 1
"""Nodes of the network: what keeps its device, and what changes; node v is 2 + v."""

HOST = -1
"""Stands for the host among producers and readers."""

INFINITY = float("inf")

KEPT_FROM, COMPILE_FROM = 2_000, 2_000_000
"""Terms from which arcs are laid out by machine code, where it is kept, and in all where not."""


def lay_out(
    count: int,
    host: int,
    target: int,
    assignment: Array,
    seconds: Array,
    producer: Array,
    reader_at: Array,
    readers: Array,
    size: Array,
    travel: Array,
    near: Array,
    tails: Array,
    heads: Array,
    capacities: Array,
    nodes: Array,
) -> int:
    """Lay out the network of ``cut_expansion.expand``; return how many arcs it has.

    Parameters
    ----------
    count : int
        Devices.
    host, target : int
        The device that inputs come from, -1 where there is none; that to which nodes may change.
    assignment : int [n]
    seconds : float [n count]
    producer, reader_at, readers : int
        By value who makes it, and who reads it: the nodes ascending, then HOST.
    size, travel : int [values], float [sizes count count]
        Which matrix of seconds is of a value.
    near : int [count], room to work in
    tails, heads, capacities : int, int, float [2 n + 3 values + 5 readers]
        Out: what it costs where the tail keeps and the head changes. Positive.
    nodes : int [1]
        Out: how many nodes the network has.

    Complexity: O(n + values count + readers).
    """
    arcs, last = 0, 2 + len(assignment)
    for v in range(len(assignment)):
        home = assignment[v]
        if home != target:
            if seconds[v * count + home] > 0:
                tails[arcs], heads[arcs] = 2 + v, CHANGE
                capacities[arcs] = seconds[v * count + home]
                arcs += 1
            if seconds[v * count + target] > 0:
                tails[arcs], heads[arcs] = KEEP, 2 + v
                capacities[arcs] = seconds[v * count + target]
                arcs += 1
    for value in range(len(producer)):
        u, home = KEEP, host
        if producer[value] != HOST:
            u, home = 2 + producer[value], assignment[producer[value]]
        first, end = reader_at[value], reader_at[value + 1]
        for q in range(count):
            near[q] = 0
        for k in range(first, end):
            v = readers[k]
            near[host if v == HOST else assignment[v]] += 1
        back = readers[end - 1] == HOST
        matrix = size[value] * count * count
        cost = travel[matrix + home * count + target]
        if home != target and cost > 0:
            # Once, where `u` keeps and any reader changes. The host itself has no choice.
            others = end - first - (1 if back else 0)
            if near[target] > 0:
                tails[arcs], heads[arcs], capacities[arcs] = u, CHANGE, cost
                arcs += 1
            elif others == 1:
                tails[arcs], heads[arcs], capacities[arcs] = u, 2 + readers[first], cost
                arcs += 1
            elif others > 1:
                tails[arcs], heads[arcs], capacities[arcs] = u, last, cost
                arcs += 1
                for k in range(first, first + others):
                    tails[arcs], heads[arcs] = last, 2 + readers[k]
                    capacities[arcs] = INFINITY
                    arcs += 1
                last += 1
        for q in range(count):
            if near[q] == 0 or q == target:
                continue
            changed = travel[matrix + target * count + q]
            kept = changed if home == target else travel[matrix + home * count + q]
            # Once, where any reader on q keeps: in any case, and what `u` adds where it changes.
            for turn in range(2):
                over, cost = CHANGE, kept
                if turn == 1:
                    over, cost = u, changed - kept
                if not cost > 0 or (turn == 1 and not changed > kept):
                    continue
                if back and q == host:
                    tails[arcs], heads[arcs], capacities[arcs] = KEEP, over, cost
                    arcs += 1
                    continue
                if near[q] > 1:
                    tails[arcs], heads[arcs], capacities[arcs] = last, over, cost
                    arcs += 1
                for k in range(first, end):
                    v = readers[k]
                    if v != HOST and assignment[v] == q:
                        tails[arcs] = 2 + v
                        if near[q] > 1:
                            heads[arcs], capacities[arcs] = last, INFINITY
                        else:
                            heads[arcs], capacities[arcs] = over, cost
                        arcs += 1
                if near[q] > 1:
                    last += 1
    nodes[0] = last
    return arcs


def saturate(
    source: int,
    sink: int,
    most: int,
    tails: Array,
    heads: Array,
    capacities: Array,
    at: Array,
    place: Array,
    ends: Array,
    room: Array,
    mate: Array,
    level: Array,
    queue: Array,
    now: Array,
) -> None:
    """Send a maximum flow from `source` to `sink`; `level` tells whom the source still reaches.

    By the algorithm of E. A. Dinic, Soviet Mathematics Doklady 11, 1970.

    Parameters
    ----------
    source, sink : int
    most : int
        Of a capacity, and of those between the same two nodes together.
    tails, heads, capacities : int [m]
        Of the arcs. Overwritten.
    at, level, queue, now : int [nodes + 1]
        Room to work in; `level` is -1 in the end where the source does not reach.
    place, ends, room, mate : int [2 m]
        Room to work in.

    Complexity: O(nodes^2 m), far less where ways are short.
    """
    nodes, arcs = len(at) - 1, len(tails)
    # Those between the same two nodes become one: sorted by tail, each head is met once.
    for v in range(nodes + 1):
        at[v] = 0
        level[v] = -1
    for k in range(arcs):
        at[tails[k] + 1] += 1
    for v in range(nodes):
        at[v + 1] += at[v]
        now[v] = at[v]
    for k in range(arcs):
        place[now[tails[k]]] = k
        now[tails[k]] += 1
    single = 0
    for v in range(nodes):
        for index in range(at[v], at[v + 1]):
            k = place[index]
            head = heads[k]
            if level[head] == v:
                room[now[head]] = min(room[now[head]] + capacities[k], most)
            else:
                level[head] = v
                now[head] = single
                ends[single] = head
                mate[single] = v
                room[single] = min(capacities[k], most)
                single += 1
    for k in range(single):
        tails[k], heads[k], capacities[k] = mate[k], ends[k], room[k]
    # Both ways of each, by node.
    for v in range(nodes + 1):
        at[v] = 0
    for k in range(single):
        at[tails[k] + 1] += 1
        at[heads[k] + 1] += 1
    for v in range(nodes):
        at[v + 1] += at[v]
        now[v] = at[v]
    for k in range(single):
        there, back = now[tails[k]], now[heads[k]]
        now[tails[k]] += 1
        now[heads[k]] += 1
        ends[there], room[there], mate[there] = heads[k], capacities[k], back
        ends[back], room[back], mate[back] = tails[k], 0, there
    while True:
        for v in range(nodes):
            level[v] = -1
        level[source] = 0
        queue[0] = source
        done, seen = 0, 1
        while done < seen and level[sink] < 0:
            u = queue[done]
            done += 1
            for k in range(at[u], at[u + 1]):
                v = ends[k]
                if room[k] > 0 and level[v] < 0:
                    level[v] = level[u] + 1
                    queue[seen] = v
                    seen += 1
        if level[sink] < 0:
            return
        for v in range(nodes):
            now[v] = at[v]
        # The way so far: its arcs are in `queue`.
        u, steps = source, 0
        while True:
            if u == sink:
                least = most
                for step in range(steps):
                    least = min(least, room[queue[step]])
                full = 0
                for step in range(steps - 1, -1, -1):
                    k = queue[step]
                    room[k] -= least
                    room[mate[k]] += least
                    if room[k] == 0:
                        full = step
                u, steps = ends[mate[queue[full]]], full
            while now[u] < at[u + 1]:
                k = now[u]
                if room[k] > 0 and level[ends[k]] == level[u] + 1:
                    break
                now[u] += 1
            if now[u] < at[u + 1]:
                queue[steps] = now[u]
                steps += 1
                u = ends[now[u]]
            elif u == source:
                break
            else:
                # From here nothing leads on; the arc that led here is looked at no more.
                level[u] = -1
                steps -= 1
                u = ends[mate[queue[steps]]]
                now[u] += 1


@functools.cache
def compiled_layout() -> Callable[..., int]:
    """Return ``lay_out`` as machine code for int64 and float64 arrays."""
    return machine_code(lay_out)


@functools.cache
def compiled_flow() -> Callable[..., None]:
    """Return ``saturate`` as machine code for int64 arrays."""
    return machine_code(saturate)


def layout_pays(terms: int) -> bool:
    """Whether arcs of so many nodes, values and readers are for machine code."""
    return left_to_python.pays(compiled_layout, lay_out, terms, KEPT_FROM, COMPILE_FROM)
