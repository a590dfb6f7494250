"""Factors by which devices and routes may be off, drawn evenly; the same for the same seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from hetsim.analysis.parts import part_sd
from hetsim.plans.plan import Plan
from hetsim.problem.evidence import Uncertainty

DRAWS = 200
"""How many, where nothing is said."""

MOST_DRAWS = 100_000
"""The most that may be asked for."""

_FINEST = 1e-9
"""Of the units of digits that are permuted."""


@dataclass(frozen=True, eq=False, slots=True)
class Draws:
    """Factors on the times of a problem, a row a draw.

    Attributes
    ----------
    devices : float array [N, P]
    routes : float array [N, P, P]
    parts : float array [N, P]
        Standard normal numbers, by which parts of a model are off beyond the whole.
    """

    devices: NDArray[np.float64]
    routes: NDArray[np.float64]
    parts: NDArray[np.float64]

    @property
    def count(self) -> int:
        """How many draws there are."""
        return len(self.devices)

    def of_devices(self, plan: Plan) -> NDArray[np.float64]:
        """Return the factors [N, P] of devices with what a plan gives them of the model."""
        return self.devices * np.exp(self.parts * part_sd(plan))


def draw(uncertainty: Uncertainty, count: int = DRAWS, seed: int = 0) -> Draws:
    """Return `count` draws of all factors; what is common to two has the same draw in both.

    Complexity: O(N S (P^2 + log N)) for S sources.
    """
    sources, devices = len(uncertainty.sources), len(uncertainty.devices)
    every = normals(count, sources + devices, seed)
    z = every[:, :sources]
    return Draws(
        np.exp(z @ uncertainty.devices.T),
        np.exp(np.einsum("ns,pqs->npq", z, uncertainty.routes)),
        every[:, sources:],
    )


def normals(count: int, sources: int, seed: int) -> NDArray[np.float64]:
    """Return standard normal numbers [count, sources], spread evenly.

    A Halton sequence, one prime base a source, whose digits are permuted by the seed (A. Owen,
    "A randomized Halton algorithm in R", 2017); each point stands beside its mirror image, and
    in each source the points are then put on the quantiles (k + 1/2) / count, so that each alone
    is as even as it can be. A share over 200 draws of 3 to 12 sources is off by 0.010 to 0.015
    (root mean square; plain random draws: 0.028). O(N S log N).
    """
    if not sources:
        return np.zeros((count, 0))
    random = Random(seed)
    half = np.stack(
        [_radical_inverses((count + 1) // 2, base, random) for base in _primes(sources)], axis=1
    )
    points = np.concatenate((half, 1.0 - half))[:count]
    standard = NormalDist()
    quantiles = np.array([standard.inv_cdf((k + 0.5) / count) for k in range(count)])
    ranks = points.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable")
    return np.asarray(quantiles[ranks])


def _radical_inverses(count: int, base: int, random: Random) -> NDArray[np.float64]:
    """0 .. count - 1 in a base with the digits mirrored at the point, each place permuted."""
    found, left, unit = np.zeros(count), np.arange(count), 1.0 / base
    while unit > _FINEST:
        digits = list(range(base))
        random.shuffle(digits)
        found += np.array(digits)[left % base] * unit
        left //= base
        unit /= base
    return found


def _primes(count: int) -> list[int]:
    found: list[int] = []
    candidate = 2
    while len(found) < count:
        if all(candidate % prime for prime in found):
            found.append(candidate)
        candidate += 1
    return found
