"""The search of ``ideal-dp`` on arrays, in the subset of Python that numba compiles."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from hetsim.base.machine_code import machine_code


def search(  # type: ignore[no-untyped-def]
    lattice_at, lattice_node, lattice_to,
    reads_at, reads, makes_at, makes, producer, readers,
    constants_at, constants, constant_bytes,
    member_at, member, kernel_size, kernel_kind, kernel_delta_s, kernel_covers,
    compute_s, lacks, shares_s, dispatch_s, fetch_s, make_s, store_s, overlapped, joint, capacity,
    state_count, stride, room, ceiling, budget,
    best, came_from, came_by,
):  # fmt: skip
    """Fill `best` with the least bottleneck by (ideal, devices used); return steps or -1.

    Parameters
    ----------
    lattice_at, lattice_node, lattice_to
        Ideal i plus node ``lattice_node[k]`` is ideal ``lattice_to[k]``, for k from
        ``lattice_at[i]`` to ``lattice_at[i + 1]``; ideals are numbered by size.
    reads_at, reads, makes_at, makes
        Values that a node reads and makes. `producer`, `readers` (a count) by value.
    constants_at, constants, constant_bytes
        Constants that a node reads, and their size.
    member_at, member, kernel_size, kernel_kind, kernel_delta_s, kernel_covers
        Kernels that a node is in, and what is known of each.
    compute_s, lacks, shares_s [n, K], dispatch_s [K], fetch_s, make_s, store_s [K, values],
    overlapped, joint [K], capacity [K]
        As ``costs.Costs``.
    state_count, stride, room
        States number multisets of kinds used; one more of kind k adds ``stride[k]`` where
        ``room[state, k]``.
    ceiling : float
        Loads above it are not followed.
    budget : int
        Sets looked at before giving up with -1.
    best, came_from, came_by [ideals, states]
        Out. ``best[0, 0]`` is 0 and the rest inf when called.
    """
    ideals = len(lattice_at) - 1
    n, kinds = compute_s.shape
    values = len(producer)
    seen = np.full(ideals, -1, np.int64)
    inside = np.zeros(n, np.bool_)
    taken = np.zeros(values, np.int64)
    left = np.zeros(values, np.int64)
    held = np.zeros(len(constant_bytes), np.int64)
    there = np.zeros(len(kernel_size), np.int64)
    # By depth of the walk: the ideal, the next step to try, the node added, its sums.
    at = np.zeros(n + 1, np.int64)
    step = np.zeros(n + 1, np.int64)
    added = np.zeros(n + 1, np.int64)
    compute = np.zeros((n + 1, kinds))
    share = np.zeros((n + 1, kinds))
    lacking = np.zeros((n + 1, kinds), np.int64)
    fetch = np.zeros((n + 1, kinds))
    make = np.zeros((n + 1, kinds))
    store = np.zeros((n + 1, kinds))
    memory = np.zeros(n + 1)
    usable = np.zeros(state_count, np.bool_)
    looked = 0
    for start in range(ideals):
        some = False
        for state in range(state_count):
            usable[state] = best[start, state] < np.inf
            some = some or usable[state]
        if not some:
            continue
        depth = 0
        at[0] = start
        step[0] = lattice_at[start]
        compute[0, :] = dispatch_s
        share[0, :] = dispatch_s
        lacking[0, :] = 0
        fetch[0, :] = 0.0
        make[0, :] = 0.0
        store[0, :] = 0.0
        memory[0] = 0.0
        while depth >= 0:
            here = at[depth]
            if step[depth] == lattice_at[here + 1]:
                if depth > 0:
                    node = added[depth]
                    inside[node] = False
                    for k in range(makes_at[node], makes_at[node + 1]):
                        left[makes[k]] = 0
                    for k in range(reads_at[node], reads_at[node + 1]):
                        value = reads[k]
                        if producer[value] >= 0 and inside[producer[value]]:
                            left[value] += 1
                        else:
                            taken[value] -= 1
                    for k in range(constants_at[node], constants_at[node + 1]):
                        held[constants[k]] -= 1
                    for k in range(member_at[node], member_at[node + 1]):
                        there[member[k]] -= 1
                depth -= 1
                continue
            k = step[depth]
            step[depth] += 1
            target = lattice_to[k]
            if seen[target] == start:
                continue
            seen[target] = start
            looked += 1
            if looked > budget:
                return -1
            node = lattice_node[k]
            new = depth + 1
            memory[new] = memory[depth]
            for c in range(kinds):
                compute[new, c] = compute[depth, c] + compute_s[node, c]
                share[new, c] = share[depth, c] + shares_s[node, c]
                lacking[new, c] = lacking[depth, c] + lacks[node, c]
                fetch[new, c] = fetch[depth, c]
                make[new, c] = make[depth, c]
                store[new, c] = store[depth, c]
            for i in range(member_at[node], member_at[node + 1]):
                kernel = member[i]
                there[kernel] += 1
                if there[kernel] == kernel_size[kernel]:
                    c = kernel_kind[kernel]
                    compute[new, c] += kernel_delta_s[kernel]
                    lacking[new, c] -= kernel_covers[kernel]
            for i in range(reads_at[node], reads_at[node + 1]):
                value = reads[i]
                if producer[value] >= 0 and inside[producer[value]]:
                    left[value] -= 1
                    if left[value] == 0:
                        for c in range(kinds):
                            store[new, c] -= store_s[c, value]
                else:
                    if taken[value] == 0:
                        for c in range(kinds):
                            fetch[new, c] += fetch_s[c, value]
                    taken[value] += 1
            inside[node] = True
            for i in range(makes_at[node], makes_at[node + 1]):
                value = makes[i]
                left[value] = readers[value]
                for c in range(kinds):
                    make[new, c] += make_s[c, value]
                    if readers[value] > 0:
                        store[new, c] += store_s[c, value]
            for i in range(constants_at[node], constants_at[node + 1]):
                if held[constants[i]] == 0:
                    memory[new] += constant_bytes[constants[i]]
                held[constants[i]] += 1
            # Shares of compute, fetched and final tensors and memory only grow with the set:
            # above the ceiling on every kind, no larger set can come below it again.
            grows = False
            for c in range(kinds):
                if memory[new] > capacity[c]:
                    continue
                out = make[new, c] + max(store[new, c], 0.0)
                if overlapped:
                    if joint[c]:
                        moved = fetch[new, c] + out
                        least = max(share[new, c], fetch[new, c] + make[new, c])
                    else:
                        moved = max(fetch[new, c], out)
                        least = max(share[new, c], max(fetch[new, c], make[new, c]))
                    load = max(compute[new, c], moved)
                else:
                    least = share[new, c] + fetch[new, c] + make[new, c]
                    load = compute[new, c] + fetch[new, c] + out
                if least > ceiling:
                    continue
                grows = True
                if load > ceiling or lacking[new, c] > 0:
                    continue
                for state in range(state_count):
                    if not usable[state] or not room[state, c]:
                        continue
                    reached = max(best[start, state], load)
                    other = state + stride[c]
                    if reached < best[target, other]:
                        best[target, other] = reached
                        came_from[target, other] = start
                        came_by[target, other] = c
            depth = new
            at[depth] = target
            added[depth] = node
            step[depth] = lattice_at[target] if grows else lattice_at[target + 1]
    return looked


@functools.cache
def compiled() -> Callable[..., int]:
    """Return ``search`` as machine code; the first call in a process loads numba."""
    return machine_code(search)
