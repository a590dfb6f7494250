"""Sets of replicas that sustain most: greedy steps, branch and bound, and an upper bound."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeAlias

import numpy as np
from scipy import optimize, sparse

from hetsim.provisioning.instances.replicas import (
    Chosen,
    Floats,
    ReplicaChoices,
    RoutedDemand,
    flow_of,
)

BETTER = 1e-9
"""Relative difference of factors that counts as rounding."""

EVALUATIONS = 1500
"""Maximum number of sets that one search evaluates."""


@dataclass(slots=True)
class EvaluatedSets:
    """Evaluated sets with the demand they sustain, and the number of evaluations left."""

    replicas: ReplicaChoices
    flows: dict[Chosen, RoutedDemand] = field(default_factory=dict)
    left: int = EVALUATIONS

    def flow(self, chosen: Chosen) -> RoutedDemand:
        """Return the multiple of the demand that a set sustains for all models."""
        if chosen not in self.flows:
            self.left -= 1
            self.flows[chosen] = flow_of(self.replicas, chosen)
        return self.flows[chosen]


def greedy(seen: EvaluatedSets) -> Chosen:
    """Return a set grown by the replica that helps the worst model most; empty if memory ends.

    Until every model is served, replicas of an unserved model are compared by the served ones; ties
    go to the smaller share of the remaining memory.

    Source: Z. Li et al., AlpaServe, OSDI 2023, https://arxiv.org/abs/2302.11665, algorithm 1, with
    a linear program instead of a simulation.
    """
    replicas = seen.replicas
    chosen: Chosen = ()
    while not replicas.serves_all(chosen):
        served = {replicas.model[one] for one in chosen}
        # By model: the replica with which the served models sustain most, and that factor.
        best: dict[int, tuple[float, float, Chosen]] = {}
        for one in _others(replicas, chosen):
            model, wider = replicas.model[one], _with(chosen, one)
            if model not in served and replicas.fits(wider):
                seen.left -= 1
                carried = flow_of(replicas, wider, [*served, model]).factor
                row = (carried, -_taken(replicas, wider), wider)
                best[model] = max(best.get(model, row), row, key=lambda each: each[:2])
        if not best:
            return ()
        # The model with the smallest factor decides.
        chosen = min(best.values(), key=lambda row: row[0])[2]
    while seen.left > 0:
        now = seen.flow(chosen)
        steps = [
            _with(chosen, one)
            for one in _others(replicas, chosen)
            if replicas.fits(_with(chosen, one))
        ]
        better = _best(seen, now, steps)
        if better is None:
            return chosen
        chosen = better
    return chosen


def swapped(seen: EvaluatedSets, chosen: Chosen) -> Chosen:
    """Return a local optimum under adding a replica and exchanging one or two for one."""
    replicas = seen.replicas
    while seen.left > 0:
        now = seen.flow(chosen)
        steps = []
        for gone in (None, *chosen):
            rest = chosen if gone is None else tuple(one for one in chosen if one != gone)
            for one in _others(replicas, chosen):
                made = _with(rest, one)
                if not replicas.fits(made):
                    continue
                if replicas.serves_all(made):
                    steps.append(made)
                elif gone is not None:
                    # A model that lost its only replica gets another one that fits.
                    steps += [
                        both
                        for other in _others(replicas, made)
                        if replicas.model[other] == replicas.model[gone] and other != gone
                        for both in [_with(made, other)]
                        if replicas.fits(both)
                    ]
        better = _best(seen, now, steps)
        if better is None:
            return chosen
        chosen = better
    return chosen


def filled(replicas: ReplicaChoices, chosen: Chosen) -> Chosen:
    """Return the set with all further replicas that fit, in order."""
    for one in _others(replicas, chosen):
        if replicas.fits(_with(chosen, one)):
            chosen = _with(chosen, one)
    return chosen


def _best(seen: EvaluatedSets, now: RoutedDemand, steps: list[Chosen]) -> Chosen | None:
    """Return the set that sustains most, if more than now; of equal ones the first."""
    bounds = [_bound(seen.replicas, now, step) for step in steps]
    best, most = None, now.factor * (1 + BETTER)
    for at in sorted(range(len(steps)), key=lambda at: -bounds[at]):
        if bounds[at] <= most or seen.left <= 0:
            break
        carried = seen.flow(steps[at]).factor
        if carried > most:
            best, most = steps[at], carried * (1 + BETTER)
    return best


def _bound(replicas: ReplicaChoices, now: RoutedDemand, chosen: Chosen) -> float:
    """Return an upper bound of a set by the resource prices of another (weak duality)."""
    which = np.isin(replicas.way_replica, chosen)
    worth = (replicas.work[which] / replicas.width) @ now.price
    least = np.full(len(replicas.demand), np.inf)
    np.minimum.at(least, replicas.way_kind[which], worth)
    cost = float(least @ replicas.demand)
    return np.inf if cost <= 0.0 else float(now.price.sum()) / cost * (1 + BETTER)


def _taken(replicas: ReplicaChoices, chosen: Chosen) -> float:
    """Return the largest share of a device's memory that a set holds."""
    held = replicas.held_bytes(chosen)
    return max(has / max(room, 1) for has, room in zip(held, replicas.room, strict=True))


def _others(replicas: ReplicaChoices, chosen: Chosen) -> list[int]:
    wanted = set(replicas.models)
    return [
        one for one in range(replicas.count) if one not in chosen and replicas.model[one] in wanted
    ]


def _with(chosen: Chosen, one: int) -> Chosen:
    return tuple(sorted((*chosen, one)))


@dataclass(frozen=True, slots=True, eq=False)
class DemandProgram:
    """Linear program of the sustained demand, over variables from 0 to 1.

    Variables: existence of each replica and of each part of the weights, the share of `most` times
    the demand of each way, and the sustained share; with `rows` at most `limit`, and `even` equal
    to 0.
    """

    most: float
    rows: sparse.csr_array
    limit: Floats
    even: sparse.csr_array


def program_of(replicas: ReplicaChoices, most: float) -> DemandProgram:
    """Return the program over all sets of replicas, with `most` above any sustained demand.

    A replica's use of a resource is at most all of it, and 0 without the replica. Memory is counted
    in the minimum bytes that devices hold of the graph's own types.
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
    return DemandProgram(most, rows, np.array(limit), even)


def relaxed(program: DemandProgram, low: Floats, high: Floats) -> tuple[float, Floats]:
    """Return a factor that no set exceeds, and the fractional existence of each replica.

    `low` and `high` [replicas] are both 1 for an included replica, both 0 for an excluded one, else
    0 and 1. The bound is that of the optimum's prices, whatever the solver's tolerance.
    """
    variables, count = program.rows.shape[1], len(low)
    gain = np.zeros(variables)
    gain[-1] = 1.0
    box = np.zeros((variables, 2))
    box[:, 1] = 1.0
    box[:count, 0], box[:count, 1] = low, high
    # SciPy's type stubs accept dense arrays only.
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
        return program.most, (low + high) / 2
    price = np.maximum(-np.asarray(found.ineqlin.marginals), 0.0)
    other = -np.asarray(found.eqlin.marginals)
    left = gain - price @ program.rows - other @ program.even
    beyond = np.where(left > 0, left * box[:, 1], left * box[:, 0]).sum()
    bound = program.most * float(price @ program.limit + beyond)
    return min(bound, program.most), np.asarray(found.x[:count])


NODES = 2000
"""Maximum number of linear programs of a search before it returns its current bound."""


def improved(seen: EvaluatedSets, program: DemandProgram, best: float, nodes: int = NODES) -> float:
    """Return a factor that no set exceeds, by branch and bound from `best`.

    A node has included replicas and undecided ones. If all of them fit together it is solved.
    Otherwise the linear program bounds it, and a replica with a fractional value is decided, the
    one with most memory first. At most `nodes` linear programs and as many evaluated sets.
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
        under, part = relaxed(program, low, high)
        if under <= best * (1 + BETTER):
            continue
        best = max(best, _rounded(seen, there, free, part))
        one = _undecided(replicas, free, part)
        rest = tuple(other for other in free if other != one)
        for more, others in (((*there, one), rest), (there, rest)):
            heapq.heappush(open_, (-min(under, bound), next(order), more, others))
    return best


def _rounded(seen: EvaluatedSets, there: Chosen, free: Chosen, part: Floats) -> float:
    """Return the factor after adding replicas by fractional value as long as they fit."""
    replicas = seen.replicas
    chosen = there
    for one in sorted(free, key=lambda one: (-round(float(part[one]), 9), one)):
        if part[one] > BETTER and replicas.fits((*chosen, one)):
            chosen = (*chosen, one)
    chosen = tuple(sorted(chosen))
    return seen.flow(chosen).factor if replicas.serves_all(chosen) else 0.0


def _undecided(replicas: ReplicaChoices, free: Chosen, part: Floats) -> int:
    """Return the replica to decide next."""

    def weight(one: int) -> float:
        share = min(max(float(part[one]), 0.0), 1.0)
        return round((share * (1 - share) + 1e-6 * share) * (_taken(replicas, (one,)) + 1e-9), 15)

    return max(free, key=lambda one: (weight(one), -one))


PROVED = 1e-4
"""Gap below which a set counts as proven best, given the solver's tolerance."""

EXACT_UP_TO = 300
"""Maximum number of candidate replicas for the branch and bound."""

EASE = 0.8
"""Share of the largest factor that a set tried for low latency must sustain."""


@dataclass(frozen=True, slots=True, eq=False)
class Best:
    """Sets in descending order of sustained demand, and an upper bound.

    Among equal `sets` those with fewer replicas come first. No set that fits exceeds `bound`, nor
    `relaxed` by the linear program alone. `calm` has each model once, furthest within its limits by
    an estimate; empty if none was found.
    """

    sets: tuple[tuple[Chosen, RoutedDemand], ...]
    bound: float
    relaxed: float
    calm: Chosen

    @property
    def factor(self) -> float:
        """Factor of the best set; 0 if none fits."""
        return self.sets[0][1].factor if self.sets else 0.0

    @property
    def gap(self) -> float:
        """Maximum share of its factor by which another set may exceed the best one."""
        return gap_of(self.factor, self.bound)

    @property
    def proved(self) -> bool:
        """Whether no set sustains more, up to the solver's tolerance."""
        return self.gap <= PROVED


def gap_of(factor: float, bound: float) -> float:
    """Return the share of a factor by which `bound` exceeds it."""
    if bound <= factor:
        return 0.0
    return bound / factor - 1 if factor > 0 else math.inf


def best_of(
    replicas: ReplicaChoices, limit_s: Mapping[int, float] | None = None, nodes: int = NODES
) -> Best:
    """Return the best sets by local steps, then branch and bound if the relaxation leaves a gap.

    `limit_s` has the latency limit of each model. At most `nodes` linear programs of branch and
    bound, and some hundred small ones.
    """
    everything = tuple(range(replicas.count))
    if not replicas.serves_all(everything) or not replicas.count:
        return Best((), 0.0, 0.0, ())
    most = flow_of(replicas, everything).bound
    seen = EvaluatedSets(replicas)
    grown = greedy(seen)
    if grown:
        grown = swapped(seen, grown)
    calm = one_each(replicas, limit_s or {})
    if calm:
        seen.flow(calm)
    if most == float("inf"):
        return _ranked(seen, most, most, calm)
    if replicas.fits(everything):
        # All candidates fit together.
        seen.flow(everything)
        return _ranked(seen, most, most, calm)
    program = program_of(replicas, most)
    root, _ = relaxed(program, np.zeros(replicas.count), np.ones(replicas.count))
    reached = seen.flow(grown).factor if grown else 0.0
    bound = root
    if replicas.count <= EXACT_UP_TO and reached < bound * (1 - BETTER):
        bound = min(bound, improved(seen, program, reached, nodes))
    return _ranked(seen, bound, root, calm)


def _ranked(seen: EvaluatedSets, bound: float, relaxed: float, calm: Chosen) -> Best:
    replicas = seen.replicas
    for chosen in [one for one, flow in seen.flows.items() if flow.factor > 0]:
        needed = seen.flows[chosen].carrying(replicas)
        if needed != chosen:
            seen.flow(needed)
    top = max(seen.flows, key=lambda one: seen.flows[one].factor, default=())
    if top:
        seen.flow(filled(replicas, top))
    sets = [(one, flow) for one, flow in seen.flows.items() if flow.factor > 0]
    sets.sort(key=lambda row: (-row[1].rounded, len(row[0]), row[0]))
    reached = sets[0][1].factor if sets else 0.0
    return Best(tuple(sets), max(bound, reached), max(relaxed, reached), calm)


def few_of(best: Best, replicas: ReplicaChoices, most: int) -> list[tuple[Chosen, RoutedDemand]]:
    """Return at most `most` sets to simulate, in descending order of sustained demand.

    Includes the set that sustains most, reduced to its used replicas; the same with all others that
    fit; each model once; among those that sustain nearly as much, the fastest alone and the
    smallest; and the best of the rest without unused replicas.
    """
    if not best.sets or most < 1:
        return []
    flows = dict(best.sets)
    top = best.sets[0]
    wide = filled(replicas, top[0])
    lean = [row for row in best.sets if row[1].carrying(replicas) == row[0]]
    near = [row for row in lean if row[1].factor >= EASE * best.factor]
    demand = replicas.demand[replicas.way_kind]
    quick = min(
        near,
        # Mean latency of requests alone.
        key=lambda row: float(f"{(row[1].share * demand * replicas.alone_s).sum():.9g}"),
        default=top,
    )
    fewest = min(near, key=lambda row: len(row[0]), default=top)
    rows = [top, quick, (wide, flows.get(wide, top[1])), fewest, *lean]
    if best.calm:
        rows.insert(1, (best.calm, flows[best.calm]))
    found: dict[Chosen, RoutedDemand] = {}
    for chosen, flow in rows:
        if len(found) < most:
            found.setdefault(chosen, flow)
    return sorted(found.items(), key=lambda row: -row[1].rounded)


RARELY = 0.01
"""Share of requests that wait longer than the estimate assumes."""

Mean: TypeAlias = tuple[Floats, float, float]
"""Seconds of each resource for a batch, its size, and its latency alone."""

ROUNDS = 20
"""Maximum number of rounds in which all models look for a better replica."""


def one_each(replicas: ReplicaChoices, limit_s: Mapping[int, float]) -> Chosen:
    """Return one replica per model with requests furthest within their limits; empty if none fits.

    A request's latency is estimated as that alone plus, at each resource, the 99th percentile of
    waiting: the Pollaczek-Khinchine mean with an exponential tail. Each model in turn takes the
    replica that is best for the worst model, until none changes. A model without a limit is
    compared with its least latency alone.
    """
    by_model = {
        model: [one for one in range(replicas.count) if replicas.model[one] == model]
        for model in replicas.models
    }
    mean = {one: _mean(replicas, one) for mine in by_model.values() for one in mine}
    by_way = replicas.alone_s, (replicas.work / replicas.width).sum(axis=1)
    # By replica: minimum latency of a batch alone, and minimum work.
    quickest, least = (
        [float(each[ways].min(initial=np.inf)) for ways in replicas.ways_of] for each in by_way
    )
    limit_s = {
        model: limit_s.get(model, max(min(quickest[one] for one in mine), 1e-12))
        for model, mine in by_model.items()
    }
    best: tuple[float, Chosen] = (np.inf, ())
    for start in (quickest, least):
        place = {model: min(mine, key=start.__getitem__) for model, mine in by_model.items()}
        for _ in range(ROUNDS):
            before = dict(place)
            for model, mine in by_model.items():
                place[model] = min(
                    mine, key=lambda one: _worst(replicas, mean, {**place, model: one}, limit_s)
                )
            if place == before:
                break
        chosen = tuple(sorted(place.values()))
        worst = _worst(replicas, mean, place, limit_s)[0]
        if worst < best[0] and replicas.fits(chosen):
            best = (worst, chosen)
    return best[1]


def _worst(
    replicas: ReplicaChoices,
    mean: Mapping[int, Mean],
    place: Mapping[int, int],
    limit_s: Mapping[int, float],
) -> tuple[float, float, float]:
    """Return the largest latency over its limit, their sum, and the busiest resource or memory."""
    held = replicas.held_bytes(place.values())
    over = sum(
        max(has / max(room, 1) - 1, 0) for has, room in zip(held, replicas.room, strict=True)
    )
    busy: Floats = np.zeros(len(replicas.width))
    square_s: Floats = np.zeros(len(replicas.width))
    asked = {}
    for model, one in place.items():
        visit_s, size, alone_s = mean[one]
        asked[model] = visit_s, alone_s
        rate = sum(
            float(replicas.demand[k]) for k, at in enumerate(replicas.kind_model) if at == model
        )
        busy = busy + rate / size * visit_s
        square_s = square_s + rate / size * visit_s**2
    full = float(busy.max(initial=0.0))
    if over > 0 or full >= 1:
        return (np.inf, over, full)
    # Mean wait, given that a request waits at all.
    mean_s = np.divide(square_s, 2 * (1 - busy) * busy, out=np.zeros_like(busy), where=busy > 0)
    wait_s = mean_s * np.log(np.maximum(busy / RARELY, 1))
    ratios = [
        (alone_s + float(wait_s[visit_s > 0].sum())) / limit_s[model]
        for model, (visit_s, alone_s) in asked.items()
    ]
    return (max(ratios), sum(ratios), full)


def _mean(replicas: ReplicaChoices, one: int) -> Mean:
    """Return resource seconds, size and latency alone of the batch size with least work."""
    visit_s: Floats = np.zeros(len(replicas.width))
    size = alone_s = weight = 0.0
    ways = replicas.ways_of[one]
    for kind in np.unique(replicas.way_kind[ways]).tolist():
        mine = ways[replicas.way_kind[ways] == kind]
        least = mine[int((replicas.work[mine] / replicas.width).sum(axis=1).argmin())]
        demand = float(replicas.demand[kind])
        batch = float(replicas.alone_s[least] / max(replicas.within_s[least], 1e-300)) or 1.0
        visit_s = visit_s + demand * batch * replicas.work[least] / replicas.width
        size += demand * batch
        alone_s += demand * float(replicas.alone_s[mine].min())
        weight += demand
    return visit_s / weight, size / weight, alone_s / weight
