"""Merging of groups one by one, each kept only where the clock says that it does not hurt."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hetsim.base import deadline
from hetsim.errors import Infeasible
from hetsim.partitioning.groups import Group
from hetsim.placement.grouping.owned import Owned, are_for
from hetsim.placement.objective import latency_of_groups
from hetsim.problem.problem import Problem

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
    owned = Owned.of(problem, groups)
    latency_s = _latency(problem, owned)
    if latency_s is None:
        return groups
    size = 1
    many = len(groups) > MANY
    if many:
        size, trials = BATCH, min(trials, max(LEAST_TRIALS, WORK // len(groups)))
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
