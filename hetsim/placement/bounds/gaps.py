"""The least time between two nodes of a chain, by the devices that run them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np

from hetsim.placement.bounds.chain import Gap, Near
from hetsim.placement.bounds.paths import Floats, Setting, sweep

STEPS = (1, 8, 8, 6, 4)
"""By kinds of devices at work: the parts into which a price of 1 is dealt out among them."""

WORK = 2e8
"""Prices times nodes times pairs of devices from which on fewer prices are tried."""

AT_ONCE = 1_000_000
"""Numbers in one array of prices."""


@dataclass(frozen=True, eq=False)
class Crossing:
    """Least seconds from the end of a gap's first node to the start of its last one.

    Attributes
    ----------
    within : float array [gaps, P]
        Where one group has both: it has all that lies between, and runs it one by one.
    across : float array [gaps, P, P]
        Where two groups have them, on device p and on device q.
    """

    within: Floats
    across: Floats


def crossings(setting: Setting, kinds: Sequence[Sequence[int]], gaps: Sequence[Gap]) -> Crossing:
    """Return both by gap, whatever lies where in between.

    Let c and d be the two nodes, on devices p and q. If one group has both it has all nodes
    between, as groups are in no circle, and runs them one after another: that is `within`. If
    group C has c and D has d, another one, then C ends before any other group that has nodes
    between begins, and D begins after all of these have ended. So let X be the work of the
    nodes between that C has, Y that of those that D has, and M the time from the end of C to
    where D could begin. C and D run theirs one by one, so the time is at least
    X + M + dispatch(q) + Y, and

    - M is at least the travel from p to q;
    - for each device r that has nodes of other groups, M is at least o(r) = travel(p, r) +
      dispatch(r) + travel(r, q), and their work is at most streams(r) (M - o(r));
    - M is at least the least o(r) and what those of one path take that are in other groups.

    Travel is of the smallest tensor of the gap, by whatever devices, with a dispatch at each.
    For a set S of devices at work and shares l(r), k >= 0 of a price of 1 that sum to at most 1,

        sum over v of min(time on p, time on q, min over r of (l(r) / streams(r) + k if v is on
        the path) time on r) + sum over r of l(r) o(r) + k min of o(r)
        + (1 - k - sum of l(r)) max of o(r)

    is at most X + M + Y (Lagrange): the largest of some dealings counts for each S, and the
    least over all S. The path is one of most work. The devices of a kind are one with all their
    streams, and o(r) the least of theirs; of more than four kinds S is all of them, and each o(r)
    the least.

    O(2^K prices) operations on arrays of n P^2 numbers for K kinds.
    """
    count = setting.shares.shape[1]
    within = np.array([setting.shares[list(gap.nodes[1:-1])].sum(axis=0) for gap in gaps])
    across = np.empty((len(gaps), count, count))
    for some in _alike_in_size(gaps):
        across[some] = _across(setting, kinds, [gaps[g] for g in some])
    return Crossing(within.reshape(len(gaps), count), across + setting.dispatch_s)


def through(setting: Setting, gap: Gap, p: int, q: int) -> float:
    """Return the least time by the ways across a gap, where two groups have its ends.

    The sweep of ``paths`` over devices of which some stand for a group: the first for the
    group on p that has the first node, the last for that on q that has the last one, and between
    the two all P for groups in between. None of these sends anything to the first or has
    anything from the last, as groups are in no circle. O(E P^2).
    """
    count = setting.shares.shape[1]
    nodes = list(gap.nodes)
    shares = np.full((len(nodes), count + 2), np.inf)
    own = setting.shares[nodes[1:-1]]
    shares[1:-1, 0], shares[1:-1, 1:-1], shares[1:-1, -1] = own[:, p], own, own[:, q]
    shares[0, 0] = shares[-1, -1] = 0.0
    stands_for = [p, *range(count), q]
    enter_s = np.where(np.eye(count, dtype=bool), 0.0, setting.latency_s) + setting.dispatch_s
    enter_s = enter_s[np.ix_(stands_for, stands_for)]
    np.fill_diagonal(enter_s, np.inf)
    enter_s[:, 0] = enter_s[-1, :] = np.inf
    per_byte_s = setting.per_byte_s[np.ix_(stands_for, stands_for)]
    found = sweep(
        range(len(nodes)), gap.before, shares, np.zeros_like(shares), enter_s, per_byte_s,
        (1, *setting.streams, 1),
    )  # fmt: skip
    return float(found[-1, -1])


def alike(setting: Setting, gap: Gap) -> tuple[Near, bytes]:
    """Return what two gaps have the same where they take the same time."""
    return gap.before, setting.shares[list(gap.nodes[1:-1])].tobytes()


def _alike_in_size(gaps: Sequence[Gap]) -> list[list[int]]:
    """Return the gaps by the next power of two above their nodes between."""
    by_size: dict[int, list[int]] = {}
    for g, gap in enumerate(gaps):
        by_size.setdefault((len(gap.nodes) - 2).bit_length(), []).append(g)
    return list(by_size.values())


def _across(setting: Setting, kinds: Sequence[Sequence[int]], gaps: Sequence[Gap]) -> Floats:
    """Return float [gaps, P, P]: X + M + Y at least; see ``crossings``."""
    count = setting.shares.shape[1]
    travel = _travel(setting, np.array([float(gap.least_bytes) for gap in gaps]))
    most = max(len(gap.nodes) - 2 for gap in gaps)
    if most == 0:
        return travel
    # Those with fewer nodes have some that take no time.
    shares = np.zeros((len(gaps), most, count))
    in_line = np.zeros((len(gaps), most))
    for g, gap in enumerate(gaps):
        own_shares = setting.shares[list(gap.nodes[1:-1])]
        shares[g, : len(gap.nodes) - 2] = own_shares
        in_line[g, _longest(gap, own_shares.min(axis=1).tolist())] = 1.0
    either = np.minimum(shares[:, :, :, None], shares[:, :, None, :])
    least: Floats = either.sum(axis=1) + travel
    width = np.array([sum(setting.streams[p] for p in kind) for kind in kinds], dtype=np.float64)
    own = shares[:, :, [kind[0] for kind in kinds]] / width
    able = np.isfinite(own)
    alone = np.where(np.isfinite(shares), shares, 0.0)
    own = np.where(able, own, 0.0)
    over = np.stack(
        [
            np.min([travel[:, :, r, None] + setting.dispatch_s[r] + travel[:, None, r, :]
                    for r in kind], axis=0)
            for kind in kinds
        ]
    )  # fmt: skip
    if len(kinds) < len(STEPS):
        sets = [s for k in range(1, len(kinds) + 1) for s in combinations(range(len(kinds)), k)]
    else:
        sets = [tuple(range(len(kinds)))]
        over = np.broadcast_to(over.min(axis=0), over.shape)
    for chosen in sets:
        members = list(chosen)
        start = over[members]
        latest = start.max(axis=0)
        best = np.full_like(least, -np.inf)
        earliest = start.min(axis=0)
        takes = own[:, :, members]
        in_path = in_line[:, :, None] * alone[:, :, [kinds[k][0] for k in members]]
        dealings = _dealings(len(members), either.size)
        for part in np.array_split(dealings, -(-len(dealings) * either.size // AT_ONCE)):
            dealt, line = part[:, :-1], part[:, -1]
            price = takes * dealt[:, None, None, :] + in_path * line[:, None, None, None]
            price = np.where(able[:, :, members], price, np.inf).min(axis=3)
            paid = np.minimum(either, price[..., None, None]).sum(axis=2)
            paid += np.tensordot(dealt, start, axes=1)
            paid += np.multiply.outer(line, earliest)
            paid += np.multiply.outer(1.0 - part.sum(axis=1), latest)
            np.maximum(best, paid.max(axis=0), out=best)
        np.minimum(least, best, out=least)
    return least


def _travel(setting: Setting, nbytes: Floats) -> Floats:
    """Return float [gaps, P, P]: of so many bytes, through others where that is quicker."""
    count = setting.shares.shape[1]
    direct = setting.latency_s + setting.per_byte_s * nbytes[:, None, None]
    direct[:, range(count), range(count)] = 0.0
    for r in range(count):
        stopped = direct[:, :, r, None] + setting.dispatch_s[r] + direct[:, None, r, :]
        np.minimum(direct, stopped, out=direct)
    return direct


def _dealings(count: int, cells: int) -> Floats:
    """Return float [dealings, count]: shares of at most 1 in all; fewer where `cells` are many."""
    steps = STEPS[count] if count < len(STEPS) else 2
    while steps > 2 and len(_compositions(count + 2, steps)) * cells > WORK:
        steps -= 2
    return _compositions(count + 2, steps)[:, :-1]


@cache
def _compositions(count: int, steps: int) -> Floats:
    """Return all ways to deal `steps` parts out to `count`, as shares of 1."""
    if count == 1:
        return np.array([[1.0]]) if steps else np.array([[0.0]])
    rows: list[list[float]] = []

    def deal(start: list[int], left: int) -> None:
        if len(start) == count - 1:
            rows.append([part / steps for part in (*start, left)])
            return
        for part in range(left + 1):
            deal([*start, part], left - part)

    deal([], steps)
    return np.array(rows)


def _longest(gap: Gap, work: list[float]) -> list[int]:
    """Return the places, among the nodes between, of a path of most work."""
    ends, came_from = [0.0] * len(work), [-1] * len(work)
    for v, near in enumerate(gap.before[1:-1]):
        for u, _ in near:
            if u > 0 and ends[u - 1] > ends[v]:
                ends[v], came_from[v] = ends[u - 1], u - 1
        ends[v] += work[v]
    path, v = [], max(range(len(work)), key=ends.__getitem__, default=-1)
    while v >= 0:
        path.append(v)
        v = came_from[v]
    return path
