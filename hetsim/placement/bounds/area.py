"""Area bounds: what streams can do at most within windows of time, as linear programs."""

from __future__ import annotations

import numpy as np

from hetsim.placement.bounds.kernels import compiled_fullest
from hetsim.placement.bounds.paths import Floats, Setting
from hetsim.placement.bounds.prices import Rows, relaxed, worth

ROUNDS = 12
"""Times that violated windows are added to one linear program."""

MATRIX = 1500
"""Nodes up to which all windows of a device are weighed at once, in a matrix."""

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
    if (able.sum(axis=1) == 1).all():
        # Nothing is to be split: no program has to be solved.
        return float((np.where(able, shares, 0.0).sum(axis=0) / np.array(streams)).max())
    value, _ = worth(_whole(shares / scale, streams), prices(shares, streams))
    return scale * value


def prices(shares: Floats, streams: tuple[int, ...]) -> Floats:
    """Return the price y[p] of a second of each device, where sum of y[p] streams[p] is 1.

    Those of the linear program of ``balanced``; all 0 where it has none.
    """
    count = shares.shape[1]
    able = np.isfinite(shares)
    scale = float(shares[able].max(initial=0.0))
    if scale == 0.0 or not able.any(axis=1).all():
        return np.zeros(count)
    rows = _whole(shares / scale, streams)
    _, price = relaxed(rows)
    total = float((price * rows.slope).sum())
    return np.where(price > 0, price / total, 0.0) if total > 0 else np.zeros(count)


def _whole(scaled: Floats, streams: tuple[int, ...]) -> Rows:
    """Return a row of each device: all of its work takes its streams at most t."""
    n, count = scaled.shape
    width = np.array(streams, dtype=np.float64)
    return Rows(scaled, np.arange(count), np.ones((count, n), dtype=bool), width, np.zeros(count))


def crowded(setting: Setting, head: Floats, tail: Floats, shares: Floats, limit_s: float) -> bool:
    """Say whether windows prove that no plan takes at most `limit_s`.

    If a plan does, a node on device p runs within [head, limit - tail], so for all a and b with
    a + b < limit the nodes with head >= a and tail >= b that p takes fit streams[p] (limit - a
    - b) seconds. The fractional assignments under these limits contain the plan's. Windows are
    added where the present fractional assignment breaks them most, until none is broken or
    `True` is proven: by prices, not by the solver's word. A node's shares are inf where its
    window on a device is too short.

    O(ROUNDS) programs of ``prices.relaxed``, and O(P n log n) time to look for windows.
    """
    n, count = shares.shape
    scaled = np.where(np.isfinite(shares), shares, np.inf) / limit_s
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
        device = np.array([p for p, _, _ in chosen])
        a, b = np.array([[a, b] for _, a, b in chosen]).T
        inside = (head.T[device] >= a[:, None]) & (tail.T[device] >= b[:, None])
        room = np.array(setting.streams)[device] * (limit_s - a - b) / limit_s
        rows = Rows(scaled, device, inside, np.ones(len(chosen)), room)
        split, price = relaxed(rows, sign=True)
        if _proven(rows, price):
            return True
    return False


def _proven(rows: Rows, price: Floats) -> bool:
    value, _ = worth(rows, price)
    offered = float(price @ rows.room)
    terms = 4.0 * (rows.scaled.size + len(rows.room)) * float(np.finfo(np.float64).eps)
    return value > 1e-9 + terms * (abs(value + offered) + abs(offered))


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
    if len(used) > MATRIX:
        return _fullest(head[used], tail[used], scaled[used] * split[used], limit_s, p, width)
    starts, at = np.unique(head[used], return_inverse=True)
    remains, to = np.unique(tail[used], return_inverse=True)
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


def _fullest(
    head: Floats, tail: Floats, work: Floats, limit_s: float, p: int, width: int
) -> list[Window]:
    """Do what ``_broken`` does in time O(n log n), with the fullest window of each head alone."""
    order = np.argsort(-head, kind="stable")
    remains, to = np.unique(tail[order], return_inverse=True)
    top, late = np.zeros((2, 4 * len(remains)))
    excess, starts, ends = np.zeros((3, len(head)))
    heads = compiled_fullest()(
        head[order], to, work[order], remains, float(width), limit_s, top, late,
        excess, starts, ends,
    )  # fmt: skip
    best = np.argsort(excess[:heads], kind="stable")[::-1][:3]
    return [(p, float(starts[k]), float(ends[k])) for k in best.tolist() if excess[k] > 1e-7]
