"""Free moves of nodes between devices, by simulated annealing on arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from hetsim.machine_code import machine_code
from hetsim.placement.throughput_costs import Costs
from hetsim.simulation.lowering import flat

SIDE_WEIGHT = 0.02
"""What the loads below the largest weigh, so that moves which make room count as progress."""

HOTTEST = 0.05
"""First temperature, as a share of the largest load."""


def spread_freely(costs: Costs, start: Sequence[int], moves: int, seed: int) -> list[int]:
    """Return device by node, contiguous or not, with a bottleneck no larger than that of `start`.

    Simulated annealing over moves of one node, to a device of a neighbour half of the time.
    Memory is a constraint throughout. Deterministic for a seed. O(moves x degree).
    """
    n = costs.n
    if n == 0 or moves == 0:
        return list(start)
    kind = np.zeros(sum(len(devices) for devices in costs.kinds), dtype=np.int64)
    for index, devices in enumerate(costs.kinds):
        kind[list(devices)] = index
    touches: list[list[int]] = [[] for _ in range(n)]
    members: list[list[int]] = []
    for index, (producer, consumers, _) in enumerate(costs.values):
        members.append(list(consumers))
        for v in sorted({*consumers, producer} - {-1}):
            touches[v].append(index)
    holds: list[list[int]] = [[] for _ in range(n)]
    for index, (_, consumers) in enumerate(costs.constants):
        for v in consumers:
            holds[v].append(index)
    near = [[*costs.dag.preds[v], *costs.dag.succs[v]] or [v] for v in range(n)]
    tables = [
        np.array(row, dtype=np.int64) for t in (touches, members, holds, near) for row in flat(t)
    ]
    random = np.random.default_rng(seed)
    # The engine draws its own numbers from a 64-bit linear congruence, alike in both ways.
    state = int(random.integers(1, 2**62))
    best = np.array(start, dtype=np.int64)
    compiled()(
        *tables,
        np.array([producer for producer, _, _ in costs.values], dtype=np.int64),
        np.array([leaves for _, _, leaves in costs.values], dtype=np.bool_),
        np.array([nbytes for nbytes, _ in costs.constants], dtype=np.float64),
        costs.compute_s, costs.dispatch_s, costs.fetch_s, costs.store_s, costs.overlapped,
        costs.capacity_bytes, kind, moves, state, SIDE_WEIGHT, HOTTEST, best,
    )  # fmt: skip
    return [int(device) for device in best]


def anneal(  # type: ignore[no-untyped-def]
    touch_at, touch, member_at, member, hold_at, hold, near_at, near,
    producer, leaves, constant_bytes,
    compute_s, dispatch_s, fetch_s, store_s, overlapped, capacity, kind,
    moves, state, side_weight, hottest, best,
):  # fmt: skip
    """Improve `best`, the device by node, in place; see ``spread_freely``."""
    n = compute_s.shape[0]
    devices = len(kind)
    values = len(producer)
    at = best.copy()
    uses = np.zeros((values, devices), np.int64)
    held = np.zeros((len(constant_bytes), devices), np.int64)
    others = np.zeros(values, np.int64)
    count = np.zeros(devices, np.int64)
    part = np.zeros((3, devices))
    memory = np.zeros(devices)
    for v in range(n):
        p = at[v]
        part[0, p] += compute_s[v, kind[p]]
        count[p] += 1
        for i in range(hold_at[v], hold_at[v + 1]):
            if held[hold[i], p] == 0:
                memory[p] += constant_bytes[hold[i]]
            held[hold[i], p] += 1
    for x in range(values):
        home = at[producer[x]] if producer[x] >= 0 else -1
        for i in range(member_at[x], member_at[x + 1]):
            p = at[member[i]]
            uses[x, p] += 1
            if p != home:
                others[x] += 1
                if uses[x, p] == 1:
                    part[1, p] += fetch_s[kind[p], x]
        if home >= 0 and (others[x] > 0 or leaves[x]):
            part[2, home] += store_s[kind[home], x]

    def_score = 0.0
    def_best = 0.0
    trial = np.zeros((3, devices))
    for step in range(-1, moves):
        v = -1
        a = 0
        b = 0
        if step >= 0:
            state = (state * 1103515245 + 12345) & 0x3FFFFFFFFFFF
            v = (state >> 16) % n
            state = (state * 1103515245 + 12345) & 0x3FFFFFFFFFFF
            draw = state >> 16
            a = at[v]
            if draw & 1:
                b = at[near[near_at[v] + (draw >> 1) % (near_at[v + 1] - near_at[v])]]
            else:
                b = (draw >> 1) % devices
            if a == b or compute_s[v, kind[b]] == np.inf:
                continue
            gained = 0.0
            for i in range(hold_at[v], hold_at[v + 1]):
                if held[hold[i], b] == 0:
                    gained += constant_bytes[hold[i]]
            if memory[b] + gained > capacity[kind[b]]:
                continue
        for p in range(devices):
            for k in range(3):
                trial[k, p] = part[k, p]
        if v >= 0:
            trial[0, a] -= compute_s[v, kind[a]]
            trial[0, b] += compute_s[v, kind[b]]
            for i in range(touch_at[v], touch_at[v + 1]):
                x = touch[i]
                readers = member_at[x + 1] - member_at[x]
                if producer[x] == v:
                    if others[x] > 0 or leaves[x]:
                        trial[2, a] -= store_s[kind[a], x]
                    if readers - uses[x, b] > 0 or leaves[x]:
                        trial[2, b] += store_s[kind[b], x]
                    if uses[x, a] > 0:
                        trial[1, a] += fetch_s[kind[a], x]
                    if uses[x, b] > 0:
                        trial[1, b] -= fetch_s[kind[b], x]
                else:
                    home = at[producer[x]] if producer[x] >= 0 else -1
                    if a != home and uses[x, a] == 1:
                        trial[1, a] -= fetch_s[kind[a], x]
                    if b != home and uses[x, b] == 0:
                        trial[1, b] += fetch_s[kind[b], x]
                    if home >= 0 and not leaves[x]:
                        now = others[x] - (a != home) + (b != home)
                        if others[x] > 0 and now == 0:
                            trial[2, home] -= store_s[kind[home], x]
                        elif others[x] == 0 and now > 0:
                            trial[2, home] += store_s[kind[home], x]
        largest = 0.0
        squares = 0.0
        for p in range(devices):
            there = count[p]
            if v >= 0:
                there += (p == b) - (p == a)
            compute = trial[0, p]
            if there > 0:
                compute += dispatch_s[kind[p]]
            if overlapped:
                load = max(compute, max(trial[1, p], trial[2, p]))
            else:
                load = compute + trial[1, p] + trial[2, p]
            largest = max(largest, load)
            squares += load * load
        score = largest + side_weight * np.sqrt(squares)
        if step < 0:
            def_score = score
            def_best = largest
            hottest *= largest
            continue
        state = (state * 1103515245 + 12345) & 0x3FFFFFFFFFFF
        chance = ((state >> 16) & 0xFFFFFF) / 16777216.0
        heat = hottest * (1.0 - step / moves) ** 3
        if score > def_score and (heat <= 0.0 or chance >= np.exp((def_score - score) / heat)):
            continue
        def_score = score
        for p in range(devices):
            for k in range(3):
                part[k, p] = trial[k, p]
        for i in range(hold_at[v], hold_at[v + 1]):
            held[hold[i], a] -= 1
            if held[hold[i], a] == 0:
                memory[a] -= constant_bytes[hold[i]]
            if held[hold[i], b] == 0:
                memory[b] += constant_bytes[hold[i]]
            held[hold[i], b] += 1
        for i in range(touch_at[v], touch_at[v + 1]):
            x = touch[i]
            if producer[x] == v:
                others[x] = member_at[x + 1] - member_at[x] - uses[x, b]
            else:
                home = at[producer[x]] if producer[x] >= 0 else -1
                others[x] += (b != home) - (a != home)
                uses[x, a] -= 1
                uses[x, b] += 1
        count[a] -= 1
        count[b] += 1
        at[v] = b
        if largest < def_best * (1.0 - 1e-12):
            def_best = largest
            best[:] = at


@functools.cache
def compiled() -> Callable[..., None]:
    """Return ``anneal`` as machine code; the first call in a process loads numba."""
    return machine_code(anneal)
