"""Refining on nodes what was found on tasks: borders between devices move node by node."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from hetsim.errors import Infeasible
from hetsim.partitioning.groups import Group, as_groups, order_groups
from hetsim.placement.objective import Objective, measure
from hetsim.plans.plan import Plan
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.problem import Problem

Crossing = tuple[int, int, int]
"""A node, the first of the subgraph that it moves into, and that one's device."""

Kind = tuple[str, int, int, int]
"""Op type, own device, other device, bytes across: what moves of repeated layers have in common."""

TRIALS = 200
"""Moves that the clock judges at most."""
WORK = 100_000
"""Nodes simulated at most, over all trials."""


def refine(plan: Plan, objective: Objective, cost: float) -> Plan:
    """Move nodes on a border between devices into the subgraph across, where the clock gains.

    Coarsening keeps chains whole, and the best place to cut one may be within it. Moves are tried
    by the bytes that cross the border, the most first, but those like a refused one later: the
    layers of a model are alike. After a gain those are tried that are new. The result is a valid
    plan, never worse than `plan`.

    Parameters
    ----------
    plan : Plan
        Of a problem of nodes.
    objective : "latency" or "throughput"
    cost : float
        Of `plan`, in seconds.

    Returns
    -------
    The plan, itself where nothing gains. At most TRIALS simulations of one request, fewer
    where they would exceed WORK nodes, and O(V + E) for each.
    """
    problem, groups = plan.problem, plan.groups
    trials = min(TRIALS, WORK // max(problem.n, 1))
    tried: set[Crossing] = set()
    refusals: Counter[Kind] = Counter()
    gained = True
    while gained and trials > 0:
        gained = False
        for crossing, kind, moved in _moves(problem, groups, tried, refusals):
            if trials == 0:
                break
            tried.add(crossing)
            refusals[kind] += 1
            trials -= 1
            try:
                found = measure(Plan(problem, plan.strategy, moved), objective)
            except Infeasible:
                # Memory, or the rest of a composite that a device takes whole only.
                continue
            if found < cost:
                groups, cost, gained = moved, found, True
                refusals[kind] = 0
                break
    return replace(plan, groups=groups)


def _moves(
    problem: Problem,
    groups: tuple[Group, ...],
    tried: set[Crossing],
    refusals: Mapping[Kind, int],
) -> Iterator[tuple[Crossing, Kind, tuple[Group, ...]]]:
    """Give the partitions in which one node crosses a border, executable ones alone."""
    device_of, owner = [0] * problem.n, [0] * problem.n
    for index, group in enumerate(groups):
        for v in group.nodes:
            device_of[v], owner[v] = problem.devices.index(group.device), index
    crossing: dict[tuple[int, int], int] = {}
    for value in problem.values:
        if value.producer == GRAPH_INPUT:
            continue
        u = value.producer
        for v in value.consumers:
            if device_of[u] != device_of[v]:
                for pair in ((u, owner[v]), (v, owner[u])):
                    crossing[pair] = max(crossing.get(pair, 0), value.nbytes)
    left: list[tuple[int, int, int, int, Kind]] = []
    for (node, target), nbytes in crossing.items():
        device = problem.devices.index(groups[target].device)
        if problem.supported[node, device]:
            kind = (problem.op_types[node], device_of[node], device, nbytes)
            left.append((refusals.get(kind, 0), -nbytes, node, target, kind))
    heapq.heapify(left)
    while left:
        known, weight, node, target, kind = heapq.heappop(left)
        if refusals.get(kind, 0) > known:
            # Refused since it was put there: those of other kinds go first.
            heapq.heappush(left, (refusals[kind], weight, node, target, kind))
            continue
        crossed = (node, groups[target].nodes[0], kind[2])
        if crossed not in tried:
            made = _with_node_in(problem, owner, device_of, node, target, kind[2])
            if made is not None:
                yield crossed, kind, made


def _with_node_in(
    problem: Problem,
    owner: Sequence[int],
    device_of: Sequence[int],
    node: int,
    target: int,
    device: int,
) -> tuple[Group, ...] | None:
    labels, devices = list(owner), list(device_of)
    labels[node], devices[node] = target, device
    parts = order_groups(problem.dag, labels, [float(label) for label in labels])
    return None if parts is None else as_groups(parts, devices, problem.devices)
