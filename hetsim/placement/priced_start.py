"""Start for searches on many tasks: list schedules in both directions, at the best price.

If dispatches or links have a cost, schedules are simulated again by ``search.dispatched``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetsim.core import deadline
from hetsim.core.machine_code import machine_code
from hetsim.errors import Infeasible
from hetsim.placement.grouping import Owned, best_grouping
from hetsim.placement.initial_plans import Start
from hetsim.placement.listing.ranks import by_falling_rank, upward_ranks
from hetsim.placement.objective import measure
from hetsim.placement.search import dispatched
from hetsim.placement.search.dispatched import AssignmentPlayer
from hetsim.placement.search.drafts import SearchProblem, asked_of, estimates_groups
from hetsim.problem.coarse import Coarse
from hetsim.problem.columns import columns_of
from hetsim.problem.groups import Group
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem

Array = Any


def insert_nodes(
    order: Array,
    price: float,
    seconds: Array,
    least: Array,
    early: Array,
    late: Array,
    fed_at: Array,
    fed: Array,
    row: Array,
    travel: Array,
    lane_at: Array,
    ready: Array,
    last: Array,
    before: Array,
    device: Array,
    begin: Array,
    end: Array,
) -> float:
    """Place nodes in `order`; return the end of the last node and the arrival of outputs.

    Each second above the node's least time (`least` [n]) costs `price` seconds in addition to its
    end. `early` and `late` [n P] are seconds before a node may start, and from its end until its
    outputs arrive. `ready`, `last` and `before` are scratch arrays.
    """
    count = len(lane_at) - 1
    for k in range(len(last)):
        last[k] = -1
    latest = 0.0
    for i in range(len(order)):
        v = order[i]
        for p in range(count):
            ready[p] = early[v * count + p]
        for k in range(fed_at[v], fed_at[v + 1]):
            u = fed[k]
            q, when = device[u], end[u]
            for p in range(count):
                there = when
                if q != p:
                    there += travel[row[k] + q * count + p]
                if there > ready[p]:
                    ready[p] = there
        best = lead = 0.0
        chosen, lane, left, right = -1, -1, -1, -1
        for p in range(count):
            own = seconds[v * count + p]
            if own == math.inf:
                continue
            over = late[v * count + p] + price * (own - least[v])
            # No gap starts before the node is ready.
            if chosen >= 0 and ready[p] + own + over > best:
                continue
            for k in range(lane_at[p], lane_at[p + 1]):
                ahead, behind = last[k], -1
                w = ahead
                start = ready[p]
                if w >= 0 and end[w] > start:
                    start = end[w]
                while w >= 0 and end[w] > ready[p]:
                    u = before[w]
                    free = ready[p]
                    if u >= 0 and end[u] > free:
                        free = end[u]
                    if free + own <= begin[w]:
                        start, ahead, behind = free, u, w
                    w = u
                score = start + own + over
                if chosen < 0 or score < best or (score == best and start < lead):
                    best, lead, chosen, lane, left, right = score, start, p, k, ahead, behind
        device[v], begin[v], end[v] = chosen, lead, lead + seconds[v * count + chosen]
        latest = max(latest, end[v] + late[v * count + chosen])
        before[v] = left
        if right >= 0:
            before[right] = v
        else:
            last[lane] = v
    return latest


_insertion = machine_code(insert_nodes, inline=True)


COMPILE_FROM, COMPILE_ANEW_FROM = 5_000, 150_000
"""Numbers of nodes placed from which machine code saves more CPU time than loading it costs, with
and without a cached build; nodes that are also simulated count PLAYED times."""
PLAYED = 3


def compiles(work: int, *, played: bool) -> bool:
    """Return whether machine code pays off for `work` nodes that are placed, or also simulated."""
    parts = (_insertion, dispatched.compiled) if played else (_insertion,)
    kept = all(part.loaded or part.kept for part in parts)
    if not kept or not deadline.may_load("numba"):
        kept = False
        if not deadline.may_compile():
            return False
    return work * (PLAYED if played else 1) >= (COMPILE_FROM if kept else COMPILE_ANEW_FROM)


_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]


class ArraySchedule(NamedTuple):
    """Schedule as arrays: device, start and end of each node, and arrival of the last output."""

    device: _Ints
    start_s: _Floats
    end_s: _Floats
    latest_s: float

    @property
    def order(self) -> _Ints:
        """Nodes in order of start, which is a topological order."""
        return np.lexsort((np.arange(len(self.end_s)), self.end_s, self.start_s))


class BothWays:
    """Schedules in rank order and backwards, without contention, dispatch and memory."""

    def __init__(self, problem: Problem, *, compiled: bool = False) -> None:
        n, columns = problem.n, columns_of(problem)
        self.compiled = compiled
        self.asked = asked_of(
            problem, grouped=estimates_groups(problem), binds=False, arrays=compiled
        )
        self._seconds = columns.seconds
        self._least = columns.seconds.reshape(n, -1).min(axis=1, initial=np.inf)
        self._ends = columns.arrival, columns.back
        self._first = np.array(by_falling_rank(upward_ranks(problem)), dtype=np.int64)
        self._travel = np.asarray(self.asked.travel_s, dtype=np.float64)
        # Neighbours of each node, flat, and the offsets of their transfers.
        reads = (self.asked.read_at, self.asked.read_from, self.asked.read_row)
        at, maker, row = (np.asarray(part, dtype=np.int64) for part in reads)
        order = np.argsort(maker, kind="stable")
        readers = np.repeat(np.arange(n), np.diff(at))[order]
        behind = np.searchsorted(maker[order], np.arange(n + 1))
        self._edges = (at, maker, row), (behind, readers, row[order])

    def schedules(self, price: float, stretch: float, passes: int) -> Iterator[ArraySchedule]:
        """Yield the schedule in descending rank order, then `passes` two-way improvements."""
        forth, back = self._way(price, stretch, 0), self._way(price, stretch, 1)
        made = forth(self._first)
        yield made
        for _ in range(passes):
            made = forth(_from_last(back(_from_last(made, -1)), 1))
            yield made

    def _way(self, price: float, stretch: float, back: int) -> _Way:
        lanes = np.asarray(self.asked.lane_at, dtype=np.int64)
        count = len(lanes) - 1
        travel = self._travel.reshape(-1, count, count) * stretch
        early, late = (ends * stretch for ends in self._ends)
        if back:
            travel, early, late = travel.transpose(0, 2, 1), late, early
        asked = (
            self._seconds, self._least, early, late, *self._edges[back],
            np.ascontiguousarray(travel).reshape(-1), lanes,
        )  # fmt: skip
        return _Way(self.compiled, price, *asked)


class _Way:
    """Scheduler in one direction."""

    def __init__(self, compile_it: bool, price: float, *asked: NDArray[Any]) -> None:
        self._compiled, self._price = compile_it, price
        self._asked: list[Any] = list(asked) if compile_it else [part.tolist() for part in asked]

    def __call__(self, order: _Ints) -> ArraySchedule:
        """Return the schedule along `order`."""
        n, lanes = len(order), self._asked[-1]
        ints, floats = (np.int64, np.float64)
        room: list[Any] = [
            np.zeros(size, dtype=kind)
            for size, kind in (
                (len(lanes) - 1, floats),
                (lanes[-1], ints),
                (n, ints),
                (n, ints),
                (n, floats),
                (n, floats),
            )
        ]
        if self._compiled:
            latest_s = _insertion(order, self._price, *self._asked, *room)
        else:
            room = [part.tolist() for part in room]
            latest_s = insert_nodes(order.tolist(), self._price, *self._asked, *room)
        device, start_s, end_s = map(np.asarray, room[3:])
        return ArraySchedule(device, start_s, end_s, float(latest_s))


def _from_last(made: ArraySchedule, ties: int) -> _Ints:
    """Return the nodes by descending end; zero-length nodes with equal times by `ties` x id."""
    return np.lexsort((np.arange(len(made.end_s)) * ties, -made.start_s, -made.end_s))


PRICES = (8.0, 2.0, 32.0, 0.5, 0.0)
"""Prices to try; those that are often good come first, as a deadline may pass before the last."""
NEAR = (0.35, 0.7, 1.4, 2.8)
"""Prices to try around the best one, relative to it."""
LEAST = 0.2
"""Base of those prices if the best price is 0."""
STRETCHES = (2.0, 1.0, 4.0, 8.0)
"""Factors on transfer times that account for queueing on links."""
SIZES = (1, 2, 3, 4, 6, 8)
"""Maximum subgraph sizes to try, in nodes."""
MOST_IN_PYTHON = 2_000
"""Number of tasks above which interpreted schedules are not tried under a deadline."""
FEW, MANY = 3, 20
"""Number of passes per price, and finally for the best; a fourth of them above LARGE tasks."""
LARGE = 2_000
NAME = "list schedules in both directions"


@dataclass(slots=True)
class _Best:
    """Plan with the least estimate, and the schedule that it comes from."""

    cost: float
    price: float
    stretch: float
    made: ArraySchedule
    order: _Ints
    cut: _Ints
    size: int


class _Plays:
    """Evaluator of schedules: as they are if only nodes have a cost, otherwise simulated."""

    def __init__(self, problem: Problem, asked: SearchProblem, *, compiled: bool) -> None:
        self.grouped = bool(asked.grouped)
        self._play = AssignmentPlayer(problem, asked, arrays=compiled) if self.grouped else None
        self._one = np.ones(problem.n, dtype=np.int64)

    def better(
        self, best: _Best | None, made: ArraySchedule, at: tuple[float, float], sizes: Sequence[int]
    ) -> _Best | None:
        """Return the best so far or a plan of `made` with at most `sizes` nodes per subgraph."""
        if self._play is None:
            if best is None or made.latest_s < best.cost:
                return _Best(made.latest_s, *at, made, made.order, self._one, 1)
            return best
        for size in sizes:
            deadline.check()
            cost, order, cut = self._play(made.device, made.start_s, size)
            if best is None or cost < best.cost:
                best = _Best(cost, *at, made, order, cut, size)
        return best


def priced_start(coarse: Coarse) -> Start | None:
    """Return the best plan of ``BothWays``; None if a node runs on no device on its own.

    A few passes run at each of several prices per second above a node's least time, and under
    contention also with longer transfers; more passes run at the best price. After a deadline, the
    best plan so far is returned, if any. O(E P + n^2) for each of 90 schedules (200 under
    contention, a third above LARGE tasks); O((V P + E) log V) for about as many plays.

    Source: forward and backward passes, K. Y. Li, R. J. Willis, An iterative scheduling technique
    for resource-constrained project scheduling, EJOR 56, 1992; the price is our addition.
    """
    problem = coarse.problem
    if not problem.n or not problem.supported.any(axis=1).all():
        return None
    stretches = STRETCHES if problem.contention == "fifo" else (1.0,)
    few, many = (FEW, MANY) if problem.n <= LARGE else (1, MANY // 4)
    made = (len(stretches) * len(PRICES) + len(NEAR)) * (1 + 2 * few) + 1 + 2 * many
    best: _Best | None = None
    with suppress(deadline.OutOfTime):
        machine_code = compiles(made * problem.n, played=estimates_groups(problem))
        if deadline.is_set() and problem.n > MOST_IN_PYTHON and not machine_code:
            return None
        ways = BothWays(problem, compiled=machine_code)
        plays = _Plays(problem, ways.asked, compiled=machine_code)
        sizes: Sequence[int] = SIZES if plays.grouped else (1,)

        def tried(price: float, stretch: float, passes: int) -> None:
            nonlocal best
            for listed in ways.schedules(price, stretch, passes):
                deadline.check()
                near = sizes
                if best is not None and plays.grouped:
                    k = sizes.index(best.size)
                    near = sizes[max(k - 1, 0) : k + 2]
                best = plays.better(best, listed, (price, stretch), near)

        for stretch in stretches:
            for price in PRICES:
                tried(price, stretch, few)
        assert best is not None
        price, stretch = best.price or LEAST, best.stretch
        for near in NEAR:
            tried(price * near, stretch, few)
        tried(best.price, best.stretch, many)
    return None if best is None else _judged(coarse, best)


def _judged(coarse: Coarse, best: _Best) -> Start | None:
    """Return the fastest of the simulated, listed and grouped plans by the clock."""
    problem, device = coarse.problem, best.made.device
    found: list[Start] = []

    def judge(groups: tuple[Group, ...]) -> None:
        with suppress(Infeasible):
            plan = Plan(coarse.fine, "draft", coarse.spread(groups))
            found.append(Start(NAME, plan, groups, measure(plan, "latency")))

    judge(_owned(device, best.order, best.cut).groups(problem))
    with suppress(Infeasible, deadline.OutOfTime):
        if estimates_groups(problem):
            deadline.check()
            listed = best.made.order
            judge(_owned(device, listed, np.ones_like(listed)).groups(problem))
        if problem.n <= LARGE:
            deadline.check()
            judge(best_grouping(problem, device.tolist(), best.made.order.tolist())[0])
    return min(found, key=lambda start: start.cost, default=None)


def _owned(device: _Ints, order: _Ints, cut: _Ints) -> Owned:
    """Return the subgraphs that start where `order` is cut."""
    owner = np.empty(len(order), dtype=np.int64)
    owner[order] = np.cumsum(cut[order]) - 1
    return Owned(owner, device[order[cut[order] == 1]])
