"""The points of the catalog's devices, each predicted without having been seen."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from catalog.donors import donors
from catalog.errors import left_out, widths
from catalog.fidelity.points import FidelityPoint, Key, Predicted, grouped
from catalog.kin_fits import FittedKin, Measurements
from catalog.leaving_out import Unseen
from catalog.points import Series
from hetsim.hardware.kernel_figures import BATCHES, HALF_WIDTH, batch_range
from hetsim.problem.evidence_of_platform import DATASHEET_SD

_At = tuple[Series, str, int]
_Predictions = dict[_At, Predicted]


def judged_points(measurements: Measurements) -> list[FidelityPoint]:
    """Return all points that devices of the catalog stand on, without what the catalog predicts.

    Intervals are as wide as other networks' misses (other chips' for the datasheet) say: the
    point itself is in neither its prediction nor its interval.
    """
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
    """Predictions of the `wanted` series of a kin, without rows of the network.

    Those of the device alone, or all of them. Intervals are by what other networks are missed by.
    """
    every = left_out(fitted, with_rows=True)
    found: _Predictions = {}
    for batch in BATCHES:
        pool = every.of_batch(batch)
        for one, sd in widths(pool, wanted, of_device, fitted.fit.eps):
            found[_at(one)] = _predicted(one, DATASHEET_SD if sd is None else sd)
    return found


def _chips_out(unseen: Sequence[Unseen], wanted: Collection[Series]) -> _Predictions:
    """Predictions of the `wanted` series of a kin by its datasheet, without rows of the chip.

    Intervals are by what other chips are missed by.
    """
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
