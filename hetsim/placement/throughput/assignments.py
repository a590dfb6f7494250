"""Every assignment, or every one of contiguous stages, but for those that cannot be better."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hetsim.core.machine_code import machine_code
from hetsim.placement.bounds.area import prices
from hetsim.placement.throughput.stage_moves import Network, waiting_in_vain
from hetsim.problem.problem import Problem, interchangeable

EQUAL = 1e-9
"""Relative difference within which loads are equal."""


@dataclass(frozen=True, slots=True)
class Searched:
    """What an exhaustive search found."""

    complete: bool  # Whether it ended within its budget: then none is better
    assignment: list[int] | None  # The best one below the ceiling; None where there was none
    load_s: float


def best_assignment(
    problem: Problem,
    ceiling_s: float,
    budget: int,
    *,
    contiguous: bool,
    network: Network | None = None,
) -> Searched:
    """Look for the assignment with the least ``max_load`` below `ceiling_s`."""
    n, count = problem.seconds.shape
    if n == 0:
        return Searched(True, [], 0.0)
    net = network or Network.of(problem)
    weight = prices(net.shares_s, (1,) * count)
    priced = np.where(np.isfinite(net.shares_s), net.shares_s, 0.0) * weight
    least = np.where(np.isfinite(net.shares_s), priced, np.inf).min(axis=1)
    rest = np.concatenate([np.cumsum(least[::-1])[::-1], [0.0]])
    best = np.full(n, -1, dtype=np.int64)
    reached = np.array([ceiling_s * (1.0 - EQUAL)])
    steps = compiled()(
        net.compute_s, net.lacks, net.shares_s, net.dispatch_s, net.capacity,
        net.touch_at, net.touch, net.producer, net.leaves, net.nbytes,
        net.hold_at, net.hold, net.constant_bytes,
        net.in_at, net.in_kernel, net.member_at, net.member, net.kernel_device,
        net.host, net.latency_s, net.per_byte_s, net.route_at, net.route, net.links,
        net.staged, net.fetch_s, net.store_s,
        weight, rest, np.array(twins(problem), dtype=np.int64), contiguous, budget, reached, best,
    )  # fmt: skip
    found = [int(p) for p in best] if best[0] >= 0 else None
    return Searched(steps >= 0, found, float(reached[0]) if found is not None else np.inf)


def twins(problem: Problem) -> list[int]:
    """Return, by device, the one before it that nothing tells apart from it; -1 where none."""
    count = len(problem.devices)
    pairs: dict[int, set[tuple[int, int]]] = {}
    for p, row in enumerate(problem.routes):
        for q, route in enumerate(row):
            if p != q and problem.contention == "fifo":
                for link in route.resources:
                    pairs.setdefault(link, set()).add((p, q))
    links = sorted(sorted(held) for held in pairs.values())
    change_places = interchangeable(problem)

    def alike(p: int, q: int) -> bool:
        swap = list(range(count))
        swap[p], swap[q] = q, p
        return change_places(p, q) and links == sorted(
            sorted((swap[a], swap[b]) for a, b in held) for held in pairs.values()
        )

    found = [-1] * count
    for q in range(count):
        # Being alike is not passed on in general: all before it in the row must be.
        for p in range(q - 1, -1, -1):
            before = [p]
            while found[before[-1]] >= 0:
                before.append(found[before[-1]])
            if all(alike(r, q) for r in before):
                found[q] = p
                break
    return found


def search(  # type: ignore[no-untyped-def]
    compute_s, lacks, shares_s, dispatch_s, capacity,
    touch_at, touch, producer, leaves, nbytes,
    hold_at, hold, constant_bytes,
    in_at, in_kernel, member_at, member, kernel_device,
    host, latency_s, per_byte_s, route_at, route, links, staged, fetch_s, store_s,
    weight, rest, twin, ordered, budget, reached, best,
):  # fmt: skip
    """Lower `reached` and fill `best`; return the steps taken, -1 where they did not suffice."""
    n, devices = compute_s.shape
    values = len(producer)
    resources = devices + links
    load = np.zeros((n + 1, resources))
    memory = np.zeros((n + 1, devices))
    at = np.full(n, -1, np.int64)
    choice = np.zeros(n + 1, np.int64)
    count = np.zeros(devices, np.int64)
    uses = np.zeros((values, devices), np.int64)
    held = np.zeros((len(constant_bytes), devices), np.int64)
    feeds = np.zeros((devices, devices), np.int64)
    waits = np.zeros(devices, np.int64)
    steps = 0
    depth = 0
    while depth >= 0:
        v = depth
        if v < n and at[v] >= 0:
            p = at[v]
            at[v] = -1
            count[p] -= 1
            for k in range(hold_at[v], hold_at[v + 1]):
                held[hold[k], p] -= 1
            for k in range(touch_at[v], touch_at[v + 1]):
                x = touch[k]
                if producer[x] != v:
                    uses[x, p] -= 1
                    if producer[x] >= 0:
                        feeds[at[producer[x]], p] -= 1
        if choice[v] == devices:
            choice[v] = 0
            depth -= 1
            continue
        p = choice[v]
        choice[v] += 1
        if shares_s[v, p] == np.inf or (twin[p] >= 0 and count[twin[p]] == 0):
            continue
        steps += 1
        if steps > budget:
            return -1
        new = depth + 1
        for r in range(resources):
            load[new, r] = load[depth, r]
        for q in range(devices):
            memory[new, q] = memory[depth, q]
        load[new, p] += shares_s[v, p]
        if count[p] == 0:
            load[new, p] += dispatch_s[p]
        at[v] = p
        count[p] += 1
        for k in range(hold_at[v], hold_at[v + 1]):
            if held[hold[k], p] == 0:
                memory[new, p] += constant_bytes[hold[k]]
            held[hold[k], p] += 1
        good = memory[new, p] <= capacity[p]
        for k in range(touch_at[v], touch_at[v + 1]):
            x = touch[k]
            u = producer[x]
            if u == v:
                if leaves[x]:
                    if staged == 2:
                        load[new, p] += store_s[p] * nbytes[x]
                    if p != host:
                        pair = p * devices + host
                        took = latency_s[pair] + nbytes[x] * per_byte_s[pair]
                        for r in range(route_at[pair], route_at[pair + 1]):
                            load[new, devices + route[r]] += took
                continue
            home = host
            if u >= 0:
                home = at[u]
                feeds[home, p] += 1
            if uses[x, p] == 0 and (p != home or u < 0):
                if staged == 2 or (staged == 1 and u >= 0):
                    load[new, p] += fetch_s[p] * nbytes[x]
                    if u >= 0 and not (leaves[x] and staged == 2):
                        first = True
                        for q in range(devices):
                            first = first and (q == home or uses[x, q] == 0)
                        if first:
                            load[new, home] += store_s[home] * nbytes[x]
                if p != home and not (leaves[x] and p == host):
                    pair = home * devices + p
                    took = latency_s[pair] + nbytes[x] * per_byte_s[pair]
                    for r in range(route_at[pair], route_at[pair + 1]):
                        load[new, devices + route[r]] += took
            uses[x, p] += 1
        for k in range(in_at[v], in_at[v + 1]):
            kernel = in_kernel[k]
            q = kernel_device[kernel]
            # Members come in graph order: with the last it is known whether it is whole.
            if member[member_at[kernel + 1] - 1] == v:
                whole = True
                for i in range(member_at[kernel], member_at[kernel + 1]):
                    whole = whole and at[member[i]] == q
                for i in range(member_at[kernel], member_at[kernel + 1]):
                    u = member[i]
                    if not whole and at[u] == q:
                        good = good and not lacks[u, q]
                        load[new, q] += compute_s[u, q] - shares_s[u, q]
        if ordered and good:
            good = waiting_in_vain(feeds, waits) == 0
        largest = 0.0
        spent = rest[new]
        for r in range(resources):
            largest = max(largest, load[new, r])
            if r < devices:
                spent += weight[r] * load[new, r]
        # Sums in another order may differ by a rounding error.
        if not good or largest >= reached[0] or spent * (1.0 - 1e-12) >= reached[0]:
            continue
        if new == n:
            reached[0] = largest
            best[:] = at
            continue
        depth = new
        choice[depth] = 0
    return steps


@functools.cache
def compiled() -> Callable[..., int]:
    """Return ``search`` as machine code; the first call in a process loads numba."""
    return machine_code(search, waiting_in_vain)
