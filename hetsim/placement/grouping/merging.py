"""Merging of groups one by one, each kept only where the clock says that it does not hurt."""

from __future__ import annotations

from collections.abc import Sequence

from hetsim.errors import Infeasible
from hetsim.partitioning.groups import Group, as_groups, order_groups
from hetsim.placement.objective import latency_of_groups
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.one_request import one_request

TRIALS = 16
"""Merges tried; each is a simulation."""
MANY = 500
"""Subgraphs from which on many pairs are merged at a time."""
BATCH = 64
"""Pairs merged together at first, where there are so many."""
WORK = 20_000
"""Subgraphs simulated at most, over all trials, where there are so many; but LEAST_TRIALS."""
LEAST_TRIALS = 4


def merge_where_it_pays(
    problem: Problem, groups: tuple[Group, ...], trials: int = TRIALS
) -> tuple[Group, ...]:
    """Merge neighbouring groups of a device as long as the latency does not grow.

    The pairs are those that follow each other on a device, smallest first: there a dispatch
    weighs most. One pair at a time; of MANY groups a batch of disjoint pairs, twice as many after
    each that is kept and a quarter after each that is not. At most `trials` simulations, fewer
    where there are many groups, and O(V + E) each.
    """
    latency_s = _latency(problem, groups)
    if latency_s is None:
        return groups
    size = 1
    many = len(groups) > MANY
    if many:
        size, trials = BATCH, min(trials, max(LEAST_TRIALS, WORK // len(groups)))
    refused: set[tuple[int, int]] = set()
    pairs = _pairs(problem, groups)
    while trials > 0:
        batch = _disjoint(groups, pairs, refused, size)
        if not batch:
            break
        merged = _merged(problem, groups, batch)
        if merged is not None:
            trials -= 1
            found = _latency(problem, merged)
            if found is not None and found <= latency_s:
                groups, latency_s = merged, found
                pairs = _pairs(problem, groups)
                size *= 2 if many else 1
                continue
        if size == 1:
            refused.add(_key(groups, batch[0]))
        size = max(1, size // 4)
    return groups


def _latency(problem: Problem, groups: tuple[Group, ...]) -> float | None:
    try:
        return latency_of_groups(problem, groups, "regrouping")
    except Infeasible:
        return None


def _key(groups: Sequence[Group], pair: tuple[int, int]) -> tuple[int, int]:
    return groups[pair[0]].nodes[0], groups[pair[1]].nodes[0]


def _pairs(problem: Problem, groups: Sequence[Group]) -> list[tuple[int, int]]:
    """Groups that follow each other on a device, by the seconds of the smaller of the two."""
    seconds = one_request(problem).seconds(problem, groups)
    last: dict[str, int] = {}
    found: list[tuple[float, int, int]] = []
    for index, group in enumerate(groups):
        if group.device in last:
            other = last[group.device]
            found.append((min(seconds[other], seconds[index]), other, index))
        last[group.device] = index
    return [(u, v) for _, u, v in sorted(found)]


def _disjoint(
    groups: Sequence[Group],
    pairs: Sequence[tuple[int, int]],
    refused: set[tuple[int, int]],
    size: int,
) -> list[tuple[int, int]]:
    """The first `size` pairs that were not refused and share no group."""
    taken: set[int] = set()
    found: list[tuple[int, int]] = []
    for pair in pairs:
        if taken.isdisjoint(pair) and not (refused and _key(groups, pair) in refused):
            taken.update(pair)
            found.append(pair)
            if len(found) == size:
                break
    return found


def _merged(
    problem: Problem, groups: Sequence[Group], pairs: Sequence[tuple[int, int]]
) -> tuple[Group, ...] | None:
    """The groups with each of `pairs` as one, in an executable order; None where there is none."""
    into = {v: u for u, v in pairs}
    index_of = {name: index for index, name in enumerate(problem.devices)}
    labels, device_of, rank = [0] * problem.n, [0] * problem.n, [0.0] * problem.n
    for index, group in enumerate(groups):
        label, device = into.get(index, index), index_of[group.device]
        for v in group.nodes:
            labels[v], device_of[v], rank[v] = label, device, float(index)
    parts = order_groups(problem.dag, labels, rank)
    return None if parts is None else as_groups(parts, device_of, problem.devices)
