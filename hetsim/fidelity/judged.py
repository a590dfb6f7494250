"""The points of the catalog's devices, each predicted without having been seen."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from hetsim.fidelity.points import FidelityPoint, Key, Predicted, grouped
from hetsim.fitting.errors import error_of
from hetsim.fitting.kin_fits import Measurements
from hetsim.fitting.leaving_out import Unseen
from hetsim.fitting.points import Series
from hetsim.hardware.kernel_figures import BATCHES, HALF_WIDTH, batch_range
from hetsim.problem.evidence_of_platform import DATASHEET_SD


def judged_points(measurements: Measurements) -> list[FidelityPoint]:
    """Return all points that devices of the catalog stand on, without what the catalog predicts.

    Intervals are as wide as other networks' misses (other chips' for the datasheet) say: the
    point itself is in neither its prediction nor its interval.
    """
    found: dict[Key, FidelityPoint] = {}
    wanted = {asked.series for asked in measurements.asks if asked.series is not None}
    kins: dict[str, tuple[_Predictions, _Predictions]] = {}
    for asked in measurements.asks:
        if asked.series is None:
            continue
        if asked.kin not in kins:
            fitted = measurements.fitted(asked.kin)
            kins[asked.kin] = (
                _networks_out(fitted.networks_out, wanted),
                _chips_out(fitted.chips_out, wanted),
            )
        unseen, datasheet = kins[asked.kin]
        for point in measurements.points.series[asked.series]:
            at = (asked.series, point.network, point.batch)
            one = FidelityPoint(
                device=asked.device,
                precision=asked.precision,
                network=Path(point.network).stem,
                batch=point.batch,
                kin=asked.kin,
                rows=point.rows,
                measured_s=point.seconds,
                lowest_s=point.lowest,
                highest_s=point.highest,
                unseen=unseen.get(at),
                datasheet=datasheet.get(at),
            )
            found[one.key] = one
    return [found[key] for key in sorted(found)]


_Predictions = dict[tuple[Series, str, int], Predicted]


def _networks_out(unseen: Sequence[Unseen], wanted: Collection[Series]) -> _Predictions:
    """Predictions of the `wanted` series of a kin, each network without any rows of it.

    Intervals are by what other networks are missed by, and as much narrower or wider as the kin
    say, as in ``evidence_of_platform.device_evidence``.
    """
    found: _Predictions = {}
    for of_batch in _by_batch(unseen).values():
        asked = grouped(
            (one for one in of_batch if one.series in wanted),
            lambda one: (one.point.network, one.series),
        )
        for (network, series), ones in asked.items():
            pool = [one for one in of_batch if one.point.network != network]
            own = [one for one in pool if one.series == series]
            error = error_of(BATCHES[0], own or pool, pool) if pool else None
            for one in ones:
                sd = DATASHEET_SD
                if error is not None:
                    alone = math.sqrt(max(error.sd**2 - error.common**2, 0.0))
                    sd = math.hypot(alone, error.common * one.surer)
                found[_at(one)] = _predicted(one, sd)
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


def _by_batch(unseen: Sequence[Unseen]) -> dict[str, list[Unseen]]:
    return grouped(unseen, lambda one: batch_range(one.point.batch))


def _at(one: Unseen) -> tuple[Series, str, int]:
    return one.series, one.point.network, one.point.batch


def _predicted(one: Unseen, sd: float) -> Predicted:
    return Predicted(one.point.seconds * math.exp(one.total), math.exp(HALF_WIDTH * sd))
