"""Every plan of a small problem, until one fits: proof where none does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hetsim.core import deadline
from hetsim.errors import Infeasible
from hetsim.placement.fitting.footprint import Footprint, excess
from hetsim.problem.groups import Group
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem

MOST_NODES = 14
"""Nodes above which not even the sets of them are listed."""
PLAYS = 8_000
STEPS = 300_000
"""Plans played and sets of nodes looked at, after which the search gives up."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a search came to.

    Attributes
    ----------
    groups : tuple of Group or None
        A plan that fits.
    complete : bool
        Whether nothing was left out: without groups, the proof that there is no plan.
    """

    groups: tuple[Group, ...] | None
    complete: bool


def search_all(problem: Problem, plays: int = PLAYS, steps: int = STEPS) -> Found:
    """Look at every plan of `problem`, as long as that is few.

    Assignments are followed node by node as long as weights and what a node needs beside them
    fit; the subgraphs of each are then laid out one by one, in every order that devices can tell
    apart, as long as what a subgraph holds fits beside what must stay; what is left the clock
    judges. Exponential; up to about eight nodes it ends before its budget. A deadline ends it, too.
    """
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
        for v in range(self.problem.n):
            if left >> v & 1:
                there[self.device[v]] |= 1 << v
        for p in range(count):
            # The nodes of the device that could be within its next subgraph.
            able = 0
            for v in range(self.problem.n):
                if there[p] >> v & 1 and not self.before[v] & ~(placed | able):
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

    def _closed(self, chosen: int, placed: int) -> bool:
        known = placed | chosen
        return not any(self.before[v] & ~known for v in range(self.problem.n) if chosen >> v & 1)

    def _may_follow(self, groups: list[tuple[int, int]], chosen: int, p: int) -> bool:
        """Whether the order is the first of those that differ by swapping what is independent."""
        if not groups or not self.commute or groups[-1][1] <= p:
            return True
        last = groups[-1][0]
        return any(self.before[v] & last for v in range(self.problem.n) if chosen >> v & 1)

    def _fits(self, chosen: int, p: int, room: int) -> bool:
        """Whether the device takes the set whole and has room for what it holds while it runs."""
        key = (chosen, p)
        if key not in self.takes:
            nodes = [v for v in range(self.problem.n) if chosen >> v & 1]
            self.takes[key] = self.problem.group_seconds(p, nodes)
        seconds = self.takes[key]
        if seconds == float("inf"):
            return False
        return seconds == 0 or self._needs(chosen) <= room

    def _needs(self, chosen: int) -> int:
        """Bytes that a subgraph holds from start to end: what enters, what leaves, its peak."""
        known = self.needs.get(chosen)
        if known is not None:
            return known
        nodes = [v for v in range(self.problem.n) if chosen >> v & 1]
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
        total = 0
        for index, value in enumerate(self.problem.values):
            if not stays >> index & 1 or any(chosen >> v & 1 for v in value.consumers):
                continue
            total += value.nbytes
        return total

    def _judged(self, groups: list[tuple[int, int]]) -> tuple[Group, ...] | None:
        if not self.plays:
            raise _OutOfBudgetError
        self.plays -= 1
        devices = self.problem.devices
        made = tuple(
            Group(devices[p], tuple(v for v in range(self.problem.n) if chosen >> v & 1))
            for chosen, p in groups
        )
        try:
            over = excess(Plan(self.problem, "memory", made))
        except Infeasible:
            return None
        return made if over.total == 0 else None

    def _step(self) -> None:
        self.steps -= 1
        if self.steps < 0 or deadline.left_s() <= 0.0:
            raise _OutOfBudgetError
