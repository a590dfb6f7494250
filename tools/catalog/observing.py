"""Points of a kin as its fit sees them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from catalog.chips import centre
from catalog.points import Point, Series
from catalog.tables import Tables, bytes_of, kin_bytes
from hetsim.cost.kernels.totals import Networks, log_total, log_total_and_gradient
from hetsim.hardware.datasheet import COVARIATES, about
from hetsim.hardware.limits import Limits, together

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

_ARM = COVARIATES.index("arm")


@dataclass(frozen=True, slots=True)
class KinData:
    """A kin ready to be fitted; its points one series behind the other.

    Attributes
    ----------
    name : str
    series : tuple of Series
    points : tuple of Point [points]
    first : int array [series + 1]
        Points of series s are ``points[first[s]:first[s + 1]]``.
    owner : int array [points]
        The series of each point.
    kernels : Networks
        Of each point.
    log_seconds : array [points]
    weights : array [points]
        Information of each: below 1 where a network has several batches in its series, 0 where
        it is left out.
    keys : tuple of (str, int)
        Networks and batches that points have, sorted.
    key : int array [points]
    network : int array [keys]
        Index of each key's network among the sorted ones.
    covariates : array [series, covariates]
        Logs of datasheet figures, about `middle`; 0 where unknown.
    middle : array [covariates]
    silicon : tuple of str [series]
        The chip, or the one that it is the same die as.
    limits : Limits [series]
    places : Networks [keys]
        Kernels of the keys at the bytes of `kin_bytes`.
    """

    name: str
    series: tuple[Series, ...]
    points: tuple[Point, ...]
    first: Indices
    owner: Indices
    kernels: Networks
    log_seconds: Floats
    weights: Floats
    keys: tuple[tuple[str, int], ...]
    key: Indices
    network: Indices
    covariates: Floats
    middle: Floats
    silicon: tuple[str, ...]
    limits: Limits
    places: Networks

    def slices(self) -> list[slice]:
        """Return where the points of each series are."""
        return [slice(a, b) for a, b in zip(self.first[:-1], self.first[1:], strict=True)]

    def logs(self, theta: Floats) -> Floats:
        """Log seconds of all points by the log values [series, parameters] of their series."""
        return log_total(theta, self.kernels, self.owner.astype(np.int64))

    def logs_and_slopes(self, theta: Floats) -> tuple[Floats, Floats]:
        """The same with the derivatives [points, parameters] by their series' log values."""
        return log_total_and_gradient(theta, self.kernels, self.owner.astype(np.int64))


def kin_data(
    name: str,
    series: Mapping[Series, Sequence[Point]],
    tables: Tables,
    covariates: Mapping[Series, Sequence[float]],
    silicon: Mapping[str, str] | None = None,
    limits: Limits | None = None,
) -> KinData:
    """Lay out a kin.

    Parameters
    ----------
    name : str
    series : mapping of Series to sequence of Point
    tables : Tables
    covariates : mapping of Series to sequence of float [covariates]
        Logs as ``datasheet.covariates`` gives them, NaN where unknown.
    silicon : mapping of str to str, optional
        What chip another one is the same die as.
    limits : Limits [series], optional
    """
    precision = next(iter(series)).precision
    pairs = [(point.network, point.batch) for found in series.values() for point in found]
    keys = sorted(set(pairs))
    index = {key: at for at, key in enumerate(keys)}
    networks = sorted({network for network, _ in keys})
    sizes = [len(found) for found in series.values()]
    asked, weights = [], []
    for one, found in series.items():
        batches = Counter(point.network for point in found)
        halves = covariates[one][_ARM] == 1.0
        item_bytes, weight_bytes = bytes_of(name, one.precision, halves)
        asked += [(point.network, point.batch, item_bytes, weight_bytes) for point in found]
        weights += [batches[point.network] ** -0.5 for point in found]
    raw = [covariates[one] for one in series]
    middle = centre(raw)
    points = tuple(point for found in series.values() for point in found)
    return KinData(
        name=name,
        series=tuple(series),
        points=points,
        first=np.cumsum([0, *sizes]).astype(np.intp),
        owner=np.repeat(np.arange(len(sizes)), sizes).astype(np.intp),
        kernels=tables.networks(asked),
        log_seconds=np.log([point.seconds for point in points]),
        weights=np.array(weights),
        keys=tuple(keys),
        key=np.array([index[pair] for pair in pairs], dtype=np.intp),
        network=np.array([networks.index(network) for network, _ in keys], dtype=np.intp),
        covariates=np.array([about(middle, values) for values in raw]),
        middle=middle,
        silicon=tuple((silicon or {}).get(one.chip, one.chip) for one in series),
        limits=limits or together(Limits.of(None, None) for _ in series),
        places=tables.networks((*key, *kin_bytes(name, precision)) for key in keys),
    )
