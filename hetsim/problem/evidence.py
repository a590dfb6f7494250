"""What the figures of devices and links rest on, and how far times by them may be off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from hetsim.hardware.kernel_figures import FigureError
from hetsim.hardware.kin import Likely

Z80 = 1.2815515655446004
"""Standard deviations to either end of an interval that holds 80 % of a normal distribution."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the figures of one device or link rest on.

    Times by them are off by a factor, whose logarithm is normal with mean 0: `common` times
    a number that all of the same `kin` share, plus the rest times one that all of the same `of`
    share.

    Attributes
    ----------
    name : str
        Of the device in plans, or of the link.
    of : str
        Whose figures they are: devices or links with the same are off by the same factor.
    status : str
        The weakest of the figures that prices need, see ``hetsim.hardware.kernel_figures``.
    sd : float
        Standard deviation of the logarithm of the factor; 0: taken as exact.
    common : float
        The part of it that is shared with its kin, from 0 to `sd`.
    kin : str
        Those of which one network is missed alike.
    precision : str
        Whose figures price the model; empty where they are not told apart.
    error : FigureError or None
        How far predictions were from measurements, where there are some.
    runtime : str
        What software ran what was measured.
    measured : float
        Share of its time that a profile of this model gave, from 0 to 1.
    likely : Likely or None
        What its kin say of this model: the factor that is in the prices.
    by_kernel : float
        Share of the variance that kernels have each for itself, from 0 to 1: what a part of the
        model is off by beyond the whole, see ``hetsim.analysis.sureness``. 0: a part is as sure.
    before : str
        The status of the figures before some were supposed, see ``hetsim.what_if``; empty: none
        is. Times are taken to be off by as much as they were.
    """

    name: str
    of: str
    status: str
    sd: float
    common: float = 0.0
    kin: str = ""
    precision: str = ""
    error: FigureError | None = None
    runtime: str = ""
    measured: float = 0.0
    likely: Likely | None = None
    by_kernel: float = 0.0
    before: str = ""

    @property
    def own(self) -> float:
        """The part of `sd` that is not shared with its kin."""
        return sqrt(max(self.sd**2 - self.common**2, 0.0))


@dataclass(frozen=True, eq=False, slots=True)
class Uncertainty:
    """Logs of the factors that times may be off by, as sums of independent sources.

    The log of the factor of device p is ``devices[p] @ z``, with z independent standard normal
    numbers, one a source; that of the route from p to q is ``routes[p, q] @ z``.

    Attributes
    ----------
    sources : tuple of str
    devices : float array [P, S]
    routes : float array [P, P, S]
    """

    sources: tuple[str, ...]
    devices: NDArray[np.float64]
    routes: NDArray[np.float64]

    @property
    def device_sd(self) -> NDArray[np.float64]:
        """Standard deviation of the log by device, [P]."""
        return np.asarray(np.sqrt((self.devices**2).sum(axis=-1)))

    @property
    def route_sd(self) -> NDArray[np.float64]:
        """Standard deviation of the log by route, [P, P]."""
        return np.asarray(np.sqrt((self.routes**2).sum(axis=-1)))

    @property
    def certain(self) -> bool:
        """Whether all is taken as exact."""
        return not self.sources


def uncertainty_of(
    devices: Sequence[Evidence], links: Sequence[Evidence], weights: NDArray[np.float64]
) -> Uncertainty:
    """Return the sources of what is stated of devices and links. O((P + P^2 L) S).

    Parameters
    ----------
    devices, links : sequence of Evidence
    weights : float array [P, P, L]
        Part of the time of a transfer from p to q that is spent on each link. A route of several
        links is off by their factors' mean (geometric) by these weights.
    """
    index: dict[str, int] = {}
    for prefix, those in (("device", devices), ("link", links)):
        for one in those:
            if one.common > 0:
                index.setdefault(f"kin {one.kin}", len(index))
            if one.own > 0:
                index.setdefault(f"{prefix} {one.of}", len(index))

    def loads(prefix: str, those: Sequence[Evidence]) -> NDArray[np.float64]:
        found = np.zeros((len(those), len(index)))
        for row, one in zip(found, those, strict=True):
            if one.common > 0:
                row[index[f"kin {one.kin}"]] = one.common
            if one.own > 0:
                row[index[f"{prefix} {one.of}"]] = one.own
        return found

    return Uncertainty(
        tuple(index), loads("device", devices), np.asarray(weights @ loads("link", links))
    )
