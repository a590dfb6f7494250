"""Merge method ``stage``: typed-fusion levels, acyclic by construction."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from itertools import permutations

import numpy as np

from hetsim.graph.dag import Dag, Ints
from hetsim.partitioning.growing import compiled
from hetsim.partitioning.growing.levels import compiled_levels, levels_are_kept

ALL_ORDERS_UP_TO = 3
"""Devices up to which every order within a level is tried; above, the given and its reverse."""


def merge(dag: Dag, device_of: Sequence[int], host: int | None = None) -> list[int]:
    """Label every node by its level and device: as few groups as levels allow, not connected.

    Within a level the devices run in one fixed order. The level of a node is the largest,
    over its predecessors, of their level, plus one where the step between the two devices
    goes against that order. So every edge between groups ascends in (level, order), and
    the graph of groups cannot have a cycle. Of the orders tried, the one with the fewest
    groups off the `host` is kept, then with the fewest in all; without a host the latter.

    On two devices, where groups need not be connected, there are no fewer: of the device
    beside the host, or in all where no host is told. A path that changes device k times has
    k + 1 groups. With the host first, the other device has as many groups as the path that
    leaves it most often. Without a host, an order gives one group more than the longest path
    has only where such a path begins against it; where one begins on each device, no
    partition does without that group. On more devices levels may take more than there must
    be.

    Complexity: O(V + E) an order of devices tried.
    Source: K. Kennedy, K. S. McKinley, Typed fusion with applications to parallel and
    sequential code generation, Rice University TR93-208, 1994. The order within a level is
    ours: where every change of device opens a level, sources on two devices cost a group.
    """
    used = sorted(set(device_of))
    if len(used) <= ALL_ORDERS_UP_TO:
        orders = list(permutations(used))
    else:
        orders = [tuple(used), tuple(reversed(used))]
    # Of 500,000 nodes plain loops take as long as numba takes to load.
    by_machine_code = compiled.pays(dag.n // 10, int("numba" in sys.modules), levels_are_kept)
    column = np.searchsorted(used, device_of) if by_machine_code else np.empty(0, dtype=np.int64)
    best: Sequence[int] | Ints = []
    fewest = (dag.n + 1, dag.n + 1)
    for order in orders:
        place = {device: index for index, device in enumerate(order)}
        hosts = place.get(host, -1) if host is not None else -1
        keys: Sequence[int] | Ints
        if by_machine_code:
            keys, groups, off = _counted(dag, np.argsort(order)[column], len(order), hosts)
        else:
            keys = _levels(dag, map(place.__getitem__, device_of), len(order))
            every = set(keys)
            of_host = range(hosts, max(every, default=0) + 1, len(order)) if hosts >= 0 else ()
            groups, off = len(every), len(every.difference(of_host))
        if (off, groups) < fewest:
            best, fewest = keys, (off, groups)
    return best.tolist() if isinstance(best, np.ndarray) else list(best)


def _counted(dag: Dag, place: Ints, width: int, hosts: int) -> tuple[Ints, int, int]:
    """Levels by machine code, how many groups they leave, and how many are not the host's."""
    keys = np.empty(dag.n, dtype=np.int64)
    compiled_levels()(dag.pred_rows.at, dag.pred_rows.node, place, width, keys)
    groups = np.flatnonzero(np.bincount(keys))
    off = groups.size if hosts < 0 else int((groups % width != hosts).sum())
    return keys, groups.size, off


def _levels(dag: Dag, place: Iterable[int], width: int) -> list[int]:
    """Return level * width + place of each node: one number a group, ascending along edges.

    By the rule for levels that is the first number from the largest of the predecessors' on
    which, divided by `width`, leaves the node's place.
    """
    keys: list[int] = []
    keep = keys.append
    for preds, at in zip(dag.preds, place, strict=True):
        if len(preds) == 1:
            latest = keys[preds[0]]
        else:
            latest = 0
            for u in preds:
                key = keys[u]
                if key > latest:
                    latest = key
        keep(latest + (at - latest) % width)
    return keys
