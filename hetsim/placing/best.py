"""The sets of replicas that carry most, and what none exceeds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hetsim.placing.exact import NODES, improved
from hetsim.placing.flow import Flow, flow_of
from hetsim.placing.one_each import one_each
from hetsim.placing.program import program_of, relaxed
from hetsim.placing.replicas import Chosen, Replicas
from hetsim.placing.searching import BETTER, Seen, filled, greedy, swapped

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
