"""Which replicas to have, where they may be there in parts, as a linear program: a bound."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from scipy import optimize, sparse

from hetsim.provisioning.instances.replicas import Chosen, Floats, Replicas
from hetsim.provisioning.instances.searching import BETTER, Seen


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Maximize what is carried: rows of it, over variables from 0 to 1.

    Variables are, in this order: whether each replica is there, whether each part of the weights
    is, the share of `most` times the demand that each way gets, and the share that is carried.

    Attributes
    ----------
    most : float
        A factor that no set exceeds.
    rows : sparse array [rows, variables]
    limit : float array [rows]
        What each is at most.
    even : sparse array [kinds, variables]
        What is 0.
    """

    most: float
    rows: sparse.csr_array
    limit: Floats
    even: sparse.csr_array


def program_of(replicas: Replicas, most: float) -> Program:
    """Return the program of all sets of replicas, where `most` is above what any carries.

    What a replica does with a resource is at most all of it, and nothing where it is not there: so
    its relaxation, in which replicas are there in parts, knows that a part carries a part.
    Memory is counted in the least bytes that devices hold of the graph's own.
    """
    count, parts, ways = replicas.count, len(replicas.parts), len(replicas.way_kind)
    variables = count + parts + ways + 1
    at_way = count + parts
    entries: list[tuple[int, int, float]] = []
    limit: list[float] = []

    def row(terms: Sequence[tuple[int, float]], most: float) -> None:
        entries.extend((len(limit), at, value) for at, value in terms if value)
        limit.append(most)

    asked = most * replicas.demand[replicas.way_kind]
    use = replicas.work / replicas.width * asked[:, None]
    for r in range(len(replicas.width)):
        row([(at_way + way, use[way, r]) for way in range(ways)], 1.0)
    for one, mine in enumerate(replicas.ways_of):
        for r in np.flatnonzero(use[mine].any(axis=0)).tolist():
            row([*((at_way + way, use[way, r]) for way in mine.tolist()), (one, -1.0)], 0.0)
        for way in mine.tolist():
            row([(at_way + way, 1.0), (one, -1.0)], 0.0)
        if np.isfinite(replicas.places[one]):
            within = replicas.within_s[mine] * asked[mine] / replicas.places[one]
            row([*zip((at_way + mine).tolist(), within.tolist(), strict=True), (one, -1.0)], 0.0)
    for at, part in enumerate(replicas.parts):
        for one in part.replicas:
            row([(one, 1.0), (count + at, -1.0)], 0.0)
    for p, room in enumerate(replicas.room):
        least = [held[p].bits / held[p].wide_bits / max(room, 1) for held in replicas.held]
        terms = [
            (one, live * least[replicas.model[one]])
            for one, live in enumerate(replicas.live[:, p].tolist())
        ]
        terms += [
            (count + at, part.nbytes * least[part.model])
            for at, part in enumerate(replicas.parts)
            if part.device == p
        ]
        row(terms, 1.0)
    values = [value for _, _, value in entries]
    at, to = np.array([entry[:2] for entry in entries], dtype=np.int64).T
    kinds = len(replicas.demand)
    even = sparse.csr_array(
        (
            np.concatenate([np.ones(ways), -np.ones(kinds)]),
            (
                np.concatenate([replicas.way_kind, np.arange(kinds)]),
                np.concatenate([at_way + np.arange(ways), np.full(kinds, variables - 1)]),
            ),
        ),
        shape=(kinds, variables),
    )
    rows = sparse.csr_array((values, (at, to)), shape=(len(limit), variables))
    return Program(most, rows, np.array(limit), even)


@dataclass(frozen=True, slots=True, eq=False)
class Relaxed:
    """The program solved.

    Attributes
    ----------
    bound : float
        A factor that no set carries more than, of those that it is about.
    there : float array [replicas]
        The part of each replica that is there.
    """

    bound: float
    there: Floats


def relaxed(program: Program, low: Floats, high: Floats) -> Relaxed:
    """Return what sets carry at most that fit.

    The bound is computed from the prices of the optimum: for any prices, what the limits are worth
    and what each variable gains beyond them is a bound, so the solver's tolerance is no matter.

    Parameters
    ----------
    program : Program
    low, high : float array [replicas]
        1 and 1 of a replica that is there, 0 and 0 of one that is not, 0 and 1 of others.
    """
    variables, count = program.rows.shape[1], len(low)
    gain = np.zeros(variables)
    gain[-1] = 1.0
    box = np.zeros((variables, 2))
    box[:, 1] = 1.0
    box[:count, 0], box[:count, 1] = low, high
    # The stubs know dense arrays only.
    maximize: Any = optimize.linprog
    found = maximize(
        -gain,
        A_ub=program.rows,
        b_ub=program.limit,
        A_eq=program.even,
        b_eq=np.zeros(program.even.shape[0]),
        bounds=box,
        method="highs",
    )
    if found.status != 0:
        return Relaxed(program.most, (low + high) / 2)
    price = np.maximum(-np.asarray(found.ineqlin.marginals), 0.0)
    other = -np.asarray(found.eqlin.marginals)
    left = gain - price @ program.rows - other @ program.even
    beyond = np.where(left > 0, left * box[:, 1], left * box[:, 0]).sum()
    bound = program.most * float(price @ program.limit + beyond)
    return Relaxed(min(bound, program.most), np.asarray(found.x[:count]))


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
