"""Rows to points: the median of what comparable rows say of a network and batch."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from catalog.comparable import LeftOut, sample_of


@dataclass(frozen=True, slots=True, order=True)
class Series:
    """Runs of one chip's unit by one runtime in one precision and setting.

    Attributes
    ----------
    kin : str
        The runtime and precision that it shares with others: ``tensorrt-int8``.
    chip : str
    unit : str
    precision : str
    where : tuple of (str, str)
        What else tells it from the chip's others, by name, sorted.
    """

    kin: str
    chip: str
    unit: str
    precision: str
    where: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        settings = ", ".join(f"{name} {value}" for name, value in self.where)
        return f"{self.chip} ({settings})" if settings else self.chip


@dataclass(frozen=True, slots=True)
class Point:
    """What a series took for a network at a batch.

    Attributes
    ----------
    network : str
        File name of the graph.
    batch : int
    seconds : float
        Median of the rows, for the whole batch.
    rows : int
    lowest, highest : float
        Of the rows, in seconds.
    spread : float or None
        Median of how far the rows are from `seconds`, as a share of it; None of a single row.
    """

    network: str
    batch: int
    seconds: float
    rows: int
    lowest: float
    highest: float
    spread: float | None


@dataclass(frozen=True, slots=True)
class Points:
    """All points, and what was left out.

    Attributes
    ----------
    series : mapping of Series to tuple of Point
        Sorted, the points by network and batch.
    left_out : mapping of str to int
        Rows by the reason why they are compared with nothing, the most frequent first.
    """

    series: Mapping[Series, tuple[Point, ...]]
    left_out: Mapping[str, int]

    def kin(self, name: str) -> dict[Series, tuple[Point, ...]]:
        """Return the series of the kin called `name`."""
        return {series: points for series, points in self.series.items() if series.kin == name}


def points_of(rows: Iterable[Mapping[str, Any]], chips: Mapping[str, str] | None = None) -> Points:
    """Join comparable rows to points.

    Parameters
    ----------
    rows : iterable of mapping
        Of the measurements' file.
    chips : mapping of str to str, optional
        What a chip is called, by what rows call it; a name that is absent stands for itself.
    """
    called = chips or {}
    seconds: defaultdict[tuple[Series, str, int], list[float]] = defaultdict(list)
    left_out: Counter[str] = Counter()
    for row in rows:
        sample = sample_of(row)
        if isinstance(sample, LeftOut):
            left_out[sample.reason] += 1
            continue
        chip = called.get(sample.chip, sample.chip)
        series = Series(sample.kin, chip, sample.unit, sample.precision, sample.where)
        seconds[series, sample.network, sample.batch].append(sample.seconds)
    found: defaultdict[Series, list[Point]] = defaultdict(list)
    for (series, network, batch), times in sorted(seconds.items()):
        found[series].append(_point(network, batch, times))
    return Points(
        {series: tuple(points) for series, points in sorted(found.items())},
        dict(sorted(left_out.items(), key=lambda entry: (-entry[1], entry[0]))),
    )


def _point(network: str, batch: int, times: list[float]) -> Point:
    middle = median(times)
    return Point(
        network=network,
        batch=batch,
        seconds=middle,
        rows=len(times),
        lowest=min(times),
        highest=max(times),
        spread=math.expm1(median(abs(math.log(time / middle)) for time in times))
        if len(times) > 1
        else None,
    )
