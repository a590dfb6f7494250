"""Merge method ``stage``: typed-fusion levels, acyclic by construction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations

from hetsim.graph.dag import Dag

ALL_ORDERS_UP_TO = 3
"""Devices up to which all orders within a level are tried; above, the given one and its reverse."""


def merge(dag: Dag, device_of: Sequence[int], host: int | None = None) -> list[int]:
    """Return the labels of nodes by level and device: fewest groups by levels, not connected.

    Within a level the devices run in one fixed order. The level of a node is the maximum over its
    predecessors of their level, plus one if the step between the two devices goes against that
    order. So every edge between groups ascends in (level, order), and the graph of groups is
    acyclic. Among the orders tried, the one with the fewest groups off the `host` is kept, then
    with the fewest in total; without a host only the latter counts.

    On two devices the number of unconnected groups is minimal: on the device other than the host,
    or in total without a host. A path that changes device k times has k + 1 groups. With the host
    first, the other device has as many groups as the path that leaves it most often. Without a
    host, an order gives one group more than the longest path only if such a path begins against it;
    if one begins on each device, every partition has that group. On more devices, levels may need
    more groups than the minimum.

    Complexity: O(V + E) per order of devices tried. Source: K. Kennedy, K. S. McKinley, Typed
    fusion with applications to parallel and sequential code generation, Rice University TR93-208,
    1994. The order within a level is ours: if every change of device opens a level, sources on two
    devices cost a group.
    """
    used = sorted(set(device_of))
    if len(used) <= ALL_ORDERS_UP_TO:
        orders = list(permutations(used))
    else:
        orders = [tuple(used), tuple(reversed(used))]
    best: list[int] = []
    fewest = (dag.n + 1, dag.n + 1)
    for order in orders:
        place = {device: index for index, device in enumerate(order)}
        keys = _levels(dag, map(place.__getitem__, device_of), len(order))
        groups = set(keys)
        hosts = place.get(host, -1) if host is not None else -1
        of_host = range(hosts, max(groups, default=0) + 1, len(order)) if hosts >= 0 else ()
        size = len(groups.difference(of_host)), len(groups)
        if size < fewest:
            best, fewest = keys, size
    return best


def _levels(dag: Dag, place: Iterable[int], width: int) -> list[int]:
    """Return level * width + place of each node: one number per group, ascending along edges.

    The rule for levels gives the first number, from the predecessors' maximum on, whose remainder
    by `width` is the node's place.
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
