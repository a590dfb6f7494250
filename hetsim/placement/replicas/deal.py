"""Which request goes to which replica: shares by linear program, then in whole requests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.errors import Infeasible, OutOfMemory
from hetsim.placement.objective import check_room, measure, seconds_a_request
from hetsim.placement.starting.starts import plan_alone
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem

Floats = NDArray[np.float64]

LONGEST = 48
"""Requests in one period of a deal at most."""

MOST_COUNTS = 5_000
"""Ways to deal a period out up to which trying each takes less than an integer program."""

SLACK = 0.01
"""A shorter period is taken where it costs at most this part more than the best one."""


def dealt_out(replicas: Sequence[Plan], *, strategy: str, reason: str) -> Plan:
    """Return the plan that deals requests out to `replicas`, those that get none left out.

    The busiest device or link takes as little a request as a deal of at most LONGEST requests
    lets it, but for SLACK. Memory is not looked at. Complexity: see ``best_counts``.
    """
    counts = best_counts([loads_of(replica) for replica in replicas])
    kept = [replica for replica, count in zip(replicas, counts, strict=True) if count]
    return Plan.dealt(
        kept, spread([count for count in counts if count]), strategy=strategy, reason=reason
    )


def loads_of(replica: Plan) -> list[float]:
    """Return seconds a request of every device, over its streams, and every link."""
    device_s, link_s = seconds_a_request(replica)
    return [*device_s, *link_s]


def best_counts(loads: Sequence[Sequence[float]]) -> tuple[int, ...]:
    """Return how many requests of a period each replica gets.

    Parameters
    ----------
    loads : sequence of sequences of float
        By replica, then resource: seconds a request.

    Returns
    -------
    Counts whose bottleneck is at most SLACK above the least of all periods up to LONGEST, of
    the shortest period that has such; exact for its period. Up to LONGEST integer programs of
    one variable a replica.
    """
    table = np.array(loads, dtype=np.float64).reshape(len(loads), -1)
    if len(table) == 1 or not table.any(axis=1).all():
        # A replica that costs nothing takes all.
        free = int(np.argmin(table.max(axis=1, initial=0.0)))
        return tuple(int(index == free) for index in range(len(table)))
    bound_s = bottleneck_of_shares(table)
    found: list[tuple[float, tuple[int, ...]]] = []
    for period in range(1, LONGEST + 1):
        counts = counts_of_period(table, period)
        found.append((float((np.array(counts) @ table).max()) / period, counts))
        if found[-1][0] <= bound_s * (1.0 + SLACK):
            break
    least = min(cost for cost, _ in found)
    return next(counts for cost, counts in found if cost <= least * (1.0 + SLACK))


def bottleneck_of_shares(table: Floats) -> float:
    """Return the least bottleneck of any shares, whole requests or not: no deal is below."""
    return shares_of(table)[0]


def shares_of(table: Floats) -> tuple[float, Floats, Floats]:
    """Return the least bottleneck, the shares that have it, and the price of every resource.

    Prices are not negative and sum to 1; a replica whose priced load is below the bottleneck
    would lower it.
    """
    from scipy.optimize import linprog

    count, resources = table.shape
    scale = float(table.max()) or 1.0
    cost = np.append(np.zeros(count), 1.0)
    # The stubs know dense arrays only.
    minimize: Any = linprog
    found = minimize(
        cost,
        A_ub=np.hstack([table.T / scale, -np.ones((resources, 1))]),
        b_ub=np.zeros(resources),
        A_eq=np.append(np.ones(count), 0.0)[None, :],
        b_eq=[1.0],
        bounds=[(0.0, None)] * (count + 1),
        method="highs",
    )
    shares = np.maximum(found.x[:-1], 0.0)
    price = np.maximum(-np.asarray(found.ineqlin.marginals), 0.0)
    if price.sum() <= 0:
        # A replica that costs nothing takes all: no second is short.
        price = np.ones(resources)
    return float(found.fun) * scale, shares / shares.sum(), price / price.sum()


def counts_of_period(table: Floats, period: int) -> tuple[int, ...]:
    """Return the counts of `period` requests whose busiest resource has the least to do.

    Where no two replicas share a resource, each request goes where it then ends first, which
    is exact; elsewhere all counts are tried, or where these are many an integer program is solved.
    """
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
        raise AssertionError(f"no deal of {period} requests: {solved.message}")
    return tuple(int(share) for share in np.rint(solved.x[:-1]))


def spread(counts: Sequence[int]) -> tuple[int, ...]:
    """Return a deal in which each replica gets its count, as evenly in time as it goes.

    The next request goes to the replica that is furthest behind its share; ties to the first.
    """
    period = sum(counts)
    given = [0] * len(counts)
    deal: list[int] = []
    for turn in range(1, period + 1):
        behind = [count * turn - had * period for count, had in zip(counts, given, strict=True)]
        index = behind.index(max(behind))
        given[index] += 1
        deal.append(index)
    return tuple(deal)


def whole_models(problem: Problem, devices: Sequence[int]) -> tuple[list[Plan], list[Infeasible]]:
    """Return the plans of one device each that are feasible, and why the others are not."""
    found: list[Plan] = []
    refused: list[Infeasible] = []
    for device in devices:
        try:
            plan = plan_alone(problem, device)
            measure(plan, "throughput")
            found.append(plan)
        except Infeasible as error:
            refused.append(error)
    return found, refused


def fitting(replicas: Sequence[Plan], *, strategy: str, what: str) -> Plan:
    """Deal requests out to as many of `replicas`, each feasible alone, as memory has room for.

    Where a device cannot hold what is on it at once, the replica with the fewest requests of
    those on it goes, and the rest is dealt anew; on others, the host, any replica.
    """
    left = list(replicas)
    while True:
        plan = dealt_out(left, strategy=strategy, reason="")
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
    """Say which devices each replica runs on, and its share: ``gpu.0 (3), npu + cpu (1) of 4``."""
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
