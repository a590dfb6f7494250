"""Area bounds: limits of streams and memory within windows of time, by linear programs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.core import deadline
from hetsim.placement.bounds.paths import COMPILE_FROM, BoundInputs, Floats
from hetsim.placement.constraints import narrowed
from hetsim.placement.footprint import Footprint
from hetsim.placement.objective import memory_binds
from hetsim.problem.problem import Problem

LARGE = 20_000
"""Number of (node, device) pairs from which cutting planes are faster than a single program."""

CUTS = 150
"""Maximum number of cutting planes."""

ABOVE = 1e-6
"""Threshold above which a scaled bound counts as positive despite rounding."""

CLOSE = 1e-6
"""Relative gap between the proven and the possible bound at which the cutting planes stop."""


@dataclass(frozen=True, eq=False)
class WorkRows:
    """Constraints on a device's work: the seconds of its nodes in a row are <= room + slope t."""

    scaled: Floats  # [n, P]: Scaled seconds of a node on a device; inf where it is not runnable
    device: NDArray[np.intp]  # [rows]
    inside: NDArray[np.bool_]  # [rows, n]: Which nodes count if they are placed on the row's device
    slope: Floats  # [rows]
    room: Floats

    @cached_property
    def able(self) -> NDArray[np.bool_]:
        """Boolean [n, P]: whether a node is runnable on a device."""
        return np.isfinite(self.scaled)

    @cached_property
    def finite(self) -> Floats:
        """Float [n, P]: `scaled`, with 0 where a node is not runnable."""
        return np.where(self.able, self.scaled, 0.0)


@dataclass(frozen=True, eq=False)
class WindowPrices:
    """Dual prices of time windows: all nodes of a plan within the limit cost at most `offered`."""

    price: Floats  # [K, n, P]: Price of one second of a node on a device, by set of prices
    offered: Floats  # [K]: Including the rounding error


def check_time() -> None:
    """Raise OutOfTime if the deadline leaves no time to solve a linear program or to load SciPy."""
    deadline.check()
    if not deadline.may_load("scipy.optimize"):
        raise deadline.OutOfTime


def relaxed(
    rows: WorkRows, *, sign: bool = False, known: list[NDArray[np.intp]] | None = None
) -> tuple[Floats, Floats]:
    """Minimize t over fractional assignments of the nodes; return the assignment and prices.

    With `sign` the search stops as soon as t is proven positive, or shown not to be. `known` holds
    initial assignments and is overwritten with those of positive share. Complexity: O(CUTS rows n
    P) from LARGE pairs on; otherwise one linear program.
    """
    check_time()
    if int(np.isfinite(rows.scaled).sum()) < LARGE:
        return _whole(rows)
    return _by_cuts(rows, sign, [] if known is None else known)


def worth(rows: WorkRows, price: Floats) -> tuple[float, NDArray[np.intp]]:
    """Return the bound that `price` proves, and the cheapest device of each node at that price."""
    cost = _costs(rows, price)
    cheapest = cost.argmin(axis=1)
    least = cost[np.arange(len(cost)), cheapest]
    return float(least.sum() - price @ rows.room), cheapest


def _costs(rows: WorkRows, price: Floats) -> Floats:
    """Return float [n, P]: the cost of each node on each device, inf where not runnable."""
    cost = each(rows, price) * rows.finite
    cost[~rows.able] = np.inf
    return cost


def each(rows: WorkRows, price: Floats) -> Floats:
    """Return float [n, P]: the price of one second of each node on each device."""
    found = np.zeros_like(rows.scaled)
    for p in range(found.shape[1]):
        own = np.flatnonzero((rows.device == p) & (price > 0.0))
        found[:, p] = price[own] @ rows.inside[own]
    return found


def _by_cuts(rows: WorkRows, sign: bool, chosen: list[NDArray[np.intp]]) -> tuple[Floats, Floats]:
    """Find prices by Kelley's cutting planes, each midway between the candidate and the best."""
    n, count = rows.scaled.shape
    # Start from equal prices, scaled so that prices times slopes sum to 1.
    price = np.where(rows.slope > 0, 1.0, 0.0)
    price /= float(price @ rows.slope)
    best, best_price = -np.inf, price
    cuts = [_cut(rows, device) for device in chosen]
    shares = np.zeros(0)
    if cuts and (found := _master(np.array(cuts), rows.slope)) is not None:
        _, price, shares = found
    for _ in range(CUTS):
        value, device = worth(rows, price)
        if value > best:
            best, best_price = value, price
        if sign and best > ABOVE:
            break
        cuts.append(_cut(rows, device))
        chosen.append(device)
        found = _master(np.array(cuts), rows.slope)
        if found is None:
            break
        most, at_most_by, shares = found
        if most - best <= CLOSE * max(abs(most), abs(best)) or (sign and most <= 0.0):
            break
        price = 0.5 * (at_most_by + best_price)
    split = np.zeros((n, count))
    # The last cut has no share if it ended the search.
    counting = [
        (share, device)
        for share, device in zip(shares.tolist(), chosen, strict=False)
        if share > 0.0
    ]
    for share, device in counting:
        split[np.arange(n), device] += share
    chosen[:] = [device for _, device in counting]
    return split, best_price


def _cut(rows: WorkRows, device: NDArray[np.intp]) -> Floats:
    """Return float [rows]: the work of an assignment in each row minus the row's room."""
    work = rows.scaled[np.arange(len(device)), device]
    found = -rows.room
    for p in range(rows.scaled.shape[1]):
        own, there = np.flatnonzero(rows.device == p), np.flatnonzero(device == p)
        found[own] += rows.inside[np.ix_(own, there)] @ work[there]
    return found


def _master(cuts: Floats, slope: Floats) -> tuple[float, Floats, Floats] | None:
    """Maximize the smallest of `cuts` times prices; return it, the prices, and each cut's share."""
    from scipy.optimize import linprog

    count = len(slope)
    # SciPy's type stubs do not accept pairs of bounds.
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


def _whole(rows: WorkRows) -> tuple[Floats, Floats]:
    node, device = np.nonzero(np.isfinite(rows.scaled))
    counted = rows.inside[:, node] & (rows.device[:, None] == device[None, :])
    work = counted * rows.scaled[node, device]
    split = np.zeros(rows.scaled.shape)
    shares, price = dealt(len(split), node, work, rows.slope, rows.room, least_t=-np.inf)
    split[node, device] = shares
    return split, price


def dealt(
    n: int,
    node: NDArray[np.intp],
    work: Any,
    slope: Floats,
    room: Floats,
    *,
    least_t: float,
    ends: Any = None,
) -> tuple[Floats, Floats]:
    """Minimize t subject to shares of each node summing to 1 and work fitting room + slope t.

    `work` is dense or sparse [rows, pairs], `ends` [rows, further variables >= 0]. Returns shares
    and prices, both zero (which proves nothing) if the program is not solved.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_matrix, hstack

    height, pairs = work.shape
    beside = csr_matrix((height, 0)) if ends is None else ends
    table = hstack([csr_matrix(work), beside, csr_matrix(-slope[:, None])], format="csr")
    total = table.shape[1]
    sums = csr_matrix((np.ones(pairs), (node, np.arange(pairs))), shape=(n, total))
    bounds = np.tile([0.0, np.inf], (total, 1))
    bounds[-1, 0] = least_t
    # SciPy's type stubs accept dense arrays only.
    minimize: Any = linprog
    found = minimize(
        np.append(np.zeros(total - 1), 1.0), A_ub=table, b_ub=room,
        A_eq=sums, b_eq=np.ones(n), bounds=bounds, method="highs",
    )  # fmt: skip
    if found.status != 0:
        return np.zeros(pairs), np.zeros(height)
    return found.x[:pairs], np.maximum(-np.asarray(found.ineqlin.marginals), 0.0)


ROUNDS = 12
"""Maximum number of times that violated windows are added to the linear program."""

MATRIX, LARGE_MATRIX = 1500, 400
"""Maximum number of distinct heads, and of tails, at which windows of a device may begin and end;
larger sets are thinned evenly. LARGE_MATRIX applies from COMPILE_FROM nodes on."""

Window = tuple[int, float, float]
"""Device, and the smallest head and tail of the nodes in the window."""


def balanced(shares: Floats, streams: tuple[int, ...]) -> float:
    """Return the least makespan of fractional assignments in seconds; inf where impossible."""
    if len(shares) == 0:
        return 0.0
    able = np.isfinite(shares)
    if not able.any(axis=1).all():
        return float("inf")
    scale = float(shares[able].max())
    if scale == 0.0:
        return 0.0
    if (able.sum(axis=1) == 1).all():
        # Every node has one device only, so no linear program is needed.
        return float((np.where(able, shares, 0.0).sum(axis=0) / np.array(streams)).max())
    value, _ = worth(_one_a_device(shares / scale, streams), prices(shares, streams))
    return scale * value


def prices(shares: Floats, streams: tuple[int, ...]) -> Floats:
    """Return float [P]: the price of a second by device, where prices times streams sum to 1."""
    count = shares.shape[1]
    able = np.isfinite(shares)
    scale = float(shares[able].max(initial=0.0))
    if scale == 0.0 or not able.any(axis=1).all():
        return np.zeros(count)
    rows = _one_a_device(shares / scale, streams)
    _, price = relaxed(rows)
    total = float((price * rows.slope).sum())
    return np.where(price > 0, price / total, 0.0) if total > 0 else np.zeros(count)


def _one_a_device(scaled: Floats, streams: tuple[int, ...]) -> WorkRows:
    """Return one row per device: its total work is at most its streams times t."""
    n, count = scaled.shape
    width = np.array(streams, dtype=np.float64)
    return WorkRows(
        scaled, np.arange(count), np.ones((count, n), dtype=bool), width, np.zeros(count)
    )


def crowded(
    setting: BoundInputs, head: Floats, tail: Floats, shares: Floats, limit_s: float
) -> tuple[bool, WindowPrices | None]:
    """Return whether windows prove that no plan takes at most `limit_s`, and else the last prices.

    In a plan within the limit, a node on device p runs within [head, limit - tail]. So for all a, b
    with a + b < limit, the nodes on p with head >= a and tail >= b take at most streams[p] (limit -
    a - b) seconds. Each round adds the windows that the fractional assignment violates most.
    """
    n, count = shares.shape
    scaled = np.where(np.isfinite(shares), shares, np.inf) / limit_s
    # If the fastest device of every node violates no window, no linear program is needed.
    split = np.zeros((n, count))
    split[np.arange(n), scaled.argmin(axis=1)] = 1.0
    chosen: list[Window] = []
    known: set[Window] = set()
    last = None
    assignments: list[NDArray[np.intp]] = []
    for turn in range(ROUNDS + 1):
        fresh = [
            window
            for p in range(count)
            for window in _broken(
                head[:, p], tail[:, p], scaled[:, p], split[:, p], limit_s, p, setting.streams[p]
            )
            if window not in known
        ]
        if not fresh or turn == ROUNDS:
            break
        chosen += fresh
        known.update(fresh)
        if turn == 0:
            # Windows of the full length balance the work from the start.
            whole = [(p, 0.0, 0.0) for p in range(count) if (p, 0.0, 0.0) not in known]
            chosen += whole
            known.update(whole)
        device = np.array([p for p, _, _ in chosen])
        a, b = np.array([[a, b] for _, a, b in chosen]).T
        inside = (head.T[device] >= a[:, None]) & (tail.T[device] >= b[:, None])
        room = np.array(setting.streams)[device] * (limit_s - a - b) / limit_s
        rows = WorkRows(scaled, device, inside, np.ones(len(chosen)), room)
        split, price = relaxed(rows, sign=True, known=assignments)
        value, _ = worth(rows, price)
        offered = float(price @ rows.room)
        terms = 4.0 * (rows.scaled.size + len(rows.room)) * float(np.finfo(np.float64).eps)
        rounding = 1e-9 + terms * (abs(value + offered) + abs(offered))
        if value > rounding:
            return True, None
        last = rows, price, offered + rounding
    if last is None:
        return False, None
    rows, price, offered = last
    return False, WindowPrices(each(rows, price)[None] / limit_s, np.array([offered]))


def _broken(
    head: Floats,
    tail: Floats,
    scaled: Floats,
    split: Floats,
    limit_s: float,
    p: int,
    width: int,
) -> list[Window]:
    """Return up to three windows of device p whose work exceeds their room the most."""
    used = np.flatnonzero((split > 1e-9) & np.isfinite(scaled) & (scaled > 0))
    if len(used) == 0:
        return []
    most = MATRIX if len(split) < COMPILE_FROM else LARGE_MATRIX
    starts, remains = _edges(head[used], most), _edges(tail[used], most)
    at = np.searchsorted(starts, head[used], "right") - 1
    to = np.searchsorted(remains, tail[used], "right") - 1
    work = np.zeros((len(starts), len(remains)))
    np.add.at(work, (at, to), scaled[used] * split[used])
    work = work[::-1, ::-1].cumsum(axis=0).cumsum(axis=1)[::-1, ::-1]
    room = width * (limit_s - starts[:, None] - remains[None, :]) / limit_s
    excess = np.where(room >= 0.0, work - room, -np.inf)
    over = np.flatnonzero(excess > 1e-7)
    best = over[np.argsort(excess.ravel()[over], kind="stable")[::-1][:3]]
    return [
        (p, float(starts[i]), float(remains[j]))
        for i, j in (divmod(int(k), len(remains)) for k in best)
    ]


def _edges(times: Floats, most: int) -> Floats:
    """Return the distinct times in ascending order, thinned evenly to at most `most`."""
    found = np.unique(times)
    if len(found) > most:
        found = found[np.linspace(0, len(found) - 1, most).astype(np.int64)]
    return found


def within_memory(problem: Problem) -> Problem | None:
    """Return the problem without devices that cannot hold a node and its neighbouring values."""
    if not memory_binds(problem):
        return problem
    footprint = Footprint.of(problem)
    room = np.array(footprint.capacity)
    beside = np.array(footprint.beside).reshape(problem.n, len(problem.devices))
    open_to = np.array(problem.weight_bytes)[:, None] + beside <= room
    left = problem if open_to.all() else narrowed(problem, open_to)
    usable = left.runnable.any(axis=0)
    weights = sum(constant.nbytes for constant in problem.constants if constant.consumers)
    # Summed as Python integers: capacities near 2**62 overflow 64 bits.
    return left if weights <= sum(room[usable].tolist()) else None


def balanced_weights(problem: Problem, setting: BoundInputs, *, along: bool = False) -> float:
    """Return the bound of ``area.balanced`` with each device's weights limited to its memory.

    With `along`, for up to LARGE pairs, each node also ends after its producers, by its fractional
    time; this tightens the bound for models that are mostly sequential. One linear program, whose
    prices prove the bound.
    """
    shares, n = setting.shares, problem.n
    able = np.isfinite(shares)
    scale = float(shares[able].max(initial=0.0))
    weight = np.zeros(n)
    for constant in problem.constants:
        for v in constant.consumers:
            weight[v] += constant.nbytes / len(constant.consumers)
    unit = float(weight.max(initial=0.0))
    if not memory_binds(problem) or scale * unit == 0.0 or not able.any(axis=1).all():
        return 0.0
    check_time()
    from scipy.sparse import csr_matrix, eye, vstack

    node, device = np.nonzero(able)
    count, pairs, seconds = len(problem.devices), np.arange(len(node)), shares[able] / scale
    held = np.array(problem.capacity_bytes, dtype=np.float64) / unit
    rows = [
        csr_matrix((column, (device, pairs)), shape=(count, len(pairs)))
        for column in (seconds, weight[node] / unit)
    ]
    waits = [csr_matrix((2 * count, n))]
    slope, room = [*map(float, problem.streams), *np.zeros(count)], np.append(np.zeros(count), held)
    if along and len(pairs) < LARGE:
        before = setting.before
        reader = np.append(np.repeat(np.arange(n), np.diff(before.at)), np.arange(n))
        rows += [csr_matrix((seconds, (node, pairs)), shape=(n, len(pairs)))[reader]]
        edge = np.arange(len(before.node))
        read = csr_matrix((np.ones(len(edge)), (edge, before.node)), shape=(len(reader), n))
        waits += [read - eye(n, format="csr")[reader], eye(n, format="csr")]
        rows += [csr_matrix((n, len(pairs)))]
        slope += [*np.zeros(len(reader)), *np.ones(n)]
        room = np.append(room, np.zeros(len(reader) + n))
    work, ends, slopes = vstack(rows, format="csr"), vstack(waits, format="csr"), np.array(slope)
    _, price = dealt(n, node, work, slopes, room, least_t=0.0, ends=ends)
    cost = np.minimum.reduceat(price @ work, np.searchsorted(node, np.arange(n)))
    # Ends lie between 0 and t, so the residual of the solver's tolerance counts at its worst.
    total = float(price @ slopes + np.maximum(-(price @ ends), 0.0).sum())
    needed, offered = float(cost.sum()), float(price @ room)
    rounding = 4.0 * (work.nnz + len(room)) * float(np.finfo(np.float64).eps)
    proven = needed - offered - rounding * (needed + offered)
    return max(0.0, scale * proven / total) if total > 0.0 else 0.0
