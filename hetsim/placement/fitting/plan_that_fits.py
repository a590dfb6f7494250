"""A plan that fits the memory, where the constructive ways find none; or the proof of none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from hetsim.errors import Infeasible, OutOfMemory
from hetsim.partitioning.groups import Group
from hetsim.placement.fitting.exhaustive import search_all
from hetsim.placement.fitting.footprint import Excess, Footprint, excess, refusal
from hetsim.placement.fitting.moves import relieved, spilled, squeezed
from hetsim.placement.fitting.weights import weights_that_fit
from hetsim.placement.grouping.best import groupings
from hetsim.placement.loads.orders import depth_first
from hetsim.placement.objective import check_room, memory_binds
from hetsim.plans.plan import Plan
from hetsim.problem.problem import Problem

Candidate = tuple[Excess, tuple[Group, ...]]

SQUEEZED = 3
"""Plans, those that miss by least first, that are squeezed."""
MOST_LAID_OUT = 20_000
"""Nodes above which assignments are not laid out in every way."""


def plan_that_fits(problem: Problem, near: Sequence[Plan] = ()) -> Plan:
    """Return a plan of `problem` that the clock accepts, close to those of `near` where it can be.

    1. Bounds: an assignment for which weights, and what each node reads and makes, fit
       (``weights``); where there is none, that is proven.
    2. `near` as it is, with its least dear nodes moved off full devices, and with the last of
       their nodes moved, each grouped in several ways, over several orders: the quickest that
       fits. Then the same of that assignment, and of devices filled one after another.
    3. Moves from what misses by least (``moves``).
    4. Every plan there is, where those are few (``exhaustive``): complete, so that no problem up to
       about eight nodes is refused that has a plan.

    Memory is what one request holds, by ``clock.memory``; of several in flight ``simulate``
    tells.

    Raises
    ------
    UnsupportedNode
        Where a node runs nowhere.
    OutOfMemory
        With ``proven`` in its text where there is no plan; otherwise with what the closest lacks.
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
        return _made(problem, quickest[1], "nodes moved until all fits")
    tried.sort(key=lambda candidate: candidate[0].total)
    few = search_all(problem)
    if few.groups is None and few.complete:
        text = "no plan fits: of all groupings, orders and devices none does (proven)"
        if tried:
            raise refusal(problem, tried[0][0], text)
        raise OutOfMemory(text, where=problem.name, hint="add memory or a device")
    for seed, (_, groups) in enumerate(tried[:SQUEEZED]):
        moved, over = squeezed(problem, groups, seed)
        if over.total == 0:
            return _made(problem, moved, "nodes moved until all fits")
        tried.append((over, moved))
    if few.groups is not None:
        return _made(problem, few.groups, "the first that fits of all plans")
    if not tried:
        raise OutOfMemory(
            "no assignment was found whose weights fit; that there is none is not proven",
            where=problem.name,
            hint="add memory or a device",
        )
    closest = min(tried, key=lambda candidate: candidate[0].total)
    raise refusal(
        problem, closest[0], f"none of {len(tried)} plans fits; that there is none is not proven"
    )


def fitted(plan: Plan, problem: Problem | None = None) -> Plan:
    """Return `plan` where it fits its devices, otherwise one near to it that does.

    Parameters
    ----------
    plan : Plan
    problem : Problem, optional
        Where its nodes may go; absent: anywhere that the plan's problem says.

    Raises
    ------
    OutOfMemory
        Where none was found.
    """
    if plan.sizes:
        # Whoever deals out requests to replicas has weighed what fits.
        check_room(plan)
        return plan
    if not memory_binds(plan.problem) or excess(plan).total == 0:
        return plan
    found = plan_that_fits(problem or plan.problem, (plan,))
    moved = sum(a != b for a, b in zip(plan.assignment, found.assignment, strict=True))
    nodes = f"{moved} node{'s' if moved != 1 else ''} moved" if moved else "cut anew"
    reason = f"{plan.reason}; it did not fit the memory: {nodes} until it did"
    return replace(plan, groups=found.groups, reason=reason.removeprefix("; "))


def _made(problem: Problem, groups: tuple[Group, ...], reason: str) -> Plan:
    return Plan(problem, "memory", groups, reason)


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
    orders = [list(range(problem.n))]
    if problem.n <= MOST_LAID_OUT:
        dag = problem.dag
        orders += [depth_first(dag.preds, dag.succs), depth_first(dag.succs, dag.preds)[::-1]]
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
    problem, capacity = footprint.problem, footprint.capacity
    count = len(problem.devices)
    seconds = np.where(problem.supported, problem.shared_seconds, np.inf)
    quickest = np.where(np.isfinite(seconds), seconds, 0.0).sum(axis=0)
    alone = problem.supported.sum(axis=1)
    taken = problem.supported.sum(axis=0)
    ranks = sorted(range(count), key=lambda p: (-int(taken[p]), float(quickest[p]), p))
    for first in range(min(count, 4)):
        order = ranks[first:] + ranks[:first]
        held, needed = [0] * count, list(footprint.always)
        there: list[set[int]] = [set() for _ in range(count)]
        assignment = [-1] * problem.n
        nodes = sorted(range(problem.n), key=lambda v: alone[v] > 1)
        at = 0
        for v in nodes:
            chosen = -1
            for step in range(count):
                p = order[(at + step) % count]
                fresh = [c for c in problem.constants_of[v] if c not in there[p]]
                nbytes = sum(problem.constants[c].nbytes for c in fresh)
                beside = max(needed[p], footprint.beside[v][p])
                if problem.supported[v, p] and held[p] + nbytes + beside <= capacity[p]:
                    chosen = p
                    break
            if chosen < 0:
                break
            if problem.supported[v, order[at]] and alone[v] > 1:
                at = order.index(chosen)
            held[chosen] += nbytes
            needed[chosen] = beside
            there[chosen].update(fresh)
            assignment[v] = chosen
        if -1 not in assignment:
            yield assignment
