"""``cut_reentry`` on arrays alone, for machine code: the same edges become boundaries."""

from __future__ import annotations

from typing import Any, NamedTuple

from hetsim.partitioning.methods.boundary.splits import (
    PARTS,
    Split,
    Wires,
    promote,
    split,
)

Array = Any

LOWEST, TICK = 0, 1
"""In `Entry.tally`: the first node of the group at hand, and the last mark given to nodes."""


class Entry(NamedTuple):
    """Progress of the rule, as in ``reentry``; labels are below 2 n.

    Attributes
    ----------
    settled, is_open : bool [n]
    unsettled : int [n]
        How many inputs from a node's group were not settled.
    watching, watch_first, watch_next, watch_last : int [n]
        The node that a node's re-entry was traced to, -1 if none; by node the first that was
        traced to it, and by such a one its neighbours in that list.
    known, known_of : int [n]
        What a trace above the node gave, and the label that it was for.
    marked, above : int [n]
        The last mark given to the node.
    path, turn, pending, new : int [n]
    check : int [2 n]
    member : int [2 n + 1]
    member_next : int [n]
    undecided : int [2 n + 1]
    undecided_next : int [E]
        By label the first member of a group that is to be worked off, and the first edge left
        undecided; by such a one the next.
    groups : int [2 n + 1]
    looked, later : int [E]
    tally : int [2]
    """

    settled: Array
    is_open: Array
    unsettled: Array
    watching: Array
    watch_first: Array
    watch_next: Array
    watch_last: Array
    known: Array
    known_of: Array
    marked: Array
    above: Array
    path: Array
    turn: Array
    pending: Array
    new: Array
    check: Array
    member: Array
    member_next: Array
    undecided: Array
    undecided_next: Array
    groups: Array
    looked: Array
    later: Array
    tally: Array


def begin_entry(wires: Wires, state: Split, entry: Entry) -> None:
    """Nothing is settled yet."""
    for node in range(len(state.label)):
        entry.settled[node] = entry.is_open[node] = False
        entry.unsettled[node] = entry.marked[node] = entry.above[node] = 0
        entry.watching[node] = entry.watch_first[node] = entry.known_of[node] = -1
    for edge in range(len(state.cut)):
        if not state.cut[edge]:
            entry.unsettled[wires.target[edge]] += 1
    for label in range(len(entry.member)):
        entry.member[label] = entry.undecided[label] = -1
    entry.tally[TICK] = 0


def unwatch(entry: Entry, node: int) -> None:
    """Take the node from the list that it is in."""
    origin = entry.watching[node]
    before, after = entry.watch_last[node], entry.watch_next[node]
    if before >= 0:
        entry.watch_next[before] = after
    else:
        entry.watch_first[origin] = after
    if after >= 0:
        entry.watch_last[after] = before
    entry.watching[node] = -1


def watch(entry: Entry, node: int, origin: int) -> None:
    """Put the node into the list of `origin`, and into no other."""
    if entry.watching[node] >= 0:
        unwatch(entry, node)
    first = entry.watch_first[origin]
    entry.watching[node] = origin
    entry.watch_next[node], entry.watch_last[node] = first, -1
    if first >= 0:
        entry.watch_last[first] = node
    entry.watch_first[origin] = node


def trace(wires: Wires, label: Array, entry: Entry, start: int, group: int) -> int:
    """Do what ``_Reentry._trace`` does."""
    path, turn = entry.path, entry.turn
    path[0], turn[0] = start, wires.in_at[start]
    depth = 1
    while depth:
        node = path[depth - 1]
        edge = turn[depth - 1]
        if edge == wires.in_at[node + 1]:
            entry.known[node], entry.known_of[node] = -1, group
            depth -= 1
            continue
        turn[depth - 1] += 1
        source = wires.source[edge]
        if source < entry.tally[LOWEST]:
            continue
        if label[source] == group:
            origin = source
        else:
            origin = entry.known[source] if entry.known_of[source] == group else -2
        if origin >= 0 and label[origin] == group:
            for k in range(depth):
                entry.known[path[k]], entry.known_of[path[k]] = origin, group
            return int(origin)
        if origin != -1:
            path[depth], turn[depth] = source, wires.in_at[source]
            depth += 1
    return -1


def origin_of(wires: Wires, state: Split, entry: Entry, node: int, group: int) -> int:
    """A node of the group whose data comes back at `node`, -1 where there is none."""
    for edge in range(wires.in_at[node], wires.in_at[node + 1]):
        if state.cut[edge]:
            origin = wires.source[edge]
            if state.label[origin] != group:
                origin = trace(wires, state.label, entry, origin, group)
            if origin >= 0:
                return int(origin)
    return -1


def entered(wires: Wires, state: Split, node: int) -> bool:
    """Whether data of other groups enters at `node`."""
    for edge in range(wires.in_at[node], wires.in_at[node + 1]):
        if state.cut[edge] and state.label[wires.source[edge]] != state.label[node]:
            return True
    return False


def share(wires: Wires, state: Split, entry: Entry, u: int, v: int) -> bool:
    """Do what ``_Reentry._share`` does."""
    pending, above, marked = entry.pending, entry.above, entry.marked
    entry.tally[TICK] += 2
    now = entry.tally[TICK]
    above[u] = now
    pending[0] = u
    count, lowest = 1, u
    while count:
        count -= 1
        node = pending[count]
        for edge in range(wires.in_at[node], wires.in_at[node + 1]):
            source = wires.source[edge]
            if above[source] != now:
                above[source] = now
                lowest = min(lowest, source)
                pending[count] = source
                count += 1
    # Gates are kept in `path`: marked once seen, and anew once they are to be gone on from.
    gates = 0
    gate = entry.path
    marked[v] = now - 1
    pending[0] = v
    count = 1
    while count:
        count -= 1
        node = pending[count]
        opened = entered(wires, state, node)
        if opened and marked[node] != now:
            marked[node] = now
            gate[gates] = node
            gates += 1
        if opened:
            continue
        for edge in range(wires.in_at[node], wires.in_at[node + 1]):
            source = wires.source[edge]
            if state.cut[edge]:
                if marked[source] != now:
                    marked[source] = now
                    gate[gates] = source
                    gates += 1
            elif marked[source] < now - 1:
                marked[source] = now - 1
                pending[count] = source
                count += 1
    while gates:
        gates -= 1
        node = gate[gates]
        if above[node] == now:
            return True
        for edge in range(wires.in_at[node], wires.in_at[node + 1]):
            source = wires.source[edge]
            if source >= lowest and marked[source] != now:
                marked[source] = now
                gate[gates] = source
                gates += 1
    return False


def settle(wires: Wires, state: Split, entry: Entry, group: int, count: int) -> int:
    """Settle what is not re-entered, from the `count` nodes in `check` on; how many are `new`."""
    check, new = entry.check, entry.new
    fresh = 0
    while count:
        count -= 1
        node = check[count]
        if entry.settled[node]:
            continue
        origin = origin_of(wires, state, entry, node, group)
        if origin >= 0:
            watch(entry, node, origin)
            continue
        entry.settled[node] = True
        new[fresh] = node
        fresh += 1
        for edge in range(wires.in_at[node], wires.in_at[node + 1]):
            if state.cut[edge] or entry.is_open[wires.source[edge]]:
                entry.is_open[node] = True
        for k in range(wires.out_at[node], wires.out_at[node + 1]):
            edge = wires.out[k]
            if not state.cut[edge]:
                target = wires.target[edge]
                entry.unsettled[target] -= 1
                if not entry.unsettled[target]:
                    check[count] = target
                    count += 1
    return fresh


def cut_reentries(wires: Wires, state: Split, rule: Entry) -> None:
    """Do what ``cut_reentry`` does."""
    n = len(state.label)
    begin_entry(wires, state, rule)
    check, new, groups = rule.check, rule.new, rule.groups
    member, member_next = rule.member, rule.member_next
    undecided, undecided_next = rule.undecided, rule.undecided_next
    looked, later = rule.looked, rule.later
    for node in range(n - 1, -1, -1):
        member_next[node] = member[state.label[node]]
        member[state.label[node]] = node
    waiting = 0
    for label in range(n):
        if member[label] >= 0:
            groups[waiting] = label
            waiting += 1
    while waiting:
        waiting -= 1
        group = groups[waiting]
        count, lowest, node = 0, n, member[group]
        while node >= 0:
            lowest = min(lowest, node)
            if not rule.settled[node] and not rule.unsettled[node]:
                check[count] = node
                count += 1
            node = member_next[node]
        rule.tally[LOWEST] = lowest
        while True:
            fresh = settle(wires, state, rule, group, count)
            found, edge = 0, undecided[group]
            undecided[group] = -1
            while edge >= 0:
                looked[found] = edge
                found += 1
                edge = undecided_next[edge]
            for k in range(fresh):
                for at in range(wires.out_at[new[k]], wires.out_at[new[k] + 1]):
                    looked[found] = wires.out[at]
                    found += 1
            left, promoted = 0, 0
            for k in range(found):
                edge = looked[k]
                u, v = wires.source[edge], wires.target[edge]
                if state.cut[edge] or rule.settled[v]:
                    continue
                if wires.out_at[u + 1] - wires.out_at[u] == 1 and not rule.is_open[u]:
                    continue
                if rule.is_open[u] or entered(wires, state, v) or share(wires, state, rule, u, v):
                    looked[promoted] = edge
                    promoted += 1
                else:
                    later[left] = edge
                    left += 1
            if not promoted:
                break
            for k in range(promoted):
                promote(wires, state, looked[k])
            split(wires, state)
            for k in range(left):
                label = state.label[wires.source[later[k]]]
                undecided_next[later[k]] = undecided[label]
                undecided[label] = later[k]
            count = 0
            for part in range(state.tally[PARTS]):
                label = state.label[state.moved[state.moved_at[part]]]
                groups[waiting] = label
                waiting += 1
                for k in range(state.moved_at[part], state.moved_at[part + 1]):
                    node = state.moved[k]
                    member_next[node] = member[label]
                    member[label] = node
                    watcher = rule.watch_first[node]
                    while watcher >= 0:
                        after = rule.watch_next[watcher]
                        rule.watching[watcher] = -1
                        if state.label[watcher] == group:
                            check[count] = watcher
                            count += 1
                        watcher = after
                    rule.watch_first[node] = -1
