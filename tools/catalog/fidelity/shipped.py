"""Predictions by the figures that the catalog ships, on kernel tables that were kept."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from catalog.fidelity.points import FidelityPoint, Predicted
from catalog.precisions import ITEM_BYTES
from hetsim.cost.kernels.kin import likeness_of
from hetsim.cost.kernels.table import KernelTable
from hetsim.cost.kernels.totals import Networks, log_total
from hetsim.hardware.catalog import device_names, load_device
from hetsim.hardware.kernel_figures import HALF_WIDTH, KernelFigures
from hetsim.hardware.kin import Likely
from hetsim.hardware.runtimes import by_runtime
from hetsim.hardware.spec import DeviceSpec
from hetsim.problem.evidence_of_platform import device_evidence

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Asked:
    """A point that the catalog predicts: by which figures, from which kernels."""

    index: int
    point: FidelityPoint
    figures: KernelFigures
    table: KernelTable
    likely: Likely | None

    @property
    def io_bytes(self) -> float:
        return self.table.io_bytes(self.point.batch, ITEM_BYTES[self.point.precision])

    @property
    def network(self) -> tuple[Floats, Floats, float, float]:
        each = ITEM_BYTES[self.point.precision]
        return self.table.laid(self.point.batch, each, each)

    def predicted(self, seconds: float) -> Predicted:
        """The prediction of which the formula says `seconds`, before the kin's say."""
        if self.likely is not None:
            around = self.figures.dispatch_s + self.io_bytes / self.figures.value("io_gbytes_s")
            seconds = around + (seconds - around) * self.likely.factor
        spec, batch = device_of(self.point.device), self.point.batch
        evidence = device_evidence("", spec, self.figures, batch, None, self.likely)
        return Predicted(seconds, math.exp(HALF_WIDTH * evidence.sd))


def with_shipped(
    points: Iterable[FidelityPoint], tables: Mapping[str, KernelTable]
) -> list[FidelityPoint]:
    """Return the points with what the catalog predicts today; None where it predicts nothing.

    Kernels of the network's table by the figures of the precision, what its kin say of the
    network, one dispatch, and inputs and outputs as they moved in what was measured.
    O(kernels of all points).
    """
    found = [replace(point, shipped=None) for point in points]
    said: dict[tuple[str, str, str, int], Likely | None] = {}
    asked = []
    for index, point in enumerate(found):
        figures, table = figures_of(point.device, point.precision), tables.get(point.network)
        if figures is None or table is None:
            continue
        key = (figures.kin, figures.likeness, point.network, point.batch)
        if key not in said:
            said[key] = _likely(figures, table, point.batch)
        asked.append(_Asked(index, point, figures, table, said[key]))
    if not asked:
        return found
    sets: dict[tuple[float, ...], int] = {}
    for one in asked:
        sets.setdefault(one.figures.values, len(sets))
    logs = log_total(
        np.log(np.array(list(sets))),
        Networks.of(one.network for one in asked),
        np.array([sets[one.figures.values] for one in asked], dtype=np.int64),
    )
    for one, log in zip(asked, logs.tolist(), strict=True):
        found[one.index] = replace(one.point, shipped=one.predicted(math.exp(log)))
    return found


def _likely(figures: KernelFigures, table: KernelTable, batch: int) -> Likely | None:
    """What the kin say of a network at a batch, as a problem at that batch asks it."""
    if not figures.likeness:
        return None
    return likeness_of(figures.kin, figures.likeness).of_table(table, batch)


@cache
def _names() -> frozenset[str]:
    return frozenset(device_names())


def figures_of(device: str, precision: str) -> KernelFigures | None:
    """Return the figures of a device of the catalog in a precision, if it has them."""
    name, _, runtime = device.partition(":")
    if name not in _names() or (runtime and runtime not in device_of(name).runtimes):
        return None
    return device_of(device).kernels.get(precision)


@cache
def device_of(name: str) -> DeviceSpec:
    """Return a device of the catalog, by the runtime after a colon; each is read once."""
    device, _, runtime = name.partition(":")
    return by_runtime(device_of(device), runtime, name) if runtime else load_device(device)


def forget() -> None:
    """Forget figures that were read: files of the catalog were written since."""
    device_of.cache_clear()
