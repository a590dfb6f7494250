"""Sets of replicas by steps: the replica that helps most, then one in the place of another."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hetsim.provisioning.instances.flow import Flow, flow_of
from hetsim.provisioning.instances.replicas import Chosen, Replicas

BETTER = 1e-9
"""Of a factor: what is less is rounding."""

EVALUATIONS = 1500
"""Sets that one search asks what they carry."""


@dataclass(slots=True)
class Seen:
    """Sets that were looked at, each once.

    Attributes
    ----------
    replicas : Replicas
    flows : mapping of set to Flow
        Of sets that have a replica of each model.
    left : int
        Sets that may still be asked about.
    """

    replicas: Replicas
    flows: dict[Chosen, Flow] = field(default_factory=dict)
    left: int = EVALUATIONS

    def flow(self, chosen: Chosen) -> Flow:
        """Return what a set of all models carries."""
        if chosen not in self.flows:
            self.left -= 1
            self.flows[chosen] = flow_of(self.replicas, chosen)
        return self.flows[chosen]


def greedy(seen: Seen) -> Chosen:
    """Return the set that grows by the replica which helps the worst model most, while one does.

    Until every model is served, those that are decide between replicas of one that is not; of equal
    ones, what takes less of the memory that is left. Empty where memory ends before.

    Source: Z. Li et al., AlpaServe, OSDI 2023, https://arxiv.org/abs/2302.11665, algorithm 1, which
    asks a simulation in the place of a linear program.
    """
    replicas = seen.replicas
    chosen: Chosen = ()
    while not replicas.serves_all(chosen):
        served = {replicas.model[one] for one in chosen}
        # By model: the replica with which what is served carries most, and then how much.
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
        # The model that gets least even so has the say.
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


def swapped(seen: Seen, chosen: Chosen) -> Chosen:
    """Return what a set becomes by one replica more, or one or two in the place of one, while
    that helps.
    """
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
                    # What has lost its only replica gets another that still fits.
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


def filled(replicas: Replicas, chosen: Chosen) -> Chosen:
    """Return the set with all further replicas that still fit, in their order."""
    for one in _others(replicas, chosen):
        if replicas.fits(_with(chosen, one)):
            chosen = _with(chosen, one)
    return chosen


def _best(seen: Seen, now: Flow, steps: list[Chosen]) -> Chosen | None:
    """The set that carries most, where it is more than now; of equal ones the first.

    The prices of what is there now bound what a set carries: those are asked first that may carry
    most, until none can carry more than the best.
    """
    bounds = [_bound(seen.replicas, now, step) for step in steps]
    best, most = None, now.factor * (1 + BETTER)
    for at in sorted(range(len(steps)), key=lambda at: -bounds[at]):
        if bounds[at] <= most or seen.left <= 0:
            break
        carried = seen.flow(steps[at]).factor
        if carried > most:
            best, most = steps[at], carried * (1 + BETTER)
    return best


def _bound(replicas: Replicas, now: Flow, chosen: Chosen) -> float:
    """What a set carries at most, by the prices of another's resources (weak duality)."""
    which = np.isin(replicas.way_replica, chosen)
    worth = (replicas.work[which] / replicas.width) @ now.price
    least = np.full(len(replicas.demand), np.inf)
    np.minimum.at(least, replicas.way_kind[which], worth)
    cost = float(least @ replicas.demand)
    return np.inf if cost <= 0.0 else float(now.price.sum()) / cost * (1 + BETTER)


def _taken(replicas: Replicas, chosen: Chosen) -> float:
    """The largest part of a device's memory that a set holds."""
    held = replicas.held_bytes(chosen)
    return max(has / max(room, 1) for has, room in zip(held, replicas.room, strict=True))


def _others(replicas: Replicas, chosen: Chosen) -> list[int]:
    wanted = set(replicas.models)
    return [
        one for one in range(replicas.count) if one not in chosen and replicas.model[one] in wanted
    ]


def _with(chosen: Chosen, one: int) -> Chosen:
    return tuple(sorted((*chosen, one)))
