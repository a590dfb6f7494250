"""Moves of ``mincut``: the set of nodes that changes to a device, as a minimum cut.

Networks and flows are told for lists of numbers, and compiled where there are many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.core import left_to_python
from hetsim.core.machine_code import machine_code
from hetsim.graph.dag import Ints
from hetsim.placement.listing.ranks import transfer_costs
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.problem import Problem

Array = Any
"""A list of numbers, or an array of them where it is compiled; matrices lie flat, by row."""

KEEP, CHANGE = 0, 1
"""Nodes of the network: what keeps its device, and what changes; node v is 2 + v."""

HOST = -1
"""Stands for the host among producers and readers."""

INFINITY = float("inf")

LAID_OUT_FROM, COMPILE_LAYOUT_FROM = 2_000, 2_000_000
"""Terms from which arcs are laid out by machine code, where it is kept, and in all where not."""

CUT_FROM, COMPILE_CUT_FROM = 500, 100_000
"""Arcs from which a maximum flow is found by machine code, where it is kept; in all where not."""

MOST = 2**30
"""Of a capacity, and of those between the same two nodes together: more is without end."""

BITS = 30
"""Bits of a capacity: the maximum flow counts in 32-bit integers."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Terms:
    """Terms of the total."""

    # [n, P]: Alone or as its share of a fused kernel; inf where not supported alone
    seconds: Floats
    producer: Ints  # [values]: Node ids, or HOST
    # [values + 1]: By value the nodes that read it, ascending, then HOST where it returns there
    reader_at: Ints
    readers: Ints
    size: Ints  # [values]
    travel: Floats  # [sizes, P, P]: ``travel[size[value], p, q]`` is the time of one transfer
    host: int  # -1 where there is none

    @classmethod
    def of(cls, problem: Problem) -> Terms:
        """Collect the terms. O(n P + values + sizes P^2)."""
        latency_s, per_byte_s = transfer_costs(problem)
        values, host = problem.value_arrays, problem.host
        given = values.producer == GRAPH_INPUT
        returns = values.leaves & ~given & (host is not None)
        number = np.diff(values.readers.at) + returns
        taken = (number > 0) & ~(given & (host is None))
        reader_at = np.concatenate(([0], np.cumsum(number[taken])))
        readers = np.full(reader_at[-1], HOST, dtype=np.int64)
        # HOST stands last; where it does not, there is a node.
        by_node = np.ones(len(readers), dtype=np.bool_)
        by_node[reader_at[1:][returns[taken]] - 1] = False
        readers[by_node] = values.readers.node[taken[values.readers.owner]]
        sizes, size = np.unique(values.nbytes[taken], return_inverse=True)
        travel = latency_s + per_byte_s * sizes[:, None, None]
        return cls(
            seconds=np.where(problem.supported, problem.shared_seconds, np.inf),
            producer=np.where(given, HOST, values.producer)[taken],
            reader_at=reader_at,
            readers=readers,
            size=size,
            travel=travel,
            host=-1 if host is None else host,
        )

    def total(self, assignment: Sequence[int]) -> float:
        """Return the serial latency of an assignment. O(n + values P + reads)."""
        n, count = self.seconds.shape
        # HOST is the last.
        place = np.append(np.asarray(assignment, dtype=np.int64), self.host)
        values = len(self.producer)
        there = np.zeros((values, count), dtype=np.bool_)
        there[np.repeat(np.arange(values), np.diff(self.reader_at)), place[self.readers]] = True
        ways = self.travel[self.size, place[self.producer]]
        moved = np.zeros(values)
        for p in range(count):
            moved += np.where(there[:, p], ways[:, p], 0.0)
        own = float(self.seconds[np.arange(n), place[:n]].sum())
        return float(np.cumsum(np.append(own, moved))[-1])


def expand(terms: Terms, assignment: Sequence[int], target: int) -> list[int]:
    """Return the assignment after the best change of any set of nodes to device `target`.

    One minimum cut (Dinic) on n + 2 values nodes. A tensor from u on p to readers that keep q costs
    matrix[p, q] or, if u changes, matrix[target, q]; the larger is charged: right where nothing
    changes, never too low. Capacities are rounded to about 2^-29 of their sum.
    """
    n = len(assignment)
    nodes, tails, heads, capacities = _network(terms, assignment, target)
    finite = np.isfinite(capacities)
    whole = float(capacities[finite].sum())
    # A power of two, so that times with few bits stay exact.
    power = BITS - 1 - int(np.ceil(np.log2(whole))) if whole > 0 else 0
    scaled = np.full(len(capacities), 2**BITS, dtype=np.int64)
    scaled[finite] = np.rint(np.ldexp(capacities[finite], power)).astype(np.int64)
    keeps = source_side(nodes, tails, heads, scaled, KEEP, CHANGE)
    before = np.asarray(assignment, dtype=np.int64)
    stays = (before == target) | ~keeps[2 : 2 + n]
    after: list[int] = np.where(stays, target, before).tolist()
    return after


def _network(
    terms: Terms, assignment: Sequence[int], target: int
) -> tuple[int, Ints, Ints, Floats]:
    """How many nodes it has; of its arcs tail, head and capacity."""
    n, count = terms.seconds.shape
    size = len(terms.producer) + len(terms.readers) + n
    most = 2 * n + 3 * len(terms.producer) + 5 * len(terms.readers)
    columns = (
        np.asarray(assignment, dtype=np.int64), terms.seconds.ravel(),
        terms.producer, terms.reader_at, terms.readers, terms.size, terms.travel.ravel(),
        np.zeros(count, np.int64), np.empty(most, np.int64), np.empty(most, np.int64),
        np.empty(most), np.zeros(1, np.int64),
    )  # fmt: skip
    many = left_to_python.pays(_layout, size, LAID_OUT_FROM, COMPILE_LAYOUT_FROM)
    first = (count, terms.host, target)
    arcs, found = left_to_python.called(_layout, first, columns, as_arrays=many)
    *_, tails, heads, capacities, nodes = found
    return (
        int(nodes[0]),
        np.asarray(tails[:arcs], dtype=np.int64),
        np.asarray(heads[:arcs], dtype=np.int64),
        np.asarray(capacities[:arcs], dtype=np.float64),
    )


def serial_latency(problem: Problem, assignment: Sequence[int]) -> float:
    """Return the total that ``mincut`` minimizes, in seconds; inf where unsupported. O(V + E)."""
    return Terms.of(problem).total(assignment)


def least_serial(problem: Problem, rounds: int = 10) -> list[int]:
    """Return the assignment, device index by node, with the least ``serial_latency`` found."""
    terms = Terms.of(problem)
    n, count = terms.seconds.shape
    if count == 1 or n == 0:
        return [0] * n
    if count == 2:
        return expand(terms, [0] * n, 1)
    # Alike in every process: the first of equal totals stays.
    starts = [[device] * n for device in range(count)]
    starts.append([int(device) for device in terms.seconds.argmin(axis=1)])
    totals = [terms.total(start) for start in starts]
    best = min(range(len(starts)), key=lambda index: (totals[index], index))
    assignment, total = starts[best], totals[best]
    # From the same assignment a device was tried in vain once: it would be so again.
    in_vain: set[int] = set()
    for _ in range(rounds):
        before = total
        for target in range(count):
            if target in in_vain:
                continue
            moved = expand(terms, assignment, target)
            reached = terms.total(moved) if moved != assignment else total
            if reached < total:
                assignment, total = moved, reached
                in_vain.clear()
            else:
                in_vain.add(target)
        if not total < before * (1.0 - 1e-12):
            break
    if not np.isfinite(total):
        raise AssertionError("a supported node stayed on a device that does not support it")
    return assignment


def source_side(
    size: int, tails: Ints, heads: Ints, capacities: Ints, source: int, sink: int
) -> NDArray[np.bool_]:
    """Return the nodes that the source reaches in the residual network."""
    arcs = len(tails)
    at, level, queue, now = np.empty((4, size + 1), dtype=np.int64)
    columns = [
        tails.copy(), heads.copy(), capacities.copy(),
        at, *np.empty((4, 2 * arcs), dtype=np.int64), level, queue, now,
    ]  # fmt: skip
    many = left_to_python.pays(_flow, arcs, CUT_FROM, COMPILE_CUT_FROM)
    first = (source, sink, MOST)
    _, rows = left_to_python.called(_flow, first, columns, as_arrays=many)
    reached: NDArray[np.bool_] = np.asarray(rows[-3])[:size] >= 0
    return reached


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
    """Build the network of ``expand``; return its number of arcs. O(n + readers P).

    `tails`, `heads` and `capacities` come out: what it costs, above 0, where the tail keeps and
    the head changes; and `nodes` [1], how many nodes the network has.
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
    """Send a maximum flow from `source` to `sink`; `level` marks nodes the source still reaches.

    By E. A. Dinic, Soviet Mathematics Doklady 11, 1970. `most` is the largest capacity; `tails`,
    `heads` and `capacities` [m] are overwritten. O(nodes^2 m), far less where ways are short.
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


_layout = machine_code(lay_out)


_flow = machine_code(saturate)
