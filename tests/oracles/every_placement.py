"""What the best set of replicas carries, by looking at all of them."""

from __future__ import annotations

import numpy as np
from scipy import optimize

from hetsim.provisioning.instances.replicas import ReplicaChoices


def most_carried(replicas: ReplicaChoices) -> float:
    """Return the largest factor of all sets that fit; 0 where none has a replica of each model.

    A set within another that fits carries no more, and is passed over; so is one whose resources,
    at some prices, are worth no more than the best known. Every other is asked by a linear program.
    """
    every = np.arange(1 << replicas.count)
    fits = _fits(replicas, every)
    largest = fits.copy()
    for one in range(replicas.count):
        wider = every | 1 << one
        largest &= (wider == every) | ~fits[wider]
    best, prices = 0.0, np.eye(len(replicas.width))
    scaled = replicas.work / replicas.width * replicas.demand[replicas.way_kind][:, None]
    for chosen in every[largest]:
        mine = (chosen >> replicas.way_replica & 1).astype(bool)
        if set(replicas.way_kind[mine].tolist()) != set(range(len(replicas.demand))):
            continue
        cost = np.full((len(prices), len(replicas.demand)), np.inf)
        for way in np.flatnonzero(mine):
            kind = replicas.way_kind[way]
            cost[:, kind] = np.minimum(cost[:, kind], prices @ scaled[way])
        needed = cost.sum(axis=1)
        worth = prices.sum(axis=1)
        if (worth < needed * best).any():
            continue
        factor, price = _carried(replicas, np.flatnonzero(mine), scaled)
        prices = np.vstack([prices, price])
        best = max(best, factor)
    return best


def _fits(replicas: ReplicaChoices, every: np.ndarray) -> np.ndarray:
    fits = np.ones(len(every), dtype=bool)
    for p, room in enumerate(replicas.room):
        needed = np.zeros(len(every), dtype=np.int64)
        for model in sorted(set(replicas.model)):
            stated = np.zeros(len(every), dtype=np.int64)
            for one in range(replicas.count):
                if replicas.model[one] == model:
                    stated += (every >> one & 1) * replicas.live[one, p]
            for part in replicas.parts:
                if (part.model, part.device) == (model, p):
                    having = sum(1 << one for one in part.replicas)
                    stated += ((every & having) > 0) * part.nbytes
            # In narrower elements, but for what is kept as wide as it is; whole bytes.
            held = replicas.held[model][p]
            kept = np.minimum(held.kept_bytes, stated) * (held.wide_bits - held.bits)
            needed += np.ceil((stated * held.bits + kept) / held.wide_bits).astype(np.int64)
        fits &= needed <= room
    return fits


def _carried(
    replicas: ReplicaChoices, ways: np.ndarray, scaled: np.ndarray
) -> tuple[float, np.ndarray]:
    """The largest factor by the program that maximizes it, and what resources are worth there."""
    kinds = len(replicas.demand)
    rows = [scaled[ways].T]
    for one in np.unique(replicas.way_replica[ways]):
        if np.isfinite(replicas.places[one]):
            mine = replicas.way_replica[ways] == one
            asked = replicas.demand[replicas.way_kind[ways]]
            rows.append((mine * replicas.within_s[ways] * asked / replicas.places[one])[None, :])
    work = np.vstack(rows)
    work = np.hstack([work, np.zeros((len(work), 1))])
    even = np.hstack(
        [np.equal.outer(np.arange(kinds), replicas.way_kind[ways]), -np.ones((kinds, 1))]
    )
    found = optimize.linprog(
        c=[*np.zeros(len(ways)), -1.0],
        A_ub=work,
        b_ub=np.ones(len(work)),
        A_eq=even,
        b_eq=np.zeros(kinds),
        method="highs-ds",
    )
    assert found.status == 0
    price = np.maximum(-np.asarray(found.ineqlin.marginals), 0.0)[: len(replicas.width)]
    return float(-found.fun), price
