"""Plans that miss the memory by little: nodes move, and subgraphs are cut, until they fit."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from hetsim.errors import Infeasible
from hetsim.partitioning.groups import Group
from hetsim.placement.fitting.footprint import Excess, Footprint, excess
from hetsim.placement.search.drafts import Asked, Search, asked_of, draft_of, refill, search_of
from hetsim.placement.search.estimates import groups_of
from hetsim.placement.search.moves import draw_share, propose, undo
from hetsim.plans.plan import Plan
from hetsim.problem.problem import Problem

PLAYS = 1_500
"""Plans that the clock plays at most."""
WORK = 60_000
"""Nodes that it plays at most, over all of them."""
HOT = 0.02
"""Worsening that is accepted with probability 1/e at first, over all bytes of the problem."""


def relieved(footprint: Footprint, assignment: Sequence[int]) -> list[int] | None:
    """Return an assignment near to one given whose weights fit; None where moves one by one fail.

    While a device has too much, the node that costs least a byte that it frees goes to a device
    with room. O(n P) a move.
    """
    problem, capacity = footprint.problem, footprint.capacity
    devices = list(assignment)
    count = len(problem.devices)
    readers = [[0] * len(problem.constants) for _ in range(count)]
    held = [0] * count
    for v, p in enumerate(devices):
        for c in problem.constants_of[v]:
            held[p] += 0 if readers[p][c] else problem.constants[c].nbytes
            readers[p][c] += 1
    needed = list(footprint.always)
    for v, p in enumerate(devices):
        needed[p] = max(needed[p], footprint.beside[v][p])
    seconds = problem.shared_seconds.tolist()
    for p in range(count):
        here = [v for v in range(problem.n) if devices[v] == p]
        while held[p] + needed[p] > capacity[p]:
            best: tuple[float, int, int] | None = None
            for v in here:
                freed = sum(
                    problem.constants[c].nbytes
                    for c in problem.constants_of[v]
                    if readers[p][c] == 1
                )
                freed += max(0, footprint.beside[v][p] - footprint.always[p])
                for q in range(count):
                    if q == p or not problem.supported[v, q] or not freed:
                        continue
                    fresh = sum(
                        problem.constants[c].nbytes
                        for c in problem.constants_of[v]
                        if not readers[q][c]
                    )
                    if held[q] + fresh + max(needed[q], footprint.beside[v][q]) <= capacity[q]:
                        loss = (seconds[v][q] - min(seconds[v][p], seconds[v][q])) / freed
                        key = (loss, v, q)
                        best = key if best is None else min(best, key)
            if best is None:
                return None
            _, v, q = best
            devices[v] = q
            here.remove(v)
            for c in problem.constants_of[v]:
                nbytes = problem.constants[c].nbytes
                readers[p][c] -= 1
                held[p] -= 0 if readers[p][c] else nbytes
                held[q] += 0 if readers[q][c] else nbytes
                readers[q][c] += 1
            needed[q] = max(needed[q], footprint.beside[v][q])
            needed[p] = max((footprint.beside[u][p] for u in here), default=0)
            needed[p] = max(needed[p], footprint.always[p])
    return devices


def spilled(footprint: Footprint, assignment: Sequence[int]) -> list[int] | None:
    """Return an assignment in which full devices give up the last of their nodes; None if stuck.

    What a device has no room for goes, run by run, to the quickest other with room, so that few
    tensors cross. O(n P).
    """
    problem, capacity = footprint.problem, footprint.capacity
    seconds = problem.shared_seconds.tolist()
    count = len(problem.devices)
    there: list[set[int]] = [set() for _ in range(count)]
    held, needed = [0] * count, list(footprint.always)
    devices = [-1] * problem.n

    def holds(v: int, p: int) -> bool:
        fresh = sum(
            problem.constants[c].nbytes for c in problem.constants_of[v] if c not in there[p]
        )
        return held[p] + fresh + max(needed[p], footprint.beside[v][p]) <= capacity[p]

    def put(v: int, p: int) -> None:
        held[p] += sum(problem.constants[c].nbytes for c in set(problem.constants_of[v]) - there[p])
        there[p].update(problem.constants_of[v])
        needed[p] = max(needed[p], footprint.beside[v][p])
        devices[v] = p

    full = [False] * count
    left: list[int] = []
    for v, p in enumerate(assignment):
        full[p] = full[p] or not holds(v, p)
        if full[p]:
            left.append(v)
        else:
            put(v, p)
    last = -1
    for v in left:
        able = [p for p in range(count) if problem.supported[v, p] and holds(v, p)]
        if not able:
            return None
        if last not in able:
            last = min(able, key=lambda p: (seconds[v][p], p))
        put(v, last)
    return devices


def squeezed(
    problem: Problem, groups: Sequence[Group], seed: int = 0
) -> tuple[tuple[Group, ...], Excess]:
    """Anneal the bytes by which a plan misses the memory, each move played by the clock.

    Parameters
    ----------
    problem : Problem
        With memory capacities.
    groups : sequence of Group
        An executable plan.
    seed : int

    Returns
    -------
    The groups with the least excess met, and the excess; it ends where nothing is over. At most
    PLAYS plays of O(V + E), fewer where they would be of more than WORK nodes.
    """
    rng = random.Random(seed)
    asked = asked_of(problem, grouped=True, binds=False)
    best = tuple(groups)
    least = excess(Plan(problem, "memory", best))
    search = search_of(asked, len(problem.link_names), draft_of(problem, groups), None)
    now = _excess(problem, asked, search)
    if now is None:
        # A composite that cannot be told from its nodes: the plan stays as it is.
        return best, least
    scale = HOT * _all_bytes(problem)
    plays = min(PLAYS, max(WORK // max(problem.n, 1), 10))
    for played in range(plays):
        if now.total < least.total:
            best, least = groups_of(problem, asked, search), now
        if least.total == 0:
            break
        refill(search, rng)
        if not propose(asked, search):
            continue
        found = _excess(problem, asked, search)
        heat = scale * (1.0 - played / plays) + 1e-9
        if found is not None and (
            found.total <= now.total
            or draw_share(search) < math.exp((now.total - found.total) / heat)
        ):
            now = found
        else:
            undo(asked, search)
    if now.total < least.total:
        best, least = groups_of(problem, asked, search), now
    return best, least


def _excess(problem: Problem, asked: Asked, search: Search) -> Excess | None:
    try:
        return excess(Plan(problem, "memory", groups_of(problem, asked, search)))
    except Infeasible:
        return None


def _all_bytes(problem: Problem) -> int:
    weights = sum(constant.nbytes for constant in problem.constants)
    return weights + sum(value.nbytes for value in problem.values)
