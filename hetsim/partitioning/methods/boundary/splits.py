"""``Cuts`` on arrays alone, for machine code: the same boundaries leave the same groups."""

from __future__ import annotations

from typing import Any, NamedTuple

Array = Any

FRESH, STARTS, PARTS = 0, 1, 2
"""In `Split.tally`: the next label, how many ends there are, and how many parts were split off."""


class Wires(NamedTuple):
    """A DAG of operations, by edge; edges are numbered by target, then by source.

    Attributes
    ----------
    in_at, out_at : int [n + 1]
        Where a node's edges begin: those into it in the numbers of edges, those out of it in `out`.
    source, target : int [E]
    out : int [E]
        Edges by source, then by target.
    """

    in_at: Array
    out_at: Array
    source: Array
    target: Array
    out: Array


class Split(NamedTuple):
    """Boundaries, groups, and room to split them in.

    Attributes
    ----------
    cut : bool [E]
    label : int [n]
    tie, tie_at : int [2 E]
        By node, in the room of all its edges, those that are not cut, first: each as 2 edge, plus 1
        where the edge leaves the node; and by that number its place here.
    ties : int [n]
        How many those are.
    ends : int [n]
        Nodes to split at: set `tally[STARTS]` of them.
    moved : int [n]
    moved_at : int [n + 1]
        The nodes that got another label, part by part, and where the parts begin.
    owner, link : int [n]
        The search that has found a node, -1 if none, and the next in its list.
    into, size, done, done_last, open, open_last : int [n]
        By search: what it has become a part of, how many nodes it has found, and lists of those
        that it is done with and of those from which it is to go on.
    turns : int [n + 1]
    touched : int [n]
    tally : int [3]
    """

    cut: Array
    label: Array
    tie: Array
    tie_at: Array
    ties: Array
    ends: Array
    moved: Array
    moved_at: Array
    owner: Array
    link: Array
    into: Array
    size: Array
    done: Array
    done_last: Array
    open: Array
    open_last: Array
    turns: Array
    touched: Array
    tally: Array


def begin(wires: Wires, state: Split, kind: Array) -> None:
    """Let edges between kinds be boundaries, and label groups by their first node."""
    n, cut, label = len(kind), state.cut, state.label
    for node in range(n):
        label[node] = node
        state.owner[node] = -1
    for edge in range(len(cut)):
        u, v = wires.source[edge], wires.target[edge]
        cut[edge] = kind[u] != kind[v]
        if not cut[edge]:
            while label[u] != u:
                label[u] = label[label[u]]
                u = label[u]
            while label[v] != v:
                label[v] = label[label[v]]
                v = label[v]
            label[max(u, v)] = min(u, v)
    for node in range(n):
        label[node] = label[label[node]]
    for node in range(n):
        state.ties[node] = 0
    for edge in range(len(cut)):
        if not cut[edge]:
            for outwards in range(2):
                node = wires.source[edge] if outwards else wires.target[edge]
                place = wires.in_at[node] + wires.out_at[node] + state.ties[node]
                state.tie[place] = 2 * edge + outwards
                state.tie_at[2 * edge + outwards] = place
                state.ties[node] += 1
    state.tally[FRESH] = n
    state.tally[STARTS] = 0


def promote(wires: Wires, state: Split, edge: int) -> None:
    """Make an edge a boundary, and let searches begin at its ends: ``split`` must follow."""
    state.cut[edge] = True
    for outwards in range(2):
        node = wires.source[edge] if outwards else wires.target[edge]
        state.ties[node] -= 1
        last_one = state.tie[wires.in_at[node] + wires.out_at[node] + state.ties[node]]
        place = state.tie_at[2 * edge + outwards]
        state.tie[place] = last_one
        state.tie_at[last_one] = place
        end(state, node)


def end(state: Split, node: int) -> None:
    """Let a search of the split to come begin at `node`."""
    if state.owner[node] < 0:
        state.owner[node] = state.tally[STARTS]
        state.ends[state.tally[STARTS]] = node
        state.tally[STARTS] += 1


def last(into: Array, search: int) -> int:
    """The search that this one has become a part of."""
    while into[search] >= 0:
        if into[into[search]] >= 0:
            into[search] = into[into[search]]
        search = into[search]
    return search


def joined(state: Split, one: int, other: int) -> int:
    """Let two searches go on as one: the larger, which is returned."""
    if state.size[other] > state.size[one]:
        one, other = other, one
    state.size[one] += state.size[other]
    state.into[other] = one
    if state.done[other] >= 0:
        if state.done[one] >= 0:
            state.link[state.done_last[one]] = state.done[other]
        else:
            state.done[one] = state.done[other]
        state.done_last[one] = state.done_last[other]
    if state.open[other] >= 0:
        if state.open[one] >= 0:
            state.link[state.open_last[one]] = state.open[other]
        else:
            state.open[one] = state.open[other]
        state.open_last[one] = state.open_last[other]
    return one


def found(state: Split, node: int, search: int) -> None:
    """Let a search go on from `node`, behind all others."""
    state.link[node] = -1
    if state.open[search] >= 0:
        state.link[state.open_last[search]] = node
    else:
        state.open[search] = node
    state.open_last[search] = node


def split(wires: Wires, state: Split) -> None:
    """Do what ``Cuts.split`` does, from `ends`; `moved` has the parts."""
    count = state.tally[STARTS]
    for k in range(count):
        node = state.ends[k]
        state.touched[k] = node
        state.into[k], state.size[k], state.done[k], state.open[k] = -1, 1, -1, -1
        found(state, node, k)
        state.turns[k] = k
    touched, running, room = count, count, len(state.turns)
    front, waiting = 0, count
    parts, moved = 0, 0
    state.moved_at[0] = 0
    while running > 1:
        turn = state.turns[front]
        front = (front + 1) % room
        waiting -= 1
        search = turn
        if state.into[search] >= 0:
            continue
        node = state.open[search]
        if node < 0:
            running -= 1
            at = state.done[search]
            while at >= 0:
                state.label[at] = state.tally[FRESH]
                state.moved[moved] = at
                moved += 1
                at = state.link[at]
            state.tally[FRESH] += 1
            parts += 1
            state.moved_at[parts] = moved
            continue
        state.open[search] = state.link[node]
        if state.done[search] < 0:
            state.done_last[search] = node
        state.link[node] = state.done[search]
        state.done[search] = node
        begin_at = wires.in_at[node] + wires.out_at[node]
        for k in range(begin_at, begin_at + state.ties[node]):
            edge = state.tie[k] // 2
            near = wires.target[edge] if state.tie[k] % 2 else wires.source[edge]
            met = state.owner[near]
            if met < 0:
                state.owner[near] = search
                state.touched[touched] = near
                touched += 1
                state.size[search] += 1
                found(state, near, search)
            elif met != search:
                other = last(state.into, met)
                if other != search:
                    search = joined(state, search, other)
                    running -= 1
        state.turns[(front + waiting) % room] = turn
        waiting += 1
    for k in range(touched):
        state.owner[state.touched[k]] = -1
    state.tally[STARTS] = 0
    state.tally[PARTS] = parts
