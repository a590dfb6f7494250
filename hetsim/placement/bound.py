"""Lower bounds on latency: what no plan can beat, however clever."""

from __future__ import annotations

import numpy as np

from hetsim.problem import GRAPH_INPUT, Problem

ASCENT_STEPS = 200
"""Steps of the area bound's ascent; every step gives a valid bound, the best is kept."""


def lower_bound(problem: Problem) -> float:
    """Return seconds that no plan's latency can go below; inf where a node runs nowhere.

    The larger of the device-indexed critical path and the area bound. Both hold without
    contention, and so with it. Less the largest rounding error that the sums can have, so
    that a plan which meets the bound is not reported below it.

    Complexity: O(E P^2 + ASCENT_STEPS n P).
    """
    if problem.n == 0:
        return 0.0
    if not problem.runnable.any(axis=1).all():
        return float("inf")
    terms = 2 * (problem.n + len(problem.values) + len(problem.devices))
    rounding = terms * float(np.finfo(np.float64).eps)
    return max(critical_path_bound(problem), area_bound(problem)) * (1.0 - rounding)


def critical_path_bound(problem: Problem) -> float:
    """Return the length of the longest path when each node chooses its device freely, in seconds.

    For node v and device p, finish[v, p] is its seconds there, after the latest of its
    values' arrivals; a value arrives from whichever device makes that earliest. A path
    that enters a device pays its dispatch: a group starts only after its inputs arrived.
    Inputs come from the host, and the last value returns there.
    """
    count = len(problem.devices)
    latency_s = np.array([[route.latency_s for route in row] for row in problem.routes])
    per_byte_s = np.array([[1.0 / route.bytes_per_s for route in row] for row in problem.routes])
    np.fill_diagonal(latency_s, 0.0)
    np.fill_diagonal(per_byte_s, 0.0)
    dispatch_s = np.array(problem.dispatch_s)
    entering_s = np.broadcast_to(dispatch_s, (count, count)) * (1.0 - np.eye(count))
    seconds = problem.shared_seconds
    ready = np.broadcast_to(dispatch_s, (problem.n, count)).copy()
    produced: list[list[int]] = [[] for _ in range(problem.n)]
    for index, value in enumerate(problem.values):
        if value.producer != GRAPH_INPUT:
            produced[value.producer].append(index)
        elif problem.host is not None:
            travel = latency_s[problem.host] + per_byte_s[problem.host] * value.nbytes
            for consumer in value.consumers:
                np.maximum(ready[consumer], travel + dispatch_s, out=ready[consumer])
    longest = 0.0
    for node in range(problem.n):
        finish = ready[node] + seconds[node]
        longest = max(longest, float(finish.min()))
        for index in produced[node]:
            value = problem.values[index]
            travel = latency_s + per_byte_s * value.nbytes
            if value.is_output and problem.host is not None:
                longest = max(longest, float((finish + travel[:, problem.host]).min()))
            arrival = (finish[:, None] + travel + entering_s).min(axis=0)
            for consumer in value.consumers:
                np.maximum(ready[consumer], arrival, out=ready[consumer])
    return longest


def area_bound(problem: Problem) -> float:
    """Return the least time in which all streams together can do the work, in seconds.

    The dual of the load-balancing LP over fractional assignments: for device prices y
    with sum_p y_p * streams_p = 1, sum_v min_p y_p * seconds[v, p] is a valid bound, and
    the best prices give the LP's optimum. They are approached by multiplicative ascent.
    """
    streams = np.array(problem.streams, dtype=np.float64)
    seconds = problem.shared_seconds
    usable = problem.runnable.any(axis=0)
    prices = np.where(usable, 1.0, 0.0)
    prices /= float((prices * streams).sum())
    # A device that supports nothing must never be the cheapest: inf * 0 is not a number.
    table = np.where(problem.runnable, seconds, np.inf)[:, usable]
    width, price = streams[usable], prices[usable]
    best = 0.0
    rows = np.arange(problem.n)
    for step in range(ASCENT_STEPS):
        weighted = table * price
        cheapest = weighted.argmin(axis=1)
        best = max(best, float(weighted[rows, cheapest].sum()))
        load = np.bincount(cheapest, weights=table[rows, cheapest], minlength=len(width)) / width
        if load.max() <= 0.0:
            break
        # Raise the price of devices that are loaded above the rest.
        price = price * np.exp((load / load.max() - 0.5) / np.sqrt(step + 1.0))
        price /= float((price * width).sum())
    return best
