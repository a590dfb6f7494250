"""Large task graphs of the literature on list scheduling, on devices that differ by task.

Graphs of Gaussian elimination and of the fast Fourier transform, and random ones in levels, as in
H. Topcuoglu, S. Hariri, M.-Y. Wu, IEEE TPDS 13(3), 2002, section 5; tiled Cholesky factorization
as in dense linear algebra; and layers. Seconds are drawn around each task's mean, within a share
of it; bytes around a share of the mean work.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

import hetsim

Edges = list[tuple[int, int]]

MODEL_LIKE: dict[str, Any] = {"dispatch_s": 0.7, "contention": "fifo", "host": 0}


@dataclass(frozen=True, slots=True)
class Costs:
    """How many devices there are, and how costs are drawn.

    Attributes
    ----------
    devices : int
    traffic : float
        Mean seconds of a transfer over those of a task.
    spread : float
        Width of a task's seconds over the devices, over their mean; 2 at most.
    seed : int
    """

    devices: int
    traffic: float
    spread: float
    seed: int


def drawn(name: str, n: int, edges: Edges, costs: Costs, **options: Any) -> hetsim.Problem:
    """A graph with costs; edges lead to tasks of a higher number."""
    rng = np.random.default_rng(costs.seed)
    mean = rng.uniform(1.0, 20.0, n)
    spread = rng.uniform(1 - costs.spread / 2, 1 + costs.spread / 2, (n, costs.devices))
    known = sorted(set(edges))
    nbytes = rng.uniform(0.0, 20 * costs.traffic * mean.mean(), len(known))
    return hetsim.Problem.from_arrays(
        mean[:, None] * spread,
        edges=[(u, v, max(1, round(b))) for (u, v), b in zip(known, nbytes.tolist(), strict=True)],
        bytes_per_s=10.0,
        name=f"{name} of {n} on {costs.devices}",
        **options,
    )


def layered(
    n: int, devices: int, degree: int, width: int, seed: int, **options: Any
) -> hetsim.Problem:
    """Layers of `width` nodes, each with up to `degree` inputs from the layer before."""
    rng = random.Random(seed)
    edges = {
        (rng.randrange(v // width * width - width, v // width * width), v)
        for v in range(width, n)
        for _ in range(rng.randint(1, degree))
    }
    return hetsim.Problem.from_arrays(
        np.random.default_rng(seed).uniform(1.0, 20.0, (n, devices)),
        edges=[(u, v, rng.randint(1, 20)) for u, v in sorted(edges)],
        latency_s=0.5,
        bytes_per_s=1.0,
        name=f"{n} in layers of {width} on {devices}",
        **options,
    )


def levels(n: int, shape: float, degree: int, costs: Costs, **options: Any) -> hetsim.Problem:
    """Random: about sqrt(n) / `shape` levels, up to `degree` edges to the next, some further."""
    rng = np.random.default_rng(costs.seed + 7)
    mean = n / max(2, int(n**0.5 / shape))
    rows: list[range] = []
    while not rows or rows[-1].stop < n:
        first = rows[-1].stop if rows else 0
        rows.append(range(first, min(n, first + max(1, int(rng.uniform(0.5, 1.5) * mean)))))
    edges: Edges = []
    for row, following in pairwise(rows):
        edges += [(int(rng.choice(row)), v) for v in following]
        for u in row:
            edges += [(u, int(rng.choice(following))) for _ in range(int(rng.integers(degree)))]
    for _ in range(n // 5):
        above, below = sorted(rng.choice(len(rows), 2, replace=False))
        edges.append((int(rng.choice(rows[above])), int(rng.choice(rows[below]))))
    return drawn("random levels", n, edges, costs, **options)


def gauss(size: int, costs: Costs, **options: Any) -> hetsim.Problem:
    """Gaussian elimination of a matrix of `size`: a pivot, then its rows, column by column."""
    index: dict[tuple[int, int], int] = {}
    for k in range(size - 1):
        for j in range(k, size):
            index[k, j] = len(index)
    edges: Edges = []
    for k in range(size - 1):
        for j in range(k + 1, size):
            edges.append((index[k, k], index[k, j]))
            if k + 1 < size - 1:
                edges.append((index[k, j], index[k + 1, j]))
    return drawn("Gaussian elimination", len(index), edges, costs, **options)


def butterflies(points: int, costs: Costs, **options: Any) -> hetsim.Problem:
    """A fast Fourier transform of `points`, a power of two."""
    steps = points.bit_length() - 1
    edges = [
        (step * points + i, (step + 1) * points + j)
        for step in range(steps)
        for i in range(points)
        for j in (i, i ^ (1 << step))
    ]
    return drawn("fast Fourier transform", (steps + 1) * points, edges, costs, **options)


def cholesky(tiles: int, costs: Costs, **options: Any) -> hetsim.Problem:
    """Cholesky factorization of a matrix of `tiles` x `tiles`."""
    edges: Edges = []
    written: dict[tuple[int, int], int] = {}
    count = 0

    def task(writes: tuple[int, int], *reads: tuple[int, int]) -> None:
        nonlocal count
        edges.extend((written[tile], count) for tile in {writes, *reads} if tile in written)
        written[writes] = count
        count += 1

    for k in range(tiles):
        task((k, k))
        for i in range(k + 1, tiles):
            task((i, k), (k, k))
        for i in range(k + 1, tiles):
            for j in range(k + 1, i + 1):
                task((i, j), (i, k), (j, k))
    return drawn("Cholesky factorization", count, edges, costs, **options)


def fit() -> Iterator[hetsim.Problem]:
    """What prices and passes of the start were chosen on, without contention and with it."""
    for options in ({}, MODEL_LIKE):
        for n in (1_000, 3_000, 5_000):
            yield layered(n, 4, 3, n // 20, n, **options)
        yield levels(1_000, 1.0, 4, Costs(4, 1.0, 1.0, 1), **options)
        yield levels(2_000, 0.5, 4, Costs(8, 1.0, 1.5, 2), **options)
        yield cholesky(16, Costs(4, 0.5, 1.0, 3), **options)


def held() -> Iterator[hetsim.Problem]:
    """Drawn after they were chosen; other draws of these kinds had been looked at."""
    for options in ({}, MODEL_LIKE):
        yield levels(1_500, 2.0, 3, Costs(3, 0.5, 0.5, 111), **options)
        yield levels(3_000, 1.0, 5, Costs(6, 2.0, 1.0, 112), **options)
        yield gauss(60, Costs(4, 1.0, 1.0, 113), **options)
        yield butterflies(256, Costs(8, 1.0, 1.0, 114), **options)
        yield cholesky(22, Costs(6, 1.0, 1.5, 115), **options)
        yield layered(1_200, 3, 2, 40, 177, **options)
        yield layered(4_000, 6, 4, 160, 178, **options)


def last() -> Iterator[hetsim.Problem]:
    """Drawn after plays and subgraphs were chosen, of other sizes and on eight devices."""
    yield levels(1_000, 1.5, 3, Costs(8, 0.7, 1.2, 311))
    yield layered(1_000, 8, 4, 60, 312)
    yield gauss(45, Costs(8, 0.8, 1.0, 313))
    yield levels(10_000, 1.5, 3, Costs(8, 0.7, 1.2, 314), **MODEL_LIKE)
    yield layered(10_000, 8, 3, 250, 315, **MODEL_LIKE)
    yield cholesky(37, Costs(8, 0.4, 1.0, 316), **MODEL_LIKE)
