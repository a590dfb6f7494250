"""Groups that the clock likes better: merged one by one, and refined node by node at borders."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from hetsim.core import deadline
from hetsim.errors import Infeasible
from hetsim.placement.grouping.best import Owned, are_for
from hetsim.placement.objective import Objective, latency_of_groups, measure
from hetsim.problem.groups import Group
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem

MERGES = 16
"""Merges tried; each is a simulation."""
MANY = 500
"""Subgraphs from which on many pairs are merged at a time."""
BATCH = 64
"""Pairs merged together at first, where there are so many."""
MERGE_WORK = 20_000
"""Subgraphs simulated at most, over all trials, where there are so many; but LEAST_MERGES."""
LEAST_MERGES = 4


def merge_where_it_pays(
    problem: Problem, groups: tuple[Group, ...], trials: int = MERGES
) -> tuple[Group, ...]:
    """Merge neighbouring groups of a device as long as the latency does not grow.

    The pairs are those that follow each other on a device, smallest first: there a dispatch
    weighs most. One pair at a time; of MANY groups a batch of disjoint pairs, twice as many after
    each that is kept and a quarter after each that is not. At most `trials` simulations, fewer
    where there are many groups, and O(V + E) each.
    """
    owned = Owned.of(problem, groups)
    latency_s = _latency(problem, owned)
    if latency_s is None:
        return groups
    size = 1
    many = len(groups) > MANY
    if many:
        size, trials = BATCH, min(trials, max(LEAST_MERGES, MERGE_WORK // len(groups)))
    refused: set[tuple[int, int]] = set()
    kept = owned
    pairs, first = _pairs(problem, kept), kept.first_nodes()
    while trials > 0:
        deadline.check()
        batch = _disjoint(first, pairs, refused, size)
        if not batch:
            break
        merged = _merged(problem, kept, batch)
        if merged is not None:
            trials -= 1
            found = _latency(problem, merged)
            if found is not None and found <= latency_s:
                kept, latency_s = merged, found
                pairs, first = _pairs(problem, kept), kept.first_nodes()
                size *= 2 if many else 1
                continue
        if size == 1:
            refused.add(_key(first, batch[0]))
        size = max(1, size // 4)
    return groups if kept is owned else kept.groups(problem)


def _latency(problem: Problem, owned: Owned) -> float | None:
    try:
        if are_for(problem):
            return owned.latency_s(problem, "regrouping")
        return latency_of_groups(problem, owned.groups(problem), "regrouping")
    except Infeasible:
        return None


def _key(first: Sequence[int], pair: tuple[int, int]) -> tuple[int, int]:
    return first[pair[0]], first[pair[1]]


def _pairs(problem: Problem, owned: Owned) -> list[tuple[int, int]]:
    """Groups that follow each other on a device, by the seconds of the smaller of the two."""
    seconds = owned.seconds(problem)
    by_device = np.argsort(owned.device, kind="stable")
    before, after = by_device[:-1], by_device[1:]
    follow = owned.device[before] == owned.device[after]
    before, after = before[follow], after[follow]
    order = np.lexsort((after, before, np.minimum(seconds[before], seconds[after])))
    return list(zip(before[order].tolist(), after[order].tolist(), strict=True))


def _disjoint(
    first: Sequence[int],
    pairs: Sequence[tuple[int, int]],
    refused: set[tuple[int, int]],
    size: int,
) -> list[tuple[int, int]]:
    """The first `size` pairs that were not refused and share no group."""
    taken: set[int] = set()
    found: list[tuple[int, int]] = []
    for pair in pairs:
        if taken.isdisjoint(pair) and not (refused and _key(first, pair) in refused):
            taken.update(pair)
            found.append(pair)
            if len(found) == size:
                break
    return found


def _merged(problem: Problem, owned: Owned, pairs: Sequence[tuple[int, int]]) -> Owned | None:
    """The groups with each of `pairs` as one, in an executable order; None where there is none."""
    into = np.arange(len(owned))
    for u, v in pairs:
        into[v] = u
    device_of = owned.device[owned.owner]
    return Owned.ordered(problem, into[owned.owner], device_of, owned.owner)


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
