"""What ``evaluation.Estimator`` does, sum by sum, in the subset of Python that numba compiles."""

from __future__ import annotations

from hetsim.placement.search.records import (
    BEGUN,
    CHANGED,
    ENDED,
    LIMIT,
    SHIFTED,
    SOURCE,
    STEP,
    TRIED,
    Array,
    Asked,
    Search,
)

ANEW = 64
"""Moves after which what devices have in all is added up anew, where one is taken."""


def send(asked: Asked, search: Search, maker: int, source: int, when: float) -> float:
    """Queue what a node, or the host, sends; return when the last of it arrives."""
    count, busy, targets = asked.devices, search.busy, search.targets
    latest = 0.0
    for k in range(asked.made_at[maker], asked.made_at[maker + 1]):
        value = asked.made[k]
        for p in range(count):
            targets[p] = 0
        for r in range(asked.reader_at[value], asked.reader_at[value + 1]):
            targets[search.device[asked.reader[r]]] = 1
        if asked.leaves[value]:
            targets[asked.host] = 1
        targets[source] = 0
        for target in range(count):
            if targets[target] == 0:
                continue
            start = when
            way = source * count + target
            for h in range(asked.hold_at[way], asked.hold_at[way + 1]):
                start = max(start, busy[asked.hold[h]])
            end = start + asked.travel_s[asked.size[value] * count * count + way]
            for h in range(asked.hold_at[way], asked.hold_at[way + 1]):
                busy[asked.hold[h]] = end
            search.arrival[value * count + target] = end
            latest = max(latest, end)
    return latest


def finish(asked: Asked, search: Search, latest: float, by_group: bool) -> float:
    """The last of `latest` and the outputs' arrivals on the host."""
    if asked.host < 0:
        return latest
    count = asked.devices
    for k in range(len(asked.out_value)):
        u = asked.out_from[k]
        ended = search.ends[search.label[u]] if by_group else search.ends[u]
        way = search.device[u] * count + asked.host
        latest = max(
            latest, ended + asked.travel_s[asked.size[asked.out_value[k]] * count * count + way]
        )
    return latest


def first_changed(asked: Asked, search: Search) -> int:
    """The first place in the order where the last move changed anything; n: nowhere."""
    counts, first = search.counts, asked.nodes
    for k in range(counts[CHANGED]):
        first = min(first, search.place[search.node[k]])
    if counts[SHIFTED] >= 0:
        first = min(first, counts[SHIFTED], counts[SOURCE])
    return first


def add_up(asked: Asked, search: Search, whole: Array) -> None:
    """Sum what each device has in all, as the draft stands."""
    for p in range(asked.devices):
        whole[p] = 0.0
    for v in range(asked.nodes):
        whole[search.device[v]] += asked.seconds[v * asked.devices + search.device[v]]


def begin(asked: Asked, search: Search) -> float:
    """Put everything as it is at the last mark before the last move's changes, or at the start.

    Return the latest end before it; ``counts[BEGUN]`` is its place.
    """
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


def mark(asked: Asked, search: Search, place: int, latest: float) -> None:
    """Note how everything is before a place in the order."""
    count, lanes, marks = asked.devices, search.lanes, search.changed_marks
    at = place // STEP * (len(lanes) + 2 * count + 1)
    for k in range(len(lanes)):
        marks[at + k] = lanes[k]
    at += len(lanes)
    for p in range(count):
        marks[at + p] = search.turn[p]
        marks[at + count + p] = search.done[p]
    marks[at + 2 * count] = latest


def settle(asked: Asked, search: Search) -> None:
    """Take the draft, which was estimated to its end, as the one that moves change."""
    counts, count, load = search.counts, asked.devices, search.load
    if len(search.marks) == 0:
        return
    for i in range(counts[BEGUN], asked.nodes):
        search.kept[search.order[i]] = search.ends[search.order[i]]
    wide = len(search.lanes) + 2 * count + 1
    for k in range(counts[BEGUN] // STEP * wide, len(search.marks)):
        search.marks[k] = search.changed_marks[k]
    for p in range(count):
        load[p] = search.whole[p]
    if counts[TRIED] % ANEW == 0:
        # What floats round off is not to add up.
        add_up(asked, search, load)


def resume(asked: Asked, search: Search, until: int) -> None:
    """Let nodes before a place in the order end as in the draft that was taken last."""
    if len(search.marks) > 0:
        for i in range(search.counts[BEGUN], until):
            search.ends[search.order[i]] = search.kept[search.order[i]]


def cost_of_nodes(asked: Asked, search: Search) -> float:
    """The estimate where every node is a subgraph, and links and dispatch are free.

    Of a draft of which marks are known, from the last one on before what was changed.
    """
    count, ends, device, lanes = asked.devices, search.ends, search.device, search.lanes
    lane_at, turn, whole, done = asked.lane_at, search.turn, search.whole, search.done
    limit = search.figures[LIMIT]
    latest = begin(asked, search)
    search.counts[ENDED] = 0
    marked = len(search.marks) > 0
    for i in range(search.counts[BEGUN], asked.nodes):
        if marked and i % STEP == 0:
            mark(asked, search, i, latest)
        v = search.order[i]
        p = device[v]
        start = asked.input_s[v * count + p]
        for k in range(asked.read_at[v], asked.read_at[v + 1]):
            u = asked.read_from[k]
            there = ends[u]
            q = device[u]
            if q != p:
                there += asked.travel_s[(asked.size[asked.read_value[k]] * count + q) * count + p]
            start = max(start, there)
        at = lane_at[p]
        if lane_at[p + 1] - at == 1:
            start = max(start, lanes[at])
        else:
            for lane in range(at + 1, lane_at[p + 1]):
                if lanes[lane] < lanes[at]:
                    at = lane
            start = max(start, lanes[at], turn[p])
            turn[p] = start
        end = start + asked.seconds[v * count + p]
        ends[v] = end
        lanes[at] = end
        latest = max(latest, end)
        done[p] += asked.seconds[v * count + p]
        least: float = end + asked.tail[v]
        if lane_at[p + 1] - lane_at[p] == 1:
            least = max(least, end + (whole[p] - done[p]))
        if least > limit:
            resume(asked, search, i + 1)
            return least
    search.counts[ENDED] = 1
    return finish(asked, search, latest, False)


def gather(asked: Asked, search: Search) -> int:
    """Join nodes to subgraphs, as ``Estimator.runs`` does; return how many there are.

    And add up what each device has to do.
    """
    label, last, member_at, ahead = search.label, search.last, search.member_at, search.ahead
    for p in range(asked.devices):
        last[p] = -1
        ahead[p] = 0.0
    groups = 0
    for i in range(asked.nodes):
        v = search.order[i]
        p = search.device[v]
        run = last[p]
        if run >= 0 and search.cut[v] == 0:
            for k in range(asked.pred_at[v], asked.pred_at[v + 1]):
                if label[asked.pred[k]] > run:
                    run = -1
                    break
        else:
            run = -1
        if run < 0:
            run = groups
            last[p] = run
            groups += 1
            member_at[groups] = 0
            ahead[p] += asked.dispatch_s[p]
        member_at[run + 1] += 1
        label[v] = run
        ahead[p] += asked.seconds[v * asked.devices + p]
    member_at[0] = 0
    for g in range(groups):
        member_at[g + 1] += member_at[g]
    # From the last on, so that each subgraph's own begin is left in its place.
    for i in range(asked.nodes - 1, -1, -1):
        v = search.order[i]
        member_at[label[v] + 1] -= 1
        search.member[member_at[label[v] + 1]] = v
    for g in range(groups):
        member_at[g] = member_at[g + 1]
    member_at[groups] = asked.nodes
    return groups


def cost_of_groups(asked: Asked, search: Search) -> float:
    """The estimate of subgraphs, links in plan order."""
    count, device, lanes, turn = asked.devices, search.device, search.lanes, search.turn
    ahead, limit = search.ahead, search.figures[LIMIT]
    label, member, member_at, ends = search.label, search.member, search.member_at, search.ends
    fifo = asked.fifo
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
        p = device[member[member_at[g]]]
        start = 0.0
        total = asked.dispatch_s[p]
        onwards = 0.0
        for i in range(member_at[g], member_at[g + 1]):
            v = member[i]
            onwards = max(onwards, asked.level[v])
            total += asked.seconds[v * count + p]
            if not fifo:
                start = max(start, asked.input_s[v * count + p])
            for k in range(asked.read_at[v], asked.read_at[v + 1]):
                u = asked.read_from[k]
                own = label[u]
                if own == g:
                    continue
                q = device[u]
                if q == p:
                    there = ends[own]
                elif fifo:
                    there = search.arrival[asked.read_value[k] * count + p]
                else:
                    there = (
                        ends[own]
                        + asked.travel_s[(asked.size[asked.read_value[k]] * count + q) * count + p]
                    )
                start = max(start, there)
        if fifo and asked.host >= 0 and p != asked.host:
            for i in range(member_at[g], member_at[g + 1]):
                v = member[i]
                for k in range(asked.given_at[v], asked.given_at[v + 1]):
                    start = max(start, search.arrival[asked.given[k] * count + p])
        at = asked.lane_at[p]
        for lane in range(at + 1, asked.lane_at[p + 1]):
            if lanes[lane] < lanes[at]:
                at = lane
        start = max(start, lanes[at], turn[p])
        turn[p] = start
        end = start + total
        lanes[at] = end
        ends[g] = end
        latest = max(latest, end)
        ahead[p] -= total
        least: float = start + onwards
        if member_at[g + 1] - member_at[g] == 1:
            least = end + asked.tail[member[member_at[g]]]
        if asked.lane_at[p + 1] - asked.lane_at[p] == 1:
            least = max(least, end + ahead[p])
        if least > limit:
            return least
        if fifo:
            for i in range(member_at[g], member_at[g + 1]):
                latest = max(latest, send(asked, search, member[i], p, end))
    if fifo:
        return latest
    return finish(asked, search, latest, True)


def cost(asked: Asked, search: Search) -> float:
    """Return what ``Estimator.cost`` does of the draft; where that is above the limit, some number.

    That is above the limit as well: it is known as soon as the longest way on from a node, or what
    a device of one stream still has to do, cannot end earlier.
    """
    return cost_of_groups(asked, search) if asked.grouped else cost_of_nodes(asked, search)
