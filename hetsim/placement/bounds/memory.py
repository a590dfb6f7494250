"""Memory in the bounds: where a node cannot lie at all, and weights as rows of the area program."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.placement.bounds.area import check_time
from hetsim.placement.bounds.paths import Floats
from hetsim.placement.fitting.footprint import Footprint
from hetsim.placement.narrowing import narrowed
from hetsim.placement.objective import memory_binds
from hetsim.problem.problem import Problem


def within_memory(problem: Problem) -> Problem | None:
    """Return the problem without the devices that cannot hold a node and all that it touches.

    None where no plan fits: what lies on the host whoever runs what is too much for it, or all
    weights together are too much for all devices. O((V + E) P).
    """
    if not memory_binds(problem):
        return problem
    footprint = Footprint.of(problem)
    room = np.array(footprint.capacity) - np.array(footprint.always)
    if (room < 0).any():
        return None
    held = np.array([sum(problem.constants[c].nbytes for c in own) for own in problem.constants_of])
    beside = np.array(footprint.beside).reshape(problem.n, len(problem.devices))
    needed = held[:, None] + np.maximum(beside, np.array(footprint.always))
    open_to = needed <= np.array(footprint.capacity)
    left = problem if open_to.all() else narrowed(problem, open_to)
    usable = left.runnable.any(axis=0)
    weights = sum(constant.nbytes for constant in problem.constants if constant.consumers)
    # Not summed as numpy does: capacities near 2**62 are more than 64 bits hold.
    return left if weights <= sum(room[usable].tolist()) else None


def balanced_weights(problem: Problem, shares: Floats) -> float:
    """Return ``area.balanced`` with the weights of each device within its memory.

    A weight that several nodes read is shared out among them, so that a device with all of them
    holds it once. 0 where memory does not bind, or the program is not solved: nothing is claimed.
    What is returned is computed from the prices of the optimum, y of time and z of memory: for
    every fractional assignment x the makespan T is at least the sum over v of
    min over p of y[p] shares[v, p] + z[p] weight[v], less the sum of z[p] room[p]. That holds for
    any prices that are not below 0 where the sum of y[p] streams[p] is 1.
    """
    if not memory_binds(problem):
        return 0.0
    able = np.isfinite(shares)
    scale = float(shares[able].max(initial=0.0))
    if scale == 0.0 or not able.any(axis=1).all():
        return 0.0
    footprint = Footprint.of(problem)
    room = (np.array(footprint.capacity) - np.array(footprint.always)).astype(np.float64)
    weight = np.zeros(problem.n)
    for constant in problem.constants:
        for v in constant.consumers:
            weight[v] += constant.nbytes / len(constant.consumers)
    unit = float(weight.max(initial=0.0))
    if unit == 0.0:
        return 0.0
    weight, room = weight / unit, room / unit
    width = np.array(problem.streams, dtype=np.float64)
    scaled = np.where(able, shares / scale, 0.0)
    time_price, room_price = _prices(scaled, able, weight, width, room)
    total = float((time_price * width).sum())
    if total <= 0.0:
        return 0.0
    time_price, room_price = time_price / total, room_price / total
    cost = np.where(able, time_price * scaled + room_price * weight[:, None], np.inf)
    needed, offered = float(cost.min(axis=1).sum()), float((room_price * room).sum())
    rounding = 4.0 * (cost.size + len(room)) * float(np.finfo(np.float64).eps)
    return max(0.0, scale * (needed - offered - rounding * (needed + offered)))


def _prices(
    scaled: Floats, able: NDArray[np.bool_], weight: Floats, width: Floats, room: Floats
) -> tuple[Floats, Floats]:
    """Minimize t where work is at most width t and weights are at most room; return the prices."""
    check_time()
    from scipy.optimize import linprog
    from scipy.sparse import coo_matrix

    n, count = scaled.shape
    node, device = np.nonzero(able)
    pairs = len(node)
    column = np.arange(pairs)
    a_ub = coo_matrix(
        (
            np.concatenate([scaled[node, device], weight[node], -width]),
            (
                np.concatenate([device, count + device, np.arange(count)]),
                np.concatenate([column, column, np.full(count, pairs)]),
            ),
        ),
        shape=(2 * count, pairs + 1),
    ).tocsr()
    a_eq = coo_matrix((np.ones(pairs), (node, column)), shape=(n, pairs + 1)).tocsr()
    cost = np.zeros(pairs + 1)
    cost[-1] = 1.0
    # The stubs know dense arrays only.
    minimize: Any = linprog
    found = minimize(
        cost,
        A_ub=a_ub,
        b_ub=np.concatenate([np.zeros(count), room]),
        A_eq=a_eq,
        b_eq=np.ones(n),
        bounds=(0.0, None),
        method="highs",
    )
    if found.status != 0:
        return np.zeros(count), np.zeros(count)
    price = np.maximum(-np.asarray(found.ineqlin.marginals), 0.0)
    return price[:count], price[count:]
