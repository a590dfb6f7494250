"""Graph of groups under edge contraction, kept acyclic and in topological order.

Functions in numba's subset of Python, on sequences of integers: lists for small graphs, compiled on
arrays for large ones. A group is represented by one of its nodes, the root in `parent`. Its edges
in either direction, one per pair of nodes, form a linked list (`Edges`); edges inside the group are
removed when a search meets them.

The order of groups is kept as positions (numbers with gaps) and as a linked list in `following` and
`leading`, with node n as sentinel at both ends. If there is no gap, positions are spread out in the
smallest aligned range that is not too full, as in M. A. Bender, R. Cole, E. D. Demaine, M.
Farach-Colton, J. Zito, Two simplified algorithms for maintaining order in a list, ESA 2002, which
inserts one at a time; here several are inserted at once.

Source: the order is maintained by alternating searches from both ends of an edge within the range
that it allows, as in M. A. Bender, J. T. Fineman, S. Gilbert, R. E. Tarjan, A new approach to
incremental cycle detection and related problems, ACM TALG 12(2), 2016; there edges are inserted and
searched in order, here they are contracted and searched breadth first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = Any
"""List or array of integers."""

Edges = Any
"""Edges in one direction: `head`, `tail` and `size` by group, and by edge `behind` (next in its
list or -1) and `raw` (a node at the other end)."""

Groups = Any
"""Tuple of `parent`, `position`, `following` and `leading`; the last three hold the order."""

Search = Any
"""Tuple of `seen`, `above`, `below` and `tally`, the scratch space of searches."""

COUNT, CLOCK, BETWEEN, MOVED = 0, 1, 2, 3
"""Indices into `tally`: number of edges visited; mark of the last search; a group on the path that
it found; number of groups that it moves."""

PATH, BEFORE, AFTER = 0, 1, 2
"""Results of a search: another path exists, or groups must move before, or behind, an end."""


Links = NDArray[np.int32]

WIDTH = 2**62
"""Upper limit of positions."""

GROWTH = 4 / 3
"""Factor on the capacity of a range, in positions, each time the range doubles."""


def standing(order: NDArray[np.int64]) -> tuple[NDArray[np.int64], Links, Links]:
    """Return positions, `following` and `leading` of nodes 0 .. n - 1 in `order`. O(n)."""
    n = order.size
    position = np.full(n + 1, -1)
    position[order] = np.arange(n) * (WIDTH // (n + 1))
    following, leading = np.empty(n + 1, dtype=np.int32), np.empty(n + 1, dtype=np.int32)
    around = np.concatenate(([n], order, [n]))
    following[around[:-1]] = around[1:]
    leading[around[1:]] = around[:-1]
    return position, following, leading


def take_out(following: Ints, leading: Ints, node: int) -> None:
    """Remove a node from the list."""
    following[leading[node]] = following[node]
    leading[following[node]] = leading[node]


def put_behind(following: Ints, leading: Ints, before: int, node: int) -> None:
    """Insert a node that is not in the list behind one that is."""
    after = following[before]
    following[before], leading[node] = node, before
    following[node], leading[after] = after, node


def move(
    position: Ints, following: Ints, leading: Ints, before: int, nodes: Ints,
    first: int, end: int,
) -> None:  # fmt: skip
    """Move nodes[first:end], in sorted order, to behind `before`, which is none of them.

    Complexity: O(end - first), plus amortized O(log n) renumberings per node.
    """
    last = before
    for k in range(first, end):
        take_out(following, leading, nodes[k])
        put_behind(following, leading, last, nodes[k])
        last = nodes[k]
    n, count = len(position) - 1, end - first
    after = following[last]
    room = (WIDTH if after == n else position[after]) - position[before]
    if room > count:
        gap, start, number = room // (count + 1), following[before], position[before]
        number += gap
    else:
        start, base = before, max(position[before], 0)
        if before == n:
            start = following[before]
        else:
            count += 1
        width, most = 1, 1.0
        low = base
        while count >= most:
            width *= 2
            most *= GROWTH
            low = base // width * width
            while start != following[n] and position[leading[start]] >= low:
                start = leading[start]
                count += 1
            while following[last] != n and position[following[last]] < low + width:
                last = following[last]
                count += 1
        gap, number = width // count, low
    node = start
    for _ in range(count):
        position[node] = number
        number += gap
        node = following[node]


def find(parent: Ints, node: int) -> int:
    """Return the representative of the node's group."""
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


def looked(
    parent: Ints, position: Ints, edges: Edges, seen: Ints, found: Ints, tally: Ints, count: int,
    forwards: bool, group: int, start: int, goal: int, mine: int, theirs: int,
) -> int:  # fmt: skip
    """Return the size of `found` after visiting the edges of `group`; -1 on a path of two or more.

    The path leads from `start` to `goal`, the ends of the edge to be contracted. A search continues
    through groups on its own side of the goal in the order.
    """
    head, tail, size, behind, raw = edges
    tally[COUNT] += size[group]
    limit = position[goal]
    inner = False
    at = head[group]
    while at >= 0:
        other = parent[raw[at]]
        if parent[other] != other:
            other = find(parent, other)
            raw[at] = other
        mark = seen[other]
        if mark == theirs:
            if other != goal or group != start:
                tally[BETWEEN] = other if other != goal else group
                return -1
        elif other == group:
            inner = True
        elif mark != mine and (position[other] < limit) == forwards:
            seen[other] = mine
            found[count] = other
            count += 1
        at = behind[at]
    if inner:
        last, at = -1, head[group]
        head[group] = -1
        while at >= 0:
            if find(parent, raw[at]) == group:
                size[group] -= 1
            else:
                if last < 0:
                    head[group] = at
                else:
                    behind[last] = at
                last = at
            at = behind[at]
        if last >= 0:
            behind[last] = -1
        tail[group] = last
    return count


def searched(
    parent: Ints, position: Ints, preds: Edges, succs: Edges, search: Search, a: int, b: int
) -> int:
    """Return which groups must move for edge (a, b), BEFORE or AFTER; PATH if its ends are joined.

    The side that has visited fewer edges visits its next list; ties go to the upper side.
    """
    seen, above, below, tally = search
    up_size, down_size = preds[2], succs[2]
    tally[CLOCK] += 2
    leads = tally[CLOCK]
    reached = leads + 1
    seen[b], seen[a] = leads, reached
    above[0], below[0] = b, a
    up, ups, down, downs = 0, 1, 0, 1
    up_steps, down_steps = up_size[b], down_size[a]
    while True:
        if up_steps <= down_steps:
            ups = looked(
                parent, position, preds, seen, above, tally, ups, False, above[up], b, a, leads,
                reached,
            )  # fmt: skip
            up += 1
            if ups < 0:
                return PATH
            if up == ups:
                tally[MOVED] = ups - 1
                return BEFORE
            up_steps += up_size[above[up]]
        else:
            downs = looked(
                parent, position, succs, seen, below, tally, downs, True, below[down], a, b,
                reached, leads,
            )  # fmt: skip
            down += 1
            if downs < 0:
                return PATH
            if down == downs:
                tally[MOVED] = downs - 1
                return AFTER
            down_steps += down_size[below[down]]


def sort(position: Ints, nodes: Ints, first: int, end: int) -> None:
    """Sort nodes[first:end] by position, with a heap."""
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


def joined(edges: Edges, a: int, b: int) -> None:
    """Append the edge list of `b` to that of `a`, the longer one first."""
    head, tail, size, behind, _ = edges
    first, second = (a, b) if size[a] >= size[b] else (b, a)
    if head[second] >= 0:
        behind[tail[first]] = head[second]
        tail[first] = tail[second]
    head[a], tail[a] = head[first], tail[first]
    size[a] += size[b]


def contract(groups: Groups, preds: Edges, succs: Edges, search: Search, u: int, v: int) -> bool:
    """Merge the groups of the edge (u, v) unless that closes a cycle; return whether merged.

    The group of u represents both. If no other path joins the two, the search has completed one of
    two sets of groups: those between them in the order that lead to v's, or those that u's leads
    to. The former move before u's group, which then represents both, or the latter behind v's,
    whose position it takes.

    Complexity: O(edges of the smaller set), twice, plus sorting it.
    """
    parent, position, following, leading = groups
    _, above, below, tally = search
    a, b = find(parent, u), find(parent, v)
    if a == b:
        return True
    # An only edge into b, or out of a, must be this one, so no search is needed.
    if preds[2][b] == 1:
        found, tally[MOVED] = BEFORE, 0
        tally[COUNT] += 1
    elif succs[2][a] == 1:
        found, tally[MOVED] = AFTER, 0
        tally[COUNT] += 1
    else:
        found = searched(parent, position, preds, succs, search, a, b)
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
    joined(preds, a, b)
    joined(succs, a, b)
    return True


def scan(
    parent: Ints, position: Ints, following: Ints, leading: Ints, head: Any, tail: Any, size: Any,
    behind: Any, raw: Any, seen: Ints, above: Ints, below: Ints, tally: Ints, order: Ints,
    at: Ints, near: Ints, kind: Ints, downwards: bool, budget: int,
) -> bool:  # fmt: skip
    """Contract the edges between nodes of one kind once; return whether the budget lasted.

    Parameters
    ----------
    parent, ..., tally
        Graph of groups; `head` to `raw` hold the incoming, then the outgoing edges.
    order : int [n]
        Nodes in the order of the scan.
    at, near : int
        Neighbours in one direction by node, ascending, as in ``NodeRows``.
    kind : int [n]
        An edge is contracted if its ends have the same kind.
    downwards : bool
        Whether a node's last neighbour comes first.
    budget : int
        Edges that searches may visit before the scan ends, after the current node.
    """
    groups, search = (parent, position, following, leading), (seen, above, below, tally)
    preds = head[0], tail[0], size[0], behind[0], raw[0]
    succs = head[1], tail[1], size[1], behind[1], raw[1]
    for node in order:
        first, count = at[node], at[node + 1] - at[node]
        for k in range(count):
            other = near[first + (count - 1 - k if downwards else k)]
            if kind[other] == kind[node]:
                u, v = (node, other) if node < other else (other, node)
                contract(groups, preds, succs, search, u, v)
        if tally[COUNT] > budget:
            return False
    return True


PARTS = (find, looked, searched, sort, take_out, put_behind, move, joined, contract)
"""Functions that ``scan`` calls, callees first."""
