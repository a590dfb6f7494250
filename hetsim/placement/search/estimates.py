"""Fast estimate of the simulated latency, for searches with thousands of evaluations.

Equal to the clock up to rounding without contention, spanning kernels and streams. Under contention
a link serves subgraphs in plan order, where the clock serves them by time; a kernel fused across
nodes counts as its parts. Works on lists, or on arrays in machine code with ``annealing.anneal``.
"""

from __future__ import annotations

from hetsim.placement.search.drafts import (
    BEGUN,
    CHANGED,
    CRITICAL,
    ENDED,
    LIMIT,
    SHIFTED,
    SOURCE,
    STALE,
    STEP,
    TRIED,
    Array,
    SearchProblem,
    SearchState,
)
from hetsim.problem.groups import Group
from hetsim.problem.problem import Problem

ROUNDED = 1e-9
"""Relative difference of sums in different orders."""

ANEW = 64
"""Number of moves after which the device totals are recomputed, when one is accepted."""


def send(asked: SearchProblem, search: SearchState, maker: int, source: int, when: float) -> float:
    """Queue the outputs of a node, or of the host; return the arrival of the last one."""
    count, busy, device, reader = asked.devices, search.busy, search.device, asked.reader
    reader_at, hold_at, hold = asked.reader_at, asked.hold_at, asked.hold
    latest = 0.0
    for k in range(asked.made_at[maker], asked.made_at[maker + 1]):
        value = asked.made[k]
        first, after = reader_at[value], reader_at[value + 1]
        low, high, one = 0, count, after - first == 1 and asked.leaves[value] == 0
        if one:
            # The most common case.
            low = device[reader[first]]
            high = low + 1
        else:
            targets = search.targets
            for p in range(count):
                targets[p] = 0
            for r in range(first, after):
                targets[device[reader[r]]] = 1
            if asked.leaves[value]:
                targets[asked.host] = 1
        for target in range(low, high):
            if target == source or (not one and search.targets[target] == 0):
                continue
            start, way = when, source * count + target
            for h in range(hold_at[way], hold_at[way + 1]):
                if busy[hold[h]] > start:
                    start = busy[hold[h]]
            end = start + asked.travel_s[asked.row[value] + way]
            for h in range(hold_at[way], hold_at[way + 1]):
                busy[hold[h]] = end
            search.arrival[value * count + target] = end
            if end > latest:
                latest = end
    return latest


def finish(asked: SearchProblem, search: SearchState, latest: float, by_group: bool) -> float:
    """Return the maximum of `latest` and the arrivals of outputs on the host."""
    if asked.host < 0:
        return latest
    for k in range(len(asked.out_from)):
        u = asked.out_from[k]
        ended = search.ends[search.label[u]] if by_group else search.ends[u]
        way = search.device[u] * asked.devices + asked.host
        there = ended + asked.travel_s[asked.row[asked.out_value[k]] + way]
        if there > latest:
            latest = there
    return latest


def first_changed(asked: SearchProblem, search: SearchState) -> int:
    """Return the first position in the order that the last move changed, or n."""
    counts, first = search.counts, asked.nodes
    for k in range(counts[CHANGED]):
        first = min(first, search.place[search.node[k]])
    if counts[SHIFTED] >= 0:
        first = min(first, counts[SHIFTED], counts[SOURCE])
    return first


def add_up(asked: SearchProblem, search: SearchState, whole: Array) -> None:
    """Sum the work of each device in the draft."""
    for p in range(asked.devices):
        whole[p] = 0.0
    for v in range(asked.nodes):
        whole[search.device[v]] += asked.seconds[v * asked.devices + search.device[v]]


def begin(asked: SearchProblem, search: SearchState) -> float:
    """Reset to the last mark before the last move's changes, or to the start."""
    count, lanes, turn = asked.devices, search.lanes, search.turn
    whole, done, marks, counts = search.whole, search.done, search.marks, search.counts
    if len(marks) == 0:
        for k in range(len(lanes)):
            lanes[k] = 0.0
        for p in range(count):
            turn[p] = done[p] = 0.0
        add_up(asked, search, whole)
        return 0.0
    mark = first_changed(asked, search) // STEP
    counts[BEGUN] = mark * STEP
    at = mark * (len(lanes) + 2 * count + 1)
    for k in range(len(lanes)):
        lanes[k] = marks[at + k]
    at += len(lanes)
    for p in range(count):
        turn[p] = marks[at + p]
        done[p] = marks[at + count + p]
        whole[p] = search.load[p]
    for k in range(counts[CHANGED]):
        v = search.node[k]
        p, q = search.own[k], search.device[v]
        whole[p] -= asked.seconds[v * count + p]
        whole[q] += asked.seconds[v * count + q]
    return float(marks[at + 2 * count])


def mark(asked: SearchProblem, search: SearchState, place: int, latest: float) -> None:
    """Record the state before a position in the order."""
    count, lanes, marks = asked.devices, search.lanes, search.changed_marks
    at = place // STEP * (len(lanes) + 2 * count + 1)
    for k in range(len(lanes)):
        marks[at + k] = lanes[k]
    at += len(lanes)
    for p in range(count):
        marks[at + p] = search.turn[p]
        marks[at + count + p] = search.done[p]
    marks[at + 2 * count] = latest


def settle(asked: SearchProblem, search: SearchState) -> None:
    """Accept the fully estimated draft as the base of the next moves."""
    counts, count, load = search.counts, asked.devices, search.load
    if len(search.marks) == 0:
        return
    counts[STALE] = 1
    for i in range(counts[BEGUN], asked.nodes):
        search.kept[search.order[i]] = search.ends[search.order[i]]
    wide = len(search.lanes) + 2 * count + 1
    for k in range(counts[BEGUN] // STEP * wide, len(search.marks)):
        search.marks[k] = search.changed_marks[k]
    for p in range(count):
        load[p] = search.whole[p]
    if counts[TRIED] % ANEW == 0:
        # Rounding errors must not accumulate.
        add_up(asked, search, load)


def resume(search: SearchState, until: int) -> None:
    """Copy the ends of nodes before a position from the accepted draft."""
    if len(search.marks) > 0:
        for i in range(search.counts[BEGUN], until):
            search.ends[search.order[i]] = search.kept[search.order[i]]


def ready(asked: SearchProblem, search: SearchState, v: int) -> float:
    """Return the time at which all inputs of a node are on its device."""
    count, device, p = asked.devices, search.device, search.device[v]
    start = asked.input_s[v * count + p]
    for k in range(asked.read_at[v], asked.read_at[v + 1]):
        u = asked.read_from[k]
        there = search.ends[u]
        if device[u] != p:
            there += asked.travel_s[asked.read_row[k] + device[u] * count + p]
        if there > start:
            start = there
    return float(start)


def remains(asked: SearchProblem, search: SearchState, v: int) -> float:
    """Return the seconds from a node's end until all that depends on it has ended."""
    count, device, p = asked.devices, search.device, search.device[v]
    most = 0.0
    for k in range(asked.made_at[v], asked.made_at[v + 1]):
        value = asked.made[k]
        way = asked.row[value] + p * count
        if asked.leaves[value] and asked.host != p:
            most = max(most, asked.travel_s[way + asked.host])
        for r in range(asked.reader_at[value], asked.reader_at[value + 1]):
            w = asked.reader[r]
            q = device[w]
            there = asked.seconds[w * count + q] + search.rest[w]
            if q != p:
                there += asked.travel_s[way + q]
            if there > most:
                most = there
    return float(most)


def look_ahead(asked: SearchProblem, search: SearchState) -> None:
    """Compute the remaining time after each node of the accepted draft, and the critical nodes."""
    count, rest, behind, latest = asked.devices, search.rest, search.ahead, 0.0
    for p in range(count):
        behind[p] = 0.0
    for i in range(asked.nodes - 1, -1, -1):
        v = search.order[i]
        p = search.device[v]
        rest[v] = max(behind[p], remains(asked, search, v))
        if asked.lane_at[p + 1] - asked.lane_at[p] == 1:
            behind[p] = asked.seconds[v * count + p] + rest[v]
        latest = max(latest, search.ends[v] + rest[v])
    size = 0
    for v in range(asked.nodes):
        if search.ends[v] + rest[v] >= latest * (1.0 - ROUNDED):
            search.critical[size] = v
            size += 1
    search.counts[CRITICAL] = size
    search.counts[STALE] = 0


def least_of_move(asked: SearchProblem, search: SearchState) -> float:
    """Return a lower bound on the draft's seconds by the one moved node; 0 if several moved.

    Nodes before the first changed position keep their times, and nodes after the last one their
    remaining time. The moved node's inputs come before, its readers after; its device runs all
    nodes between the two sequentially.
    """
    counts, count, device, order = search.counts, asked.devices, search.device, search.order
    if counts[CHANGED] > 1 or counts[STALE] == 1 or len(search.marks) == 0:
        return 0.0
    v = search.node[0]
    first = last = search.place[v]
    if counts[SHIFTED] >= 0:
        v = order[counts[SHIFTED]]
        first = min(counts[SHIFTED], counts[SOURCE])
        last = max(counts[SHIFTED], counts[SOURCE])
    p = device[v]
    start, most = ready(asked, search, v), remains(asked, search, v)
    if asked.lane_at[p + 1] - asked.lane_at[p] == 1:
        i = first - 1
        while i >= 0 and device[order[i]] != p:
            i -= 1
        if i >= 0:
            start = max(start, search.ends[order[i]])
        behind = 0.0
        for i in range(search.place[v] + 1, asked.nodes):
            u = order[i]
            if device[u] == p:
                behind += asked.seconds[u * count + p]
                if i > last:
                    behind += search.rest[u]
                    break
        most = max(most, behind)
    return float((start + asked.seconds[v * count + p] + most) * (1.0 - ROUNDED))


def cost_of_nodes(asked: SearchProblem, search: SearchState) -> float:
    """Return the estimate with every node as a subgraph, and free links and dispatch."""
    count, ends, device, lanes = asked.devices, search.ends, search.device, search.lanes
    lane_at, turn, whole, done = asked.lane_at, search.turn, search.whole, search.done
    seconds, tail, order = asked.seconds, asked.tail, search.order
    limit, marked = search.figures[LIMIT], len(search.marks) > 0
    latest = begin(asked, search)
    search.counts[ENDED] = 0
    for i in range(search.counts[BEGUN], asked.nodes):
        if marked and i % STEP == 0:
            mark(asked, search, i, latest)
        v = order[i]
        p = device[v]
        start = ready(asked, search, v)
        own, at = seconds[v * count + p], lane_at[p]
        alone = lane_at[p + 1] - at == 1
        if alone:
            if lanes[at] > start:
                start = lanes[at]
        else:
            for lane in range(at + 1, lane_at[p + 1]):
                if lanes[lane] < lanes[at]:
                    at = lane
            start = max(start, lanes[at], turn[p])
            turn[p] = start
        end = start + own
        ends[v] = lanes[at] = end
        if end > latest:
            latest = end
        done[p] += own
        least: float = end + tail[v]
        if alone and end + (whole[p] - done[p]) > least:
            least = end + (whole[p] - done[p])
        if least > limit:
            resume(search, i + 1)
            return least
    search.counts[ENDED] = 1
    return finish(asked, search, latest, False)


def gather(asked: SearchProblem, search: SearchState) -> int:
    """Assign nodes to subgraphs and sum each device's work; return the number of subgraphs."""
    label, last, ahead, seconds = search.label, search.last, search.ahead, asked.seconds
    pred_at, pred, cut, device = asked.pred_at, asked.pred, search.cut, search.device
    head, tip, following, count = search.head, search.tip, search.following, asked.devices
    for p in range(count):
        last[p] = -1
        ahead[p] = 0.0
    groups = 0
    for place in range(len(search.order)):
        v = search.order[place]
        p = device[v]
        run = last[p]
        if run >= 0 and cut[v] == 0:
            for k in range(pred_at[v], pred_at[v + 1]):
                if label[pred[k]] > run:
                    run = -1
                    break
        else:
            run = -1
        if run < 0:
            run = last[p] = groups
            groups += 1
            head[run] = v
            ahead[p] += asked.dispatch_s[p]
        else:
            following[tip[run]] = v
        tip[run] = v
        following[v] = -1
        label[v] = run
        ahead[p] += seconds[v * count + p]
    return groups


def cost_of_groups(asked: SearchProblem, search: SearchState) -> float:
    """Return the estimate of the draft's subgraphs, with links in plan order."""
    count, device, lanes, turn = asked.devices, search.device, search.lanes, search.turn
    ahead, limit, lane_at = search.ahead, search.figures[LIMIT], asked.lane_at
    label, head, following, ends = search.label, search.head, search.following, search.ends
    read_at, read_from, read_row = asked.read_at, asked.read_from, asked.read_row
    seconds, travel_s, level, tail = asked.seconds, asked.travel_s, asked.level, asked.tail
    arrival, read_value, sole = search.arrival, asked.read_value, asked.sole
    given_at, given, fifo = asked.given_at, asked.given, asked.fifo
    groups = gather(asked, search)
    for k in range(len(search.busy)):
        search.busy[k] = 0.0
    for k in range(len(lanes)):
        lanes[k] = 0.0
    for p in range(count):
        turn[p] = 0.0
    latest = 0.0
    if fifo and asked.host >= 0:
        send(asked, search, asked.nodes, asked.host, 0.0)
    for g in range(groups):
        v = head[g]
        p = device[v]
        start = onwards = 0.0
        total = asked.dispatch_s[p]
        while v >= 0:
            if level[v] > onwards:
                onwards = level[v]
            total += seconds[v * count + p]
            if not fifo and asked.input_s[v * count + p] > start:
                start = asked.input_s[v * count + p]
            for k in range(read_at[v], read_at[v + 1]):
                u = read_from[k]
                own = label[u]
                if own == g:
                    continue
                q = device[u]
                if q == p:
                    there = ends[own]
                elif fifo:
                    there = arrival[read_value[k] * count + p]
                else:
                    there = ends[own] + travel_s[read_row[k] + q * count + p]
                if there > start:
                    start = there
            if fifo and p != asked.host:
                for k in range(given_at[v], given_at[v + 1]):
                    if arrival[given[k] * count + p] > start:
                        start = arrival[given[k] * count + p]
            v = following[v]
        at = lane_at[p]
        alone = lane_at[p + 1] - at == 1
        if not alone:
            for lane in range(at + 1, lane_at[p + 1]):
                if lanes[lane] < lanes[at]:
                    at = lane
        if lanes[at] > start:
            start = lanes[at]
        if turn[p] > start:
            start = turn[p]
        turn[p] = start
        end = start + total
        lanes[at] = ends[g] = end
        if end > latest:
            latest = end
        ahead[p] -= total
        least: float = start + onwards
        if following[head[g]] < 0:
            least = end + tail[head[g]]
        if alone and end + ahead[p] > least:
            least = end + ahead[p]
        if least > limit:
            return least
        if fifo:
            v = head[g]
            while v >= 0:
                if sole[v] < 0 or device[sole[v]] != p:
                    sent = send(asked, search, v, p, end)
                    if sent > latest:
                        latest = sent
                v = following[v]
    if fifo:
        return latest
    return finish(asked, search, latest, True)


def cost(asked: SearchProblem, search: SearchState) -> float:
    """Return the estimate of the draft in seconds, or some number above the limit if higher."""
    return cost_of_groups(asked, search) if asked.grouped else cost_of_nodes(asked, search)


def groups_of(problem: Problem, asked: SearchProblem, search: SearchState) -> tuple[Group, ...]:
    """Return the subgraphs of the draft, in execution order. O(V + E)."""
    order, device = list(search.order), problem.devices
    if not asked.grouped:
        return tuple(Group(device[search.device[v]], (int(v),)) for v in order)
    members: list[list[int]] = [[] for _ in range(gather(asked, search))]
    for v in order:
        members[search.label[v]].append(int(v))
    return tuple(Group(device[search.device[nodes[0]]], tuple(sorted(nodes))) for nodes in members)
