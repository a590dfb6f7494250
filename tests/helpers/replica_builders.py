"""Replicas that there may be, at random: unlike devices, and memory that is scarce."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from hetsim.problem.parts import StorageWidth
from hetsim.provisioning.instances.replicas import ReplicaChoices, SharedWeights


def random_replicas(
    seed: int, *, devices: int = 4, models: int = 6, most: int = 16
) -> ReplicaChoices:
    """Return an instance with at most `most` replicas: alone on devices, and split over two."""
    rng = np.random.default_rng(seed)
    devices = int(rng.integers(2, devices + 1))
    models = int(rng.integers(2, models + 1))
    speed = rng.lognormal(0, 0.6, devices)
    size = rng.lognormal(0, 0.8, models)
    weights = rng.integers(20, 100, models)
    places = [(m, (p,)) for m in range(models) for p in range(devices)]
    places += [(m, pair) for m in range(models) for pair in combinations(range(devices), 2)]
    # Every model has one place at least; of the others some, alone on a device rather than split.
    weight = np.array([4.0 if len(on) == 1 else 1.0 for _, on in places])
    first = [m * devices + int(rng.integers(devices)) for m in range(models)]
    weight[first] = 0.0
    more = min(most - models, int((weight > 0).sum()))
    chance = weight / weight.sum()
    kept = first + rng.choice(len(places), int(rng.integers(1, more + 1)), False, chance).tolist()
    chosen = [places[at] for at in sorted(kept)]
    batches = rng.random() < 0.5
    model, ways, parts = [], [], {}
    live = np.zeros((len(chosen), devices), dtype=np.int64)
    for at, (m, on) in enumerate(chosen):
        model.append(m)
        alone = size[m] / speed[list(on)] * rng.lognormal(0, 0.4, len(on)) / len(on)
        for batch in (1, 4) if batches else (1,):
            busy = np.zeros(devices + 1)
            busy[list(on)] = alone * (0.6 + 0.4 / batch)
            busy[devices] = float(rng.uniform(0, 0.2)) * (len(on) > 1)
            ways.append((at, m, busy, float(busy.sum()) * batch, batch))
        for p in on:
            nbytes = int(weights[m] / len(on))
            # A split holds other halves than another; the first device of each has the same.
            name = (m, p, "whole" if len(on) == 1 else "half")
            parts.setdefault(name, [nbytes, []])[1].append(at)
            live[at, p] = int(rng.integers(0, 15))
    room = [int(one) for one in rng.uniform(0.25, 1.0, devices) * weights.sum()]
    # Some devices hold some models' types in half the bytes, but for a few.
    narrow = rng.random((models, devices)) < 0.2
    held = tuple(
        tuple(
            StorageWidth(2, 1, int(rng.integers(0, 30))) if one else StorageWidth() for one in row
        )
        for row in narrow
    )
    width = np.ones(devices + 1)
    width[:devices] = rng.integers(1, 3, devices)
    return ReplicaChoices(
        model=tuple(model),
        demand=rng.lognormal(0, 0.7, models),
        kind_model=tuple(range(models)),
        way_replica=np.array([row[0] for row in ways]),
        way_kind=np.array([row[1] for row in ways]),
        work=np.array([row[2] for row in ways]),
        width=width,
        within_s=np.array([row[3] / row[4] for row in ways]),
        alone_s=np.array([row[3] for row in ways]),
        places=np.array([float(rng.choice([1, 2, np.inf])) for _ in chosen]),
        live=live,
        parts=tuple(
            SharedWeights(m, p, nbytes, tuple(which))
            for (m, p, _), (nbytes, which) in parts.items()
        ),
        room=tuple(room),
        held=held,
    )
