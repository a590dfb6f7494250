"""Shared searches for throughput: assignments, stages, and claims about their optimality."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import numpy as np

from hetsim.core import deadline
from hetsim.core.machine_code import machine_code
from hetsim.errors import Infeasible, OutOfMemory
from hetsim.partitioning.flow import partition
from hetsim.placement.bounds.area import prices
from hetsim.placement.bounds.lower_bound import bound_of
from hetsim.placement.constraints import check_runnable, with_less_until
from hetsim.placement.grouping import plan_of_stages
from hetsim.placement.objective import measure
from hetsim.placement.throughput.costs import Costs, costs_of
from hetsim.placement.throughput.slices import Climb, Slices, States, cut, with_whole_kernels
from hetsim.placement.throughput.stage_moves import MoveArrays, StageLayout, StageMoves, blocked
from hetsim.problem.columns import cached
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem, interchangeable

EQUAL = 1e-9
"""Relative difference within which loads are equal."""


@dataclass(frozen=True, slots=True)
class Searched:
    """Result of an exhaustive search."""

    complete: bool  # Whether it ended within its budget, so that none is better
    assignment: list[int] | None  # The best one below the ceiling; None if there is none
    load_s: float


def best_assignment(
    problem: Problem,
    ceiling_s: float,
    budget: int,
    *,
    contiguous: bool,
    network: MoveArrays | None = None,
) -> Searched:
    """Search for the assignment with the least ``max_load`` below `ceiling_s`."""
    n, count = problem.seconds.shape
    if n == 0:
        return Searched(True, [], 0.0)
    net = network or MoveArrays.of(problem)
    weight = prices(net.shares_s, (1,) * count)
    priced = np.where(np.isfinite(net.shares_s), net.shares_s, 0.0) * weight
    least = np.where(np.isfinite(net.shares_s), priced, np.inf).min(axis=1)
    rest = np.concatenate([np.cumsum(least[::-1])[::-1], [0.0]])
    best = np.full(n, -1, dtype=np.int64)
    ints = partial(np.zeros, dtype=np.int64)
    reached = np.array([ceiling_s * (1.0 - EQUAL)])
    steps = compiled(
        net.compute_s, net.lacks, net.shares_s, net.dispatch_s, net.capacity,
        net.touch_at, net.touch, net.producer, net.leaves, net.nbytes,
        net.hold_at, net.hold, net.constant_bytes,
        net.in_at, net.in_kernel, net.member_at, net.member, net.kernel_device,
        net.host, net.latency_s, net.per_byte_s, net.route_at, net.route, net.links,
        net.staged, net.fetch_s, net.store_s,
        weight, rest, np.array(interchangeable_with(problem), dtype=np.int64), contiguous,
        np.zeros((n + 1, count + net.links)), np.zeros((n + 1, count)), best.copy(),
        ints(n + 1), ints(count), ints((len(net.producer), count)),
        ints((len(net.constant_bytes), count)), ints((count, count)), ints(count),
        budget, reached, best,
    )  # fmt: skip
    found = [int(p) for p in best] if best[0] >= 0 else None
    return Searched(steps >= 0, found, float(reached[0]) if found is not None else np.inf)


def interchangeable_with(problem: Problem) -> list[int]:
    """Return by device an earlier interchangeable device, or -1."""
    count = len(problem.devices)
    change_places = interchangeable(problem, links=problem.contention == "fifo")
    found = [-1] * count
    for q in range(count):
        # Interchangeability is not transitive in general: all earlier ones in the row must match.
        for p in range(q - 1, -1, -1):
            before = [p]
            while found[before[-1]] >= 0:
                before.append(found[before[-1]])
            if all(change_places(r, q) for r in before):
                found[q] = p
                break
    return found


def search(  # type: ignore[no-untyped-def]
    compute_s, lacks, shares_s, dispatch_s, capacity,
    touch_at, touch, producer, leaves, nbytes,
    hold_at, hold, constant_bytes,
    in_at, in_kernel, member_at, member, kernel_device,
    host, latency_s, per_byte_s, route_at, route, links, staged, fetch_s, store_s,
    weight, rest, twin, ordered,
    load, memory, at, choice, count, uses, held, feeds, waits, budget, reached, best,
):  # fmt: skip
    """Lower `reached` and fill `best`; return the steps taken, or -1 if the budget ran out."""
    n, devices = compute_s.shape
    resources = devices + links
    steps = 0
    depth = 0
    while depth >= 0:
        v = depth
        if v < n and at[v] >= 0:
            p = at[v]
            at[v] = -1
            count[p] -= 1
            for k in range(hold_at[v], hold_at[v + 1]):
                held[hold[k], p] -= 1
            for k in range(touch_at[v], touch_at[v + 1]):
                x = touch[k]
                if producer[x] != v:
                    uses[x, p] -= 1
                    if producer[x] >= 0:
                        feeds[at[producer[x]], p] -= 1
        if choice[v] == devices:
            choice[v] = 0
            depth -= 1
            continue
        p = choice[v]
        choice[v] += 1
        if shares_s[v, p] == np.inf or (twin[p] >= 0 and count[twin[p]] == 0):
            continue
        steps += 1
        if steps > budget:
            return -1
        new = depth + 1
        for r in range(resources):
            load[new, r] = load[depth, r]
        for q in range(devices):
            memory[new, q] = memory[depth, q]
        load[new, p] += shares_s[v, p]
        if count[p] == 0:
            load[new, p] += dispatch_s[p]
        at[v] = p
        count[p] += 1
        for k in range(hold_at[v], hold_at[v + 1]):
            if held[hold[k], p] == 0:
                memory[new, p] += constant_bytes[hold[k]]
            held[hold[k], p] += 1
        good = memory[new, p] <= capacity[p]
        for k in range(touch_at[v], touch_at[v + 1]):
            x = touch[k]
            u = producer[x]
            if u == v:
                if leaves[x]:
                    if staged == 2:
                        load[new, p] += store_s[p] * nbytes[x]
                    if p != host:
                        pair = p * devices + host
                        took = latency_s[pair] + nbytes[x] * per_byte_s[pair]
                        for r in range(route_at[pair], route_at[pair + 1]):
                            load[new, devices + route[r]] += took
                continue
            home = host
            if u >= 0:
                home = at[u]
                feeds[home, p] += 1
            if uses[x, p] == 0 and (p != home or u < 0):
                if staged == 2 or (staged == 1 and u >= 0):
                    load[new, p] += fetch_s[p] * nbytes[x]
                    if u >= 0 and not (leaves[x] and staged == 2):
                        first = True
                        for q in range(devices):
                            first = first and (q == home or uses[x, q] == 0)
                        if first:
                            load[new, home] += store_s[home] * nbytes[x]
                if p != home and not (leaves[x] and p == host):
                    pair = home * devices + p
                    took = latency_s[pair] + nbytes[x] * per_byte_s[pair]
                    for r in range(route_at[pair], route_at[pair + 1]):
                        load[new, devices + route[r]] += took
            uses[x, p] += 1
        for k in range(in_at[v], in_at[v + 1]):
            kernel = in_kernel[k]
            q = kernel_device[kernel]
            # Members come in graph order: with the last it is known whether the kernel is whole.
            if member[member_at[kernel + 1] - 1] == v:
                whole = True
                for i in range(member_at[kernel], member_at[kernel + 1]):
                    whole = whole and at[member[i]] == q
                for i in range(member_at[kernel], member_at[kernel + 1]):
                    u = member[i]
                    if not whole and at[u] == q:
                        good = good and not lacks[u, q]
                        load[new, q] += compute_s[u, q] - shares_s[u, q]
        if ordered and good:
            good = blocked(feeds, waits) == 0
        largest = 0.0
        spent = rest[new]
        for r in range(resources):
            largest = max(largest, load[new, r])
            if r < devices:
                spent += weight[r] * load[new, r]
        # Sums in another order may differ by rounding.
        if not good or largest >= reached[0] or spent * (1.0 - 1e-12) >= reached[0]:
            continue
        if new == n:
            reached[0] = largest
            for u in range(n):
                best[u] = at[u]
            continue
        depth = new
        choice[depth] = 0
    return steps


compiled = machine_code(search, blocked, inline=True, forced=False)


MOST_SWAPPED = 10
"""Number of devices from which stages are not exchanged between devices."""

STARTS = 2
"""Number of plans that moves start from."""

FIRST_CHUNK = 200
"""Number of moves before the first check of a deadline."""

SEARCHED_WHOLE, WHOLE_STEPS = 32, 300_000
"""Number of nodes up to which all assignments are searched, and the maximum number of steps."""

LEAST = "least bottleneck of"
"""Prefix of a reason that claims a proof."""

Moves = Callable[[int], int]

Stages = list[tuple[list[int], int]]
"""Nodes and device of each stage, in execution order."""


def views(problem: Problem) -> list[Costs]:
    """Return the costs by which orders are cut: the bound, and the guide if it differs."""
    found = [costs_of(problem)]
    guided = problem.staging is None and problem.contention == "fifo" and len(problem.devices) > 2
    if guided and deadline.left_s() > 0.0:
        found.append(costs_of(problem, summed=True))
    return found


Cuts = Climb[tuple[list[int], Slices]]
"""Search over orders, with the cuts of each."""


def cuts_by(costs: Costs, seed: int) -> Cuts:
    """Return the search for stages by `costs`."""
    states = States.of(costs.kinds)
    whole = with_whole_kernels(costs)

    def judge(parts: list[int], least: float) -> tuple[float, tuple[list[int], Slices]] | None:
        order = [v for part in parts for v in whole.members[part]]
        found = cut(costs, order, states, least)
        return None if found is None else (found.least_s, (order, found))

    return Climb(whole.dag, seed, judge)


@cached
def _begun(_: Problem) -> dict[tuple[int, int], Cuts]:
    """Cache of searches for stages of a problem, shared by strategies, by costs and seed."""
    return {}


def cut_stages(costs: Costs, cuts: Cuts, count: int) -> Stages | None:
    """Return the best stages of `count` orders; None if none is feasible."""
    tried = cuts.first(count)
    if not tried:
        return None
    # Among equal ones the last, from which the changes continued.
    order, best = min(reversed(tried), key=lambda one: one[0])[1]
    left = [list(devices) for devices in costs.kinds]
    return [(sorted(order[start:end]), left[kind].pop(0)) for start, end, kind in best.segments]


def layouts(moves: StageMoves, known: Sequence[Costs], count: int, seed: int) -> list[StageLayout]:
    """Return the stages cut from `count` orders, by each of the costs, as simulated."""
    found: list[StageLayout] = []
    begun = _begun(moves.problem)
    for at, costs in enumerate(known):
        if deadline.left_s() <= 0.0:
            break
        if (at, seed) not in begun:
            begun[at, seed] = cuts_by(costs, seed)
        stages = cut_stages(costs, begun[at, seed], count)
        if stages is not None:
            found.append(swapped(moves, moves.layout(assigned(stages))))
    return found


def assigned(stages: Stages) -> list[int]:
    """Return the device of every node."""
    device = {v: p for nodes, p in stages for v in nodes}
    return [device[v] for v in range(len(device))]


def swapped(moves: StageMoves, layout: StageLayout) -> StageLayout:
    """Return the layout after exchanging whole stages between devices while that improves it."""
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


def as_plan(moves: StageMoves, name: str, layout: StageLayout, reason: str) -> Plan:
    """Return the layout as a plan: one subgraph per stage, or as few as an assignment needs."""
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
    """Return the plan of `solve` and its cost, repeated with less memory until activations fit.

    If none fits, the first plan is returned with infinite cost. Claims of `solve` are kept only for
    the original problem.
    """
    made: list[Plan] = []

    def solved(left: Problem) -> Plan:
        found = solve(left)
        made.append(Plan(problem, found.strategy, found.groups, found.reason))
        return made[-1]

    try:
        plan, cost = with_less_until(problem, solved, partial(measure, objective="throughput"))
    except OutOfMemory:
        if not made:
            raise
        return _unclaimed(made[0]), math.inf
    return plan if plan is made[0] else _unclaimed(plan), cost


def _unclaimed(plan: Plan) -> Plan:
    if not plan.reason.startswith(LEAST):
        return plan
    return replace(
        plan, reason=("not proven least: live activations do not fit the plan that would be")
    )


def search_stages(
    problem: Problem,
    known: Sequence[Plan],
    orders: int,
    moves: Moves,
    seed: int,
    *,
    by_device: bool = False,
) -> Plan:
    """Return the plan found by moves of nodes between any stages.

    Starts from the best of the plans `known`, the stages cut from `orders` orders, and an
    exhaustive search of a small problem. `moves` maps the moves tried to the number to try next; 0
    ends the search. Raises Infeasible if no supported plan that fits was found.
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
            # At most as many moves as take a tenth of the remaining time.
            more = deadline.left_s() / 10 / max(deadline.now_s() - began_s, 1e-6)
            chunk = max(1, int(count * min(4.0, more)))
    chosen = min(best, key=lambda layout: layout.load_s)
    if chosen.load_s == float("inf"):
        raise no_feasible_stages(problem)
    return as_plan(search, "local-search", chosen, "")


def first_supported(moves: StageMoves) -> StageLayout:
    """Return the layout of every node on its first supported device; moves may make it feasible."""
    return moves.layout([int(row.argmax()) for row in moves.problem.runnable])


def no_feasible_stages(problem: Problem) -> Infeasible:
    """Return the error of a search without feasible stages."""
    return Infeasible(
        "no stages were found that are supported and fit the memory",
        where=problem.name,
        hint="try more orders and moves, or allow more devices",
    )


def bound_of_one_copy(problem: Problem) -> float:
    """Return a lower bound on seconds per request over plans that run each node on one device."""
    if problem.n == 0 or problem.unpriced:
        return 0.0
    shares = np.where(problem.runnable, problem.shared_seconds, np.inf)
    longest = float((shares / np.array(problem.streams)).min(axis=1).max())
    return max(bound_of(problem, "throughput"), longest * (1.0 - EQUAL))


def claim(problem: Problem, load_s: float, contiguous_s: float, any_s: float) -> str:
    """Return the text of what lower bounds prove about a plan."""
    if problem.unpriced:
        # The caller adds the number of nodes.
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
