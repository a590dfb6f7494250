"""Merging of groups one by one, each kept only where the clock says that it does not hurt."""

from __future__ import annotations

from collections.abc import Sequence

from hetsim.errors import Infeasible
from hetsim.partitioning.groups import Group, as_groups, order_groups
from hetsim.placement.objective import latency_of
from hetsim.plans.plan import Plan
from hetsim.problem.problem import Problem

TRIALS = 16
"""Merges tried; each is a simulation."""


def merge_where_it_pays(
    problem: Problem, groups: tuple[Group, ...], trials: int = TRIALS
) -> tuple[Group, ...]:
    """Merge neighbouring groups of a device as long as the latency does not grow.

    The pairs are those that follow each other on a device, smallest first: there a dispatch
    weighs most. At most `trials` simulations, and O(V + E) each.
    """
    latency_s = _latency(problem, groups)
    if latency_s is None:
        return groups
    device_of = [0] * problem.n
    rank = [0.0] * problem.n
    for index, group in enumerate(groups):
        for v in group.nodes:
            device_of[v], rank[v] = problem.devices.index(group.device), float(index)
    refused: set[tuple[int, int]] = set()
    while trials > 0:
        pair = next((p for p in _pairs(problem, groups) if _key(groups, p) not in refused), None)
        if pair is None:
            break
        merged = _merged(problem, groups, pair, device_of, rank)
        if merged is not None:
            trials -= 1
            found = _latency(problem, merged)
            if found is not None and found <= latency_s:
                groups, latency_s = merged, found
                continue
        refused.add(_key(groups, pair))
    return groups


def _latency(problem: Problem, groups: tuple[Group, ...]) -> float | None:
    try:
        return latency_of(Plan(problem, "regrouping", groups))
    except Infeasible:
        return None


def _key(groups: Sequence[Group], pair: tuple[int, int]) -> tuple[int, int]:
    return groups[pair[0]].nodes[0], groups[pair[1]].nodes[0]


def _pairs(problem: Problem, groups: Sequence[Group]) -> list[tuple[int, int]]:
    """Groups that follow each other on a device, by the seconds of the smaller of the two."""
    last: dict[str, int] = {}
    found: list[tuple[float, int, int]] = []
    for index, group in enumerate(groups):
        device = problem.devices.index(group.device)
        if group.device in last:
            other = last[group.device]
            weight = min(problem.group_seconds(device, groups[at].nodes) for at in (other, index))
            found.append((weight, other, index))
        last[group.device] = index
    return [(u, v) for _, u, v in sorted(found)]


def _merged(
    problem: Problem,
    groups: Sequence[Group],
    pair: tuple[int, int],
    device_of: Sequence[int],
    rank: Sequence[float],
) -> tuple[Group, ...] | None:
    labels = [0] * problem.n
    for index, group in enumerate(groups):
        label = pair[0] if index == pair[1] else index
        for v in group.nodes:
            labels[v] = label
    parts = order_groups(problem.dag, labels, rank)
    return None if parts is None else as_groups(parts, device_of, problem.devices)
