"""Strategies heft, cpop, peft, lookahead, dls and etf: list schedules, grouped by the clock."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hetsim.core import deadline
from hetsim.core.machine_code import machine_code
from hetsim.graph.dag import topological_order
from hetsim.placement.initial_plans import Constructive
from hetsim.placement.listing.list_schedule import (
    INFINITY,
    Array,
    Listing,
    Lists,
    Schedule,
    add,
    commit,
    needs,
    refuse,
    remove,
    scheduled,
    takes,
)
from hetsim.placement.listing.ranks import (
    by_falling_rank,
    downward_ranks,
    mean_route,
    rounded,
    static_levels,
    upward_ranks,
)
from hetsim.problem.columns import made_by, travel_matrices
from hetsim.problem.problem import Problem

PAIRS_FROM = 1_500
"""Number of nodes from which machine code saves more CPU time than loading it costs."""


def schedule_pairs(
    problem: Problem,
    homes: Sequence[int] | None,
    *,
    worth: Sequence[float] = (),
    rank: Sequence[int] = (),
    machine_code: bool | None = None,
) -> Schedule:
    """Place (node, device) pairs one by one, without filling gaps. O(n W P) for W ready nodes.

    Picks the pair with the least end minus the node's `worth`, or with `rank` the pair with the
    least end, then the lowest rank; ties go to the lower node, then to the lower device.
    """
    n, dag = problem.n, problem.dag
    compiled = n >= PAIRS_FROM if machine_code is None else machine_code
    listing = Listing(problem, homes, compiled=compiled)
    ints = functools.partial(np.array, dtype=np.int64)
    columns = (
        np.array(worth or np.zeros(n), dtype=np.float64),
        ints(rank or [0] * n),
        np.diff(dag.pred_rows.at),
        dag.succ_rows.at,
        dag.succ_rows.node,
        np.zeros(sum(problem.streams)),
        np.zeros(len(problem.devices), dtype=np.int64),
        np.zeros(n, dtype=np.int64),
    )
    place = _compiled if compiled else place_pairs
    lost = place(listing.lists, bool(rank), *map(listing.given, columns))
    if lost >= 0:
        refuse(problem, lost)
    return listing.schedule()


def place_pairs(
    lists: Lists,
    earliest: bool,
    worth: Array,
    rank: Array,
    waits: Array,
    follower_at: Array,
    followers: Array,
    lane_free: Array,
    lane_of: Array,
    queue: Array,
) -> int:
    """Place the best pair of ready node and device until all are placed; see ``schedule_pairs``.

    Returns -1, or a node without a device.
    """
    n, count, lane_at = len(waits), lists.devices, lists.lane_at
    seconds, near, dispatch, arrival = lists.seconds, lists.near, lists.dispatch, lists.ready
    ready = 0
    for v in range(n):
        if waits[v] == 0:
            queue[ready] = v
            ready += 1
    while ready > 0:
        for p in range(count):
            lane = lane_at[p]
            for other in range(lane + 1, lane_at[p + 1]):
                if lane_free[other] < lane_free[lane]:
                    lane = other
            lane_of[p] = lane
        best_score, best_rank, best_at, best_device, lost = INFINITY, n, -1, -1, n
        for at in range(ready):
            v = queue[at]
            able = False
            row = v * count
            for p in range(count):
                if not takes(lists, v, p):
                    continue
                able = True
                cost = seconds[row + p]
                if near[row + p] == 0:
                    cost += dispatch[p]
                free = lane_free[lane_of[p]]
                start = arrival[row + p]
                if free > start:
                    start = free
                score = start + cost
                if earliest:
                    better = score < best_score or (score == best_score and rank[v] < best_rank)
                else:
                    score -= worth[v]
                    better = score < best_score or (
                        score == best_score and best_at >= 0 and v < queue[best_at]
                    )
                if better or best_at < 0:
                    best_score, best_rank, best_at, best_device = score, rank[v], at, p
            if not able and v < lost:
                lost = v
        if lost < n:
            return lost
        node, p = queue[best_at], best_device
        ready -= 1
        queue[best_at] = queue[ready]
        cost, lane = seconds[node * count + p], lane_of[p]
        if near[node * count + p] == 0:
            cost += dispatch[p]
        start = max(arrival[node * count + p], lane_free[lane])
        lane_free[lane] = start + cost
        lists.begin[node], lists.end[node] = start, start + cost
        commit(lists, node, p)
        for index in range(follower_at[node], follower_at[node + 1]):
            v = followers[index]
            waits[v] -= 1
            if waits[v] == 0:
                queue[ready] = v
                ready += 1
    return -1


_compiled = machine_code(place_pairs, needs, takes, add, remove, commit, inline=True)


@dataclass(frozen=True, slots=True)
class Heft(Constructive):
    """List scheduling by upward rank: earliest finish time with insertion.

    Objective: makespan. Ranks use mean times over the devices that support a node and mean
    transfer times over pairs of distinct devices. A node may fill a gap between nodes
    scheduled before. Beyond the paper: what ``list_schedule.Listing`` says of tensors, inputs and
    outputs, dispatch and memory. HEFT is a heuristic: it can lose to a single device, and
    the comparison says so.

    Complexity: O(E P + n P log n), and the grouping.

    Source: H. Topcuoglu, S. Hariri, M.-Y. Wu, Performance-effective and low-complexity
    task scheduling for heterogeneous computing, IEEE TPDS 13(3), 2002, section 4.
    """

    name: ClassVar[str] = "heft"
    how: ClassVar[str] = "earliest finish by upward rank"

    def schedule(self, problem: Problem, homes: Sequence[int] | None = None) -> Schedule:
        """Return the schedule; see ``Listing`` for `homes` and the errors."""
        return scheduled(problem, homes, by_falling_rank(upward_ranks(problem)))


@dataclass(frozen=True, slots=True)
class Cpop(Constructive):
    """List scheduling with the critical path on one device.

    Objective: makespan. The ready node with the longest mean path through it is next; off
    the critical path it goes where it would finish first. Where the chosen device does not
    take a node of the path, that node goes like the others. Beyond the paper: what
    ``list_schedule.Listing`` says.

    Complexity: O(E P + n P log n), and the grouping.

    Source: H. Topcuoglu, S. Hariri, M.-Y. Wu, Performance-effective and low-complexity
    task scheduling for heterogeneous computing, IEEE TPDS 13(3), 2002, section 4.
    """

    name: ClassVar[str] = "cpop"
    how: ClassVar[str] = "critical path on one device"

    def schedule(self, problem: Problem, homes: Sequence[int] | None = None) -> Schedule:
        """Return the schedule; see ``Listing`` for `homes` and the errors."""
        up, down = upward_ranks(problem), downward_ranks(problem)
        priority = rounded([a + b for a, b in zip(up, down, strict=True)])
        path = _critical_path(problem, priority)
        count = len(problem.devices)
        alone = np.where(problem.supported, problem.shared_seconds, np.inf)
        seconds: list[list[float]] = alone[path].tolist()
        sums = [sum(row[p] for row in seconds) for p in range(count)]
        if min(sums, default=INFINITY) == INFINITY:
            # No device takes the whole path: use the one that takes most of it, then the fastest.
            taken = [[row[p] for row in seconds] for p in range(count)]
            scores = [
                (sum(s == INFINITY for s in row), sum(s for s in row if s < INFINITY))
                for row in taken
            ]
            chosen = min(range(count), key=lambda p: (*scores[p], p))
        else:
            chosen = min(range(count), key=lambda p: (sums[p], p))
        order = topological_order(problem.dag.succs, [-rank for rank in priority])
        assert order is not None
        only = np.full(problem.n, -1)
        only[path] = chosen
        return scheduled(problem, homes, order, only=only.tolist())


def _critical_path(problem: Problem, priority: list[float]) -> list[int]:
    """Return the path from the entry of highest priority along successors of highest priority."""
    entries = [v for v in range(problem.n) if not problem.dag.preds[v]]
    path: list[int] = []
    ahead: tuple[int, ...] = tuple(entries)
    while ahead:
        path.append(max(ahead, key=lambda v: (priority[v], -v)))
        ahead = problem.dag.succs[path[-1]]
    return path


@dataclass(frozen=True, slots=True)
class Peft(Constructive):
    """List scheduling with an optimistic cost table, for expensive transfers.

    Objective: makespan. The optimistic cost of a node on a device is the longest way from
    there to an exit when every later node chooses freely, mean transfers where it changes
    device. Ready nodes go by their mean optimistic cost. Beyond the paper: an output's way
    back to the host counts as the end of the way, and what ``list_schedule.Listing`` says.

    Complexity: O(E P^2 + n P log n), and the grouping.

    Source: H. Arabnejad, J. G. Barbosa, List scheduling algorithm for heterogeneous systems
    by an optimistic cost table, IEEE TPDS 25(3), 2014.
    """

    name: ClassVar[str] = "peft"
    how: ClassVar[str] = "earliest finish with an optimistic cost table"

    def schedule(self, problem: Problem, homes: Sequence[int] | None = None) -> Schedule:
        """Return the schedule; see ``Listing`` for `homes` and the errors."""
        table = optimistic_costs(problem)
        able = problem.supported
        sums = np.where(able, table, 0.0).sum(axis=1) / able.sum(axis=1).clip(min=1)
        keys = [-rank for rank in rounded(sums.tolist())]
        order = topological_order(problem.dag.succs, keys)
        assert order is not None
        return scheduled(problem, homes, order, ahead=table)


def optimistic_costs(problem: Problem) -> NDArray[np.float64]:
    """Return the optimistic cost table [n, P] in seconds; inf if no successor is possible."""
    latency_s, per_byte_s = mean_route(problem)
    latency, bandwidth = travel_matrices(problem)
    seconds = np.where(problem.supported, problem.shared_seconds, np.inf)
    table = np.zeros(seconds.shape)
    # From a node on a device on, including the node.
    through = seconds.copy()
    made = made_by(problem)
    for node in range(problem.n - 1, -1, -1):
        row = table[node]
        for value in made[node]:
            if value.is_output and problem.host is not None:
                back = latency[:, problem.host] + value.nbytes / bandwidth[:, problem.host]
                np.maximum(row, back, out=row)
            if value.consumers:
                stays = through[list(value.consumers)]
                moves = stays.min(axis=1, keepdims=True) + (latency_s + per_byte_s * value.nbytes)
                np.maximum(row, np.minimum(stays, moves).max(axis=0), out=row)
        through[node] += row
    return table


@dataclass(frozen=True, slots=True)
class Lookahead(Constructive):
    """List scheduling by the earliest finish of a node's children, for expensive transfers.

    Objective: makespan. Nodes go by upward rank. For each device that takes the node, its
    children are scheduled one after another where each would finish first, by what is known
    of their other parents; that is taken back, and the device kept on which the last child
    ended first. Beyond the paper: what ``list_schedule.Listing`` says.

    Complexity: O(E P^2 log n), and the grouping.

    Source: L. F. Bittencourt, R. Sakellariou, E. R. M. Madeira, DAG scheduling using a
    lookahead variant of the heterogeneous earliest finish time algorithm, PDP 2010.
    """

    name: ClassVar[str] = "lookahead"
    how: ClassVar[str] = "earliest finish of the children"

    def schedule(self, problem: Problem, homes: Sequence[int] | None = None) -> Schedule:
        """Return the schedule; see ``Listing`` for `homes` and the errors."""
        listing = Listing(problem, homes)
        order = by_falling_rank(upward_ranks(problem))
        place = [0] * problem.n
        for index, node in enumerate(order):
            place[node] = index
        for node in order:
            deadline.check()
            children = sorted(problem.dag.succs[node], key=place.__getitem__)
            able = listing.able(node)
            scores = {p: listing.end_on(node, p) for p in able}
            if children and len(able) > 1:
                chosen = min(able, key=lambda p: (_last(listing, node, p, children), scores[p]))
            else:
                chosen = min(able, key=scores.__getitem__)
            listing.end_on(node, chosen)
            listing.place(node, chosen)
        return listing.schedule()


def _last(listing: Listing, node: int, device: int, children: list[int]) -> float:
    """Return the end of the last child."""
    last = listing.end_on(node, device)
    with ExitStack() as trials:
        trials.enter_context(listing.trial(node, device))
        for child in children:
            there = listing.best(child)
            last = max(last, listing.end_on(child, there))
            trials.enter_context(listing.trial(child, there))
    return last


@dataclass(frozen=True, slots=True)
class Dls(Constructive):
    """List scheduling by dynamic level: the best pair of ready node and device comes next.

    Objective: makespan. The dynamic level of a pair is the node's static level, its longest
    way out over median times, less when it could begin there, plus what the device is
    quicker than the median. Beyond the paper: dispatch is part of a node's time, and what
    ``list_schedule.Listing`` says; no gap is filled.

    Complexity: O(n W P) for W ready nodes at once, and the grouping.

    Source: G. C. Sih, E. A. Lee, A compile-time scheduling heuristic for interconnection-
    constrained heterogeneous processor architectures, IEEE TPDS 4(2), 1993, section III.
    """

    name: ClassVar[str] = "dls"
    how: ClassVar[str] = "highest dynamic level first"

    def schedule(self, problem: Problem, homes: Sequence[int] | None = None) -> Schedule:
        """Return the schedule; see ``Listing`` for `homes` and the errors."""
        levels, medians = static_levels(problem)
        worth = [level + median for level, median in zip(levels, medians, strict=True)]
        return schedule_pairs(problem, homes, worth=worth)


@dataclass(frozen=True, slots=True)
class Etf(Constructive):
    """List scheduling by earliest end on a device with free memory.

    Objective: makespan. Ties go to the node with the longer way out. The paper takes the
    pair that begins first, for devices of one speed; where speeds differ, the end is what
    matters. As in the paper a device whose memory would overflow takes nothing more; here
    that is told from weights, and activations are checked by the clock. Beyond the paper:
    what ``list_schedule.Listing`` says; no gap is filled.

    Complexity: O(n W P) for W ready nodes at once, and the grouping.

    Source: B. Jeon et al., Baechi: fast device placement of machine learning graphs,
    SoCC 2020, m-ETF; after J.-J. Hwang et al., SIAM J. Comput. 18(2), 1989.
    """

    name: ClassVar[str] = "etf"
    how: ClassVar[str] = "earliest end first"

    def schedule(self, problem: Problem, homes: Sequence[int] | None = None) -> Schedule:
        """Return the schedule; see ``Listing`` for `homes` and the errors."""
        levels, _ = static_levels(problem)
        order = sorted(range(problem.n), key=lambda v: -levels[v])
        rank = [0] * problem.n
        for place, node in enumerate(order):
            rank[node] = place
        return schedule_pairs(problem, homes, rank=rank)
