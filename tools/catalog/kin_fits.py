"""Kins that the catalog asks for, and all of their fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from catalog.kin_data import KinData, Prior, kin_data, merged_limits, prior_of
from catalog.likeness import (
    Unseen,
    are_relatives,
    kin_of,
    misses,
    traits_of_keys,
    with_heard,
    without_chip,
    without_family,
    without_network_on_chip,
)
from catalog.measured import read_rows
from catalog.mixed import KinFit, fit_kin
from catalog.points import Chips, Points, Series, Tables, points_of, read_chips, read_graphs
from hetsim.core.units import GIGA
from hetsim.errors import PlatformError, nearest
from hetsim.hardware.datasheet import Datasheet
from hetsim.hardware.datasheet import covariates as covariates_of
from hetsim.hardware.files.catalog_files import catalog_folder
from hetsim.hardware.files.device_schema import DeviceModel
from hetsim.hardware.files.schema import read_file
from hetsim.hardware.kernel_figures import INDEX, PARAMETERS
from hetsim.hardware.kin import Kin, Limits


@dataclass(frozen=True, slots=True)
class Asked:
    """One precision of one device that is to be fitted.

    - `device`: name in the catalog.
    - `precision`: in which the device runs by these figures.
    - `series`: the measurements it stands on; None where it has what its kin have.
    - `model`: the device's own file.
    - `of_kin`: the precision that rows of the kin name.
    - `runtime`: of the device's ``runtimes``; empty: the one that its file names first.
    - `computes`: what the runtime computes in, where that is not the precision: ``tf32``.
    """

    device: str
    precision: str
    kin: str
    series: Series | None
    model: DeviceModel
    of_kin: str
    runtime: str = ""
    computes: str | None = None

    @property
    def flops_per_s(self) -> float | None:
        """The peak that its rates cannot exceed."""
        return self.model.peak(self.kin, self.of_kin, self.computes)

    @property
    def bytes_per_s(self) -> float:
        """The bandwidth of its memory."""
        return self.model.memory_bandwidth_gbytes_s.value * GIGA

    @property
    def name(self) -> str:
        """What tells a device by one runtime from others: ``nvidia-rtx-3090:ncnn``."""
        return f"{self.device}:{self.runtime}" if self.runtime else self.device

    @property
    def datasheet(self) -> Datasheet:
        """What the device's file says of it in the precision of its kin."""
        return self.model.datasheet(self.kin, self.of_kin)


def catalog_asks(points: Points, chips: Chips, folder: Path | None = None) -> list[Asked]:
    """Return what ``measured`` of the catalog's device files asks for, by device and precision."""
    found = []
    for path in sorted((folder or catalog_folder()).glob("*.yaml")):
        model, wrong = read_file(DeviceModel, path, f"devices/{path.name}", catalog=True)
        if wrong is not None:
            raise wrong.whole
        assert model is not None
        told_by = {"": model.measured} | {k: one.measured for k, one in model.runtimes.items()}
        for runtime, precision, told in (
            (by, *entry) for by in told_by for entry in sorted(told_by[by].items())
        ):
            key = f"runtimes.{runtime}.measured" if runtime else "measured"
            where = f"devices/{path.name}: {key}.{precision}"
            if not points.kin(told.kin):
                kin = sorted({series.kin for series in points.series})
                raise PlatformError(
                    f"no rows are of '{told.kin}'", where=where, hint=nearest(told.kin, kin)
                )
            series = None
            if told.chip is not None:
                asked = {name: str(value) for name, value in told.where.items()}
                series = picked(points, told.kin, chips.name(told.chip), asked, where)
            of_kin = min(one.precision for one in points.kin(told.kin))
            found.append(
                Asked(path.stem, precision, told.kin, series, model, of_kin, runtime, told.computes)
            )
    return found


def picked(points: Points, kin: str, chip: str, where: Mapping[str, str], place: str) -> Series:
    """Return the one series of a kin and chip that has the settings `where`."""
    of_chip = [series for series in points.kin(kin) if series.chip == chip]
    if not of_chip:
        known = sorted({series.chip for series in points.kin(kin)})
        raise PlatformError(
            f"no rows of '{kin}' are of '{chip}'", where=place, hint=nearest(chip, known)
        )
    found = [series for series in of_chip if where.items() <= dict(series.where).items()]
    exact = [series for series in found if dict(series.where) == where]
    if len(exact or found) == 1:
        return (exact or found)[0]
    settings = "; ".join(str(series) for series in of_chip)
    raise PlatformError(
        f"'where' picks {len(found)} series of '{chip}'",
        where=place,
        hint=f"name one of them: {settings}",
    )


def with_catalog(points: Points, chips: Chips, asks: list[Asked]) -> dict[Series, Datasheet]:
    """Return the datasheets of series of chips that devices of the catalog stand on."""
    told: dict[tuple[str, str], Asked] = {}
    for asked in asks:
        if asked.series is not None:
            told.setdefault((asked.series.chip, asked.series.unit), asked)
    found = {}
    for series in points.series:
        device = told.get((series.chip, series.unit))
        if device is None or (series.unit == "cpu" and chips.datasheet(series) != Datasheet()):
            continue
        found[series] = device.model.datasheet(series.kin, series.precision)
    return found


LEAST_NETWORKS = 3
"""Of a series without a device in the catalog, to be worth fitting."""


@dataclass(frozen=True, slots=True)
class FittedKin:
    """A kin, its fit, and what the fit says of what it has not seen.

    - `networks_out`: each network predicted for each device without any device's rows of its
      family.
    - `of_chip_out`: each network predicted for each device without the rows of the device's own
      chip.
    - `chips_out`: each chip predicted from its datasheet; empty where there is one chip alone.
    """

    data: KinData
    prior: Prior
    fit: KinFit
    networks_out: list[Unseen]
    of_chip_out: list[Unseen]
    chips_out: list[Unseen]

    def record(self) -> Kin:
        """Return what its own devices have in common."""
        return kin_of(self.data, self.fit, traits_of_keys(self.data, self.fit))


@dataclass(frozen=True, slots=True)
class Measurements:
    """What is fitted to: points, chips, graphs, and what the catalog asks for."""

    points: Points
    chips: Chips
    asks: list[Asked]
    tables: Tables
    sheets: Mapping[Series, Datasheet]
    _fitted: dict[str, FittedKin] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path, devices: Path | None = None) -> Measurements:
        """Read the measurements in `folder`, and what the device files in `devices` ask for."""
        chips = read_chips(folder)
        points = points_of(read_rows(folder), chips.called)
        asks = catalog_asks(points, chips, devices)
        sheets = with_catalog(points, chips, asks)
        return cls(points, chips, asks, Tables(read_graphs(folder)), sheets)

    def datasheet(self, series: Series) -> Datasheet:
        """Return what is known of the unit that a series ran on."""
        found = self.sheets.get(series)
        return self.chips.datasheet(series) if found is None else found

    def data(self, kin: str) -> KinData:
        """Return the series of a kin that are worth fitting, or that a device stands on."""
        wanted = {asked.series for asked in self.asks}
        series = {
            one: found
            for one, found in self.points.kin(kin).items()
            if one in wanted or len({point.network for point in found}) >= LEAST_NETWORKS
        }
        series = series or self.points.kin(kin)
        covariates = {one: covariates_of(self.datasheet(one)) for one in series}
        limits = merged_limits(self._limits(one) for one in series)
        return kin_data(kin, series, self.tables, covariates, self.chips.silicon, limits)

    def _limits(self, series: Series) -> Limits:
        """What the chip of a series cannot exceed, and what is known of it by its relatives."""
        asked = next((one for one in self.asks if one.series == series), None)
        of_chip = (
            one
            for one in self.asks
            if one.series and (one.series.chip, one.series.unit) == (series.chip, series.unit)
        )
        beside = asked or next(of_chip, None)
        found = Limits.of(
            self.datasheet(series).flops_per_s if asked is None else self._peak(asked),
            self.chips.bandwidth(series) if beside is None else beside.bytes_per_s,
        )
        return replace(found, held=self._held(series)[None, :])

    def _peak(self, asked: Asked) -> float | None:
        """Of the threads of a processor that ran, else of the device in what it computes in."""
        if asked.computes is None and asked.series is not None:
            return self.datasheet(asked.series).flops_per_s
        return asked.flops_per_s

    def _held(self, series: Series) -> NDArray[np.float64]:
        """What rows in bulk say nothing of, by the same runtime's rows at batch 1 on the chip."""
        held = np.full(len(PARAMETERS), np.nan)
        if any(point.batch == 1 for point in self.points.series[series]):
            return held
        alike = []
        for other in sorted({one.series for one in self.asks if one.series is not None}):
            same = (other.chip, other.unit, other.where) == (series.chip, series.unit, series.where)
            alone = sum(point.batch == 1 for point in self.points.series[other])
            if same and alone and are_relatives(series.kin, other.kin):
                alike.append((alone, other))
        if alike:
            other = max(alike, key=lambda one: one[0])[1]
            fitted = self.fitted(other.kin)
            index = fitted.data.series.index(other)
            theta = fitted.fit.theta(fitted.data.covariates)[index]
            for name in ("launch_us", "launch_other", "dispatch_us", "fill_outputs"):
                held[INDEX[name]] = theta[INDEX[name]]
        return held

    def record(self, kin: str) -> Kin:
        """Return what goes to the file of a kin, with what it hears of others."""
        fitted = self.fitted(kin)
        others = sorted({asked.kin for asked in self.asks if are_relatives(kin, asked.kin)})
        told = [misses(self.fitted(other).networks_out) for other in others]
        return with_heard(fitted.record(), misses(fitted.networks_out), told, self.tables)

    def fitted(self, kin: str) -> FittedKin:
        """Return the fit of a kin; each is made once."""
        if kin not in self._fitted:
            data, prior = self.data(kin), prior_of(kin)
            fit = fit_kin(data, prior)
            self._fitted[kin] = FittedKin(
                data,
                prior,
                fit,
                without_family(data, prior, fit),
                without_network_on_chip(data, prior, fit),
                without_chip(data, prior, fit),
            )
        return self._fitted[kin]
