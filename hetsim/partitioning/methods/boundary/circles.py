"""``cut_cycles`` and its ``GroupGraph`` on arrays alone, for machine code: the same cuts.

Between two groups there are as many edges here as between their nodes. Each is in a list of the
group that it leaves and in one of the group that it enters, as long as both may be on one cycle.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from hetsim.partitioning.growing.kernels import pop, push
from hetsim.partitioning.methods.boundary.splits import PARTS, Split, Wires, promote, split

Array = Any

OUT, IN = 0, 1
TICK, REGIONS, USED, JOINT, HERE, THERE, HEAPED = range(7)
"""In `Circles.tally`: the last mark given, how many regions there were, and edges in `kept`; the
edge that a cycle was found by, and the groups that it joins the searches at; ranks in `heap`."""

NOT_ENTERED, NOT_SHARED, LEAF, CHAIN = 1 << 61, 1 << 60, 1 << 59, 1 << 58
"""What makes a rank worse, the worst first; the inputs come next, and in the last bits the node."""

NODES = 32


class Circles(NamedTuple):
    """The groups that may lie on cycles, by label, which is below 2 n; -1 is nothing everywhere.

    What is of groups is by label; of what is twice as long, OUT and IN of each are side by side.

    Attributes
    ----------
    region : int [2 n + 1]
        Groups of different regions are on no cycle together; -1: the group is on none.
    first : int [4 n + 2]
        The first edge that leaves the group, and that enters it.
    after, before : int [2 E]
        The neighbours of an edge in both lists; before the first comes -1 - its group.
    listed : bool [E]
    kept : int [4 n + 4]
        Cycles found, as edges: it is emptied where it might not do.
    kept_at, kept_size : int [2 n + 1]
        By group the last that was found through it.
    seen, via, queue : int [4 n + 2]
        In a search along the edges and one against them: the last mark of a group, the edge
        that it was found by, and the groups found.
    number, low, turn, path, open : int [2 n + 1]
        Of Tarjan's search; `number` is -1 where a group was not found yet.
    heap : int [2 n + 2]
        Ranks, the least first.
    held : int [n]
        The rank of the node that the heap holds; -1 if none. What else it holds is outdated.
    tally : int [7]
    """

    region: Array
    first: Array
    after: Array
    before: Array
    listed: Array
    kept: Array
    kept_at: Array
    kept_size: Array
    seen: Array
    via: Array
    queue: Array
    number: Array
    low: Array
    turn: Array
    path: Array
    open: Array
    heap: Array
    held: Array
    tally: Array


def begin_circles(state: Split, graph: Circles) -> None:
    """No group is known yet."""
    for label in range(len(graph.region)):
        graph.region[label] = -1
        graph.kept_size[label] = 0
        for way in range(2):
            graph.first[2 * label + way] = -1
            graph.seen[2 * label + way] = 0
    for edge in range(len(state.cut)):
        graph.listed[edge] = False
    for node in range(len(state.label)):
        graph.held[node] = -1
    for k in range(len(graph.tally)):
        graph.tally[k] = 0


def far(wires: Wires, label: Array, way: int, edge: int) -> int:
    """The group that an edge leads to, or is from."""
    return int(label[wires.target[edge] if way == OUT else wires.source[edge]])


def add(wires: Wires, label: Array, graph: Circles, edge: int) -> None:
    """List an edge, if it is not and both ends are groups of one region."""
    u, v = label[wires.source[edge]], label[wires.target[edge]]
    if graph.listed[edge] or u == v or graph.region[u] < 0 or graph.region[u] != graph.region[v]:
        return
    graph.listed[edge] = True
    for way in range(2):
        group = u if way == OUT else v
        first = graph.first[2 * group + way]
        graph.after[2 * edge + way], graph.before[2 * edge + way] = first, -1 - group
        if first >= 0:
            graph.before[2 * first + way] = edge
        graph.first[2 * group + way] = edge


def drop(graph: Circles, edge: int) -> None:
    """Take an edge from both lists, if it is there."""
    if not graph.listed[edge]:
        return
    graph.listed[edge] = False
    for way in range(2):
        after, before = graph.after[2 * edge + way], graph.before[2 * edge + way]
        if before >= 0:
            graph.after[2 * before + way] = after
        else:
            graph.first[2 * (-1 - before) + way] = after
        if after >= 0:
            graph.before[2 * after + way] = before


def mutual(wires: Wires, label: Array, graph: Circles, count: int, way: int) -> None:
    """Give strongly connected parts of a queue a region of its own each, -1 where it is one group.

    Tarjan's search, as in ``groups_on_cycles.mutual``; a group is open while its `region` is -2.
    """
    number, low, turn = graph.number, graph.low, graph.turn
    path, opened = graph.path, graph.open
    for k in range(count):
        number[graph.queue[2 * k + way]] = -1
    met, many = 0, 0
    for k in range(count):
        group = graph.queue[2 * k + way]
        if number[group] >= 0:
            continue
        path[0] = group
        depth = 1
        number[group] = low[group] = met
        met += 1
        turn[group] = graph.first[2 * group + way]
        opened[many] = group
        many += 1
        graph.region[group] = -2
        while depth:
            group = path[depth - 1]
            edge = turn[group]
            if edge >= 0:
                turn[group] = graph.after[2 * edge + way]
                target = far(wires, label, way, edge)
                if number[target] < 0:
                    number[target] = low[target] = met
                    met += 1
                    turn[target] = graph.first[2 * target + way]
                    opened[many] = target
                    many += 1
                    graph.region[target] = -2
                    path[depth] = target
                    depth += 1
                elif graph.region[target] == -2:
                    low[group] = min(low[group], number[target])
                continue
            depth -= 1
            if depth:
                low[path[depth - 1]] = min(low[path[depth - 1]], low[group])
            if low[group] == number[group]:
                region = -1
                if opened[many - 1] != group:
                    graph.tally[REGIONS] += 1
                    region = graph.tally[REGIONS]
                while True:
                    many -= 1
                    graph.region[opened[many]] = region
                    if opened[many] == group:
                        break


def separate(wires: Wires, label: Array, graph: Circles, count: int, way: int) -> None:
    """Do what ``GroupGraph._separate`` does for the first `count` groups of a queue."""
    mutual(wires, label, graph, count, way)
    for k in range(count):
        group = graph.queue[2 * k + way]
        region = graph.region[group]
        for side in range(2):
            edge = graph.first[2 * group + side]
            while edge >= 0:
                after = graph.after[2 * edge + side]
                if region < 0 or graph.region[far(wires, label, side, edge)] != region:
                    drop(graph, edge)
                edge = after


def closed(wires: Wires, label: Array, graph: Circles, group: int) -> bool:
    """Whether a cycle found before through the group still is one."""
    kept, size, at = graph.kept, graph.kept_size[group], graph.kept_at[group]
    through = False
    for k in range(size):
        into = label[wires.target[kept[at + k]]]
        if into != label[wires.source[kept[at + (k + 1) % size]]]:
            return False
        through = through or into == group
    return through


def cycle(wires: Wires, label: Array, graph: Circles, group: int) -> bool:
    """Do what ``GroupGraph._cycle`` does; `tally` has where the searches met, if they did."""
    graph.tally[TICK] += 1
    now = graph.tally[TICK]
    for way in range(2):
        graph.seen[2 * group + way] = now
        graph.via[2 * group + way] = -1
        graph.queue[way] = group
    way = OUT
    edge, done, count = graph.first[2 * group], 0, 1
    # The same of the other search, whose turn comes next.
    later, later_done, later_count = graph.first[2 * group + 1], 0, 1
    while True:
        while edge < 0:
            done += 1
            if done == count:
                separate(wires, label, graph, count, way)
                return False
            edge = graph.first[2 * graph.queue[2 * done + way] + way]
        here, other = graph.queue[2 * done + way], far(wires, label, way, edge)
        if graph.seen[2 * other + 1 - way] == now:
            graph.tally[JOINT] = edge
            graph.tally[HERE] = here if way == OUT else other
            graph.tally[THERE] = other if way == OUT else here
            return True
        if graph.seen[2 * other + way] != now:
            graph.seen[2 * other + way] = now
            graph.via[2 * other + way] = edge
            graph.queue[2 * count + way] = other
            count += 1
        edge = graph.after[2 * edge + way]
        way = 1 - way
        edge, later = later, edge
        done, later_done = later_done, done
        count, later_count = later_count, count


def keep(wires: Wires, label: Array, graph: Circles) -> None:
    """Note the cycle that was found, for all groups that it leads through."""
    kept, via = graph.kept, graph.via
    # A cycle leads through no more groups than there are nodes.
    if graph.tally[USED] + len(label) + 1 > len(kept):
        graph.tally[USED] = 0
        for group in range(len(graph.kept_size)):
            graph.kept_size[group] = 0
    place = begin = graph.tally[USED]
    at = graph.tally[THERE]
    kept[place] = graph.tally[JOINT]
    place += 1
    while via[2 * at + IN] >= 0:
        kept[place] = via[2 * at + IN]
        at = label[wires.target[kept[place]]]
        place += 1
    size = place - begin
    at = graph.tally[HERE]
    while via[2 * at] >= 0:
        at = label[wires.source[via[2 * at]]]
        size += 1
    place = begin + size
    at = graph.tally[HERE]
    while via[2 * at] >= 0:
        place -= 1
        kept[place] = via[2 * at]
        at = label[wires.source[kept[place]]]
    graph.tally[USED] = begin + size
    for k in range(begin, begin + size):
        group = label[wires.source[kept[k]]]
        graph.kept_at[group], graph.kept_size[group] = begin, size


def on_cycle(wires: Wires, label: Array, graph: Circles, group: int) -> bool:
    """Whether the group is on a cycle; where it is not, it is struck out."""
    if graph.region[group] < 0:
        return False
    if closed(wires, label, graph, group):
        return True
    if not cycle(wires, label, graph, group):
        return False
    keep(wires, label, graph)
    return True


def holds(wires: Wires, state: Split, graph: Circles, node: int, entered: bool) -> bool:
    """Do what ``_holds`` does."""
    group = state.label[node]
    edge, last = wires.in_at[node] - 1, wires.in_at[node + 1]
    asked = group
    while True:
        if on_cycle(wires, state.label, graph, asked):
            if edge >= wires.in_at[node] or not entered:
                return True
        elif edge < wires.in_at[node]:
            return False
        edge += 1
        while edge < last and (not state.cut[edge] or state.label[wires.source[edge]] == group):
            edge += 1
        if edge >= last:
            return False
        asked = state.label[wires.source[edge]]


def rank(wires: Wires, state: Split, graph: Circles, node: int) -> int:
    """Do what ``_rank`` does, the smaller number first; -1 for None."""
    group = state.label[node]
    if graph.region[group] < 0:
        return -1
    entered = shared = leaf = False
    count = 0
    for edge in range(wires.in_at[node], wires.in_at[node + 1]):
        source = wires.source[edge]
        if state.cut[edge]:
            other = state.label[source]
            entered = entered or (other != group and graph.region[other] >= 0)
        else:
            count += 1
            readers = wires.out_at[source + 1] - wires.out_at[source]
            shared = shared or readers > 1
            leaf = leaf or (readers == 1 and wires.in_at[source] == wires.in_at[source + 1])
    if not count:
        return -1
    worse = count << NODES | node
    if not entered:
        worse |= NOT_ENTERED
    if not shared:
        worse |= NOT_SHARED
    if leaf:
        worse |= LEAF
    if count == 1 and wires.out_at[node + 1] - wires.out_at[node] <= 1:
        worse |= CHAIN
    return int(worse)


def isolate(wires: Wires, state: Split, graph: Circles, node: int) -> None:
    """Promote the node's inputs from its group; `moved` has the nodes of new groups."""
    old = state.label[node]
    for edge in range(wires.in_at[node], wires.in_at[node + 1]):
        if not state.cut[edge]:
            promote(wires, state, edge)
    split(wires, state)
    parts = state.tally[PARTS]
    for part in range(parts):
        graph.region[state.label[state.moved[state.moved_at[part]]]] = graph.region[old]
    for k in range(state.moved_at[parts]):
        member = state.moved[k]
        for edge in range(wires.in_at[member], wires.in_at[member + 1]):
            drop(graph, edge)
            add(wires, state.label, graph, edge)
        for at in range(wires.out_at[member], wires.out_at[member + 1]):
            edge = wires.out[at]
            drop(graph, edge)
            add(wires, state.label, graph, edge)


def offer(wires: Wires, state: Split, graph: Circles, node: int) -> None:
    """Put the node's rank into the heap, unless it is there."""
    worse = rank(wires, state, graph, node)
    if worse < 0 or worse == graph.held[node]:
        return
    graph.held[node] = worse
    heap, count = graph.heap, graph.tally[HEAPED]
    if count == len(heap):
        # Each node has one rank that is not outdated; what ascends is a heap as it is.
        count = 0
        for other in range(len(graph.held)):
            if graph.held[other] >= 0:
                push(heap, count, graph.held[other])
                count += 1
    else:
        push(heap, count, worse)
        count += 1
    graph.tally[HEAPED] = count


def cut_circles(wires: Wires, state: Split, graph: Circles) -> None:
    """Do what ``cut_cycles`` does."""
    begin_circles(state, graph)
    known = 0
    for node in range(len(state.label)):
        if graph.region[state.label[node]] < 0:
            graph.region[state.label[node]] = 0
            graph.queue[2 * known] = state.label[node]
            known += 1
    for edge in range(len(state.cut)):
        add(wires, state.label, graph, edge)
    separate(wires, state.label, graph, known, OUT)
    # Nodes to offer: all, then those that were moved, and what they feed.
    for node in range(len(state.label)):
        state.moved[node] = node
    offers = len(state.label)
    while True:
        for k in range(offers):
            node = state.moved[k]
            offer(wires, state, graph, node)
            for at in range(wires.out_at[node], wires.out_at[node + 1]):
                offer(wires, state, graph, wires.target[wires.out[at]])
        offers = 0
        if not graph.tally[HEAPED]:
            return
        top = pop(graph.heap, graph.tally[HEAPED])
        graph.tally[HEAPED] -= 1
        node = top & ((1 << NODES) - 1)
        if graph.held[node] != top:
            continue
        graph.held[node] = -1
        worse = rank(wires, state, graph, node)
        if worse < top:
            continue
        if worse == top and holds(wires, state, graph, node, not top & NOT_ENTERED):
            isolate(wires, state, graph, node)
            offers = state.moved_at[state.tally[PARTS]]
        else:
            offer(wires, state, graph, node)
