"""Strategy ``heft``: heterogeneous earliest finish time, with insertion."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from hetsim.errors import UnsupportedNode, UsageError
from hetsim.partitioning.deconflict import by_priority
from hetsim.placement.strategy import best_grouping
from hetsim.plans import Plan
from hetsim.problem import GRAPH_INPUT, Problem, Value

INFINITY = float("inf")


@dataclass(frozen=True, slots=True)
class Heft:
    """List scheduling by upward rank; each node goes where it would finish first.

    Ranks use mean times over the devices that support a node and mean transfer times over
    pairs of distinct devices. A node may fill a gap between nodes scheduled before.
    Beyond the paper: a tensor travels once a destination device, inputs start and outputs
    end on the host, the dispatch of a subgraph is charged where none of a node's
    predecessors is on its device, and the schedule is then grouped into subgraphs by the
    clock. HEFT is a heuristic: it can lose to a single device, and the comparison says so.

    Source: H. Topcuoglu, S. Hariri, M.-Y. Wu, Performance-effective and low-complexity
    task scheduling for heterogeneous computing, IEEE TPDS 13(3), 2002, section 4.
    """

    @classmethod
    def parse(cls, argument: str) -> Heft:
        """Read ``heft``; it takes no argument."""
        if argument:
            raise UsageError(f"strategy 'heft' takes no argument, got '{argument}'")
        return cls()

    def solve(self, problem: Problem) -> Plan:
        """Return the plan. O(E P + n P log n) and four simulations.

        Raises
        ------
        UnsupportedNode
            Where no device supports a node.
        """
        by_priority(problem)
        assignment, start_s, end_s = schedule(problem)
        # A node of no duration goes before one that starts with it and would hold it up.
        order = sorted(range(problem.n), key=lambda node: (start_s[node], end_s[node], node))
        groups, how = best_grouping(problem, assignment, order)
        return Plan(problem, "heft", groups, f"earliest finish by upward rank, grouped by {how}")


def schedule(problem: Problem) -> tuple[list[int], list[float], list[float]]:
    """Return each node's device index, start and end in seconds, contention left out.

    Raises
    ------
    UnsupportedNode
        Where no device supports a node.
    """
    ranks = upward_ranks(problem)
    reads: list[list[int]] = [[] for _ in range(problem.n)]
    returns: list[list[int]] = [[] for _ in range(problem.n)]
    for index, value in enumerate(problem.values):
        for consumer in value.consumers:
            reads[consumer].append(index)
        if value.is_output and value.producer != GRAPH_INPUT:
            returns[value.producer].append(index)
    # Ranks that are equal on paper may differ in the last bit, and ties go to the lower id.
    top = max(ranks, default=0.0) or 1.0
    order = sorted(range(problem.n), key=lambda node: (-round(ranks[node] / top, 12), node))
    count = len(problem.devices)
    # One node is placed at a time: what a device takes only as a composite is not for it.
    seconds = np.where(problem.supported, problem.shared_seconds, np.inf).tolist()
    streams = [
        [_Gaps(shortest) for _ in range(problem.streams[p])]
        for p, shortest in enumerate(_shortest(seconds, count))
    ]
    arrivals: list[list[float] | None] = [
        _arrivals(problem, value, problem.host, 0.0) if value.producer == GRAPH_INPUT else None
        for value in problem.values
    ]
    assignment = [-1] * problem.n
    start_s, end_s = [0.0] * problem.n, [0.0] * problem.n
    produced: list[list[int]] = [[] for _ in range(problem.n)]
    for index, value in enumerate(problem.values):
        if value.producer != GRAPH_INPUT:
            produced[value.producer].append(index)
    for node in order:
        best = (INFINITY, INFINITY, -1, -1)
        end = 0.0
        local = {assignment[u] for u in problem.dag.preds[node]}
        ready = _latest([arrivals[index] for index in reads[node]], count)
        for device in range(count):
            duration = seconds[node][device]
            if duration == INFINITY:
                continue
            if device not in local:
                duration += problem.dispatch_s[device]
            back = 0.0
            if problem.host is not None and device != problem.host:
                for index in returns[node]:
                    route = problem.routes[device][problem.host]
                    back = max(back, route.seconds(problem.values[index].nbytes))
            for stream, gaps in enumerate(streams[device]):
                begin = gaps.earliest(ready[device], duration)
                score = (begin + duration + back, begin, device, stream)
                if score < best:
                    best, end = score, begin + duration
        _, begin, device, stream = best
        if device < 0:
            raise UnsupportedNode(
                "no device supports it alone", where=f"node '{problem.node_names[node]}'"
            )
        assignment[node], start_s[node], end_s[node] = device, begin, end
        streams[device][stream].take(begin, end)
        for index in produced[node]:
            arrivals[index] = _arrivals(problem, problem.values[index], device, end)
    return assignment, start_s, end_s


class _Gaps:
    """The free intervals of a stream, ascending; those that fit no node are forgotten."""

    def __init__(self, shortest_s: float) -> None:
        self.shortest_s = shortest_s
        self.starts = [0.0]
        self.ends = [INFINITY]

    def earliest(self, ready: float, duration: float) -> float:
        """Earliest start at or after `ready` in a gap of `duration`."""
        at = bisect_left(self.ends, ready + duration)
        while True:
            begin = max(self.starts[at], ready)
            if begin + duration <= self.ends[at]:
                return begin
            at += 1

    def take(self, begin: float, end: float) -> None:
        """Occupy an interval that ``earliest`` gave; an empty one splits no gap."""
        if begin == end:
            return
        at = bisect_left(self.ends, end)
        rests = [(self.starts[at], begin), (end, self.ends[at])]
        kept = [rest for rest in rests if rest[1] - rest[0] >= self.shortest_s]
        self.starts[at : at + 1] = [rest[0] for rest in kept]
        self.ends[at : at + 1] = [rest[1] for rest in kept]


def _shortest(seconds: list[list[float]], count: int) -> list[float]:
    """Shortest time above zero of any node, by device."""
    return [min((row[p] for row in seconds if row[p] > 0), default=INFINITY) for p in range(count)]


def _latest(arrivals: list[list[float] | None], count: int) -> list[float]:
    """When the last of several values is there, by device; each value is produced already."""
    known = [arrival for arrival in arrivals if arrival is not None]
    if len(known) != len(arrivals):
        raise AssertionError("a node's rank exceeds that of its producer")
    return [max(times) for times in zip(*known, strict=True)] if known else [0.0] * count


def _arrivals(problem: Problem, value: Value, source: int | None, when: float) -> list[float]:
    """When `value`, complete on `source` at `when`, is on each device; None is everywhere."""
    if source is None:
        return [when] * len(problem.devices)
    return [
        when if target == source else when + problem.routes[source][target].seconds(value.nbytes)
        for target in range(len(problem.devices))
    ]


def upward_ranks(problem: Problem) -> list[float]:
    """Return the upward rank of each node in seconds: the mean length of its longest way out.

    Nodes that no device supports count with 0. O(V + E + n P).
    """
    supported = problem.supported
    weights = problem.shared_seconds.copy()
    weights[~supported] = 0.0
    mean_s = (weights.sum(axis=1) / supported.sum(axis=1).clip(min=1)).tolist()
    pairs = [route for p, row in enumerate(problem.routes) for q, route in enumerate(row) if p != q]
    latency_s = sum(route.latency_s for route in pairs) / max(len(pairs), 1)
    per_byte_s = sum(1.0 / route.bytes_per_s for route in pairs) / max(len(pairs), 1)
    produced: list[list[Value]] = [[] for _ in range(problem.n)]
    for value in problem.values:
        if value.producer != GRAPH_INPUT:
            produced[value.producer].append(value)
    ranks = [0.0] * problem.n
    for node in range(problem.n - 1, -1, -1):
        tail = 0.0
        for value in produced[node]:
            ahead = max((ranks[v] for v in value.consumers), default=0.0)
            moves = bool(value.consumers) or problem.host is not None
            tail = max(tail, ahead + (latency_s + per_byte_s * value.nbytes if moves else 0.0))
        ranks[node] = mean_s[node] + tail
    return ranks
