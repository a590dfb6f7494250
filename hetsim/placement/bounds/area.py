"""Area bounds: what streams can do at most within windows of time, as linear programs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.placement.bounds.paths import Floats, Setting

ROUNDS = 12
"""Times that violated windows are added to one linear program."""

Window = tuple[int, float, float]
"""Device, and the head and tail that nodes in it have at least."""


def balanced(shares: Floats, streams: tuple[int, ...]) -> float:
    """Return the least makespan of fractional assignments, in seconds; inf where one is impossible.

    Minimize T where node v is split over devices, x[v, p] >= 0 with sums 1, and the work of
    each device fits T times its streams. What is returned is computed from the prices y of the
    optimum, sum over v of min over p of y[p] shares[v, p] where sum of y[p] streams[p] is 1: a
    bound for any prices (Lagrange), so that the solver's tolerance cannot make it too large.
    """
    if len(shares) == 0:
        return 0.0
    able = np.isfinite(shares)
    if not able.any(axis=1).all():
        return float("inf")
    scale = float(shares[able].max())
    if scale == 0.0:
        return 0.0
    # A device without a price is free for all, but not for those that it cannot run.
    weighed = prices(shares, streams) * np.where(able, shares / scale, 0.0)
    return scale * float(np.where(able, weighed, np.inf).min(axis=1).sum())


def prices(shares: Floats, streams: tuple[int, ...]) -> Floats:
    """Return the price y[p] of a second of each device, where sum of y[p] streams[p] is 1.

    Those of the linear program of ``balanced``; all 0 where it has none.
    """
    count = shares.shape[1]
    able = np.isfinite(shares)
    scale = float(shares[able].max(initial=0.0))
    if scale == 0.0 or not able.any(axis=1).all():
        return np.zeros(count)
    masks = np.ones((count, *shares.shape), dtype=bool)
    for p in range(count):
        masks[p, :, [q for q in range(count) if q != p]] = False
    width = np.array(streams, dtype=np.float64)
    _, price = _relaxed(shares / scale, masks, width, np.zeros(count))
    total = float((price * width).sum())
    return np.where(price > 0, price / total, 0.0) if total > 0 else np.zeros(count)


def crowded(setting: Setting, head: Floats, tail: Floats, shares: Floats, limit_s: float) -> bool:
    """Say whether windows prove that no plan takes at most `limit_s`.

    If a plan does, a node on device p runs within [head, limit - tail], so for all a and b with
    a + b < limit the nodes with head >= a and tail >= b that p takes fit streams[p] (limit - a
    - b) seconds. The fractional assignments under these limits contain the plan's. Windows are
    added where the present fractional assignment breaks them most, until none is broken or
    `True` is proven: by prices, not by the solver's word. A node's shares are inf where its
    window on a device is too short.

    O(ROUNDS) linear programs over n P variables, and O(P n^2) time to look for windows.
    """
    n, count = shares.shape
    scaled = np.where(np.isfinite(shares), shares, np.inf) / limit_s
    able = np.isfinite(scaled)
    # Where every node on its quickest device breaks no window, no linear program is needed.
    split = np.zeros((n, count))
    split[np.arange(n), scaled.argmin(axis=1)] = 1.0
    chosen: list[Window] = []
    known: set[Window] = set()
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
            return False
        chosen += fresh
        known.update(fresh)
        if turn == 0:
            # Windows of all length balance the work from the start.
            whole = [(p, 0.0, 0.0) for p in range(count) if (p, 0.0, 0.0) not in known]
            chosen += whole
            known.update(whole)
        masks = np.zeros((len(chosen), n, count), dtype=bool)
        room = np.empty(len(chosen))
        for row, (p, a, b) in enumerate(chosen):
            masks[row, :, p] = (head[:, p] >= a) & (tail[:, p] >= b) & able[:, p]
            room[row] = setting.streams[p] * (limit_s - a - b) / limit_s
        split, price = _relaxed(scaled, masks, np.ones(len(chosen)), room)
        if _proven(scaled, masks, room, price):
            return True
    return False


def _proven(scaled: Floats, masks: NDArray[np.bool_], room: Floats, price: Floats) -> bool:
    weight = np.einsum("r,rvp->vp", price, masks)
    cost = np.where(
        np.isfinite(scaled), weight * np.where(np.isfinite(scaled), scaled, 0.0), np.inf
    )
    needed = float(cost.min(axis=1).sum())
    offered = float((price * room).sum())
    rounding = 4.0 * (scaled.size + len(room)) * float(np.finfo(np.float64).eps)
    return needed - offered > 1e-9 + rounding * (abs(needed) + abs(offered))


def _broken(
    head: Floats,
    tail: Floats,
    scaled: Floats,
    split: Floats,
    limit_s: float,
    p: int,
    width: int,
) -> list[Window]:
    """Return up to three windows of device p that hold more work than they have room for."""
    used = np.flatnonzero((split > 1e-9) & np.isfinite(scaled) & (scaled > 0))
    if len(used) == 0:
        return []
    starts, at = np.unique(head[used], return_inverse=True)
    remains, to = np.unique(tail[used], return_inverse=True)
    work = np.zeros((len(starts), len(remains)))
    np.add.at(work, (at, to), scaled[used] * split[used])
    work = work[::-1, ::-1].cumsum(axis=0).cumsum(axis=1)[::-1, ::-1]
    room = width * (limit_s - starts[:, None] - remains[None, :]) / limit_s
    excess = np.where(room >= 0.0, work - room, -np.inf)
    best = np.argsort(excess, axis=None, kind="stable")[::-1][:3]
    return [
        (p, float(starts[i]), float(remains[j]))
        for i, j in (divmod(int(k), len(remains)) for k in best)
        if excess[i, j] > 1e-7
    ]


def _relaxed(
    scaled: Floats, masks: NDArray[np.bool_], slope: Floats, room: Floats
) -> tuple[Floats, Floats]:
    """Minimize t: the work of each row's mask is at most room + slope t; return x and prices."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_matrix

    n, count = scaled.shape
    rows = len(masks)
    pairs = np.flatnonzero(np.isfinite(scaled).ravel())
    flatten = scaled.ravel()[pairs]
    work = masks.reshape(rows, -1)[:, pairs] * flatten
    r, c = np.nonzero(work)
    a_ub = coo_matrix(
        (
            np.concatenate([work[r, c], -slope]),
            (np.concatenate([r, np.arange(rows)]), np.concatenate([c, np.full(rows, len(pairs))])),
        ),
        shape=(rows, len(pairs) + 1),
    ).tocsr()
    a_eq = coo_matrix(
        (np.ones(len(pairs)), (pairs // count, np.arange(len(pairs)))), shape=(n, len(pairs) + 1)
    ).tocsr()
    cost = np.zeros(len(pairs) + 1)
    cost[-1] = 1.0
    bounds = np.zeros((len(pairs) + 1, 2))
    bounds[:, 1] = np.inf
    bounds[-1, 0] = -np.inf
    # The stubs know dense arrays only.
    minimize: Any = linprog
    found = minimize(
        cost, A_ub=a_ub, b_ub=room, A_eq=a_eq, b_eq=np.ones(n), bounds=bounds, method="highs"
    )
    split = np.zeros(n * count)
    if found.status != 0:
        # Without a solution there are no prices: nothing is claimed.
        return split.reshape(n, count), np.zeros(rows)
    split[pairs] = found.x[:-1]
    return split.reshape(n, count), np.maximum(-np.asarray(found.ineqlin.marginals), 0.0)
