"""Assignments by minimum cuts: the best set of nodes to move to a device at once.

Flows are computed on lists, and in machine code for many arcs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.core import compile_threshold
from hetsim.core.machine_code import machine_code
from hetsim.graph.dag import Ints
from hetsim.problem.columns import transfer_costs
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.problem import Problem

Array = Any
"""List of numbers, or an array in machine code; matrices are flat, row by row."""

KEEP, CHANGE = 0, 1
"""Terminals of the network: nodes that keep their device, and that change; node v is 2 + v."""

HOST = -1
"""Marker of the host among producers and readers."""

INFINITY = float("inf")

CUT_FROM, COMPILE_CUT_FROM = 500, 100_000
"""Arcs of one flow, and of all flows of a process, from which machine code computes them."""

MOST = 2**30
"""Maximum capacity, also of all arcs between two nodes together; larger ones are infinite."""

BITS = 30
"""Bits of a capacity: the maximum flow uses 32-bit integers."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Terms:
    """Terms of the serial latency."""

    # [n, P]: Seconds alone or as share of a fused kernel; inf if not supported individually
    seconds: Floats
    producer: Ints  # [values]: Node ids, or HOST
    # [values + 1]: Offsets of the readers of a value, ascending, then HOST if it returns there
    reader_at: Ints
    readers: Ints
    size: Ints  # [values]
    travel: Floats  # [sizes, P, P]: ``travel[size[value], p, q]`` is the time of one transfer
    host: int  # -1 if there is none

    @classmethod
    def of(cls, problem: Problem) -> Terms:
        """Return the terms of a problem. O(n P + values + sizes P^2)."""
        latency_s, per_byte_s = transfer_costs(problem)
        values, host = problem.value_arrays, problem.host
        given = values.producer == GRAPH_INPUT
        returns = values.leaves & ~given & (host is not None)
        number = np.diff(values.readers.at) + returns
        taken = (number > 0) & ~(given & (host is None))
        reader_at = np.concatenate(([0], np.cumsum(number[taken])))
        readers = np.full(reader_at[-1], HOST, dtype=np.int64)
        # HOST is last; if it is not, there is a node.
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
    matrix[p, q] or, if u changes, matrix[target, q]; the larger is charged, which is exact if
    nothing changes and never too low. Capacities are rounded to about 2^-29 of their sum.
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
    """Return the network's number of nodes, tails, heads and capacities. O(n P + values + readers).

    A capacity is the cost if the tail keeps its device and the head changes.
    """
    n, count = terms.seconds.shape
    # HOST is last.
    place = np.append(np.asarray(assignment, dtype=np.int64), terms.host)
    moving = np.flatnonzero(place[:n] != target)
    change, keep = np.full(len(moving), CHANGE), np.full(len(moving), KEEP)
    arcs = [
        (2 + moving, change, terms.seconds[moving, place[moving]]),
        (keep, 2 + moving, terms.seconds[moving, target]),
    ]
    values, fan = np.arange(len(terms.producer)), np.diff(terms.reader_at)
    owner, node = np.repeat(values, fan), terms.readers != HOST
    at = place[terms.readers]
    near, reader = np.zeros((2, len(values), count), dtype=np.int64)
    np.add.at(near, (owner, at), 1)
    reader[owner, at] = terms.readers
    source = np.where(terms.producer == HOST, KEEP, 2 + terms.producer)
    home, back = place[terms.producer], ~node[terms.reader_at[1:] - 1]
    changed = terms.travel[terms.size, target]
    kept = terms.travel[terms.size, home]
    last = 2 + n
    # Once, if its producer keeps and any reader changes. The host itself never changes.
    due = (home != target) & (kept[:, target] > 0) & ((near[:, target] > 0) | (fan > back))
    first = 2 + terms.readers[terms.reader_at[:-1]]
    many = due & (near[:, target] == 0) & (fan - back > 1)
    joint = np.full(len(values), -1)
    joint[many] = last + np.arange(np.count_nonzero(many))
    last += np.count_nonzero(many)
    over = np.where(near[:, target] > 0, CHANGE, np.where(many, joint, first))
    arcs.append((source[due], over[due], kept[due, target]))
    spread = node & many[owner]
    arcs.append((joint[owner[spread]], 2 + terms.readers[spread], np.full(spread.sum(), INFINITY)))
    # Once, if any reader on q keeps: unconditionally, plus an extra cost if the producer changes.
    more = np.where(changed > kept, changed, 0.0) - np.where(changed > kept, kept, 0.0)
    for cost, over in ((kept, np.full(len(values), CHANGE)), (more, source)):
        value, q = np.nonzero((near > 0) & (cost > 0) & (np.arange(count) != target))
        at_host = back[value] & (q == terms.host)
        several = ~at_host & (near[value, q] > 1)
        tail = np.where(at_host, KEEP, 2 + reader[value, q])
        tail[several] = last + np.arange(np.count_nonzero(several))
        last += np.count_nonzero(several)
        arcs.append((tail, over[value], cost[value, q]))
        gate = np.full((len(values), count), -1)
        gate[value[several], q[several]] = tail[several]
        through = gate[owner, at] >= 0
        arcs.append((
            2 + terms.readers[through], gate[owner, at][through],
            np.full(through.sum(), INFINITY),
        ))  # fmt: skip
    tails, heads, capacities = (np.concatenate(part) for part in zip(*arcs, strict=True))
    some = capacities > 0
    return last, tails[some], heads[some], capacities[some]


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
    # The first of equal totals stays, so all processes agree.
    starts = [[device] * n for device in range(count)]
    starts.append([int(device) for device in terms.seconds.argmin(axis=1)])
    totals = [terms.total(start) for start in starts]
    best = min(range(len(starts)), key=lambda index: (totals[index], index))
    assignment, total = starts[best], totals[best]
    # A device tried in vain from the same assignment would fail again.
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
    # Merge arcs between the same two nodes; then sort arcs of both directions by node.
    pairs, which = np.unique(tails * size + heads, return_inverse=True)
    arcs = len(pairs)
    room = np.minimum(np.bincount(which, capacities, arcs), MOST).astype(np.int64)
    tail, head = np.divmod(pairs, size)
    begin, end = np.concatenate((tail, head)), np.concatenate((head, tail))
    order = np.argsort(begin, kind="stable")
    place = np.empty(2 * arcs, dtype=np.int64)
    place[order] = np.arange(2 * arcs)
    columns = [
        np.concatenate(([0], np.cumsum(np.bincount(begin, minlength=size)))), end[order],
        np.append(room, np.zeros(arcs, dtype=np.int64))[order], place[(order + arcs) % (2 * arcs)],
        *np.empty((3, size), dtype=np.int64),
    ]  # fmt: skip
    many = compile_threshold.pays(_flow, arcs, CUT_FROM, COMPILE_CUT_FROM)
    _, rows = compile_threshold.called(_flow, (source, sink, MOST), columns, as_arrays=many)
    reached: NDArray[np.bool_] = np.asarray(rows[-3]) >= 0
    return reached


def saturate(
    source: int,
    sink: int,
    most: int,
    at: Array,
    ends: Array,
    room: Array,
    mate: Array,
    level: Array,
    queue: Array,
    now: Array,
) -> None:
    """Compute a maximum flow from `source` to `sink`; `level` marks nodes the source still reaches.

    Algorithm: E. A. Dinic, Soviet Mathematics Doklady 11, 1970. The arcs of node v lead to `ends`
    from ``at[v]`` on, with remaining capacity `room` of at most `most` and reverse arc `mate`.
    O(nodes^2 arcs), far less for short paths.
    """
    nodes = len(level)
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
        # Current path, with its arcs in `queue`.
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
                # Dead end: skip the arc that led here from now on.
                level[u] = -1
                steps -= 1
                u = ends[mate[queue[steps]]]
                now[u] += 1


_flow = machine_code(saturate, inline=True)
