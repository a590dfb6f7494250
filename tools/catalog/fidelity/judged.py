"""Predictions of every point: of its kin without it, of the catalog shipped, of whole problems."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from catalog.fidelity.points import FidelityPoint, Key, Predicted, grouped
from catalog.judging import donors, left_out, widths
from catalog.kin_fits import FittedKin, Measurements
from catalog.likeness import Unseen
from catalog.measured import ITEM_BYTES
from catalog.points import Graphs, Series
from hetsim.cost.kernels.networks import KernelTable, Networks, log_total
from hetsim.cost.kernels.similarity import likeness_of
from hetsim.errors import HetsimError
from hetsim.graph.model import Model
from hetsim.hardware.catalog import device_names, load_device, load_platform
from hetsim.hardware.files.runtimes import by_runtime
from hetsim.hardware.kernel_figures import BATCHES, HALF_WIDTH, KernelFigures, batch_range
from hetsim.hardware.kin import Likely
from hetsim.hardware.spec import DeviceSpec, Platform
from hetsim.hardware.variants import EVERY
from hetsim.placement.planning import plan
from hetsim.problem.evidence import DATASHEET_SD, device_evidence
from hetsim.problem.problem import Problem
from hetsim.simulation.simulate import simulate

_At = tuple[Series, str, int]
_Predictions = dict[_At, Predicted]


def judged_points(measurements: Measurements) -> list[FidelityPoint]:
    """Return all points that devices of the catalog stand on, without what the catalog predicts."""
    found: dict[Key, FidelityPoint] = {}
    wanted = {asked.series for asked in measurements.asks if asked.series is not None}
    kins: dict[str, tuple[_Predictions, _Predictions, _Predictions]] = {}
    for asked in measurements.asks:
        if asked.series is None:
            continue
        fitted = measurements.fitted(asked.kin)
        if asked.kin not in kins:
            kins[asked.kin] = (
                _networks_out(fitted, wanted, of_device=True),
                _networks_out(fitted, wanted, of_device=False),
                _chips_out(fitted.chips_out, wanted),
            )
        of_device, unseen, datasheet = kins[asked.kin]
        donated = _donated(fitted, asked.series)
        for point in measurements.points.series[asked.series]:
            at = (asked.series, point.network, point.batch)
            one = FidelityPoint(
                device=asked.name,
                precision=asked.precision,
                network=Path(point.network).stem,
                batch=point.batch,
                kin=asked.kin,
                rows=point.rows,
                measured_s=point.seconds,
                lowest_s=point.lowest,
                highest_s=point.highest,
                left_out=of_device.get(at),
                unseen=unseen.get(at),
                datasheet=datasheet.get(at),
                donor_s=donated.get(at),
            )
            found[one.key] = one
    return [found[key] for key in sorted(found)]


def _networks_out(fitted: FittedKin, wanted: Collection[Series], of_device: bool) -> _Predictions:
    """Predictions of the `wanted` series of a kin, without rows of the network."""
    every = left_out(fitted, with_rows=True)
    found: _Predictions = {}
    for batch in BATCHES:
        pool = every.of_batch(batch)
        for one, sd in widths(pool, wanted, of_device, fitted.fit.eps):
            found[_at(one)] = _predicted(one, DATASHEET_SD if sd is None else sd)
    return found


def _chips_out(unseen: Sequence[Unseen], wanted: Collection[Series]) -> _Predictions:
    """Predictions of the `wanted` series of a kin by its datasheet, without rows of the chip."""
    found: _Predictions = {}
    for of_batch in _by_batch(unseen).values():
        asked = grouped(
            (one for one in of_batch if one.series in wanted), lambda one: one.series.chip
        )
        for chip, ones in asked.items():
            pool = [abs(one.total) for one in of_batch if one.series.chip != chip]
            sd = float(np.quantile(pool, 0.8)) / HALF_WIDTH if pool else DATASHEET_SD
            found |= {_at(one): _predicted(one, sd) for one in ones}
    return found


def _donated(fitted: FittedKin, series: Series) -> dict[_At, float]:
    """Seconds of the points of a series by its best donor."""
    return {
        (series, fitted.data.points[at].network, fitted.data.points[at].batch): math.exp(log)
        for at, log in donors(fitted.data, series).items()
    }


def _by_batch(unseen: Sequence[Unseen]) -> dict[str, list[Unseen]]:
    return grouped(unseen, lambda one: batch_range(one.point.batch))


def _at(one: Unseen) -> _At:
    return one.series, one.point.network, one.point.batch


def _predicted(one: Unseen, sd: float) -> Predicted:
    return Predicted(one.predicted_s, math.exp(HALF_WIDTH * sd))


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
    points: Iterable[FidelityPoint],
    tables: Mapping[str, KernelTable],
    by: Callable[[FidelityPoint], KernelFigures | None] | None = None,
) -> list[FidelityPoint]:
    """Return the points with what the catalog predicts today; None where it predicts nothing.

    - `by`: figures that predict a point; absent: the device's of that very precision.
    """
    found = [replace(point, shipped=None) for point in points]
    said: dict[tuple[str, str, str, int], Likely | None] = {}
    asked = []
    for index, point in enumerate(found):
        figures = by(point) if by else figures_of(point.device, point.precision)
        table = tables.get(point.network)
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


def with_whole(
    points: Iterable[FidelityPoint], graphs: Graphs, tables: Mapping[str, KernelTable]
) -> list[FidelityPoint]:
    """Return the points with what problems of the network on the device alone take, at batch 1."""
    found = list(points)
    by_network: dict[str, list[int]] = {}
    for index, point in enumerate(found):
        if point.batch == 1:
            by_network.setdefault(point.network, []).append(index)
    platforms: dict[str, Platform] = {}
    for network in sorted(by_network):
        model = graphs.load(f"{network}.onnx")
        for index in by_network[network]:
            point = found[index]
            if point.device not in platforms:
                platforms[point.device] = platform_of(point.device)
            platform = platforms[point.device]
            fitted_s = alone_s(model, platform, point.precision, "fitted")
            figures = figures_of(point.device, point.precision)
            if fitted_s is not None and figures is not None:
                item_bytes = ITEM_BYTES[point.precision]
                nbytes = tables[network].io_bytes(1, item_bytes)
                fitted_s += nbytes / figures.value("io_gbytes_s")
            judged = point.shipped
            if fitted_s is not None and judged is not None:
                judged = replace(judged, seconds=fitted_s)
            found[index] = replace(
                point,
                shipped=judged,
                priced_s=None if figures is None else fitted_s,
                roofline_s=alone_s(model, platform, point.precision, "roofline"),
            )
    return found


def platform_of(device: str) -> Platform:
    """Return the platform of one device, by the runtime after a colon."""
    name, _, runtime = device.partition(":")
    return load_platform(name, {EVERY: runtime} if runtime else None)


def alone_s(model: Model, platform: Platform, precision: str, cost: str) -> float | None:
    """Return the seconds of a model on a platform of one device; None where it takes not all."""
    (name,) = platform.devices
    try:
        problem = Problem.of(model, platform, cost=cost, execute={name: precision})
        return simulate(plan(problem, "single")).latency_s
    except HetsimError:
        return None


def tables_bytes(tables: Mapping[str, KernelTable]) -> bytes:
    """Return the file of tables: the same bytes for the same tables."""
    names = sorted(tables)
    found = [tables[name] for name in names]
    out = io.BytesIO()
    np.savez_compressed(
        out,
        names=np.array(names),
        elements=np.concatenate([one.elements for one in found]),
        stored=np.concatenate([one.stored for one in found]),
        counts=np.concatenate([one.counts for one in found]),
        first=np.cumsum([0, *(len(one.counts) for one in found)]),
        io_elements=np.array([one.io_elements for one in found]),
        io_stored=np.array([one.io_stored for one in found]),
    )
    return out.getvalue()


def read_tables(path: Path) -> dict[str, KernelTable]:
    """Read a file of tables: by the name of the network, as points have it."""
    with np.load(path, allow_pickle=False) as held:
        kept = dict(held)
    parts = [slice(a, b) for a, b in zip(kept["first"][:-1], kept["first"][1:], strict=True)]
    return {
        str(name): KernelTable(
            elements=kept["elements"][part],
            stored=kept["stored"][part],
            counts=kept["counts"][part],
            io_elements=int(kept["io_elements"][index]),
            io_stored=int(kept["io_stored"][index]),
        )
        for index, (name, part) in enumerate(zip(kept["names"], parts, strict=True))
    }
