"""Replicas for throughput: distribution of requests, copies, plans on sets of identical devices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from hetsim.errors import Infeasible, OutOfMemory, UsageError
from hetsim.graph.dag import orders_by_rule
from hetsim.partitioning.flow import partition
from hetsim.partitioning.minimum_cut import least_serial
from hetsim.placement.bounds.area import dealt
from hetsim.placement.constraints import without_devices
from hetsim.placement.grouping import plan_of_stages
from hetsim.placement.initial_plans import whole_models
from hetsim.placement.objective import check_room, fits, kept_s, measure, seconds_a_request
from hetsim.placement.registry import resolve
from hetsim.placement.throughput.slices import fastest_runs
from hetsim.problem.groups import Group
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem

Floats = NDArray[np.float64]

LONGEST = 48
"""Maximum number of requests in one period of the distribution."""

MOST_COUNTS = 5_000
"""Number of distributions of a period up to which enumeration is faster than an integer program."""

SLACK = 0.01
"""Relative loss up to which a shorter period is preferred."""


def distributed(replicas: Sequence[Plan], *, strategy: str, reason: str) -> Plan:
    """Return the plan that distributes requests over `replicas`, without unused ones."""
    counts = best_counts([loads_of(replica) for replica in replicas])
    kept = [replica for replica, count in zip(replicas, counts, strict=True) if count]
    return Plan.dealt(
        kept, spread([count for count in counts if count]), strategy=strategy, reason=reason
    )


def loads_of(replica: Plan) -> list[float]:
    """Return the seconds per request of each device, divided by its streams, and of each link."""
    device_s, link_s = seconds_a_request(replica)
    return [*device_s, *link_s]


def best_counts(loads: Sequence[Sequence[float]]) -> tuple[int, ...]:
    """Return the number of requests per period of each replica."""
    table = np.array(loads, dtype=np.float64).reshape(len(loads), -1)
    if len(table) == 1 or not table.any(axis=1).all():
        # A replica without cost takes all requests.
        free = int(np.argmin(table.max(axis=1, initial=0.0)))
        return tuple(int(index == free) for index in range(len(table)))
    bound_s, _, _ = shares_of(table)
    found: list[tuple[float, tuple[int, ...]]] = []
    for period in range(1, LONGEST + 1):
        counts = counts_of_period(table, period)
        found.append((float((np.array(counts) @ table).max()) / period, counts))
        if found[-1][0] <= bound_s * (1.0 + SLACK):
            break
    least = min(cost for cost, _ in found)
    return next(counts for cost, counts in found if cost <= least * (1.0 + SLACK))


def shares_of(table: Floats) -> tuple[float, Floats, Floats]:
    """Return the least bottleneck over real-valued shares, those shares, and resource prices.

    No distribution has a lower bottleneck.
    """
    count, resources = table.shape
    scale = float(table.max()) or 1.0
    node, slope, room = np.zeros(count, dtype=np.intp), np.ones(resources), np.zeros(resources)
    found, price = dealt(1, node, table.T / scale, slope, room, least_t=0.0)
    shares = np.maximum(found, 0.0)
    if price.sum() <= 0:
        # A replica without cost takes all requests, so no resource is scarce.
        price = slope
    shares /= shares.sum()
    return float((shares @ table).max()), shares, price / price.sum()


def counts_of_period(table: Floats, period: int) -> tuple[int, ...]:
    """Return the counts of `period` requests that minimize the load of the busiest resource."""
    used = table > 0
    if (used.sum(axis=0) <= 1).all():
        each = table.max(axis=1)
        counts = [0] * len(table)
        for _ in range(period):
            after = [(count + 1) * seconds for count, seconds in zip(counts, each, strict=True)]
            counts[int(np.argmin(after))] += 1
        return tuple(counts)
    count, resources = table.shape
    if math.comb(period + count - 1, count - 1) <= MOST_COUNTS:
        borders = combinations(range(1, period + count), count - 1)
        ends = np.array([(0, *cut, period + count) for cut in borders], dtype=np.int64)
        every = np.diff(ends, axis=1) - 1
        return tuple(every[int((every @ table).max(axis=1).argmin())].tolist())
    from scipy.optimize import Bounds, LinearConstraint, milp

    scale = float(table.max())
    solved = milp(
        np.append(np.zeros(count), 1.0),
        integrality=np.append(np.ones(count), 0.0),
        bounds=Bounds(np.zeros(count + 1), np.append(np.full(count, period), np.inf)),
        constraints=[
            LinearConstraint(np.hstack([table.T / scale, -np.ones((resources, 1))]), -np.inf, 0.0),
            LinearConstraint(np.append(np.ones(count), 0.0)[None, :], period, period),
        ],
        options={"mip_rel_gap": 0.0},
    )
    if solved.x is None:
        raise AssertionError(f"no distribution of {period} requests: {solved.message}")
    return tuple(int(share) for share in np.rint(solved.x[:-1]))


def spread(counts: Sequence[int]) -> tuple[int, ...]:
    """Return a sequence with each replica's count, spread evenly in time."""
    period = sum(counts)
    given = [0] * len(counts)
    deal: list[int] = []
    for turn in range(1, period + 1):
        behind = [count * turn - had * period for count, had in zip(counts, given, strict=True)]
        index = behind.index(max(behind))
        given[index] += 1
        deal.append(index)
    return tuple(deal)


def fitting(replicas: Sequence[Plan], *, strategy: str, what: str) -> Plan:
    """Distribute requests over as many of `replicas`, each feasible alone, as fit memory."""
    left = list(replicas)
    while True:
        plan = distributed(left, strategy=strategy, reason="")
        kept = plan.replicas
        try:
            check_room(plan)
        except OutOfMemory as error:
            if len(kept) == 1:
                raise
            on_it = [i for i, one in enumerate(kept) if error.device in one.devices_used]
            among = on_it if len(on_it) > 1 else range(len(kept))
            out = min(among, key=lambda index: (plan.shares[index], -index))
            left = [one for index, one in enumerate(kept) if index != out]
            continue
        return Plan.dealt(kept, plan.deal, strategy=strategy, reason=f"{what} {shares(plan)}")


def shares(plan: Plan) -> str:
    """List each replica's devices and share: ``gpu.0 (3), npu + cpu (1) of 4``."""
    named = [
        f"{' + '.join(replica.devices_used)} ({share})"
        for replica, share in zip(plan.replicas, plan.shares, strict=True)
    ]
    if len(named) == 1:
        return " + ".join(plan.devices_used)
    if len(set(plan.shares)) == 1:
        alike = [" + ".join(replica.devices_used) for replica in plan.replicas]
        return f"{', '.join(alike)}; requests in turn"
    return f"{', '.join(named)} of every {len(plan.deal)} requests"


GAIN = 1e-3
"""Relative saving that more replicas, or a more complex plan, must achieve."""

POOLED = 8
"""Maximum number of single-replica plans, best first, that a mixture uses."""

PRICED = 60_000
"""Number of (node, device) pairs above which no plans are generated for prices."""

ROUNDS = 12
"""Maximum number of plans generated for prices."""

ON_SETS: Mapping[str, float] = {
    "ideal-dp": 60,
    "slice": 1_000,
    "chain-dp:throughput": 1_000,
    "pipeline": float("inf"),
}
"""Strategies for sets of identical devices, and the nodes above which each is too slow."""

SIZES = 3
"""Number of set sizes to try, the smallest ones that are large enough."""


@dataclass(frozen=True, slots=True)
class Replicated:
    """Plan of several replicas, and its seconds per request (``objective.kept_s``)."""

    plan: Plan
    cost: float


def replicated(
    problem: Problem, plans: Sequence[Plan], *, search: bool = True
) -> Replicated | None:
    """Return the best distribution over replicas found; None if no plan has several replicas.

    Tries copies of the whole model, plans on sets of identical devices, and a mixture of these and
    of `plans`; with `search`, also plans generated for the mixture by column generation. A simpler
    plan is kept unless another saves more than GAIN in simulation.

    Source: P. C. Gilmore, R. E. Gomory, A linear programming approach to the cutting-stock problem,
    Operations Research 9(6), 1961 (column generation).
    """
    copies, _ = whole_models(problem, range(len(problem.devices)))
    ways: list[tuple[str, list[Plan]]] = [("a copy of the whole model on each of", copies)]
    grouped = on_sets(problem, copies)
    ways += [(f"plans on {size} devices each:", members) for size, members in grouped]
    pool = distinct([*copies, *plans[:POOLED], *(p for _, members in grouped for p in members)])
    ways.append(("plans side by side:", pool))
    if search and problem.n * len(problem.devices) <= PRICED:
        ways.append(("plans side by side:", with_columns(problem, pool)))
    best: Replicated | None = None
    for what, members in ways:
        if len(members) < 2:
            continue
        try:
            plan = fitting(members, strategy="multi", what=what)
        except Infeasible:
            continue
        if not plan.sizes:
            continue
        cost = kept_s(plan)
        if best is None or cost < best.cost * (1.0 - GAIN):
            best = Replicated(plan, cost)
    return best


def distinct(plans: Sequence[Plan]) -> list[Plan]:
    """Return the plans with distinct loads, the first of equal ones."""
    found: dict[tuple[float, ...], Plan] = {}
    for plan in plans:
        found.setdefault(tuple(loads_of(plan)), plan)
    return list(found.values())


def like_devices(problem: Problem) -> list[list[int]]:
    """Return the devices grouped by equal costs and memory."""
    kinds: dict[tuple[object, ...], list[int]] = {}
    capacity = problem.capacity_bytes or (0,) * len(problem.devices)
    for device in range(len(problem.devices)):
        fused = tuple((k.nodes, k.seconds) for k in problem.fused if k.device == device)
        key = (
            problem.seconds[:, device].tobytes(), problem.dispatch_s[device],
            problem.streams[device], capacity[device], fused, device == problem.host,
        )  # fmt: skip
        kinds.setdefault(key, []).append(device)
    return list(kinds.values())


def on_sets(problem: Problem, copies: Sequence[Plan]) -> list[tuple[int, list[Plan]]]:
    """Return by set size a plan for each set of identical devices."""
    alone = {plan.devices_used for plan in copies}
    found: list[tuple[int, list[Plan]]] = []
    for kind in like_devices(problem):
        if len(kind) < 4 or (problem.devices[kind[0]],) in alone:
            continue
        sizes = sorted({len(kind) // sets for sets in range(2, len(kind) // 2 + 1)})
        tried = 0
        for size in sizes:
            first = best_on(problem, kind[:size]) if tried < SIZES else None
            if first is None:
                continue
            tried += 1
            starts = range(0, len(kind) - size + 1, size)
            members = [moved(first, kind[:size], kind[at : at + size]) for at in starts]
            found.append((size, [*members, *copies]))
    return found


def best_on(problem: Problem, devices: Sequence[int]) -> Plan | None:
    """Return the best throughput plan on some of the devices, or None."""
    others = tuple(p for p in range(len(problem.devices)) if p not in devices)
    found: list[tuple[float, Plan]] = []
    for name, most in ON_SETS.items():
        if problem.n > most:
            continue
        try:
            left = without_devices(problem, others)
            plan = replace(resolve(name).solve(left), problem=problem)
            found.append((measure(plan, "throughput"), plan))
        except (Infeasible, UsageError):
            continue
    return min(found, key=lambda entry: entry[0])[1] if found else None


def moved(plan: Plan, devices: Sequence[int], others: Sequence[int]) -> Plan:
    """Return the plan with each of `devices` replaced by its counterpart in `others`."""
    names = plan.problem.devices
    new = {names[old]: names[other] for old, other in zip(devices, others, strict=True)}
    return replace(
        plan, groups=tuple(Group(new.get(g.device, g.device), g.nodes) for g in plan.groups)
    )


def with_columns(problem: Problem, pool: Sequence[Plan]) -> list[Plan]:
    """Return the plans of `pool` in the best mixture, and new plans for its prices."""
    members = list(pool)
    table = [loads_of(plan) for plan in members]
    shares = np.ones(len(members))
    for _ in range(ROUNDS):
        loads = np.array(table)
        if not loads.any(axis=1).all():
            break
        bottleneck_s, shares, price = shares_of(loads)
        found = False
        for plan in cheapest(problem, price):
            column = loads_of(plan)
            if float(price @ np.array(column)) < bottleneck_s * (1.0 - GAIN) and fits(plan):
                members.append(plan)
                table.append(column)
                shares = np.append(shares, 1.0)
                found = True
        if not found:
            break
    else:
        shares = shares_of(np.array(table))[1]
    return [plan for plan, share in zip(members, shares, strict=True) if share > 1e-9]


def cheapest(problem: Problem, price: Floats) -> list[Plan]:
    """Return plans of low cost at the given prices of devices and links."""
    cost = priced(problem, price)
    found: list[Plan] = []
    # Minimum cuts work on single nodes, not on those supported only within a composite.
    if cost.supported.any(axis=1).all():
        assignment = least_serial(cost, rounds=2)
        groups = partition(problem, "compact", assignment=assignment).groups
        found.append(Plan(problem, "multi", groups))
    for order in orders_by_rule(problem.dag):
        runs = fastest_runs(cost, order)
        if runs:
            stages = [(order[first:end], device) for first, end, device in runs]
            found.append(plan_of_stages(problem, "multi", stages, ""))
    return found


def priced(problem: Problem, price: Floats) -> Problem:
    """Return the problem with times weighted by the prices of devices and links."""
    count = len(problem.devices)
    each = price[:count] / np.array(problem.streams, dtype=np.float64)
    by_link = price[count:]
    able = np.isfinite(problem.seconds)
    seconds = np.where(able, np.where(able, problem.seconds, 0.0) * each, np.inf)

    def weight(resources: Sequence[int]) -> float:
        return float(by_link[list(resources)].sum()) if len(by_link) else 0.0

    staging = problem.staging
    return replace(
        problem,
        seconds=seconds,
        dispatch_s=tuple((np.array(problem.dispatch_s) * each).tolist()),
        fused=tuple(replace(k, seconds=k.seconds * float(each[k.device])) for k in problem.fused),
        routes=tuple(
            tuple(
                replace(
                    route,
                    latency_s=route.latency_s * weight(route.resources),
                    bytes_per_s=route.bytes_per_s / paid
                    if (paid := weight(route.resources)) > 0
                    else float("inf"),
                )
                if np.isfinite(route.seconds(1))
                else route
                for route in row
            )
            for row in problem.routes
        ),
        staging=None
        if staging is None
        else replace(
            staging,
            fetch_s_per_byte=tuple((np.array(staging.fetch_s_per_byte) * each).tolist()),
            store_s_per_byte=tuple((np.array(staging.store_s_per_byte) * each).tolist()),
        ),
    )
