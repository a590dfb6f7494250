"""Prices of rows of work that prove most: by a linear program, or many cutting planes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.base import deadline

Floats = NDArray[np.float64]

LARGE = 20_000
"""Pairs of node and device from which on cutting planes are quicker than the whole program."""

CUTS = 150
"""Cutting planes at most."""

ABOVE = 1e-6
"""What is above 0 beyond doubt."""

CLOSE = 1e-6
"""Between what is proved and what could be, in parts of the latter, where cutting ends."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of work, each of one device: the work of its nodes there is at most room + slope t.

    Attributes
    ----------
    scaled : float array [n, P]
        Time of a node on a device; inf where it is not runnable.
    device : int array [rows]
    inside : bool array [rows, n]
        Which nodes count where they are on the row's device.
    slope, room : float array [rows]
    """

    scaled: Floats
    device: NDArray[np.intp]
    inside: NDArray[np.bool_]
    slope: Floats
    room: Floats


def check_time() -> None:
    """Raise OutOfTime where a deadline leaves no time to solve a program, or to load SciPy."""
    deadline.check()
    if not deadline.may_load("scipy.optimize"):
        raise deadline.OutOfTime


def relaxed(rows: Rows, *, sign: bool = False) -> tuple[Floats, Floats]:
    """Minimize t over fractional assignments of the nodes; return the assignment and prices.

    Prices of the rows are what proves: for any y >= 0 with sum of y slope = 1, t is at least the
    sum over nodes of the least of y-weighed times, less the sum of y room. With `sign` they need
    only prove that t is above 0, or the assignment show that nothing does; once they do, the
    assignment may be of some nodes' parts alone.

    O(CUTS rows n P) where there are LARGE pairs or more; otherwise one linear program.
    """
    check_time()
    if int(np.isfinite(rows.scaled).sum()) < LARGE:
        return _whole(rows)
    return _by_cuts(rows, sign)


def worth(rows: Rows, price: Floats) -> tuple[float, NDArray[np.intp]]:
    """Return what prices prove, and the device on which each node costs least by them."""
    cost = np.zeros_like(rows.scaled)
    for row in np.flatnonzero(price):
        cost[rows.inside[row], rows.device[row]] += price[row]
    able = np.isfinite(rows.scaled)
    cost = np.where(able, cost * np.where(able, rows.scaled, 0.0), np.inf)
    cheapest = cost.argmin(axis=1)
    return float(cost.min(axis=1).sum() - price @ rows.room), cheapest


def _by_cuts(rows: Rows, sign: bool) -> tuple[Floats, Floats]:
    """Find prices by Kelley's cutting planes, each taken half-way to the best so far.

    An assignment of each node to a device bounds what any prices can prove: the sum over rows
    of price times (its work there less the room). The prices at which the least of these is
    largest give the next one; the shares of the assignments in that least are the fractional
    assignment (Dantzig and Wolfe).
    """
    n, count = rows.scaled.shape
    own = rows.scaled[np.arange(n)[:, None], rows.device[None, :]].T
    work = np.where(rows.inside & np.isfinite(own), own, 0.0)
    # What cannot be proved is stated of prices whose slopes sum to 1.
    price = np.where(rows.slope > 0, 1.0, 0.0)
    price /= float(price @ rows.slope)
    best, best_price = -np.inf, price
    cuts: list[Floats] = []
    chosen: list[NDArray[np.intp]] = []
    shares = np.zeros(0)
    for _ in range(CUTS):
        value, device = worth(rows, price)
        if value > best:
            best, best_price = value, price
        cuts.append(((device[None, :] == rows.device[:, None]) * work).sum(axis=1) - rows.room)
        chosen.append(device)
        if sign and best > ABOVE:
            break
        found = _master(np.array(cuts), rows.slope)
        if found is None:
            break
        most, at_most_by, shares = found
        if most - best <= CLOSE * max(abs(most), abs(best)) or (sign and most <= 0.0):
            break
        price = 0.5 * (at_most_by + best_price)
    split = np.zeros((n, count))
    # The last cut has no share where it ended the search.
    for share, device in zip(shares.tolist(), chosen, strict=False):
        if share > 0.0:
            split[np.arange(n), device] += share
    return split, best_price


def _master(cuts: Floats, slope: Floats) -> tuple[float, Floats, Floats] | None:
    """Maximize the least of `cuts` times prices; return it, the prices, and each cut's share."""
    from scipy.optimize import linprog

    count = len(slope)
    # The stubs know fewer bounds.
    minimize: Any = linprog
    found = minimize(
        np.append(np.zeros(count), -1.0),
        A_ub=np.hstack([-cuts, np.ones((len(cuts), 1))]),
        b_ub=np.zeros(len(cuts)),
        A_eq=np.append(slope, 0.0)[None, :],
        b_eq=[1.0],
        bounds=[*[(0.0, None)] * count, (None, None)],
        method="highs",
    )
    if found.status != 0:
        return None
    return -found.fun, np.maximum(found.x[:-1], 0.0), -np.asarray(found.ineqlin.marginals)


def _whole(rows: Rows) -> tuple[Floats, Floats]:
    from scipy.optimize import linprog
    from scipy.sparse import coo_matrix

    n, count = rows.scaled.shape
    able = np.isfinite(rows.scaled)
    node, device = np.nonzero(able)
    pairs = len(node)
    counted = rows.inside[:, node] & (rows.device[:, None] == device[None, :])
    work = counted * rows.scaled[node, device]
    r, c = np.nonzero(work)
    height = len(rows.room)
    a_ub = coo_matrix(
        (
            np.concatenate([work[r, c], -rows.slope]),
            (np.concatenate([r, np.arange(height)]), np.concatenate([c, np.full(height, pairs)])),
        ),
        shape=(height, pairs + 1),
    ).tocsr()
    a_eq = coo_matrix((np.ones(pairs), (node, np.arange(pairs))), shape=(n, pairs + 1)).tocsr()
    cost = np.zeros(pairs + 1)
    cost[-1] = 1.0
    bounds = np.zeros((pairs + 1, 2))
    bounds[:, 1] = np.inf
    bounds[-1, 0] = -np.inf
    # The stubs know dense arrays only.
    minimize: Any = linprog
    found = minimize(
        cost, A_ub=a_ub, b_ub=rows.room, A_eq=a_eq, b_eq=np.ones(n), bounds=bounds, method="highs"
    )
    split = np.zeros((n, count))
    if found.status != 0:
        # Without a solution there are no prices: nothing is claimed.
        return split, np.zeros(height)
    split[node, device] = found.x[:-1]
    return split, np.maximum(-np.asarray(found.ineqlin.marginals), 0.0)
