"""Refutation of a latency limit by case distinction on the device of a node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import methodcaller
from typing import NamedTuple

import numpy as np

from hetsim.core import compile_threshold, deadline
from hetsim.core.machine_code import machine_code
from hetsim.placement.bounds.area import WindowPrices
from hetsim.placement.bounds.paths import (
    INFINITY,
    Array,
    BoundInputs,
    Floats,
    Sweep,
    start_of,
    sweep_of,
)

LEAST, COMPILE_FROM = 0, 800_000
"""Number of (node, device) pairs over all cases from which machine code is used, and compiled."""

CLOSE = 1.0 / 1000
"""Relative step above the proven limit at which the search stops; the first step is twice that."""


@dataclass(frozen=True, eq=False)
class Ends:
    """Times of a gap whose first device is one group that ends before any other group begins.

    The last device is one group that begins after all others have ended.
    """

    lead_s: Floats  # [P]: From the end of the first group to a start on another device
    trail_s: Floats  # [P]: From an end on another device to the start of the last group
    parts: Floats  # [K, P]: Share of the time between the two groups by set of prices, summing to 1


def highest(
    low_s: float, most_s: float, refuted: Callable[[float], bool], close: float = CLOSE
) -> float:
    """Return the largest refuted limit found, in seconds; `low_s` if none is refuted.

    Steps above the proven limit double until one is not refuted, then halve.
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
    setting: BoundInputs,
    limit_s: float,
    most: int,
    prices: WindowPrices | None = None,
    ends: Ends | None = None,
) -> bool:
    """Return whether cases prove that no plan takes at most `limit_s`.

    Each case fixes a node to a device, or to its other devices, and recomputes the starts and
    remainders of ``paths.heads``. Devices that cannot run a node in time are ruled out, and the
    consequences propagated to a fixed point. A case is refuted if a node has no device left; if the
    nodes with one device left do not fit it, as those with head >= a and tail >= b take more than
    streams (limit - a - b); or if the cheapest devices of all nodes cost more than the given prices
    offer. A fused kernel counts as its parts once a node of it cannot be on its device. If both
    cases of a distinction are refuted, so is their parent. After `most` cases the result is False.
    Every step is valid for each plan that takes at most `limit_s`.

    Complexity: O(most (E P^2 + P n^2)) at worst; only nodes with a changed neighbour are revisited.
    """
    deadline.check()
    n, count = setting.shares.shape
    if n == 0:
        return False
    many = compile_threshold.pays(_compiled, n * count * most // 4, LEAST, COMPILE_FROM)
    as_given = np.ascontiguousarray if many else methodcaller("tolist")
    # Each case fixes a node to a device, or marks a device as used.
    deep = n + count + 2
    states = np.zeros((5, deep, n * count))
    states[:3, 0] = [part.ravel() for part in (setting.shares, setting.arrival_s, setting.return_s)]
    shares, head, tail, end, rest = (as_given(part.ravel()) for part in states)
    enter_s, per_byte_s = setting.latency_s + setting.dispatch_s[None, :], setting.per_byte_s
    forth, back = (
        sweep_of(near, enter, per_byte, setting.streams, starts, arrays=many)
        for near, enter, per_byte, starts in (
            (setting.before, enter_s, per_byte_s, (shares, head, end)),
            (setting.after, enter_s.T, per_byte_s.T, (shares, tail, rest)),
        )
    )
    prices = WindowPrices(np.zeros((0, n, count)), np.zeros(0)) if prices is None else prices
    pairs = np.flatnonzero(setting.kernel.ravel() >= 0)
    numbers, of = np.unique(setting.kernel.ravel()[pairs], return_inverse=True)
    kernel = np.full(n * count, -1)
    kernel[pairs] = of
    member_at = np.searchsorted(np.sort(of), np.arange(len(numbers) + 1))
    none = np.zeros(0)
    cases = Cases(*map(as_given, (
        setting.alone_s.ravel(), kernel, member_at, pairs[np.argsort(of, kind="stable")],
        prices.price.ravel(), prices.offered,
        none if ends is None else np.concatenate([ends.lead_s, ends.trail_s]),
        none if ends is None else ends.parts.ravel(),
        np.zeros(deep * count, dtype=np.int64), np.zeros(count), np.zeros(len(prices.offered)),
        *np.ones((2, n), dtype=np.int64), *np.empty((2, n), dtype=np.int64),
        *np.empty((2, deep), dtype=np.int64),
    )))  # fmt: skip
    limit = limit_s * (1.0 + 1e-12)
    return bool((_compiled if many else refute)(limit, ends is not None, most, forth, back, cases))


class Cases(NamedTuple):
    """Arrays of ``refute`` besides those of the forward and backward sweeps."""

    alone: Array  # [n P]: Seconds of a node outside its fused kernel, and that kernel or -1
    kernel: Array
    member_at: Array  # [kernels + 1]: Offsets into `member`, the (node, device) pairs by kernel
    member: Array
    price: Array  # [K n P]: As in ``WindowPrices``
    offered: Array
    given: Array  # [2 P], [K P]: Fields of ``Ends``; empty without them
    parts: Array
    used: Array  # [depths P]: Whether a device has a group other than the first and last
    loads: Array  # [P]
    excess: Array  # [K]
    early: Array  # [n]: Whether a node's start, and its remainder, needs an update
    late: Array
    chosen: Array  # [n]: Scratch arrays
    ordered: Array
    at_node: Array  # [depths]: The node and device that each case fixes
    at_device: Array


def refute(limit: float, grouped: bool, most: int, forth: Sweep, back: Sweep, cases: Cases) -> bool:
    """Search the cases depth first; the state of depth d starts at index d n P in both sweeps."""
    n, count, shares = len(cases.early), len(forth.streams), forth.shares
    wide = n * count
    for k in range(wide):
        if shares[k] == INFINITY:
            rule_out(forth, back, cases, 0, k)
    depth, tried = 0, 0
    while True:
        tried += 1
        base = depth * wide
        possible = again = True
        while possible and again:
            possible = settle(limit, forth, back, cases, base)
            again = False
            if possible and grouped:
                again = separate_ends(forth, back, cases, base, depth)
            if possible and not again:
                kind = largest_excess(forth, cases, base)
                possible = kind < 0 or cases.excess[kind] <= 0.0
                if possible and kind >= 0:
                    again = rule_out_expensive(forth, back, cases, base, kind)
        if possible:
            possible = fits(limit, forth, back, cases, base)
        if not possible:
            for v in range(n):
                cases.early[v] = cases.late[v] = 0
            if depth == 0:
                return True
            depth -= 1
            base -= wide
            first, last = cases.at_node[depth], cases.at_node[depth] + 1
            if first < 0:
                first, last = 0, n
            for v in range(first, last):
                pair = v * count + cases.at_device[depth]
                if shares[base + pair] < INFINITY:
                    rule_out(forth, back, cases, base, pair)
            continue
        if tried >= most:
            return False
        # Branch on the node with most work per choice, on the device where it ends first.
        node, device, most_work = -1, -1, -1.0
        for v in range(n):
            able, where, best, work = 0, -1, INFINITY, INFINITY
            for p in range(count):
                at = base + v * count + p
                if shares[at] < INFINITY:
                    able += 1
                    work = min(work, shares[at])
                    through = forth.found[at] + shares[at] + back.found[at]
                    if through < best:
                        best, where = through, p
            if able > 1 and work / able > most_work:
                node, device, most_work = v, where, work / able
        if node < 0:
            return False
        if grouped and 0 < device < count - 1 and cases.used[depth * count + device] == 0:
            # First decide whether another group uses the device at all.
            node = -1
        cases.at_node[depth], cases.at_device[depth] = node, device
        for p in range(count):
            cases.used[(depth + 1) * count + p] = cases.used[depth * count + p]
        for k in range(base, base + wide):
            shares[wide + k] = shares[k]
            forth.found[wide + k], forth.ends[wide + k] = forth.found[k], forth.ends[k]
            back.found[wide + k], back.ends[wide + k] = back.found[k], back.ends[k]
        depth += 1
        if node < 0:
            cases.used[depth * count + device] = 1
            continue
        for p in range(count):
            if p != device and shares[depth * wide + node * count + p] < INFINITY:
                rule_out(forth, back, cases, depth * wide, node * count + p)


def rule_out(forth: Sweep, back: Sweep, cases: Cases, base: int, pair: int) -> None:
    """Rule out a device for a node, unfuse its kernel there, and mark the nodes to update."""
    kernel, shares, early, late = cases.kernel, forth.shares, cases.early, cases.late
    first, last = 0, 1
    if kernel[pair] >= 0:
        first, last = cases.member_at[kernel[pair]], cases.member_at[kernel[pair] + 1]
    for m in range(first, last):
        other = cases.member[m] if kernel[pair] >= 0 else pair
        at = base + other
        least = INFINITY if other == pair else max(cases.alone[other], shares[at])
        if other != pair and least == shares[at]:
            continue
        v = other // len(forth.streams)
        shares[at] = least
        if least < INFINITY:
            early[v] = late[v] = 1
            continue
        forth.ends[at] = back.ends[at] = INFINITY
        for k in range(back.near_at[v], back.near_at[v + 1]):
            early[back.near[k]] = 1
        for k in range(forth.near_at[v], forth.near_at[v + 1]):
            late[forth.near[k]] = 1


def settle(limit: float, forth: Sweep, back: Sweep, cases: Cases, base: int) -> bool:
    """Rule out late devices to a fixed point; return whether every node has a device left."""
    n, count, shares = len(cases.early), len(forth.streams), forth.shares
    again = True
    while again:
        again = False
        for turn in range(2):
            for k in range(n):
                v = k if turn == 0 else n - 1 - k
                if turn == 0 and cases.early[v]:
                    restart(forth, back, cases.early, base, v)
                elif turn == 1 and cases.late[v]:
                    restart(back, forth, cases.late, base, v)
                else:
                    continue
                able = False
                for pair in range(v * count, v * count + count):
                    at = base + pair
                    if shares[at] == INFINITY:
                        continue
                    if (
                        forth.ends[at] + back.found[at] <= limit
                        and forth.found[at] + back.ends[at] <= limit
                    ):
                        able = True
                    else:
                        again = True
                        rule_out(forth, back, cases, base, pair)
                if not able:
                    return False
    return True


def restart(sweep: Sweep, against: Sweep, marked: Array, base: int, v: int) -> None:
    """Recompute the start of a marked node, and mark its successors if its end rose."""
    marked[v] = 0
    if start_of(sweep, base, v):
        for k in range(against.near_at[v], against.near_at[v + 1]):
            marked[against.near[k]] = 1


def separate_ends(forth: Sweep, back: Sweep, cases: Cases, base: int, depth: int) -> bool:
    """Raise starts to the end of the first group, and remainders to the start of the last.

    A device `used` by another group adds its transfers both ways and its work. Writes `loads`: the
    least time by device between the two ends if another group is on it.
    """
    n, count, shares = len(cases.early), len(forth.streams), forth.shares
    given, used, loads = cases.given, cases.used, cases.loads
    first, last, least = 0.0, 0.0, given[count - 1]
    for p in range(count):
        loads[p] = 0.0
    for v in range(n):
        able, where = 0, -1
        for p in range(count):
            if shares[base + v * count + p] < INFINITY:
                able, where = able + 1, p
                if 0 < p < count - 1:
                    least = min(least, given[p] + given[count + p])
        if able == 1:
            loads[where] += shares[base + v * count + where] / forth.streams[where]
    first, last = loads[0], loads[count - 1]
    between = 0.0
    for p in range(1, count - 1):
        if loads[p] > 0.0 or used[depth * count + p]:
            between = max(between, given[p] + loads[p] + given[count + p])
    between = max(between, least)
    for p in range(1, count - 1):
        over = given[p] + given[count + p]
        loads[p] = over if loads[p] > 0.0 or used[depth * count + p] else min(over, between)
    raised = False
    for v in range(n):
        for p in range(count):
            at = base + v * count + p
            if shares[at] == INFINITY:
                continue
            start = first + given[p]
            if p == count - 1:
                start = first + between
            if p > 0 and forth.found[at] < start:
                forth.found[at] = start
                cases.early[v] = 1
                raised = True
            rest = last + given[count + p]
            if p == 0:
                rest = last + between
            if p < count - 1 and back.found[at] < rest:
                back.found[at] = rest
                cases.late[v] = 1
                raised = True
    return raised


def largest_excess(forth: Sweep, cases: Cases, base: int) -> int:
    """Compute the excess of cost over the offer by set of prices; return the set of the largest."""
    shares, loads, excess = forth.shares, cases.loads, cases.excess
    count, pairs, most = len(loads), len(cases.alone), -1
    for kind in range(len(excess)):
        total = -cases.offered[kind]
        if len(cases.parts) > 0:
            for p in range(count):
                total += cases.parts[kind * count + p] * loads[p]
        k = 0
        while k < pairs:
            least = INFINITY
            for pair in range(k, k + count):
                if shares[base + pair] < INFINITY:
                    least = min(least, cases.price[kind * pairs + pair] * shares[base + pair])
            total += least
            k += count
        excess[kind] = total
        if most < 0 or total > excess[most]:
            most = kind
    return most


def rule_out_expensive(forth: Sweep, back: Sweep, cases: Cases, base: int, kind: int) -> bool:
    """Rule out devices whose cost for a node exceeds the slack; return whether any was found."""
    shares, count, found = forth.shares, len(forth.streams), False
    for v in range(len(cases.early)):
        least = INFINITY
        at = kind * len(cases.alone)
        for pair in range(v * count, v * count + count):
            if shares[base + pair] < INFINITY:
                least = min(least, cases.price[at + pair] * shares[base + pair])
        for pair in range(v * count, v * count + count):
            if shares[base + pair] < INFINITY:
                more = cases.price[at + pair] * shares[base + pair] - least
                if more > -cases.excess[kind]:
                    rule_out(forth, back, cases, base, pair)
                    found = True
    return found


def fits(limit: float, forth: Sweep, back: Sweep, cases: Cases, base: int) -> bool:
    """Return whether the nodes that have one device left fit it in all time windows."""
    shares, head, tail, streams = forth.shares, forth.found, back.found, forth.streams
    n, count, chosen, order = len(cases.early), len(streams), cases.chosen, cases.ordered
    for v in range(n):
        able = 0
        chosen[v] = -1
        for p in range(count):
            if shares[base + v * count + p] < INFINITY:
                able += 1
                chosen[v] = p if able == 1 else -1
    for p in range(count):
        # Nodes of the device, in descending order of remainder.
        many, at = 0, base + p
        for v in range(n):
            if chosen[v] != p:
                continue
            k = many
            while k > 0 and tail[at + order[k - 1] * count] < tail[at + v * count]:
                order[k] = order[k - 1]
                k -= 1
            order[k] = v
            many += 1
        for i in range(many):
            # Windows that begin at this head, one for each end among the nodes inside.
            begin, work = head[at + order[i] * count], 0.0
            for k in range(many):
                pair = at + order[k] * count
                if head[pair] >= begin:
                    work += shares[pair]
                    if begin + work / streams[p] + tail[pair] > limit * (1.0 + 1e-12):
                        return False
    return True


_compiled = machine_code(
    refute, start_of, rule_out, restart, settle, separate_ends, largest_excess, rule_out_expensive,
    fits, inline=True, forced=False,
)  # fmt: skip
