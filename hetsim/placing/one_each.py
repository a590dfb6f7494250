"""Each model in one place, so that requests wait least: a set beside those that carry most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from hetsim.placing.replicas import Chosen, Floats, Replicas

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
