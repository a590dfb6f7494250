"""The best set of replicas by branch and bound, with the bound that is left where it ends early."""

from __future__ import annotations

import heapq
from itertools import count

import numpy as np

from hetsim.placing.program import Program, relaxed
from hetsim.placing.replicas import Chosen, Floats, Replicas
from hetsim.placing.searching import BETTER, Seen

NODES = 2000
"""Linear programs that a search takes before it ends with the bound that it has."""


def improved(seen: Seen, program: Program, best: float, nodes: int = NODES) -> float:
    """Look for sets that carry more than `best`; return a factor that none exceeds which fits.

    A node has replicas that are there and others that may be: those that still fit, each beside
    what is there. Where all of them fit together nothing is left to decide. Else the linear program
    bounds it, and a replica of which a part is there is decided: what holds most memory first.

    Complexity: at most `nodes` linear programs, and as many sets asked what they carry.
    """
    replicas = seen.replicas
    order = count()
    every = tuple(range(replicas.count))
    open_: list[tuple[float, int, Chosen, Chosen]] = [(-program.most, next(order), (), every)]
    left = nodes
    while open_:
        bound = -open_[0][0]
        if bound <= best * (1 + BETTER):
            return best
        if left <= 0:
            return bound
        _, _, there, free = heapq.heappop(open_)
        free = tuple(one for one in free if replicas.fits((*there, one)))
        whole = tuple(sorted((*there, *free)))
        if not replicas.serves_all(whole):
            continue
        left -= 1
        if replicas.fits(whole):
            best = max(best, seen.flow(whole).factor)
            continue
        low, high = np.zeros(replicas.count), np.zeros(replicas.count)
        low[list(there)] = 1.0
        high[list(whole)] = 1.0
        found = relaxed(program, low, high)
        if found.bound <= best * (1 + BETTER):
            continue
        best = max(best, _rounded(seen, there, free, found.there))
        one = _undecided(replicas, free, found.there)
        rest = tuple(other for other in free if other != one)
        for more, others in (((*there, one), rest), (there, rest)):
            heapq.heappush(open_, (-min(found.bound, bound), next(order), more, others))
    return best


def _rounded(seen: Seen, there: Chosen, free: Chosen, part: Floats) -> float:
    """What is carried where replicas are added in the order of their parts, as far as they fit."""
    replicas = seen.replicas
    chosen = there
    for one in sorted(free, key=lambda one: (-round(float(part[one]), 9), one)):
        if part[one] > BETTER and replicas.fits((*chosen, one)):
            chosen = (*chosen, one)
    chosen = tuple(sorted(chosen))
    return seen.flow(chosen).factor if replicas.serves_all(chosen) else 0.0


def _undecided(replicas: Replicas, free: Chosen, part: Floats) -> int:
    """The replica to decide next."""

    def weight(one: int) -> float:
        share = min(max(float(part[one]), 0.0), 1.0)
        held = replicas.held_bytes((one,))
        taken = max(has / max(room, 1) for has, room in zip(held, replicas.room, strict=True))
        return round((share * (1 - share) + 1e-6 * share) * (taken + 1e-9), 15)

    return max(free, key=lambda one: (weight(one), -one))
