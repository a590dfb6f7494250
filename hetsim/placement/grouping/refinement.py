"""Refining on nodes what was found on tasks: borders between devices move node by node."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from hetsim.base import deadline
from hetsim.errors import Infeasible
from hetsim.placement.grouping.owned import Owned, are_for
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
    The plan, itself where nothing gains; until a deadline passes. At most TRIALS simulations of one
    request, fewer where they would exceed WORK nodes, and O(V + E) for each.
    """
    problem = plan.problem
    kept = begun = Owned.of(problem, plan.groups)
    trials = min(TRIALS, WORK // max(problem.n, 1))
    tried: set[Crossing] = set()
    refusals: Counter[Kind] = Counter()
    gained = True
    while gained and trials > 0:
        gained = False
        for crossing, kind, moved in _moves(problem, kept, tried, refusals):
            if trials == 0 or deadline.left_s() <= 0.0:
                trials = 0
                break
            tried.add(crossing)
            refusals[kind] += 1
            trials -= 1
            try:
                found = _cost(plan, moved, objective)
            except Infeasible:
                # Memory, or the rest of a composite that a device takes whole only.
                continue
            if found < cost:
                kept, cost, gained = moved, found, True
                refusals[kind] = 0
                break
    return plan if kept is begun else replace(plan, groups=kept.groups(problem))


def _cost(plan: Plan, owned: Owned, objective: Objective) -> float:
    problem = plan.problem
    if objective == "latency" and are_for(problem):
        return owned.latency_s(problem, plan.strategy)
    return measure(Plan(problem, plan.strategy, owned.groups(problem)), objective)


def _moves(
    problem: Problem,
    owned: Owned,
    tried: set[Crossing],
    refusals: Mapping[Kind, int],
) -> Iterator[tuple[Crossing, Kind, Owned]]:
    """Give the partitions in which one node crosses a border, executable ones alone."""
    owner, first = owned.owner, owned.first_nodes()
    device_of = owned.device[owner]
    values = problem.value_arrays
    reader, source = values.readers.node, values.producer[values.readers.owner]
    across = (source != GRAPH_INPUT) & (device_of[source] != device_of[reader])
    u, v = source[across], reader[across]
    node, target = np.concatenate((u, v)), np.concatenate((owner[v], owner[u]))
    nbytes = np.tile(values.nbytes[values.readers.owner[across]], 2)
    # The largest of what crosses for the same reason.
    order = np.lexsort((-nbytes, target, node))
    node, target, nbytes = node[order], target[order], nbytes[order]
    new = np.ones(len(node), dtype=np.bool_)
    new[1:] = (node[1:] != node[:-1]) | (target[1:] != target[:-1])
    device = owned.device[target]
    able = new & problem.supported[node, device]
    left: list[tuple[int, int, int, int, Kind]] = []
    for moving, into, there, own, weight in zip(
        node[able].tolist(), target[able].tolist(), device[able].tolist(),
        device_of[node[able]].tolist(), map(int, nbytes[able].tolist()), strict=True,
    ):  # fmt: skip
        kind = (problem.op_types[moving], own, there, weight)
        left.append((refusals.get(kind, 0), -weight, moving, into, kind))
    heapq.heapify(left)
    while left:
        known, minus, moving, into, kind = heapq.heappop(left)
        if refusals.get(kind, 0) > known:
            # Refused since it was put there: those of other kinds go first.
            heapq.heappush(left, (refusals[kind], minus, moving, into, kind))
            continue
        crossed = (moving, first[into], kind[2])
        if crossed not in tried:
            made = _with_node_in(problem, owned, moving, into)
            if made is not None:
                yield crossed, kind, made


def _with_node_in(problem: Problem, owned: Owned, node: int, target: int) -> Owned | None:
    labels, devices = owned.owner.copy(), owned.device[owned.owner]
    labels[node], devices[node] = target, owned.device[target]
    return Owned.ordered(problem, labels, devices, labels)
