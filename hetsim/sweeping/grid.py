"""Grid of a sweep: its axes, and its points, one per combination."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from hetsim.placement.objective import Objective
from hetsim.workload.deployment import DynamicBatching
from hetsim.workload.workload import Workload

STREAM = "requests"
"""Name of the one stream of a point's workload."""


@dataclass(frozen=True, slots=True)
class ModelAxis:
    """Model (a path, or ``zoo:NAME``), with dimensions bound, and its text in the grid."""

    source: str
    dims: Mapping[str, int] = field(default_factory=dict, hash=False)
    shown: str = ""


@dataclass(frozen=True, slots=True)
class PlatformAxis:
    """Platform: a catalog name or a path, and its text in the grid."""

    source: str
    shown: str = ""


@dataclass(frozen=True, slots=True)
class WhatIfAxis:
    """Changes of the platform, as in ``hetsim.what_if``."""

    changes: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "; ".join((*self.changes, *(f"without {name}" for name in self.without)))


@dataclass(frozen=True, slots=True, eq=False)
class LoadAxis:
    """Requests of a point: a workload of one stream for any model, and its name in rows."""

    workload: Workload
    shown: str

    def of(self, model: ModelAxis) -> Workload:
        """Return the workload for a model."""
        (stream,) = self.workload.streams
        return replace(
            self.workload, streams=(replace(stream, model=model.source, dims=model.dims),)
        )


@dataclass(frozen=True, slots=True)
class Point:
    """Point of the grid: its index, and its position on each axis, the slowest first."""

    index: int
    model: int
    platform: int
    what_if: int
    precision: int
    strategy: int
    batching: int
    load: int


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Axes and settings of a sweep.

    Of `what_ifs` an empty one is the unchanged platform; `precisions` are assumed for float models
    by device, empty: their own; None of `batchings` is no batching, of `loads` a single request.
    `objective` is that of plans; `bound`, whether rows have the lower bound of one request, too.
    """

    models: tuple[ModelAxis, ...]
    platforms: tuple[PlatformAxis, ...]
    what_ifs: tuple[WhatIfAxis, ...] = (WhatIfAxis(),)
    precisions: tuple[Mapping[str, str], ...] = ({},)
    strategies: tuple[str, ...] = ("heft",)
    batchings: tuple[DynamicBatching | None, ...] = (None,)
    loads: tuple[LoadAxis | None, ...] = (None,)
    objective: Objective = "latency"
    bound: bool = False

    @property
    def size(self) -> int:
        """Number of points."""
        size = 1
        for axis in self.axes:
            size *= len(axis)
        return size

    @property
    def axes(self) -> tuple[tuple[object, ...], ...]:
        """Axes, in the order of a point's positions."""
        return (
            self.models, self.platforms, self.what_ifs, self.precisions, self.strategies,
            self.batchings, self.loads,
        )  # fmt: skip

    def point(self, index: int) -> Point:
        """Return the point of an index; neighbours share model and platform if possible. O(1)."""
        places = []
        left = index
        for axis in reversed(self.axes):
            left, place = divmod(left, len(axis))
            places.append(place)
        return Point(index, *reversed(places))

    def points(self) -> Iterator[Point]:
        """Yield all points in order."""
        return map(self.point, range(self.size))
