"""Earliest starts and least remainders along a chain of nodes that separates the model's work.

The time across each gap of the chain raises the starts and remainders of ``paths``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from hetsim.placement.bounds.area import WindowPrices
from hetsim.placement.bounds.cases import Ends, by_cases, highest
from hetsim.placement.bounds.paths import BoundInputs, Floats, Neighbours, heads, tails
from hetsim.problem.problem import Problem, kinds_of

SIDE = 0.003
"""Maximum share of the total work that may run in parallel to a node of the chain."""

Near = tuple[tuple[tuple[int, int], ...], ...]
"""Producers by node of a gap: (index of the producer in the gap, bytes)."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Gap between two consecutive nodes of a chain."""

    # Both end nodes, and in graph order the nodes reachable from the first that reach the second
    nodes: tuple[int, ...]
    before: Near  # Producers among `nodes`
    least_bytes: int  # Size of the smallest tensor in the gap


def chain_of(setting: BoundInputs) -> list[Gap]:
    """Return the gaps of a chain: nodes of a longest path with almost no work parallel to them."""
    path = _longest(setting.before.rows, setting.shares.min(axis=1).tolist())
    place = {node: at for at, node in enumerate(path)}
    behind, ahead = _reached(setting, place)
    kept = _kept(setting, place, behind, ahead)
    # Gap by position on the path: the one that begins at it or contains it.
    gap_of = (np.searchsorted(kept, np.arange(len(path)), side="right") - 1).tolist()
    inside: list[list[int]] = [[] for _ in kept[1:]]
    chosen = {path[at] for at in kept}
    for v in range(len(setting.shares)):
        if v in chosen or behind[v] < 0 or ahead[v] == len(path):
            continue
        gap = gap_of[behind[v]]
        if 0 <= gap < len(inside) and ahead[v] <= kept[gap + 1]:
            inside[gap].append(v)
    return [
        _gap(setting, (path[first], *inside[gap], path[last]))
        for gap, (first, last) in enumerate(pairwise(kept))
    ]


def _longest(before: Sequence[Sequence[tuple[int, int]]], work: Sequence[float]) -> list[int]:
    """Return a path of most work; `before` lists the producers of each node with their bytes."""
    ends, came_from = list(work), [-1] * len(work)
    for v, near in enumerate(before):
        longest = -1.0
        for u, _ in near:
            if ends[u] > longest:
                longest, came_from[v] = ends[u], u
        ends[v] += max(longest, 0.0)
    path, v = [], max(range(len(ends)), key=ends.__getitem__, default=-1)
    while v >= 0:
        path.append(v)
        v = came_from[v]
    return path[::-1]


def _reached(setting: BoundInputs, place: dict[int, int]) -> tuple[list[int], list[int]]:
    """Return by node its last predecessor on the path (or -1) and first successor (or length)."""
    n, length = len(setting.shares), len(place)
    behind, ahead = [-1] * n, [length] * n
    for v, near in enumerate(setting.before.rows):
        behind[v] = max((place.get(u, behind[u]) for u, _ in near), default=-1)
    for v in range(n - 1, -1, -1):
        ahead[v] = min((place.get(w, ahead[w]) for w, _ in setting.after.rows[v]), default=length)
    return behind, ahead


def _kept(
    setting: BoundInputs, place: dict[int, int], behind: list[int], ahead: list[int]
) -> list[int]:
    """Return in ascending order the positions on the path with little work in parallel."""
    work = setting.shares.min(axis=1)
    beside = np.zeros(len(place) + 1)
    for v, seconds in enumerate(work.tolist()):
        if v not in place and behind[v] + 1 < ahead[v]:
            beside[behind[v] + 1] += seconds
            beside[ahead[v]] -= seconds
    # Without parallel work, the difference of the sums is 0 up to rounding.
    little = (SIDE + 1e-9) * float(work.sum())
    kept: list[int] = np.flatnonzero(beside.cumsum()[:-1] <= little).tolist()
    return kept


def _gap(setting: BoundInputs, nodes: tuple[int, ...]) -> Gap:
    if len(nodes) == 2:
        first, last = nodes
        nbytes = dict(setting.before.rows[last])[first]
        return Gap(nodes, ((), ((0, nbytes),)), nbytes)
    at = {node: k for k, node in enumerate(nodes)}
    before: Near = (
        (),
        *(tuple((at[u], b) for u, b in setting.before.rows[v] if u in at) for v in nodes[1:]),
    )
    return Gap(nodes, before, min(b for near in before for _, b in near))


PRICE_STEPS = (1, 8, 8, 6, 4)
"""Number of parts into which a price of 1 is divided, by number of device kinds in use."""

PRICE_WORK = 2e8
"""Number of prices x nodes x device pairs above which fewer prices are tried."""

AT_ONCE = 1_000_000
"""Maximum number of elements in one array of prices."""


@dataclass(frozen=True, eq=False)
class CrossingTime:
    """Least time from the end of a gap's first node to the start of its last node."""

    # [gaps, P]: Both ends in one group, which then runs all nodes between them sequentially
    within: Floats
    across: Floats  # [gaps, P, P]: Ends in two groups, on devices p and q


def crossings(
    setting: BoundInputs, kinds: Sequence[Sequence[int]], gaps: Sequence[Gap]
) -> CrossingTime:
    """Return the least crossing times of each gap over all placements of the nodes in between.

    Prices on the devices' seconds prove `across` (decision 9). Devices of a kind count as one with
    all their streams; with more than four kinds, all kinds count as in use. O(2^K prices)
    operations on arrays of n P^2 elements for K kinds.
    """
    count = setting.shares.shape[1]
    within = np.array([setting.shares[list(gap.nodes[1:-1])].sum(axis=0) for gap in gaps])
    across = np.empty((len(gaps), count, count))
    for some in _alike_in_size(gaps):
        across[some] = _across(setting, kinds, [gaps[g] for g in some])
    return CrossingTime(within.reshape(len(gaps), count), across + setting.dispatch_s)


def through(
    setting: BoundInputs,
    gap: Gap,
    p: int,
    q: int,
    low_s: float,
    most_s: float,
    cases: int,
    close: float,
) -> float:
    """Return the least time across a gap whose ends are in two groups, at least `low_s`.

    Starts from the longest path and raises it with up to `cases` cases, to at most `most_s`. Each
    node is in the first group, the last group, or a group on any device; the two end groups get
    devices of their own, so the constraints of p and q in `setting` apply to other groups only.
    """
    inner, ends = between(setting, gap, p, q)
    found = max(low_s, float(heads(inner, inner.shares)[-1, -1]))
    if len(gap.nodes) > MOST_NODES or found >= most_s:
        return found
    price, ends = _shared_out(inner, ends)

    def refuted(limit_s: float) -> bool:
        offered = np.full(len(price), limit_s * (1.0 + SURE))
        return by_cases(inner, limit_s, cases, WindowPrices(price, offered), ends)

    # If one group is no limit, `most_s` is usually below the crossing time, so try it first.
    if p != q and close == CLOSE and most_s < np.inf and refuted(most_s):
        return most_s
    return highest(found, most_s, refuted, close)


def _shared_out(inner: BoundInputs, ends: Ends) -> tuple[Floats, Ends]:
    """Return float [K, n, P]: the best sets of prices that divide a price of 1 among devices."""
    count = inner.shares.shape[1] - 2
    dealt = _compositions(count, SHARED_OUT[min(count, len(SHARED_OUT) - 1)])
    price = np.ones((len(dealt), *inner.shares.shape))
    price[:, :, 1:-1] = (dealt / np.array(inner.streams[1:-1]))[:, None, :]
    able = np.isfinite(inner.shares)
    cost = np.where(able, price * np.where(able, inner.shares, 0.0), np.inf)
    best = np.argsort(-cost.min(axis=2).sum(axis=1), kind="stable")[:KINDS]
    return price[best], replace(ends, parts=np.pad(dealt[best], ((0, 0), (1, 1))))


def between(setting: BoundInputs, gap: Gap, p: int, q: int) -> tuple[BoundInputs, Ends]:
    """Return a gap as a setting of its own, with devices for the first and the last group."""
    count = setting.shares.shape[1]
    nodes = list(gap.nodes)
    n = len(nodes)
    shares = np.full((n, count + 2), np.inf)
    own = setting.shares[nodes[1:-1]]
    shares[1:-1, 0], shares[1:-1, 1:-1], shares[1:-1, -1] = own[:, p], own, own[:, q]
    shares[0, 0] = shares[-1, -1] = 0.0
    stands_for = [p, *range(count), q]
    apart = np.arange(count + 2) + (count + 2) * setting.kernel[np.ix_(nodes, stands_for)]
    alone_s = np.where(np.isfinite(shares), setting.alone_s[np.ix_(nodes, stands_for)], np.inf)
    alone_s[0, 0] = alone_s[-1, -1] = 0.0
    latency_s = np.where(np.eye(count, dtype=bool), 0.0, setting.latency_s)
    latency_s = latency_s[np.ix_(stands_for, stands_for)]
    np.fill_diagonal(latency_s, np.inf)
    latency_s[:, 0] = latency_s[-1, :] = np.inf
    u = np.array([u for row in gap.before for u, _ in row], dtype=np.int64)
    v = np.repeat(np.arange(n), [len(row) for row in gap.before])
    nbytes = np.array([size for row in gap.before for _, size in row], dtype=np.float64)
    dispatch_s = setting.dispatch_s[stands_for]
    travel = _travel(setting, np.array([float(gap.least_bytes)]))[0]
    ends = Ends(
        travel[p, stands_for] + dispatch_s,
        travel[stands_for, q] + setting.dispatch_s[q],
        np.zeros((0, count + 2)),
    )
    inner = BoundInputs(
        shares=shares,
        alone_s=alone_s,
        kernel=np.where(apart >= 0, apart, -1),
        streams=(1, *setting.streams, 1),
        before=Neighbours.of(n, v, u, nbytes),
        after=Neighbours.of(n, u, v, nbytes),
        latency_s=latency_s,
        per_byte_s=setting.per_byte_s[np.ix_(stands_for, stands_for)],
        dispatch_s=dispatch_s,
        arrival_s=np.zeros_like(shares),
        return_s=np.zeros_like(shares),
    )
    return inner, ends


def alike(setting: BoundInputs, gap: Gap) -> tuple[Near, bytes, bytes, bytes]:
    """Return a key that is equal for gaps with the same crossing times."""
    nodes = list(gap.nodes)
    _, kernel = np.unique(setting.kernel[nodes], return_inverse=True)
    shares, alone_s = setting.shares[nodes[1:-1]], setting.alone_s[nodes[1:-1]]
    return gap.before, shares.tobytes(), alone_s.tobytes(), kernel.tobytes()


def _alike_in_size(gaps: Sequence[Gap]) -> list[list[int]]:
    """Return the indices of gaps grouped by the bit length of their number of inner nodes."""
    by_size: dict[int, list[int]] = {}
    for g, gap in enumerate(gaps):
        by_size.setdefault((len(gap.nodes) - 2).bit_length(), []).append(g)
    return list(by_size.values())


def _across(setting: BoundInputs, kinds: Sequence[Sequence[int]], gaps: Sequence[Gap]) -> Floats:
    """Return float [gaps, P, P]: a lower bound on X + M + Y; see ``crossings``."""
    count = setting.shares.shape[1]
    travel = _travel(setting, np.array([float(gap.least_bytes) for gap in gaps]))
    most = max(len(gap.nodes) - 2 for gap in gaps)
    if most == 0:
        return travel
    # Smaller gaps are padded with nodes that take no time.
    shares = np.zeros((len(gaps), most, count))
    in_line = np.zeros((len(gaps), most))
    for g, gap in enumerate(gaps):
        own_shares = setting.shares[list(gap.nodes[1:-1])]
        shares[g, : len(gap.nodes) - 2] = own_shares
        before = [[(u - 1, size) for u, size in near if u > 0] for near in gap.before[1:-1]]
        in_line[g, _longest(before, own_shares.min(axis=1).tolist())] = 1.0
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
    if len(kinds) < len(PRICE_STEPS):
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


def _travel(setting: BoundInputs, nbytes: Floats) -> Floats:
    """Return float [gaps, P, P]: seconds to move `nbytes`, through a third device where faster."""
    count = setting.shares.shape[1]
    direct = setting.latency_s + setting.per_byte_s * nbytes[:, None, None]
    direct[:, range(count), range(count)] = 0.0
    for r in range(count):
        stopped = direct[:, :, r, None] + setting.dispatch_s[r] + direct[:, None, r, :]
        np.minimum(direct, stopped, out=direct)
    return direct


def _dealings(count: int, cells: int) -> Floats:
    """Return float [prices, count + 1]: shares that sum to <= 1; fewer rows for many `cells`."""
    steps = PRICE_STEPS[count] if count < len(PRICE_STEPS) else 2
    while steps > 2 and len(_compositions(count + 2, steps)) * cells > PRICE_WORK:
        steps -= 2
    return _compositions(count + 2, steps)[:, :-1]


@cache
def _compositions(count: int, steps: int) -> Floats:
    """Return all divisions of `steps` parts among `count` members, as shares of 1."""
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


SHARED_OUT, KINDS = (1, 1, 16, 8, 4, 2), 6
"""Number of parts of a price of 1, by number of devices; and the number of divisions kept."""

SURE = 1e-9
"""Relative margin on prices that covers rounding of sums."""

CLOSE = 0.005
"""Relative step above a proven crossing time at which the search stops."""

CASES, MOST_CASES, MOST_NODES = 5_000, 2_000, 40
"""Cases x edges for each crossing time over all kinds of gaps; the maximum for one; and the largest
number of nodes of a gap that is searched by cases."""

ROUGH, ROUGHLY = 6, 0.02
"""Divisor of the number of cases, and relative step, of the first rough pass over all gaps."""

FEW = 4
"""Maximum number of devices that are treated individually."""

CLOSER, BATCHES = 500, 32
"""Maximum number of rounds that refine gaps on the fastest path, and the number of gaps per gap
refined in one round."""


def units_of(problem: Problem) -> list[list[int]]:
    """Return the devices individually, or grouped by kind if more than FEW. O(P^2 n)."""
    devices = range(len(problem.devices))
    return [[p] for p in devices] if len(devices) <= FEW else kinds_of(problem, devices)


def lifted(
    setting: BoundInputs,
    kinds: Sequence[Sequence[int]],
    met_s: float = float("inf"),
    *,
    closely: bool = True,
) -> tuple[BoundInputs, float]:
    """Return `setting` with chain nodes delayed by their gaps, and the least time of the chain.

    With `closely`, gaps on the fastest path are refined by cases until it takes `met_s`.
    """
    gaps = chain_of(setting)
    if not gaps:
        return setting, 0.0
    chain = [gaps[0].nodes[0], *(gap.nodes[-1] for gap in gaps)]
    count = setting.shares.shape[1]
    head, tail = heads(setting, setting.shares), tails(setting, setting.shares)
    head, tail = np.tile(head[chain], 2), np.tile(tail[chain], 2)
    kernel = setting.kernel[chain]
    whole = np.where(kernel >= 0, setting.shares[chain], np.inf)
    shares = np.hstack([setting.alone_s[chain], whole])
    same = (kernel[1:] == kernel[:-1]) & (kernel[1:] >= 0)
    index, several = _by_likeness(setting, gaps)
    found = crossings(setting, kinds, several)
    within, across = found.within, found.across
    most = _cases_each(several)
    # Times across gaps that are not refined further; inf elsewhere.
    final = np.full(across.shape, np.inf)
    plain = [len(gap.nodes) == 2 for gap in several]
    final[plain] = across[plain]
    rough, seen = closely, set[tuple[int, int, int]]()
    for _ in range(CLOSER):
        least = _least(within[index], across[index], same)
        start = _starts(least, shares, head)
        if float((start[-1] + shares[-1] + tail[-1]).min()) >= met_s:
            break
        closer = {
            (int(index[g]), p % count, q % count)
            for g, p, q in _quickest(least, shares, start, tail)
            if len(gaps[g].nodes) > 2
        }
        closer = {
            (k, p, q) for k, p, q in closer - seen if p != q or within[k, p] > across[k, p, p]
        }
        if not closer and not rough:
            break
        if not closer:
            rough, seen = False, set()
            continue
        # Once all gaps of a path are final, others need only reach its length minus the rest.
        rest = _starts(least.transpose(0, 2, 1)[::-1], shares[::-1], tail[::-1])[::-1]
        way = _starts(_least(within[index], final[index], same), shares, head)
        left_s = float((way[-1] + shares[-1] + tail[-1]).min()) if closely else 0.0
        beside_s = _of_both(start + shares)[:-1, :, None] + _of_both(rest + shares)[1:, None, :]
        for k, p, q in sorted(closer)[: len(gaps) // BATCHES + 1]:
            seen.add((k, p, q))
            enough_s = left_s - float(beside_s[index == k, p, q].min())
            enough_s = min(enough_s, float(within[k, p])) if p == q else enough_s
            if across[k, p, q] >= enough_s and closely:
                continue
            cases, close = (most[k] // ROUGH, ROUGHLY) if rough else (most[k], CLOSE)
            low_s = float(across[k, p, q])
            across[k, p, q] = through(setting, several[k], p, q, low_s, enough_s, cases, close)
            if not rough and across[k, p, q] < enough_s:
                final[k, p, q] = across[k, p, q]
    least = _least(within[index], across[index], same)
    start = _starts(least, shares, head)
    backward = _starts(least.transpose(0, 2, 1)[::-1], shares[::-1], tail[::-1])[::-1]
    arrival_s, return_s = setting.arrival_s.copy(), setting.return_s.copy()
    arrival_s[chain] = np.maximum(arrival_s[chain], _of_both(start))
    return_s[chain] = np.maximum(return_s[chain], _of_both(backward))
    total_s = float((start[-1] + shares[-1] + tail[-1]).min())
    return replace(setting, arrival_s=arrival_s, return_s=return_s), total_s


def _cases_each(gaps: Sequence[Gap]) -> list[int]:
    """Return by gap the number of cases to try for each of its crossing times."""
    edges = [sum(map(len, gap.before)) for gap in gaps]
    large = sum(len(gap.nodes) > 2 for gap in gaps)
    return [min(MOST_CASES, CASES // max(large, 1)) // count for count in edges]


def _of_both(found: Floats) -> Floats:
    """Return float [K, P]: the smaller of the values with the kernel split and with it whole."""
    both: Floats = found.reshape(len(found), 2, -1).min(axis=1)
    return both


def _least(within: Floats, across: Floats, same: NDArray[np.bool_]) -> Floats:
    """Return float [gaps, 2 P, 2 P]: least crossing times, with kernels split, then whole.

    A kernel that contains both ends of a gap, `same`, is whole for both ends or neither; if two
    groups have them, for neither.
    """
    count = within.shape[1]
    least = np.tile(across, (1, 2, 2))
    before, behind = least[:, count:, :], least[:, :, count:]
    before[same] = np.inf
    behind.transpose(0, 2, 1)[same] = np.inf
    for p in range(count):
        apart = np.where(same[:, p], np.inf, within[:, p])
        for i, j in ((p, p), (p + count, p + count)):
            least[:, i, j] = np.minimum(least[:, i, j], within[:, p])
        for i, j in ((p, p + count), (p + count, p)):
            least[:, i, j] = np.minimum(least[:, i, j], apart)
    return least


def _starts(least: Floats, shares: Floats, head: Floats) -> Floats:
    """Return float [K, P]: the earliest start of each node of the chain on each device."""
    start = head.copy()
    for k in range(1, len(start)):
        reached = ((start[k - 1] + shares[k - 1])[:, None] + least[k - 1]).min(axis=0)
        np.maximum(start[k], reached, out=start[k])
    return start


def _quickest(
    least: Floats, shares: Floats, start: Floats, tail: Floats
) -> list[tuple[int, int, int]]:
    """Return (gap, device before, device behind) along the fastest path."""
    q = int((start[-1] + shares[-1] + tail[-1]).argmin())
    way = []
    for gap in range(len(least) - 1, -1, -1):
        p = int((start[gap] + shares[gap] + least[gap][:, q]).argmin())
        way.append((gap, p, q))
        q = p
    return way


def _by_likeness(setting: BoundInputs, gaps: Sequence[Gap]) -> tuple[NDArray[np.intp], list[Gap]]:
    """Return the index of each gap's equivalence class, and one gap of each class."""
    known: dict[tuple[Near, bytes, bytes, bytes], int] = {}
    several: list[Gap] = []
    index = np.empty(len(gaps), dtype=np.intp)
    for g, gap in enumerate(gaps):
        key = alike(setting, gap)
        if key not in known:
            known[key] = len(several)
            several.append(gap)
        index[g] = known[key]
    return index, several
