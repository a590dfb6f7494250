"""Refutation of a limit by cases: one node on one device, or on none but the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hetsim.core import deadline, left_to_python
from hetsim.core.left_to_python import called
from hetsim.core.machine_code import machine_code
from hetsim.placement.bounds.area import Prices
from hetsim.placement.bounds.paths import INFINITY, Array, Floats, Setting, start_of

LEAST, COMPILE_FROM = 0, 800_000
"""Pairs of node and device in all cases: those that justify machine code, and compiling it."""

CLOSE = 1.0 / 1000
"""The step above what is proven at which to end, in parts of that; the first is twice that."""


@dataclass(frozen=True, eq=False)
class Ends:
    """Times of a gap whose first device is one group that ends before any other begins.

    And whose last device is one group that begins after all others have ended.
    """

    lead_s: Floats  # [P]: From the end of the first to a start on another device
    trail_s: Floats  # [P]: From an end on another device to the start of the last
    parts: Floats  # [K, P]: By kind of prices, of what passes between the two; 1 in all


def highest(
    low_s: float, most_s: float, refuted: Callable[[float], bool], close: float = CLOSE
) -> float:
    """Return the largest limit found that is refuted, in seconds; `low_s` where none is.

    Steps above what is proven double until one fails, and are halved from there.
    """
    step, failed = 2.0 * close, INFINITY
    while low_s > 0.0 and step >= close:
        limit = low_s * (1.0 + step)
        if limit < min(failed, most_s) and refuted(limit):
            low_s = limit
            step = 2.0 * step if failed == INFINITY else step
        else:
            failed = min(failed, limit)
            step = 0.5 * min(step, failed / low_s - 1.0)
    return low_s


def by_cases(
    setting: Setting,
    limit_s: float,
    most: int,
    prices: Prices | None = None,
    ends: Ends | None = None,
) -> bool:
    """Return whether cases prove that no plan takes at most `limit_s`.

    A node is on a device, or on one of its others. In each case the starts and remainders of
    ``paths.heads`` are found anew, and a device is ruled out for a node that it cannot run in
    time; what that says of other nodes is found by the same rule, until nothing is ruled out any
    more. The case is refuted where a node has no device left; or where the nodes that have one
    left do not fit it: those of a head of at least a and a tail of at least b take more than
    streams (limit - a - b); or where all nodes on the cheapest of their devices cost more than
    what is offered at the given prices. A fused kernel is taken for its parts where a node of it
    cannot be on its device. If both cases are refuted, so is what they are cases of. After
    `most` cases nothing is proven. Every step holds for each plan that takes at most `limit_s`.

    O(most (E P^2 + P n^2)) at worst; nodes are looked at again only where a neighbour changed.
    """
    deadline.check()
    n, count = setting.shares.shape
    if n == 0:
        return False
    enter_s = setting.latency_s + setting.dispatch_s[None, :]
    before, after = setting.before, setting.after
    widest = max(int(np.diff(before.at).max()), int(np.diff(after.at).max()), 1)
    # Each case fixes a node, or says that a device has some.
    deep = n + count + 2
    stack = np.zeros((5, deep, n * count))
    stack[0, 0] = setting.shares.ravel()
    stack[1, 0], stack[3, 0] = setting.arrival_s.ravel(), setting.return_s.ravel()
    given = np.zeros(0) if ends is None else np.concatenate([ends.lead_s, ends.trail_s])
    parts = np.zeros(0) if ends is None else ends.parts.ravel()
    prices = Prices(np.zeros((0, n, count)), np.zeros(0)) if prices is None else prices
    pairs = np.flatnonzero(setting.kernel.ravel() >= 0)
    numbers, of = np.unique(setting.kernel.ravel()[pairs], return_inverse=True)
    kernel = np.full(n * count, -1)
    kernel[pairs] = of
    members = pairs[np.argsort(of, kind="stable")]
    member_at = np.searchsorted(np.sort(of), np.arange(len(numbers) + 1))
    columns = [
        before.at, before.node, before.nbytes, after.at, after.node, after.nbytes,
        enter_s.ravel(), setting.per_byte_s.ravel(),
        np.ascontiguousarray(enter_s.T).ravel(), np.ascontiguousarray(setting.per_byte_s.T).ravel(),
        setting.alone_s.ravel(), kernel, member_at, members,
        np.array(setting.streams), prices.price.ravel(), prices.offered, given, parts,
        np.zeros((deep, count), dtype=np.int64), np.zeros(count), np.zeros(len(prices.offered)),
        *stack,
        np.empty(widest), *np.empty((2, widest), dtype=np.int64),
        *np.ones((2, n), dtype=np.int64), *np.empty((2, n), dtype=np.int64),
        *np.empty((2, deep), dtype=np.int64),
    ]  # fmt: skip
    fixed = (limit_s * (1.0 + 1e-12), ends is not None, most)
    many = left_to_python.pays(_compiled, n * count * most // 4, LEAST, COMPILE_FROM)
    found, _ = called(_compiled, fixed, columns, as_arrays=many)
    return bool(found)


def refute(
    limit: float, grouped: bool, most: int,
    before_at: Array, before: Array, before_bytes: Array,
    after_at: Array, after: Array, after_bytes: Array,
    enter: Array, per_byte: Array, leave: Array, leave_per_byte: Array,
    alone: Array, kernel: Array, member_at: Array, member: Array,
    streams: Array, price: Array, offered: Array, given: Array,
    parts: Array, used: Array, loads: Array, excess: Array,
    shares: Array, head: Array, end: Array, tail: Array, rest: Array,
    off: Array, rank: Array, inside: Array,
    early: Array, late: Array, chosen: Array, ordered: Array, at_node: Array, at_device: Array,
) -> bool:  # fmt: skip
    """Search the cases depth first; row d of `shares` .. `rest` is the state at depth d."""
    n, count = len(early), len(streams)
    for k in range(n * count):
        if shares[0][k] == INFINITY:
            rule_out(
                k // count, k % count, count, before_at, before, after_at, after,
                alone, kernel, member_at, member,
                shares[0], end[0], rest[0], early, late,
            )  # fmt: skip
    depth, tried = 0, 0
    while True:
        tried += 1
        possible = again = True
        while possible and again:
            possible = settle(
                limit, before_at, before, before_bytes, after_at, after, after_bytes,
                enter, per_byte, leave, leave_per_byte, streams,
                alone, kernel, member_at, member,
                shares[depth], head[depth], end[depth], tail[depth], rest[depth],
                off, rank, inside, early, late,
            )  # fmt: skip
            again = False
            if possible and grouped:
                again = hold_apart(
                    given, streams, used[depth], loads,
                    shares[depth], head[depth], tail[depth], early, late,
                )  # fmt: skip
            if possible and not again:
                kind = dearest(price, offered, parts, loads, shares[depth], excess)
                possible = kind < 0 or excess[kind] <= 0.0
                if possible and kind >= 0:
                    again = rule_out_dear(
                        kind, excess[kind], price, count,
                        before_at, before, after_at, after, alone, kernel, member_at, member,
                        shares[depth], end[depth], rest[depth], early, late,
                    )  # fmt: skip
        if possible:
            possible = fits(
                limit, streams, shares[depth], head[depth], tail[depth], chosen, ordered
            )
        if not possible:
            for v in range(n):
                early[v] = late[v] = 0
            if depth == 0:
                return True
            depth -= 1
            first, last = at_node[depth], at_node[depth] + 1
            if first < 0:
                first, last = 0, n
            for v in range(first, last):
                if shares[depth][v * count + at_device[depth]] < INFINITY:
                    rule_out(
                        v, at_device[depth], count, before_at, before, after_at, after,
                        alone, kernel, member_at, member,
                        shares[depth], end[depth], rest[depth], early, late,
                    )  # fmt: skip
            continue
        if tried >= most:
            return False
        # The node of most work for its choices, on the device on which it ends first.
        node, device, most_work = -1, -1, -1.0
        for v in range(n):
            able, where, best, work = 0, -1, INFINITY, INFINITY
            for pair in range(v * count, v * count + count):
                if shares[depth][pair] < INFINITY:
                    able += 1
                    work = min(work, shares[depth][pair])
                    through = head[depth][pair] + shares[depth][pair] + tail[depth][pair]
                    if through < best:
                        best, where = through, pair - v * count
            if able > 1 and work / able > most_work:
                node, device, most_work = v, where, work / able
        if node < 0:
            return False
        if grouped and 0 < device < count - 1 and used[depth][device] == 0:
            # First whether another group is on the device at all.
            node = -1
        at_node[depth], at_device[depth] = node, device
        for p in range(count):
            used[depth + 1][p] = used[depth][p]
        for k in range(n * count):
            shares[depth + 1][k] = shares[depth][k]
            head[depth + 1][k], end[depth + 1][k] = head[depth][k], end[depth][k]
            tail[depth + 1][k], rest[depth + 1][k] = tail[depth][k], rest[depth][k]
        depth += 1
        if node < 0:
            used[depth][device] = 1
            continue
        for p in range(count):
            if p != device and shares[depth][node * count + p] < INFINITY:
                rule_out(
                    node, p, count, before_at, before, after_at, after,
                    alone, kernel, member_at, member,
                    shares[depth], end[depth], rest[depth], early, late,
                )  # fmt: skip


def rule_out(
    node: int, device: int, count: int,
    before_at: Array, before: Array, after_at: Array, after: Array,
    alone: Array, kernel: Array, member_at: Array, member: Array,
    shares: Array, end: Array, rest: Array, early: Array, late: Array,
) -> None:  # fmt: skip
    """Take a device from a node, and fusion from its kernel there; mark whose times that raises."""
    pair = node * count + device
    first, last = 0, 1
    if kernel[pair] >= 0:
        first, last = member_at[kernel[pair]], member_at[kernel[pair] + 1]
    for m in range(first, last):
        other = member[m] if kernel[pair] >= 0 else pair
        least = INFINITY if other == pair else max(alone[other], shares[other])
        if other != pair and least == shares[other]:
            continue
        v = other // count
        shares[other] = least
        if least < INFINITY:
            early[v] = late[v] = 1
            continue
        end[other] = rest[other] = INFINITY
        for k in range(after_at[v], after_at[v + 1]):
            early[after[k]] = 1
        for k in range(before_at[v], before_at[v + 1]):
            late[before[k]] = 1


def settle(
    limit: float,
    before_at: Array, before: Array, before_bytes: Array,
    after_at: Array, after: Array, after_bytes: Array,
    enter: Array, per_byte: Array, leave: Array, leave_per_byte: Array, streams: Array,
    alone: Array, kernel: Array, member_at: Array, member: Array,
    shares: Array, head: Array, end: Array, tail: Array, rest: Array,
    off: Array, rank: Array, inside: Array, early: Array, late: Array,
) -> bool:  # fmt: skip
    """Rule out what ends too late until nothing does; say whether every node has a device.

    `early` are the nodes whose starts may have risen, `late` those whose remainders may have.
    """
    n, count = len(early), len(streams)
    again = True
    while again:
        again = False
        for turn in range(2):
            for k in range(n):
                v = k if turn == 0 else n - 1 - k
                if turn == 0 and early[v]:
                    restart(
                        v, early, after_at, after, before_at, before, before_bytes, shares,
                        enter, per_byte, streams, head, end, off, rank, inside,
                    )  # fmt: skip
                elif turn == 1 and late[v]:
                    restart(
                        v, late, before_at, before, after_at, after, after_bytes, shares,
                        leave, leave_per_byte, streams, tail, rest, off, rank, inside,
                    )  # fmt: skip
                else:
                    continue
                able = False
                for p in range(count):
                    pair = v * count + p
                    if shares[pair] == INFINITY:
                        continue
                    if end[pair] + tail[pair] <= limit and head[pair] + rest[pair] <= limit:
                        able = True
                    else:
                        again = True
                        rule_out(
                            v, p, count, before_at, before, after_at, after,
                            alone, kernel, member_at, member,
                            shares, end, rest, early, late,
                        )  # fmt: skip
                if not able:
                    return False
    return True


def restart(
    v: int, marked: Array, next_at: Array, following: Array,
    near_at: Array, near: Array, nbytes: Array, shares: Array, enter: Array, per_byte: Array,
    streams: Array, found: Array, ends: Array, off: Array, rank: Array, inside: Array,
) -> None:  # fmt: skip
    """Recompute the start of a marked node, and mark those that follow where its end rose."""
    marked[v] = 0
    if start_of(
        v, near_at, near, nbytes, shares, enter, per_byte, streams, found, ends, off, rank, inside
    ):
        for i in range(next_at[v], next_at[v + 1]):
            marked[following[i]] = 1


def hold_apart(
    given: Array, streams: Array, used: Array, loads: Array,
    shares: Array, head: Array, tail: Array, early: Array, late: Array,
) -> bool:  # fmt: skip
    """Raise starts behind all that the first group has, remainders by all that the last has.

    A device that is `used` by another group takes its way there and back, and what it has. `loads`
    come out: by device, the least time between the two ends where another group is on it.
    """
    n, count = len(early), len(streams)
    first, last, least = 0.0, 0.0, given[count - 1]
    for p in range(count):
        loads[p] = 0.0
    for v in range(n):
        able, where = 0, -1
        for p in range(count):
            if shares[v * count + p] < INFINITY:
                able, where = able + 1, p
                if 0 < p < count - 1:
                    least = min(least, given[p] + given[count + p])
        if able == 1:
            loads[where] += shares[v * count + where] / streams[where]
    first, last = loads[0], loads[count - 1]
    between = 0.0
    for p in range(1, count - 1):
        if loads[p] > 0.0 or used[p]:
            between = max(between, given[p] + loads[p] + given[count + p])
    between = max(between, least)
    for p in range(1, count - 1):
        over = given[p] + given[count + p]
        loads[p] = over if loads[p] > 0.0 or used[p] else min(over, between)
    raised = False
    for v in range(n):
        for p in range(count):
            pair = v * count + p
            if shares[pair] == INFINITY:
                continue
            start = first + given[p]
            if p == count - 1:
                start = first + between
            if p > 0 and head[pair] < start:
                head[pair] = start
                early[v] = 1
                raised = True
            rest = last + given[count + p]
            if p == 0:
                rest = last + between
            if p < count - 1 and tail[pair] < rest:
                tail[pair] = rest
                late[v] = 1
                raised = True
    return raised


def dearest(
    price: Array, offered: Array, parts: Array, loads: Array, shares: Array, excess: Array
) -> int:
    """Find by kind of prices what all nodes cost beyond what is offered; return the most of all."""
    kinds, pairs, most = len(offered), len(shares), -1
    for kind in range(kinds):
        total = -offered[kind]
        if len(parts) > 0:
            for p in range(len(loads)):
                total += parts[kind * len(loads) + p] * loads[p]
        k = 0
        while k < pairs:
            least = INFINITY
            for pair in range(k, k + len(loads)):
                if shares[pair] < INFINITY:
                    least = min(least, price[kind * pairs + pair] * shares[pair])
            total += least
            k += len(loads)
        excess[kind] = total
        if most < 0 or total > excess[most]:
            most = kind
    return most


def rule_out_dear(
    kind: int, excess: float, price: Array, count: int,
    before_at: Array, before: Array, after_at: Array, after: Array,
    alone: Array, kernel: Array, member_at: Array, member: Array,
    shares: Array, end: Array, rest: Array, early: Array, late: Array,
) -> bool:  # fmt: skip
    """Rule out devices on which a node alone costs more than is left; say whether there are any."""
    found = False
    for v in range(len(early)):
        least = INFINITY
        at = kind * len(shares)
        for pair in range(v * count, v * count + count):
            if shares[pair] < INFINITY:
                least = min(least, price[at + pair] * shares[pair])
        for pair in range(v * count, v * count + count):
            if shares[pair] < INFINITY and price[at + pair] * shares[pair] - least > -excess:
                rule_out(
                    v, pair - v * count, count, before_at, before, after_at, after,
                    alone, kernel, member_at, member, shares, end, rest, early, late,
                )  # fmt: skip
                found = True
    return found


def fits(
    limit: float, streams: Array, shares: Array, head: Array, tail: Array,
    chosen: Array, order: Array,
) -> bool:  # fmt: skip
    """Say whether the nodes of one device fit it in all windows."""
    count = len(streams)
    n = len(shares) // count
    for v in range(n):
        able = 0
        chosen[v] = -1
        for p in range(count):
            if shares[v * count + p] < INFINITY:
                able += 1
                chosen[v] = p if able == 1 else -1
    for p in range(count):
        # Those of the device, the last remainder first.
        many = 0
        for v in range(n):
            if chosen[v] != p:
                continue
            k = many
            while k > 0 and tail[order[k - 1] * count + p] < tail[v * count + p]:
                order[k] = order[k - 1]
                k -= 1
            order[k] = v
            many += 1
        for i in range(many):
            # Of windows that begin here, one for each end among those inside.
            begin, work = head[order[i] * count + p], 0.0
            for k in range(many):
                pair = order[k] * count + p
                if head[pair] >= begin:
                    work += shares[pair]
                    if begin + work / streams[p] + tail[pair] > limit * (1.0 + 1e-12):
                        return False
    return True


_compiled = machine_code(
    refute, start_of, rule_out, restart, settle, hold_apart, dearest, rule_out_dear, fits
)
