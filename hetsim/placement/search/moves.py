"""Moves of a local search: each changes a draft a little and can be taken back.

Moves are: a node to another device; a node with a neighbour, or with all that follow it on one
path, to one device; a node to another place in the order; both; and, where subgraphs matter, a cut
set or taken away. None overfills a device with weights.
"""

from __future__ import annotations

from hetsim.placement.listing.room import add, remove
from hetsim.placement.search.drafts import CHANGED, CUT, DRAWN, SHIFTED, SOURCE, Asked, Search


def draw_share(search: Search) -> float:
    """Return a number from 0 to 1 made of two words, as Python's ``random`` does."""
    at, words = search.counts[DRAWN], search.words
    search.counts[DRAWN] = at + 2
    return float(((words[at] >> 5) * 67108864.0 + (words[at + 1] >> 6)) / 9007199254740992.0)


def draw_below(search: Search, count: int) -> int:
    """Return a whole number below `count`, as Python's ``randrange`` does."""
    bits = 0
    while count >> bits:
        bits += 1
    at, words = search.counts[DRAWN], search.words
    found = words[at] >> (32 - bits)
    while found >= count:
        at += 1
        found = words[at] >> (32 - bits)
    search.counts[DRAWN] = at + 1
    return int(found)


def put(search: Search, source: int, target: int) -> None:
    """Move a node in the order."""
    order, place = search.order, search.place
    v = order[source]
    if source < target:
        for k in range(source, target):
            order[k] = order[k + 1]
            place[order[k]] = k
    else:
        for k in range(source, target, -1):
            order[k] = order[k - 1]
            place[order[k]] = k
    order[target] = v
    place[v] = target


def weigh(asked: Asked, search: Search, v: int, source: int, target: int) -> None:
    """Put the weights of a node on another device, room or not."""
    at, of, nbytes = asked.constant_at, asked.constant, asked.nbytes
    remove(at, of, nbytes, search.readers, search.left, v, source)
    add(at, of, nbytes, search.readers, search.left, v, target)


def undo(asked: Asked, search: Search) -> None:
    """Take the last move back."""
    counts, device = search.counts, search.device
    if counts[CUT] >= 0:
        search.cut[counts[CUT]] = 1 - search.cut[counts[CUT]]
    if counts[SHIFTED] >= 0:
        put(search, counts[SHIFTED], counts[SOURCE])
    for k in range(counts[CHANGED]):
        v, own = search.node[k], search.own[k]
        if asked.binds:
            weigh(asked, search, v, device[v], own)
        device[v] = own


def assign(asked: Asked, search: Search, size: int, target: int) -> bool:
    """Put the first `size` of ``search.node`` on a device; return whether that changed any."""
    node, own, device = search.node, search.own, search.device
    changed = 0
    for k in range(size):
        v = node[k]
        if device[v] != target and asked.takes[v * asked.devices + target]:
            node[changed] = v
            own[changed] = device[v]
            changed += 1
    for k in range(changed):
        device[node[k]] = target
        if asked.binds:
            weigh(asked, search, node[k], own[k], target)
    if asked.binds and changed > 0 and search.left[target] < 0:
        for k in range(changed):
            weigh(asked, search, node[k], target, own[k])
            device[node[k]] = own[k]
        changed = 0
    search.counts[CHANGED] = changed
    return changed > 0


def other(asked: Asked, search: Search, v: int) -> int:
    """Draw a device that takes a node, other than its own."""
    first, after = asked.able_at[v], asked.able_at[v + 1]
    chosen = asked.able[first + draw_below(search, after - first - 1)]
    return int(asked.able[after - 1] if chosen == search.device[v] else chosen)


def follow(asked: Asked, search: Search, v: int) -> int:
    """Draw nodes on one path into ``search.node``; return how many."""
    forth = draw_share(search) < 0.5
    steps = 1 + draw_below(search, 6)
    search.node[0] = v
    size = 1
    for _ in range(steps):
        if forth:
            first, after = asked.succ_at[v], asked.succ_at[v + 1]
        else:
            first, after = asked.pred_at[v], asked.pred_at[v + 1]
        if first == after:
            break
        k = first + draw_below(search, after - first)
        v = asked.succ[k] if forth else asked.pred[k]
        search.node[size] = v
        size += 1
    return size


def shift(asked: Asked, search: Search, v: int) -> bool:
    """Move a node in the order, between those that feed it and those that it feeds."""
    place = search.place
    low, high = 0, asked.nodes - 1
    for k in range(asked.pred_at[v], asked.pred_at[v + 1]):
        low = max(low, place[asked.pred[k]] + 1)
    for k in range(asked.succ_at[v], asked.succ_at[v + 1]):
        high = min(high, place[asked.succ[k]] - 1)
    if low >= high:
        return False
    source = place[v]
    target = low + draw_below(search, high - low)
    if target >= source:
        target += 1
    put(search, source, target)
    search.counts[SHIFTED] = target
    search.counts[SOURCE] = source
    return True


def propose(asked: Asked, search: Search) -> bool:
    """Change the draft; return whether anything changed."""
    counts, n = search.counts, asked.nodes
    counts[CHANGED] = 0
    counts[CUT] = counts[SHIFTED] = -1
    kind = draw_share(search)
    if asked.grouped and kind < 0.15:
        v = draw_below(search, n)
        search.cut[v] = 1 - search.cut[v]
        counts[CUT] = v
        return True
    if len(asked.movable) == 0 or kind < 0.45:
        return shift(asked, search, draw_below(search, n))
    v = asked.movable[draw_below(search, len(asked.movable))]
    size = 1
    if 0.70 <= kind < 0.85:
        size = follow(asked, search, v)
    search.node[0] = v
    changed = assign(asked, search, size, other(asked, search, v))
    if kind >= 0.85:
        shifted = shift(asked, search, v)
        return changed or shifted
    return changed
