"""The sets of replicas that carry most, and what none exceeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from hetsim.provisioning.instances.flow import Flow, flow_of
from hetsim.provisioning.instances.program import NODES, improved, program_of, relaxed
from hetsim.provisioning.instances.replicas import Chosen, Floats, Replicas
from hetsim.provisioning.instances.searching import BETTER, Seen, filled, greedy, swapped

PROVED = 1e-4
"""The gap at which the bound says no more than that the set is best, by the solver's tolerance."""

EXACT_UP_TO = 300
"""Replicas that there may be, up to which whole numbers are searched."""

EASE = 0.8
"""Of the largest factor: what a set carries at least that is tried for being quick."""


@dataclass(frozen=True, slots=True, eq=False)
class Best:
    """What was found.

    Attributes
    ----------
    sets : tuple of (set, Flow)
        Those that were looked at with a replica of each model; what carries most first, of
        equal ones that of fewer replicas.
    bound : float
        A factor that no set which fits carries more than.
    relaxed : float
        The same by the linear program alone, in which replicas are there in parts.
    calm : tuple of int
        Each model in one place, its requests as far within their limits as is estimated; empty
        where none was found.
    """

    sets: tuple[tuple[Chosen, Flow], ...]
    bound: float
    relaxed: float
    calm: Chosen

    @property
    def factor(self) -> float:
        """Of the best set; 0 where none fits."""
        return self.sets[0][1].factor if self.sets else 0.0

    @property
    def gap(self) -> float:
        """By how much of its factor a better set may exceed the best one, at most."""
        return gap_of(self.factor, self.bound)

    @property
    def proved(self) -> bool:
        """Whether no set carries more, but for what the solver's tolerance is."""
        return self.gap <= PROVED


def gap_of(factor: float, bound: float) -> float:
    """Return by how much of a factor another may exceed it, which is `bound` at most."""
    if bound <= factor:
        return 0.0
    return bound / factor - 1 if factor > 0 else math.inf


def best_of(
    replicas: Replicas, limit_s: Mapping[int, float] | None = None, nodes: int = NODES
) -> Best:
    """Return the sets that carry most.

    By steps first (``searching``), then by branch and bound (``exact``) where the relaxation does
    not say that it is best already. Beside them each model in one place, by what is asked of its
    latency (``one_each``), `limit_s` by model.

    Complexity: some hundred small linear programs, and at most `nodes` of branch and bound.
    """
    everything = tuple(range(replicas.count))
    if not replicas.serves_all(everything) or not replicas.count:
        return Best((), 0.0, 0.0, ())
    most = flow_of(replicas, everything).bound
    seen = Seen(replicas)
    grown = greedy(seen)
    if grown:
        grown = swapped(seen, grown)
    calm = one_each(replicas, limit_s or {})
    if calm:
        seen.flow(calm)
    if most == float("inf"):
        return _best(seen, most, most, calm)
    if replicas.fits(everything):
        # All there may be has all the room that it needs.
        seen.flow(everything)
        return _best(seen, most, most, calm)
    program = program_of(replicas, most)
    root = relaxed(program, np.zeros(replicas.count), np.ones(replicas.count))
    reached = seen.flow(grown).factor if grown else 0.0
    bound = root.bound
    if replicas.count <= EXACT_UP_TO and reached < bound * (1 - BETTER):
        bound = min(bound, improved(seen, program, reached, nodes))
    return _best(seen, bound, root.bound, calm)


def _best(seen: Seen, bound: float, relaxed: float, calm: Chosen) -> Best:
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


def few_of(best: Best, replicas: Replicas, most: int) -> list[tuple[Chosen, Flow]]:
    """Return the sets that are worth a simulation, at most so many; what carries most first.

    The set that carries most, with the replicas alone that carry any; the same with all others
    that fit beside it; each model in one place; of those that carry nearly as much the one whose
    requests take least alone, and the one of fewest replicas; and those that carry most of the
    rest, none with a replica that carries nothing.
    """
    if not best.sets or most < 1:
        return []
    flows = dict(best.sets)
    top = best.sets[0]
    wide = filled(replicas, top[0])
    lean = [row for row in best.sets if row[1].carrying(replicas) == row[0]]
    near = [row for row in lean if row[1].factor >= EASE * best.factor]
    quick = min(near, key=lambda row: float(f"{alone_s(replicas, row[1]):.9g}"), default=top)
    fewest = min(near, key=lambda row: len(row[0]), default=top)
    rows = [top, quick, (wide, flows.get(wide, top[1])), fewest, *lean]
    if best.calm:
        rows.insert(1, (best.calm, flows[best.calm]))
    found: dict[Chosen, Flow] = {}
    for chosen, flow in rows:
        if len(found) < most:
            found.setdefault(chosen, flow)
    return sorted(found.items(), key=lambda row: -row[1].rounded)


def alone_s(replicas: Replicas, flow: Flow) -> float:
    """Return what requests take alone, on the mean, where they go as they suit best."""
    demand = replicas.demand[replicas.way_kind]
    return float((flow.share * demand * replicas.alone_s).sum() / replicas.demand.sum())


RARELY = 0.01
"""Of requests: those that wait longer than is counted with."""

Mean: TypeAlias = tuple[Floats, float, float]
"""Seconds of each resource that a batch takes, its size, and what it takes alone."""

ROUNDS = 20
"""Times that all models look for a better place, at most."""


def one_each(replicas: Replicas, limit_s: Mapping[int, float]) -> Chosen:
    """Return one replica of each model whose requests are furthest within their limits.

    A request is taken to last as long as it takes alone, and at each resource that it needs as long
    as the 99th of 100 waits there: by Pollaczek and Khinchine's mean of what all work there is in
    front of it, with an exponential tail. Each model in turn takes the replica that makes the worst
    model best, until none changes. Empty where no such set fits that carries the demand.

    `limit_s`: by model; of one that has none, what it takes alone at least is in its place.
    Complexity: O(ROUNDS models replicas ways resources).
    """
    by_model = {
        model: [one for one in range(replicas.count) if replicas.model[one] == model]
        for model in replicas.models
    }
    mean = {one: _mean(replicas, one) for mine in by_model.values() for one in mine}
    limit_s = {
        model: limit_s.get(model, _least(replicas, mine)) for model, mine in by_model.items()
    }
    best: tuple[float, Chosen] = (np.inf, ())
    for start in ("quickest", "least work"):
        place = {
            model: min(mine, key=lambda one: _alone(replicas, one, start))
            for model, mine in by_model.items()
        }
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


def _alone(replicas: Replicas, one: int, by: str) -> float:
    ways = replicas.ways_of[one]
    work = (replicas.work[ways] / replicas.width).sum(axis=1)
    return float(replicas.alone_s[ways].min() if by == "quickest" else work.min())


def _worst(
    replicas: Replicas,
    mean: Mapping[int, Mean],
    place: Mapping[int, int],
    limit_s: Mapping[int, float],
) -> tuple[float, float, float]:
    """The largest latency over its limit; then what does not fit or is not carried."""
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
    # Where a request waits at all, it waits so long on the mean.
    mean_s = np.divide(square_s, 2 * (1 - busy) * busy, out=np.zeros_like(busy), where=busy > 0)
    wait_s = mean_s * np.log(np.maximum(busy / RARELY, 1))
    ratios = [
        (alone_s + float(wait_s[visit_s > 0].sum())) / limit_s[model]
        for model, (visit_s, alone_s) in asked.items()
    ]
    return (max(ratios), sum(ratios), full)


def _mean(replicas: Replicas, one: int) -> Mean:
    """Seconds of each resource a batch of a replica's model, its size, and what it takes alone.

    In the size that asks for least work; a request alone takes what the least size does.
    """
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


def _least(replicas: Replicas, mine: Sequence[int]) -> float:
    """What a model takes alone at least, in any of its replicas."""
    return max(min(float(replicas.alone_s[replicas.ways_of[one]].min()) for one in mine), 1e-12)
