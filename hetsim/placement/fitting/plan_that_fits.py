"""A plan that fits the memory, where the constructive ways find none; or the proof of none."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from hetsim.errors import Infeasible, OutOfMemory
from hetsim.placement.fitting.exhaustive import search_all
from hetsim.placement.fitting.footprint import Excess, Footprint, excess, refusal
from hetsim.placement.fitting.weights import weights_that_fit
from hetsim.placement.grouping.best import groupings
from hetsim.placement.loads.orders import depth_first
from hetsim.placement.objective import check_room, memory_binds
from hetsim.placement.search.drafts import Asked, Search, asked_of, draft_of, refill, search_of
from hetsim.placement.search.estimates import groups_of
from hetsim.placement.search.moves import draw_share, propose, undo
from hetsim.problem.groups import Group
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem

PLAYS = 1_500
"""Plans that the clock plays at most."""
WORK = 60_000
"""Nodes that it plays at most, over all of them."""
HOT = 0.02
"""Worsening that is accepted with probability 1/e at first, over all bytes of the problem."""


def relieved(footprint: Footprint, assignment: Sequence[int]) -> list[int] | None:
    """Return an assignment near to one given whose weights fit; None where moves one by one fail.

    While a device has too much, the node that costs least a byte that it frees goes to a device
    with room. O(n P) a move.
    """
    problem, capacity = footprint.problem, footprint.capacity
    devices = list(assignment)
    count = len(problem.devices)
    readers = [[0] * len(problem.constants) for _ in range(count)]
    held = [0] * count
    for v, p in enumerate(devices):
        for c in problem.constants_of[v]:
            held[p] += 0 if readers[p][c] else problem.constants[c].nbytes
            readers[p][c] += 1
    needed = list(footprint.always)
    for v, p in enumerate(devices):
        needed[p] = max(needed[p], footprint.beside[v][p])
    seconds = problem.shared_seconds.tolist()
    for p in range(count):
        here = [v for v in range(problem.n) if devices[v] == p]
        while held[p] + needed[p] > capacity[p]:
            best: tuple[float, int, int] | None = None
            for v in here:
                freed = sum(
                    problem.constants[c].nbytes
                    for c in problem.constants_of[v]
                    if readers[p][c] == 1
                )
                freed += max(0, footprint.beside[v][p] - footprint.always[p])
                for q in range(count):
                    if q == p or not problem.supported[v, q] or not freed:
                        continue
                    fresh = sum(
                        problem.constants[c].nbytes
                        for c in problem.constants_of[v]
                        if not readers[q][c]
                    )
                    if held[q] + fresh + max(needed[q], footprint.beside[v][q]) <= capacity[q]:
                        loss = (seconds[v][q] - min(seconds[v][p], seconds[v][q])) / freed
                        key = (loss, v, q)
                        best = key if best is None else min(best, key)
            if best is None:
                return None
            _, v, q = best
            devices[v] = q
            here.remove(v)
            for c in problem.constants_of[v]:
                nbytes = problem.constants[c].nbytes
                readers[p][c] -= 1
                held[p] -= 0 if readers[p][c] else nbytes
                held[q] += 0 if readers[q][c] else nbytes
                readers[q][c] += 1
            needed[q] = max(needed[q], footprint.beside[v][q])
            needed[p] = max((footprint.beside[u][p] for u in here), default=0)
            needed[p] = max(needed[p], footprint.always[p])
    return devices


def spilled(footprint: Footprint, assignment: Sequence[int]) -> list[int] | None:
    """Return an assignment in which full devices give up the last of their nodes; None if stuck.

    What a device has no room for goes, run by run, to the quickest other with room, so that few
    tensors cross. O(n P).
    """
    problem, capacity = footprint.problem, footprint.capacity
    seconds = problem.shared_seconds.tolist()
    count = len(problem.devices)
    there: list[set[int]] = [set() for _ in range(count)]
    held, needed = [0] * count, list(footprint.always)
    devices = [-1] * problem.n

    def holds(v: int, p: int) -> bool:
        fresh = sum(
            problem.constants[c].nbytes for c in problem.constants_of[v] if c not in there[p]
        )
        return held[p] + fresh + max(needed[p], footprint.beside[v][p]) <= capacity[p]

    def put(v: int, p: int) -> None:
        held[p] += sum(problem.constants[c].nbytes for c in set(problem.constants_of[v]) - there[p])
        there[p].update(problem.constants_of[v])
        needed[p] = max(needed[p], footprint.beside[v][p])
        devices[v] = p

    full = [False] * count
    left: list[int] = []
    for v, p in enumerate(assignment):
        full[p] = full[p] or not holds(v, p)
        if full[p]:
            left.append(v)
        else:
            put(v, p)
    last = -1
    for v in left:
        able = [p for p in range(count) if problem.supported[v, p] and holds(v, p)]
        if not able:
            return None
        if last not in able:
            last = min(able, key=lambda p: (seconds[v][p], p))
        put(v, last)
    return devices


def squeezed(
    problem: Problem, groups: Sequence[Group], seed: int = 0
) -> tuple[tuple[Group, ...], Excess]:
    """Anneal the bytes by which a plan misses the memory, each move played by the clock.

    Parameters
    ----------
    problem : Problem
        With memory capacities.
    groups : sequence of Group
        An executable plan.
    seed : int

    Returns
    -------
    The groups with the least excess met, and the excess; it ends where nothing is over. At most
    PLAYS plays of O(V + E), fewer where they would be of more than WORK nodes.
    """
    rng = random.Random(seed)
    asked = asked_of(problem, grouped=True, binds=False)
    best = tuple(groups)
    least = excess(Plan(problem, "memory", best))
    search = search_of(asked, len(problem.link_names), draft_of(problem, groups), None)
    now = _excess(problem, asked, search)
    if now is None:
        # A composite that cannot be told from its nodes: the plan stays as it is.
        return best, least
    scale = HOT * _all_bytes(problem)
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


def _all_bytes(problem: Problem) -> int:
    weights = sum(constant.nbytes for constant in problem.constants)
    return weights + sum(value.nbytes for value in problem.values)


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
