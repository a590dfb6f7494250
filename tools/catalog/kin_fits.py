"""All kins of the measurements, read once and fitted one by one when asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from catalog.catalog import Asked, catalog_asks, with_catalog
from catalog.chips import Chips, read_chips
from catalog.graphs import read_graphs
from catalog.hearing import are_relatives, misses, with_heard
from catalog.leaving_out import (
    Unseen,
    without_chip,
    without_family,
    without_network_on_chip,
)
from catalog.likeness import kin_of, traits_of_keys
from catalog.measured import read_rows
from catalog.mixed import KinFit, fit_kin
from catalog.observing import KinData, kin_data
from catalog.points import Points, Series, points_of
from catalog.priors import Prior, prior_of
from catalog.tables import Tables
from hetsim.hardware.datasheet import Datasheet
from hetsim.hardware.datasheet import covariates as covariates_of
from hetsim.hardware.kernel_figures import INDEX, PARAMETERS
from hetsim.hardware.kin import Kin
from hetsim.hardware.limits import Limits, together

LEAST_NETWORKS = 3
"""Of a series without a device in the catalog, to be worth fitting."""


@dataclass(frozen=True, slots=True)
class FittedKin:
    """A kin, its fit, and what the fit says of what it has not seen.

    Attributes
    ----------
    data : KinData
    prior : Prior
    fit : KinFit
    networks_out : list of Unseen
        Each network predicted for each device without any device's rows of its family.
    of_chip_out : list of Unseen
        Each network predicted for each device without the rows of the device's own chip.
    chips_out : list of Unseen
        Each chip predicted from its datasheet; empty where there is one chip alone.
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
        limits = together(self._limits(one) for one in series)
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
        """What rows in bulk say nothing of, by the same runtime's rows at batch 1 on the chip.

        How long launches take, and how many outputs fill the device, is the runtime's and the
        chip's in all precisions.
        """
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
