"""Moves of nodes between stages by simulated annealing, in the subset that numba compiles."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from hetsim.base.machine_code import machine_code
from hetsim.placement.throughput.waiting import waiting_in_vain

SIDE_WEIGHT = 0.02
"""What the loads below the largest weigh, so that moves which make room count as progress."""

HOTTEST = 0.05
"""First temperature, as a share of the largest load."""


def anneal(  # type: ignore[no-untyped-def]
    compute_s, lacks, dispatch_s, capacity,
    touch_at, touch, producer, reader_at, reader, leaves, nbytes,
    hold_at, hold, constant_bytes,
    in_at, in_kernel, kernel_device, kernel_size, kernel_delta_s, kernel_covers,
    host, latency_s, per_byte_s, route_at, route, links, staged, fetch_s, store_s,
    near_at, near, bundle_at, bundle, device_of, ordered,
    moves, state, best,
):  # fmt: skip
    """Improve `best`, the stage by node, in place; return its largest load, inf where none.

    The arguments up to `store_s` are the arrays of ``Network``. `near` are the neighbours of a
    node, `bundle` sets of nodes that move together, `device_of` is the device of a stage,
    `ordered` whether the graph of stages must stay free of cycles. The stages given may be
    infeasible: what lacks support, memory or order is then mended before loads count.
    """
    n, devices = compute_s.shape
    slots = len(device_of)
    values = len(producer)
    bundles = len(bundle_at) - 1
    goal = best.copy()
    at = np.full(n, -1, np.int64)
    load = np.zeros(devices + links)
    memory = np.zeros(devices)
    count = np.zeros(slots, np.int64)
    uses = np.zeros((values, devices), np.int64)
    uses_slot = np.zeros((values if staged else 0, slots), np.int64)
    placed = np.zeros(values, np.int64)
    held = np.zeros((len(constant_bytes), devices), np.int64)
    inside = np.zeros((len(kernel_size), slots), np.int64)
    feeds = np.zeros((slots, slots), np.int64)
    who = np.zeros(n, np.int64)
    back = np.zeros(n, np.int64)
    waits = np.zeros(slots, np.int64)
    lacking = 0
    now_score = np.inf
    now_bad = np.inf
    best_load = np.inf
    hottest = 0.0
    for step in range(-1, moves):
        size = 0
        if step < 0:
            size = n
            for v in range(n):
                who[v] = v
        else:
            state = (state * 1103515245 + 12345) & 0x3FFFFFFFFFFF
            draw = state >> 16
            if draw % (16 * n) == 0:
                state = (state * 1103515245 + 12345) & 0x3FFFFFFFFFFF
                a = (state >> 16) % slots
                state = (state * 1103515245 + 12345) & 0x3FFFFFFFFFFF
                b = (state >> 16) % slots
                if a == b:
                    continue
                for v in range(n):
                    if at[v] == a or at[v] == b:
                        who[size] = v
                        goal[v] = a + b - at[v]
                        size += 1
            else:
                state = (state * 1103515245 + 12345) & 0x3FFFFFFFFFFF
                pick = state >> 16
                if draw & 1 and bundles > 0:
                    k = pick % bundles
                    for i in range(bundle_at[k], bundle_at[k + 1]):
                        who[size] = bundle[i]
                        size += 1
                else:
                    who[0] = pick % n
                    size = 1
                state = (state * 1103515245 + 12345) & 0x3FFFFFFFFFFF
                pick = state >> 16
                b = (pick >> 1) % slots
                if pick & 1:
                    v = who[(pick >> 1) % size]
                    if near_at[v] < near_at[v + 1]:
                        k = near[near_at[v] + (pick >> 8) % (near_at[v + 1] - near_at[v])]
                        b = at[k]
                for i in range(size):
                    goal[who[i]] = b
            some = False
            for i in range(size):
                some = some or at[who[i]] != goal[who[i]]
            if not some:
                continue
        for back_again in range(2):
            for i in range(size):
                v = who[i]
                a = at[v]
                b = back[i] if back_again else goal[v]
                back[i] = a
                if a == b:
                    continue
                if a >= 0:
                    p = device_of[a]
                    load[p] -= compute_s[v, p]
                    lacking -= lacks[v, p]
                    count[a] -= 1
                    if count[a] == 0:
                        load[p] -= dispatch_s[p]
                q = device_of[b]
                load[q] += compute_s[v, q]
                lacking += lacks[v, q]
                if count[b] == 0:
                    load[q] += dispatch_s[q]
                count[b] += 1
                for k in range(in_at[v], in_at[v + 1]):
                    kernel = in_kernel[k]
                    if a >= 0:
                        if inside[kernel, a] == kernel_size[kernel] and (
                            device_of[a] == kernel_device[kernel]
                        ):
                            load[device_of[a]] -= kernel_delta_s[kernel]
                            lacking += kernel_covers[kernel]
                        inside[kernel, a] -= 1
                    inside[kernel, b] += 1
                    if inside[kernel, b] == kernel_size[kernel] and q == kernel_device[kernel]:
                        load[q] += kernel_delta_s[kernel]
                        lacking -= kernel_covers[kernel]
                for k in range(hold_at[v], hold_at[v + 1]):
                    c = hold[k]
                    if a >= 0:
                        held[c, device_of[a]] -= 1
                        if held[c, device_of[a]] == 0:
                            memory[device_of[a]] -= constant_bytes[c]
                    if held[c, q] == 0:
                        memory[q] += constant_bytes[c]
                    held[c, q] += 1
                for sign in range(-1, 2, 2):
                    if sign > 0:
                        at[v] = b
                    for k in range(touch_at[v], touch_at[v + 1]):
                        x = touch[k]
                        u = producer[x]
                        if sign > 0 and u != v:
                            if a >= 0:
                                uses[x, device_of[a]] -= 1
                                placed[x] -= 1
                                if staged:
                                    uses_slot[x, a] -= 1
                            uses[x, q] += 1
                            placed[x] += 1
                            if staged:
                                uses_slot[x, b] += 1
                        home = host
                        if u >= 0:
                            if at[u] < 0:
                                continue
                            home = device_of[at[u]]
                        if links > 0:
                            for p in range(devices):
                                if p != home and (uses[x, p] > 0 or (leaves[x] and p == host)):
                                    pair = home * devices + p
                                    took = latency_s[pair] + nbytes[x] * per_byte_s[pair]
                                    for r in range(route_at[pair], route_at[pair + 1]):
                                        load[devices + route[r]] += sign * took
                        if staged:
                            leaving = leaves[x] and staged == 2
                            if u >= 0 and (leaving or placed[x] > uses_slot[x, at[u]]):
                                load[home] += sign * store_s[home] * nbytes[x]
                            for s in range(slots):
                                fetched = staged == 2 if u < 0 else s != at[u]
                                if uses_slot[x, s] > 0 and fetched:
                                    load[device_of[s]] += sign * fetch_s[device_of[s]] * nbytes[x]
                        if ordered and u >= 0:
                            if u != v:
                                if at[v] >= 0:
                                    feeds[at[u], at[v]] += sign
                            elif at[v] >= 0:
                                for r in range(reader_at[x], reader_at[x + 1]):
                                    if at[reader[r]] >= 0:
                                        feeds[at[v], at[reader[r]]] += sign
            if back_again:
                break
            over = 0.0
            for p in range(devices):
                if memory[p] > capacity[p]:
                    over += (memory[p] - capacity[p]) / max(capacity[p], 1.0)
            stuck = waiting_in_vain(feeds, waits) if ordered else 0
            bad = lacking + over + stuck
            largest = 0.0
            squares = 0.0
            for r in range(devices + links):
                largest = max(largest, load[r])
                squares += load[r] * load[r]
            score = largest + SIDE_WEIGHT * np.sqrt(squares)
            if step < 0:
                now_score, now_bad = score, bad
                hottest = HOTTEST * largest
                if bad == 0.0:
                    best_load = largest
                break
            if bad > now_bad:
                continue
            if bad == now_bad and score > now_score:
                state = (state * 1103515245 + 12345) & 0x3FFFFFFFFFFF
                chance = ((state >> 16) & 0xFFFFFF) / 16777216.0
                heat = hottest * (1.0 - step / moves) ** 3
                if heat <= 0.0 or chance >= np.exp((now_score - score) / heat):
                    continue
            now_score, now_bad = score, bad
            if bad == 0.0 and largest < best_load * (1.0 - 1e-12):
                best_load = largest
                best[:] = at
            break
    return best_load


@functools.cache
def compiled() -> Callable[..., float]:
    """Return ``anneal`` as machine code; the first call in a process loads numba."""
    return machine_code(anneal, waiting_in_vain)
