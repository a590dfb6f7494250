"""What the catalog's figures rest on, and how far sources of one chip differ."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from catalog.kin_data import dies
from catalog.kin_fits import Measurements
from catalog.points import Chips, Points, Series
from hetsim.hardware.kernel_figures import HALF_WIDTH, Basis, Counted

Times = Mapping[tuple[str, int], float]

_NAMES_OF_ONE = ("build", "cores", "gpu")
"""Settings of a series by which sources call the same thing by other names."""

LEAST_COMMON = 3
"""Networks that two sources must have in common: of fewer, their noise counts."""

USUAL_SPREAD = 0.21
"""Taken where no two sources measured one chip: that of data/measured, 140 pairs of 12 dies."""


@dataclass(frozen=True, slots=True)
class SourcePair:
    """Two sources of one chip's unit by one runtime, precision and setting.

    - `die`: the chip, by the name of its die.
    - `one`, `other`: log seconds by network and batch, of those that both ran.
    """

    kin: str
    die: str
    one: Times
    other: Times

    @property
    def maker(self) -> str:
        """Of the runtime."""
        return self.kin.partition("-")[0]

    @property
    def apart(self) -> NDArray[np.float64]:
        """Logarithms of the ratios of the other's times to the one's."""
        return np.array([self.other[key] - self.one[key] for key in sorted(self.one)])


def source_pairs(points: Points, chips: Chips) -> Iterator[SourcePair]:
    """Yield pairs of sources of one die, kin and setting that have `LEAST_COMMON` in common."""
    alike: defaultdict[tuple[str, str, object], list[tuple[str, Times]]] = defaultdict(list)
    for series, sources in points.by_source.items():
        setting = series.unit, *(one for one in series.where if one[0] not in _NAMES_OF_ONE)
        die = chips.silicon.get(series.chip, series.chip)
        for source, times in sources.items():
            alike[series.kin, die, setting].append((source, times))
    for (kin, die, _), found in alike.items():
        for (source, one), (another, other) in combinations(found, 2):
            both = one.keys() & other.keys()
            if source != another and len({network for network, _ in both}) >= LEAST_COMMON:
                yield SourcePair(kin, die, {k: one[k] for k in both}, {k: other[k] for k in both})


def spread_of(pairs: Iterable[SourcePair]) -> float:
    """Return the sd of the log of one source's own factor on all times of a die.

    Four of five pairs are apart by less than 1.28 times its root of two fold. Each die of a kin
    counts once, however many sources measured it. `USUAL_SPREAD` without pairs.
    """
    by_die: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for pair in pairs:
        by_die[pair.kin, pair.die].append(abs(float(pair.apart.mean())))
    if not by_die:
        return USUAL_SPREAD
    apart = np.concatenate([np.array(found) for found in by_die.values()])
    weights = np.concatenate([np.full(len(found), 1 / len(found)) for found in by_die.values()])
    order = np.argsort(apart)
    share = np.cumsum(weights[order]) / weights.sum()
    return float(apart[order][np.searchsorted(share, 0.8)]) / HALF_WIDTH / math.sqrt(2.0)


def basis_of(spread: float, device: Counted | None, family: Counted) -> Basis:
    """Return what figures rest on, and how far a machine of another source is from them.

    - `spread`: as `spread_of` returns it.

    The mean of n sources and a new one differ by ``spread * sqrt(1 + 1 / n)``, and errors of
    networks that were left out of a device contain none of that. Those of chips that were left out
    of a family of n sources contain ``1 - 1 / n`` of it twice.
    """
    n = (device or family).sources
    squares = 1 + 1 / n if device is not None else 2 / n
    return Basis(device, family, float(f"{spread * math.sqrt(squares):.3g}"))


@dataclass(frozen=True, slots=True)
class Bases:
    """What figures of the catalog rest on, by kin and series; each kin is counted once."""

    measurements: Measurements
    spread: float
    families: dict[str, Counted]

    @classmethod
    def of(cls, measurements: Measurements) -> Bases:
        """Return those of all measurements."""
        pairs = source_pairs(measurements.points, measurements.chips)
        return cls(measurements, spread_of(pairs), {})

    def family(self, kin: str) -> Counted:
        """Return what a kin rests on."""
        if kin not in self.families:
            data = self.measurements.data(kin)
            self.families[kin] = self._counted(data.series, len(set(dies(data).tolist())))
        return self.families[kin]

    def basis(self, kin: str, series: Series | None) -> Basis:
        """Return what figures rest on that were fitted to a series of a kin; None: to no rows."""
        own = None if series is None else self._counted((series,), 1)
        return basis_of(self.spread, own, self.family(kin))

    def _counted(self, wanted: Iterable[Series], dies: int) -> Counted:
        every = tuple(wanted)
        points = [point for one in every for point in self.measurements.points.series[one]]
        sources = {name for one in every for name in self.measurements.points.by_source[one]}
        return Counted(
            networks=len({point.network for point in points}),
            rows=sum(point.rows for point in points),
            sources=len(sources),
            dies=dies,
        )
