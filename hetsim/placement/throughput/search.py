"""What the strategies for throughput share: cuts of orders, moves, memory, and what is proven."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import combinations
from random import Random

import numpy as np

from hetsim.core import deadline
from hetsim.errors import Infeasible, OutOfMemory
from hetsim.partitioning.flow import partition
from hetsim.placement.bounds.lower_bound import bound_of
from hetsim.placement.constraints import check_runnable, with_less
from hetsim.placement.grouping import plan_of_stages
from hetsim.placement.listing.ranks import orders_by_rule
from hetsim.placement.objective import measure
from hetsim.placement.throughput.assignments import EQUAL, best_assignment
from hetsim.placement.throughput.costs import Contracted, Costs, contract, costs_of
from hetsim.placement.throughput.slices import Orders, Slices, States, changed, cut
from hetsim.placement.throughput.stage_moves import Layout, StageMoves
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem

ATTEMPTS = 8
"""Searches made anew where activations do not fit."""

MOST_SWAPPED = 10
"""Devices from which stages are not tried on each other's."""

STARTS = 2
"""Plans that moves begin with."""

FIRST_CHUNK = 200
"""Moves before the first look at a deadline."""

SEARCHED_WHOLE, WHOLE_STEPS = 32, 300_000
"""Nodes up to which all assignments are searched, and the steps that this may take."""

LEAST = "least bottleneck of"
"""How a reason begins that claims a proof."""

Moves = Callable[[int], int]

Stages = list[tuple[list[int], int]]
"""Nodes and device of each stage, in execution order."""


def views(problem: Problem) -> list[Contracted]:
    """Return the costs by which orders are cut: the bound, and the guide where it differs."""
    found = [contract(costs_of(problem))]
    guided = problem.staging is None and problem.contention == "fifo" and len(problem.devices) > 2
    if guided and deadline.left_s() > 0.0:
        found.append(contract(costs_of(problem, summed=True)))
    return found


def cut_stages(costs: Costs, count: int, seed: int) -> Stages | None:
    """Return the best stages of `count` orders by `costs`; None where nothing was feasible."""
    states = States.of(costs.kinds)
    orders = Orders(costs)
    best: Slices | None = None
    best_order: list[int] = []
    keys: list[float] = []
    by_rule = iter(orders_by_rule(orders.dag))
    random = Random(seed)
    for _ in range(count):
        parts = next(by_rule, None)
        if parts is not None:
            trial = [0.0] * len(parts)
            for place, part in enumerate(parts):
                trial[part] = place / max(1, len(parts))
        else:
            trial = changed(keys, random)
            parts = orders.by_keys(trial)
        order = orders.spread(parts)
        ceiling = float("inf") if best is None else best.bottleneck_s
        try:
            found = cut(costs, order, states, ceiling)
        except deadline.OutOfTime:
            break
        if not keys or (
            found is not None and (best is None or found.bottleneck_s <= best.bottleneck_s)
        ):
            best, best_order, keys = found, order, trial
    if best is None:
        return None
    left = [list(devices) for devices in costs.kinds]
    return [
        (sorted(best_order[start:end]), left[kind].pop(0)) for start, end, kind in best.segments
    ]


def layouts(moves: StageMoves, known: Sequence[Contracted], count: int, seed: int) -> list[Layout]:
    """Return the stages cut from `count` orders, by each of the costs, as the clock counts them."""
    found: list[Layout] = []
    for contracted in known:
        if deadline.left_s() <= 0.0:
            break
        stages = cut_stages(contracted.costs, count, seed)
        if stages is not None:
            found.append(swapped(moves, moves.layout(assigned(contracted, stages))))
    return found


def assigned(contracted: Contracted, stages: Stages) -> list[int]:
    """Return the device of every original node."""
    device = [0] * sum(len(members) for members in contracted.members)
    for nodes, p in stages:
        for v in contracted.spread(nodes):
            device[v] = p
    return device


def swapped(moves: StageMoves, layout: Layout) -> Layout:
    """Return the layout with whole stages on each other's devices, as long as that gains."""
    count = len(moves.problem.devices)
    gained = count <= MOST_SWAPPED and layout.load_s > 0.0
    while gained:
        gained = False
        for a, b in combinations(range(count), 2):
            if deadline.left_s() <= 0.0:
                return layout
            swap = {a: b, b: a}
            trial = moves.layout([swap.get(p, p) for p in layout.assignment])
            if trial.load_s < layout.load_s * (1.0 - EQUAL):
                layout, gained = trial, True
    return layout


def as_plan(moves: StageMoves, name: str, layout: Layout, reason: str) -> Plan:
    """Return the layout as a plan: one subgraph a stage, or as few as an assignment needs."""
    problem = moves.problem
    if moves.apart:
        groups = partition(problem, "compact", assignment=layout.assignment).groups
        return Plan(problem, name, groups, reason)
    stages: list[list[int]] = [[] for _ in layout.device]
    for node, stage in enumerate(layout.stage):
        stages[stage].append(node)
    filled = [(nodes, layout.device[stage]) for stage, nodes in enumerate(stages) if nodes]
    return plan_of_stages(problem, name, filled, reason)


def within_memory(problem: Problem, solve: Callable[[Problem], Plan]) -> tuple[Plan, float]:
    """Return the plan that `solve` finds, made again where live activations do not fit; its cost.

    The device that has too little has so much less in the next attempt. Where none fits, the first
    plan is returned at infinite cost. What `solve` claims is kept for its own problem alone.
    """
    first = made = solve(problem)
    left = problem
    for attempt in range(ATTEMPTS + 1):
        plan = Plan(problem, made.strategy, made.groups, made.reason)
        try:
            cost = measure(plan, "throughput")
        except OutOfMemory as error:
            if error.device is None or attempt == ATTEMPTS:
                break
            try:
                deadline.check()
                left = with_less(left, left.device_index(error.device), error.over_bytes << attempt)
                made = solve(left)
            except Infeasible:
                break
            continue
        return plan if attempt == 0 else _unclaimed(plan), cost
    unmended = Plan(problem, first.strategy, first.groups, first.reason)
    return _unclaimed(unmended), math.inf


def _unclaimed(plan: Plan) -> Plan:
    if not plan.reason.startswith(LEAST):
        return plan
    return replace(plan, reason="not proven least: live activations do not fit what would be")


def search_stages(
    problem: Problem,
    known: Sequence[Plan],
    orders: int,
    moves: Moves,
    seed: int,
    *,
    by_device: bool = False,
) -> Plan:
    """Return the plan that moves of nodes between any stages find.

    They begin with the best of the plans `known`, of the stages cut from `orders` orders, and of a
    small problem of all assignments. `moves` gives, from the moves tried, how many to try next; 0
    ends the search. Raises Infeasible where nothing was met that is supported and fits.
    """
    check_runnable(problem)
    search = StageMoves(problem, contiguous=False, by_device=by_device)
    deadline.check()
    found = [layout for plan in known if (layout := search.of_plan(plan)) is not None]
    with suppress(deadline.OutOfTime):
        deadline.check()
        found += layouts(search, views(problem), orders, seed)
    found = found or [first_supported(search)]
    if problem.n <= SEARCHED_WHOLE and deadline.may_compile():
        least = min((layout.load_s for layout in found), default=float("inf"))
        whole = best_assignment(
            problem, least, WHOLE_STEPS, contiguous=False, network=search.network
        )
        if whole.assignment is not None:
            groups = partition(problem, "compact", assignment=whole.assignment).groups
            layout = search.of_plan(Plan(problem, "any", groups))
            found += [layout] if layout is not None else []
    best = sorted(found, key=lambda layout: layout.load_s)[:STARTS]
    tried = turn = 0
    chunk = FIRST_CHUNK
    while (count := moves(tried)) > 0 and deadline.left_s() > 0.0:
        at, began_s = turn % len(best), deadline.now_s()
        count = min(count, chunk) if deadline.is_set() else count
        best[at] = search.improved(best[at], count, seed + turn)
        tried, turn = tried + count, turn + 1
        if deadline.is_set():
            # No more moves than take a tenth of what is left.
            more = deadline.left_s() / 10 / max(deadline.now_s() - began_s, 1e-6)
            chunk = max(1, int(count * min(4.0, more)))
    chosen = min(best, key=lambda layout: layout.load_s)
    if chosen.load_s == float("inf"):
        raise nothing_met(problem)
    return as_plan(search, "local-search", chosen, "")


def first_supported(moves: StageMoves) -> Layout:
    """Return every node on the first device that runs it, which moves may make feasible."""
    return moves.layout([int(row.argmax()) for row in moves.problem.runnable])


def nothing_met(problem: Problem) -> Infeasible:
    """Say that a search met no feasible stages."""
    return Infeasible(
        "no stages were met that are supported and fit the memory",
        where=problem.name,
        hint="try more orders and moves, or allow more devices",
    )


def bound_of_one_copy(problem: Problem) -> float:
    """Return seconds a request that no plan goes below which runs a node on one device."""
    if problem.n == 0 or problem.unpriced:
        return 0.0
    shares = np.where(problem.runnable, problem.shared_seconds, np.inf)
    longest = float((shares / np.array(problem.streams)).min(axis=1).max())
    return max(bound_of(problem, "throughput"), longest * (1.0 - EQUAL))


def claim(problem: Problem, load_s: float, contiguous_s: float, any_s: float) -> str:
    """Say what is proven of a plan by lower bounds on contiguous stages and on any plan."""
    if problem.unpriced:
        # Whoever plans says of how many nodes.
        return "not proven least"
    if load_s <= any_s * (1.0 + 2.0 * EQUAL):
        return f"{LEAST} all plans that run a node on one device"
    if load_s <= contiguous_s * (1.0 + EQUAL):
        return f"{LEAST} all contiguous stages"
    bound = max(contiguous_s, any_s)
    if bound <= 0.0:
        return "not proven least"
    whom = "contiguous stages" if contiguous_s > any_s else "any plan"
    return f"not proven least: at most {load_s / bound - 1.0:.2%} above {whom}"
