"""Plans that fit memory where constructive methods find none, or a proof that none exists."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, combinations

import numpy as np

from hetsim.core import deadline
from hetsim.errors import Infeasible, OutOfMemory
from hetsim.graph.dag import orders_by_rule
from hetsim.placement.footprint import Filling, Footprint, refusal, weights_that_fit
from hetsim.placement.grouping import groupings, merge_where_it_pays
from hetsim.placement.objective import check_room, memory_binds
from hetsim.placement.search.drafts import (
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
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.runs import SingleRun, once

MOST_NODES = 10
"""Maximum number of nodes for which all plans are enumerated."""
SEARCH_PLAYS = 8_000
STEPS = 50_000
"""Maximum number of simulated plans and prefixes of plans before the enumeration stops."""


@dataclass(frozen=True, slots=True)
class FeasibilityResult:
    """Result of an exhaustive search."""

    groups: tuple[Group, ...] | None  # Plan that fits
    complete: bool  # Whether all was searched: without groups, a proof that there is no plan


def search_all(problem: Problem) -> FeasibilityResult:
    """Enumerate all plans of `problem`, if it has few nodes."""
    if problem.n > MOST_NODES:
        return FeasibilityResult(None, complete=False)
    plays, steps = SEARCH_PLAYS, STEPS
    for groups, whole in _begun(Footprint.of(problem), (), tuple(range(problem.n))):
        plays, steps = plays - whole, steps - 1
        if plays < 0 or steps < 0 or deadline.left_s() <= 0.0:
            return FeasibilityResult(None, complete=False)
        if whole:
            with suppress(Infeasible):
                if once(Plan(problem, "memory", groups)).lacking == 0:
                    return FeasibilityResult(groups, complete=True)
    return FeasibilityResult(None, complete=True)


def _begun(
    footprint: Footprint, made: tuple[Group, ...], left: tuple[int, ...]
) -> Iterator[tuple[tuple[Group, ...], bool]]:
    """Yield every extension of `made` by further subgraphs, and whether it is a complete plan."""
    problem = footprint.problem
    for size in range(len(left), 0, -1):
        for nodes in combinations(left, size):
            rest = tuple(v for v in left if v not in nodes)
            if any(u in rest for v in nodes for u in problem.dag.preds[v]):
                continue
            for p, name in enumerate(problem.devices):
                longer = (*made, Group(name, nodes))
                there = {v for group in longer if group.device == name for v in group.nodes}
                if footprint.holds(there, p) and math.isfinite(problem.group_seconds(p, nodes)):
                    yield longer, not rest
                    yield from _begun(footprint, longer, rest)


PLAYS = 1_500
"""Maximum number of plans to simulate."""
WORK = 60_000
"""Maximum number of nodes to simulate, over all plans."""
HOT = 0.02
"""Increase that is accepted with probability 1/e at first, relative to the problem's bytes."""


def relieved(footprint: Footprint, assignment: Sequence[int]) -> list[int] | None:
    """Return a similar assignment whose weights fit; None if single moves do not reach one."""
    problem = footprint.problem
    seconds = problem.shared_seconds.tolist()
    filling = Filling(footprint, assignment)
    for p in range(len(problem.devices)):
        while filling.needed[p] > filling.left[p]:
            best: tuple[float, int, int] | None = None
            for v in filling.on(p):
                freed = filling.freed(v) + footprint.beside[v][p]
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
    """Return an assignment in which full devices hand on their last nodes; None if that fails."""
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
) -> tuple[tuple[Group, ...], SingleRun]:
    """Minimize by annealing the bytes by which a plan exceeds memory, simulating each move."""
    rng = random.Random(seed)
    asked = asked_of(problem, grouped=True, binds=False)
    best = tuple(groups)
    least = once(Plan(problem, "memory", best))
    search = search_of(asked, len(problem.link_names), draft_of(problem, groups), None)

    @cache  # With few nodes the same plans recur.
    def over(groups: tuple[Group, ...]) -> SingleRun | None:
        with suppress(Infeasible):
            return once(Plan(problem, "memory", groups))
        return None

    now = over(groups_of(problem, asked, search))
    if now is None:
        # A composite that cannot be recognised from its nodes: keep the plan.
        return best, least
    weights = sum(constant.nbytes for constant in problem.constants)
    scale = HOT * (weights + sum(value.nbytes for value in problem.values))
    plays = min(PLAYS, max(WORK // max(problem.n, 1), 10))
    for played in range(plays):
        if now.lacking < least.lacking:
            best, least = groups_of(problem, asked, search), now
        if least.lacking == 0:
            break
        refill(search, rng)
        if not propose(asked, search):
            continue
        found = over(groups_of(problem, asked, search))
        heat = scale * (1.0 - played / plays) + 1e-9
        if found is not None and (
            found.lacking <= now.lacking
            or draw_share(search) < math.exp((now.lacking - found.lacking) / heat)
        ):
            now = found
        else:
            undo(asked, search)
    if now.lacking < least.lacking:
        best, least = groups_of(problem, asked, search), now
    return best, least


BEST = 3
"""Number of plans to anneal, least excess first, or to merge, fastest first."""
MOST_LAID_OUT = 20_000
"""Number of nodes above which only some groupings of an assignment are tried."""


def plan_that_fits(problem: Problem, near: Sequence[Plan] = ()) -> Plan:
    """Return a plan of `problem` that fits memory in simulation, close to the plans in `near`.

    Tries `near` and small changes of it, an assignment whose weights fit, and devices filled in
    turn; then annealing from the least excess, and all plans if they are few: complete up to about
    eight nodes. The BEST fastest plans that fit are merged where that pays.

    Raises UnsupportedNode if a node runs nowhere, and OutOfMemory: with ``proven`` in its text if
    no plan exists, otherwise with the excess of the closest plan.
    """
    footprint = Footprint.of(problem)
    try:
        guide = weights_that_fit(problem, footprint, problem.runnable)
    except OutOfMemory as error:
        if not near:
            raise
        # The current plan's simulation reports the excess and its device.
        least = min((once(plan) for plan in near), key=lambda over: over.lacking)
        raise refusal(problem, least, error.what) from None
    tried: list[tuple[SingleRun, tuple[Group, ...]]] = []
    fitting: list[tuple[SingleRun, tuple[Group, ...]]] = []
    for layouts in _candidates(footprint, near, guide):
        for groups in layouts:
            try:
                over = once(Plan(problem, "memory", groups))
            except Infeasible:
                continue
            (tried if over.lacking else fitting).append((over, groups))
        if fitting and near:
            break
    tried.sort(key=lambda candidate: candidate[0].lacking)
    few = search_all(problem) if not fitting else FeasibilityResult(None, complete=False)
    if few.groups is None and few.complete:
        text = "no plan fits: no combination of groups, orders and devices does (proven)"
        if tried:
            raise refusal(problem, tried[0][0], text)
        raise OutOfMemory(text, where=problem.name, hint="add memory or a device")
    for seed, (_, groups) in enumerate(tried[: 0 if fitting else BEST]):
        moved, over = squeezed(problem, groups, seed)
        if over.lacking == 0:
            fitting.append((over, moved))
            break
        tried.append((over, moved))
    if not fitting and few.groups is not None:
        fitting.append((once(Plan(problem, "memory", few.groups)), few.groups))
    if fitting:
        # Subgraphs that were cut small to fit may be merged again.
        fitting.sort(key=lambda candidate: candidate[0].latency_s)
        made = [merge_where_it_pays(problem, groups, thorough=True) for _, groups in fitting[:BEST]]
        plans = [Plan(problem, "memory", groups, "nodes moved until it fits") for groups in made]
        return min(plans, key=lambda plan: once(plan).latency_s)
    if not tried:
        raise OutOfMemory(
            "no assignment was found whose weights fit; not proven that none exists",
            where=problem.name,
            hint="add memory or a device",
        )
    closest = min(tried, key=lambda candidate: candidate[0].lacking)
    raise refusal(
        problem, closest[0], f"none of {len(tried)} plans fits; not proven that none exists"
    )


def fitted(plan: Plan, problem: Problem | None = None) -> Plan:
    """Return `plan` if it fits its devices, otherwise a similar one that does."""
    if plan.sizes:
        # A strategy that distributes requests to replicas has already checked what fits.
        check_room(plan)
        return plan
    if not memory_binds(plan.problem) or once(plan).lacking == 0:
        return plan
    found = plan_that_fits(problem or plan.problem, (plan,))
    moved = sum(a != b for a, b in zip(plan.assignment, found.assignment, strict=True))
    nodes = f"{moved} node{'s' if moved != 1 else ''} moved" if moved else "cut again"
    reason = f"{plan.reason}; it exceeded memory: {nodes}"
    return replace(plan, groups=found.groups, reason=reason.removeprefix("; "))


def _candidates(
    footprint: Footprint, near: Sequence[Plan], guide: list[int] | None
) -> Iterator[Iterator[tuple[Group, ...]]]:
    """Yield layouts of the groups, one iterator per assignment."""
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
            # The layout splits a composite that a device supports only as a whole.
            return


def _filled(footprint: Footprint) -> Iterator[list[int]]:
    """Yield assignments that fill one device after another with the next nodes that fit."""
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
