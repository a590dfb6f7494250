"""Plans that fit memory where constructive methods find none, or a proof that none exists."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from hetsim.core import deadline
from hetsim.errors import Infeasible, OutOfMemory
from hetsim.placement.footprint import Excess, Filling, Footprint, excess, refusal, weights_that_fit
from hetsim.placement.grouping import groupings
from hetsim.placement.listing.ranks import orders_by_rule
from hetsim.placement.objective import check_room, memory_binds
from hetsim.placement.search.drafts import (
    Asked,
    Search,
    asked_of,
    draft_of,
    draw_share,
    propose,
    refill,
    search_of,
    undo,
)
from hetsim.placement.search.estimates import groups_of
from hetsim.problem.groups import Group
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem

MOST_NODES = 14
"""Nodes above which not even the sets of them are listed."""
SEARCH_PLAYS = 8_000
STEPS = 300_000
"""Plans played and sets of nodes looked at, after which the search gives up."""


@dataclass(frozen=True, slots=True)
class Found:
    """Result of a search."""

    groups: tuple[Group, ...] | None  # A plan that fits
    complete: bool  # Whether nothing was left out: without groups, the proof that there is no plan


def search_all(problem: Problem, plays: int = SEARCH_PLAYS, steps: int = STEPS) -> Found:
    """Enumerate all plans of `problem`, if they are few."""
    if problem.n > MOST_NODES:
        return Found(None, complete=False)
    return _Search(problem, plays, steps).run()


class _OutOfBudgetError(Exception):
    pass


class _Search:
    def __init__(self, problem: Problem, plays: int, steps: int) -> None:
        self.problem = problem
        self.print = Footprint.of(problem)
        self.plays, self.steps = plays, steps
        self.able = [np.flatnonzero(row).tolist() for row in problem.runnable]
        self.before = [sum(1 << u for u in preds) for preds in problem.dag.preds]
        self.device = [-1] * problem.n
        self.needs: dict[int, int] = {}
        self.takes: dict[tuple[int, int], float] = {}
        # Where two devices share a link, the order of the plan breaks ties between them.
        senders: dict[int, set[int]] = {}
        for p, row in enumerate(problem.routes):
            for q, route in enumerate(row):
                if p != q and problem.contention == "fifo":
                    for link in route.resources:
                        senders.setdefault(link, set()).add(p)
        self.commute = all(len(sources) == 1 for sources in senders.values())

    def run(self) -> Found:
        problem, seconds = self.problem, self.problem.shared_seconds
        weight = [sum(problem.constants[c].nbytes for c in held) for held in problem.constants_of]
        order = sorted(range(problem.n), key=lambda v: (len(self.able[v]), -weight[v], v))
        for v, devices in enumerate(self.able):
            devices.sort(key=lambda p: (float(seconds[v, p]), p))
        try:
            for weights in self._assignments(order, 0, [0] * len(problem.devices)):
                room = [c - w for c, w in zip(self.print.capacity, weights, strict=True)]
                found = self._laid_out(room, 0, [], (1 << problem.n) - 1)
                if found is not None:
                    return Found(found, complete=True)
        except _OutOfBudgetError:
            return Found(None, complete=False)
        return Found(None, complete=True)

    def _assignments(self, order: list[int], at: int, weights: list[int]) -> Iterator[list[int]]:
        if at == len(order):
            yield weights
            return
        problem, v = self.problem, order[at]
        for p in self.able[v]:
            self._step()
            held = {u for u in range(problem.n) if self.device[u] == p}
            fresh = sum(
                problem.constants[c].nbytes
                for c in problem.constants_of[v]
                if held.isdisjoint(problem.constants[c].consumers)
            )
            total = weights[p] + fresh
            beside = max(self.print.beside[u][p] for u in (v, *held))
            if total + max(beside, self.print.always[p]) > self.print.capacity[p]:
                continue
            self.device[v] = p
            yield from self._assignments(order, at + 1, [*weights[:p], total, *weights[p + 1 :]])
            self.device[v] = -1

    def _laid_out(
        self, room: list[int], placed: int, groups: list[tuple[int, int]], left: int
    ) -> tuple[Group, ...] | None:
        if not left:
            return self._judged(groups)
        count = len(self.problem.devices)
        there = [0] * count
        for v in self._nodes(left):
            there[self.device[v]] |= 1 << v
        for p in range(count):
            # The nodes of the device that could be within its next subgraph.
            able = 0
            for v in self._nodes(there[p]):
                if not self.before[v] & ~(placed | able):
                    able |= 1 << v
            stays: int | None = None
            chosen = able
            while chosen:
                self._step()
                if self._may_follow(groups, chosen, p) and self._closed(chosen, placed):
                    if stays is None:
                        stays = self._stays(p, placed)
                    if self._fits(chosen, p, room[p] - self._kept(stays, chosen, p)):
                        groups.append((chosen, p))
                        found = self._laid_out(room, placed | chosen, groups, left & ~chosen)
                        if found is not None:
                            return found
                        groups.pop()
                chosen = (chosen - 1) & able
        return None

    def _nodes(self, chosen: int) -> tuple[int, ...]:
        return tuple(v for v in range(self.problem.n) if chosen >> v & 1)

    def _closed(self, chosen: int, placed: int) -> bool:
        return not any(self.before[v] & ~(placed | chosen) for v in self._nodes(chosen))

    def _may_follow(self, groups: list[tuple[int, int]], chosen: int, p: int) -> bool:
        """Whether the order is the first of those that differ by swapping what is independent."""
        if not groups or not self.commute or groups[-1][1] <= p:
            return True
        last = groups[-1][0]
        return any(self.before[v] & last for v in self._nodes(chosen))

    def _fits(self, chosen: int, p: int, room: int) -> bool:
        """Whether the device takes the set whole and has room for what it holds while it runs."""
        key = (chosen, p)
        if key not in self.takes:
            self.takes[key] = self.problem.group_seconds(p, self._nodes(chosen))
        seconds = self.takes[key]
        if seconds == float("inf"):
            return False
        return seconds == 0 or self._needs(chosen) <= room

    def _needs(self, chosen: int) -> int:
        """Bytes that a subgraph holds from start to end: what enters, what leaves, its peak."""
        known = self.needs.get(chosen)
        if known is not None:
            return known
        nodes = self._nodes(chosen)
        step = {v: at for at, v in enumerate(nodes)}
        whole = 0
        change = [0] * (len(nodes) + 1)
        for value in self.problem.values:
            made = value.producer in step
            outside = any(v not in step for v in value.consumers)
            if not made:
                if any(v in step for v in value.consumers) and (
                    value.producer != GRAPH_INPUT or self.problem.host is not None
                ):
                    whole += value.nbytes
            elif outside or value.is_output:
                whole += value.nbytes
            else:
                first = step[value.producer]
                change[first] += value.nbytes
                last = max((step[v] for v in value.consumers), default=first)
                change[last + 1] -= value.nbytes
        self.needs[chosen] = whole + max(np.cumsum(change).tolist())
        return self.needs[chosen]

    def _stays(self, p: int, placed: int) -> int:
        """The values on a device, as bits, that a later subgraph there must find still there."""
        problem, found = self.problem, 0
        if problem.streams[p] > 1:
            return 0
        for index, value in enumerate(problem.values):
            if value.producer == GRAPH_INPUT:
                there = p == problem.host
            else:
                there = bool(placed >> value.producer & 1) and self.device[value.producer] == p
            if there and (
                (value.is_output and p == problem.host)
                or any(self.device[v] == p and not placed >> v & 1 for v in value.consumers)
            ):
                found |= 1 << index
        return found

    def _kept(self, stays: int, chosen: int, p: int) -> int:
        """Bytes of `stays` that outlast the subgraph of `chosen` and that it does not read."""
        return sum(
            value.nbytes
            for index, value in enumerate(self.problem.values)
            if stays >> index & 1 and not any(chosen >> v & 1 for v in value.consumers)
        )

    def _judged(self, groups: list[tuple[int, int]]) -> tuple[Group, ...] | None:
        if not self.plays:
            raise _OutOfBudgetError
        self.plays -= 1
        devices = self.problem.devices
        made = tuple(Group(devices[p], self._nodes(chosen)) for chosen, p in groups)
        try:
            over = excess(Plan(self.problem, "memory", made))
        except Infeasible:
            return None
        return made if over.total == 0 else None

    def _step(self) -> None:
        self.steps -= 1
        if self.steps < 0 or deadline.left_s() <= 0.0:
            raise _OutOfBudgetError


PLAYS = 1_500
"""Plans that the clock plays at most."""
WORK = 60_000
"""Nodes that it plays at most, over all of them."""
HOT = 0.02
"""Worsening that is accepted with probability 1/e at first, over all bytes of the problem."""


def relieved(footprint: Footprint, assignment: Sequence[int]) -> list[int] | None:
    """Return a nearby assignment whose weights fit; None where single moves fail."""
    problem, capacity = footprint.problem, footprint.capacity
    seconds = problem.shared_seconds.tolist()
    filling = Filling(footprint)
    for v, p in enumerate(assignment):
        filling.put(v, p)
    for p in range(len(problem.devices)):
        while filling.held[p] + filling.needed[p] > capacity[p]:
            best: tuple[float, int, int] | None = None
            for v in filling.on(p):
                freed = filling.bytes_read_by(v, p, 1)
                freed += max(0, footprint.beside[v][p] - footprint.always[p])
                for q in range(len(problem.devices)):
                    if q == p or not problem.supported[v, q] or not freed:
                        continue
                    loss = (seconds[v][q] - min(seconds[v][p], seconds[v][q])) / freed
                    key = (loss, v, q)
                    if (best is None or key < best) and filling.holds(v, q):
                        best = key
            if best is None:
                return None
            filling.move(*best[1:])
    return filling.device


def spilled(footprint: Footprint, assignment: Sequence[int]) -> list[int] | None:
    """Return an assignment in which full devices pass on their last nodes; None if stuck."""
    problem = footprint.problem
    seconds = problem.shared_seconds.tolist()
    count = len(problem.devices)
    filling = Filling(footprint)
    full = [False] * count
    left: list[int] = []
    for v, p in enumerate(assignment):
        full[p] = full[p] or not filling.holds(v, p)
        if full[p]:
            left.append(v)
        else:
            filling.put(v, p)
    last = -1
    for v in left:
        able = [p for p in range(count) if problem.supported[v, p] and filling.holds(v, p)]
        if not able:
            return None
        if last not in able:
            last = min(able, key=lambda p: (seconds[v][p], p))
        filling.put(v, last)
    return filling.device


def squeezed(
    problem: Problem, groups: Sequence[Group], seed: int = 0
) -> tuple[tuple[Group, ...], Excess]:
    """Anneal the bytes by which a plan exceeds memory, each move simulated on the clock."""
    rng = random.Random(seed)
    asked = asked_of(problem, grouped=True, binds=False)
    best = tuple(groups)
    least = excess(Plan(problem, "memory", best))
    search = search_of(asked, len(problem.link_names), draft_of(problem, groups), None)
    now = _excess(problem, asked, search)
    if now is None:
        # A composite that cannot be told from its nodes: the plan stays as it is.
        return best, least
    weights = sum(constant.nbytes for constant in problem.constants)
    scale = HOT * (weights + sum(value.nbytes for value in problem.values))
    plays = min(PLAYS, max(WORK // max(problem.n, 1), 10))
    for played in range(plays):
        if now.total < least.total:
            best, least = groups_of(problem, asked, search), now
        if least.total == 0:
            break
        refill(search, rng)
        if not propose(asked, search):
            continue
        found = _excess(problem, asked, search)
        heat = scale * (1.0 - played / plays) + 1e-9
        if found is not None and (
            found.total <= now.total
            or draw_share(search) < math.exp((now.total - found.total) / heat)
        ):
            now = found
        else:
            undo(asked, search)
    if now.total < least.total:
        best, least = groups_of(problem, asked, search), now
    return best, least


def _excess(problem: Problem, asked: Asked, search: Search) -> Excess | None:
    try:
        return excess(Plan(problem, "memory", groups_of(problem, asked, search)))
    except Infeasible:
        return None


Candidate = tuple[Excess, tuple[Group, ...]]

SQUEEZED = 3
"""Plans, those that miss by least first, that are squeezed."""
MOST_LAID_OUT = 20_000
"""Nodes above which assignments are not laid out in every way."""


def plan_that_fits(problem: Problem, near: Sequence[Plan] = ()) -> Plan:
    """Return a plan of `problem` that fits memory on the clock, close to those of `near`.

    Tried are `near` and few moves from it, an assignment whose weights fit, devices filled one
    after another; then annealing from what misses by least, and every plan where those are few:
    complete up to about eight nodes.

    Raises UnsupportedNode where a node runs nowhere, and OutOfMemory: with ``proven`` in its text
    where there is no plan; otherwise with what the closest lacks.
    """
    footprint = Footprint.of(problem)
    try:
        guide = weights_that_fit(problem, footprint, problem.runnable)
    except OutOfMemory as error:
        if not near:
            raise
        # By how much, and where, the plan at hand tells.
        least = min((excess(plan) for plan in near), key=lambda over: over.total)
        raise refusal(problem, least, error.what) from None
    tried: list[Candidate] = []
    fitting: list[Candidate] = []
    for layouts in _candidates(footprint, near, guide):
        for groups in layouts:
            try:
                over = excess(Plan(problem, "memory", groups))
            except Infeasible:
                continue
            (tried if over.total else fitting).append((over, groups))
        if fitting and near:
            break
    if fitting:
        quickest = min(fitting, key=lambda candidate: candidate[0].latency_s)
        return Plan(problem, "memory", quickest[1], "nodes moved until it fits")
    tried.sort(key=lambda candidate: candidate[0].total)
    few = search_all(problem)
    if few.groups is None and few.complete:
        text = "no plan fits: no combination of groups, orders and devices does (proven)"
        if tried:
            raise refusal(problem, tried[0][0], text)
        raise OutOfMemory(text, where=problem.name, hint="add memory or a device")
    for seed, (_, groups) in enumerate(tried[:SQUEEZED]):
        moved, over = squeezed(problem, groups, seed)
        if over.total == 0:
            return Plan(problem, "memory", moved, "nodes moved until it fits")
        tried.append((over, moved))
    if few.groups is not None:
        return Plan(problem, "memory", few.groups, "the first of all plans that fits")
    if not tried:
        raise OutOfMemory(
            "no assignment was found whose weights fit; not proven that none exists",
            where=problem.name,
            hint="add memory or a device",
        )
    closest = min(tried, key=lambda candidate: candidate[0].total)
    raise refusal(
        problem, closest[0], f"none of {len(tried)} plans fits; not proven that none exists"
    )


def fitted(plan: Plan, problem: Problem | None = None) -> Plan:
    """Return `plan` if it fits its devices, otherwise a similar one that does."""
    if plan.sizes:
        # Whoever deals out requests to replicas has weighed what fits.
        check_room(plan)
        return plan
    if not memory_binds(plan.problem) or excess(plan).total == 0:
        return plan
    found = plan_that_fits(problem or plan.problem, (plan,))
    moved = sum(a != b for a, b in zip(plan.assignment, found.assignment, strict=True))
    nodes = f"{moved} node{'s' if moved != 1 else ''} moved" if moved else "cut again"
    reason = f"{plan.reason}; it exceeded memory: {nodes} nodes moved"
    return replace(plan, groups=found.groups, reason=reason.removeprefix("; "))


def _candidates(
    footprint: Footprint, near: Sequence[Plan], guide: list[int] | None
) -> Iterator[Iterator[tuple[Group, ...]]]:
    """Give layouts, by assignment."""
    problem = footprint.problem
    own: list[list[int]] = []
    for plan in near:
        if problem.runnable[np.arange(problem.n), list(plan.assignment)].all():
            moved = (relieved(footprint, plan.assignment), spilled(footprint, plan.assignment))
            own += [list(plan.assignment), *(found for found in moved if found is not None)]
    assignments: list[list[int]] = []
    if guide is not None:
        assignments.append(guide)
    assignments += _filled(footprint)
    few = problem.n <= MOST_LAID_OUT
    orders = orders_by_rule(problem.dag) if few else [list(range(problem.n))]
    yield chain(
        (plan.groups for plan in near), *(_layouts(problem, found, orders) for found in own)
    )
    for at, assignment in enumerate(assignments):
        if assignment not in assignments[:at]:
            yield _layouts(problem, assignment, orders)


def _layouts(
    problem: Problem, assignment: list[int], orders: Sequence[Sequence[int]]
) -> Iterator[tuple[Group, ...]]:
    seen: dict[tuple[Group, ...], None] = {}
    for order in orders:
        try:
            for _, groups in groupings(problem, assignment, order):
                if groups not in seen:
                    seen[groups] = None
                    yield groups
        except Infeasible:
            # It splits a composite that a device takes whole only.
            return


def _filled(footprint: Footprint) -> Iterator[list[int]]:
    """Devices one after another, each with what fits of the nodes from the front of the order."""
    problem = footprint.problem
    count, supported = len(problem.devices), problem.supported
    quickest = np.where(supported, problem.shared_seconds, 0.0).sum(axis=0)
    alone, taken = supported.sum(axis=1), supported.sum(axis=0)
    ranks = sorted(range(count), key=lambda p: (-int(taken[p]), float(quickest[p]), p))
    for first in range(min(count, 4)):
        order = ranks[first:] + ranks[:first]
        filling, at = Filling(footprint), 0
        for v in sorted(range(problem.n), key=lambda v: alone[v] > 1):
            turn = order[at:] + order[:at]
            chosen = next((p for p in turn if supported[v, p] and filling.holds(v, p)), -1)
            if chosen < 0:
                break
            if supported[v, order[at]] and alone[v] > 1:
                at = order.index(chosen)
            filling.put(v, chosen)
        else:
            yield filling.device
