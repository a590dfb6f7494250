"""How right the fits are: what was left out, in figures that can be compared."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from catalog.errors import LeftOut, widths
from catalog.leaving_out import Unseen
from catalog.orders import Run
from hetsim.hardware.kernel_figures import BATCHES, HALF_WIDTH, batch_range

LEAST_NETWORKS = 5
"""Of a series, for its predictions to be judged."""


@dataclass(frozen=True, slots=True)
class Judged:
    """Relative errors of predictions, as shares.

    Attributes
    ----------
    points : int
    median, p90 : float
    within_2 : float
        Share that is off by less than a factor of 2.
    log_p90 : float
        Nine of ten are off by less than this many e-foldings.
    """

    points: int
    median: float
    p90: float
    within_2: float
    log_p90: float


def judged(misses: Iterable[float]) -> Judged | None:
    """Return how far logs of predicted over measured are from 0; None of none."""
    logs = np.array(list(misses))
    if not logs.size:
        return None
    relative, far = np.abs(np.expm1(logs)), np.abs(logs)
    return Judged(
        points=logs.size,
        median=float(np.median(relative)),
        p90=float(np.quantile(relative, 0.9)),
        within_2=float(np.mean(far < math.log(2))),
        log_p90=float(np.quantile(far, 0.9)),
    )


def by_batch(unseen: Iterable[Unseen]) -> dict[str, list[Unseen]]:
    """Return predictions by range of batch sizes."""
    found: dict[str, list[Unseen]] = {batch: [] for batch in BATCHES}
    for one in unseen:
        found[batch_range(one.point.batch)].append(one)
    return {batch: ones for batch, ones in found.items() if ones}


def worth_judging(unseen: Iterable[Unseen], least: int = LEAST_NETWORKS) -> list[Unseen]:
    """Return the predictions for series of enough networks."""
    networks: defaultdict[object, set[str]] = defaultdict(set)
    every = list(unseen)
    for one in every:
        networks[one.series].add(one.point.network)
    return [one for one in every if len(networks[one.series]) >= least]


def coverage(every: LeftOut, of_device: bool, noise: float) -> float:
    """Return the share of points inside of 80 % intervals that were told without their network.

    `of_device`: of those that were left out of the device alone.
    """
    inside = total = 0
    wanted = {one.series for one in every.of_kin}
    for batch in BATCHES:
        for one, sd in widths(every.of_batch(batch), wanted, of_device, noise):
            if sd is not None:
                inside += abs(one.total) < HALF_WIDTH * sd
                total += 1
    return inside / total if total else math.nan


def runs_of_kins(unseen: Iterable[Unseen]) -> list[Run]:
    """Return series of one kin on one network and batch, as what pairs are made of."""
    return [
        Run(
            case=(one.series.kin, one.point.network, one.point.batch),
            name=str(one.series),
            setting="",
            measured_s=one.point.seconds,
            predicted_s=one.predicted_s,
        )
        for one in unseen
    ]


def runs_of_units(unseen: Iterable[Unseen]) -> list[Run]:
    """Return what units of a chip there are for a network at batch 1, as one chooses among them.

    A unit is a runtime in all precisions; of the settings of a kin the one that was measured
    fastest counts.
    """
    fastest: dict[tuple[str, str, str], Unseen] = {}
    for one in unseen:
        if one.point.batch == 1:
            key = (one.series.chip, one.point.network, one.series.kin)
            now = fastest.get(key)
            if now is None or one.point.seconds < now.point.seconds:
                fastest[key] = one
    return [
        Run(
            case=(chip, network),
            name=kin.rpartition("-")[0],
            setting=kin,
            measured_s=one.point.seconds,
            predicted_s=one.predicted_s,
        )
        for (chip, network, kin), one in fastest.items()
    ]


def repeats(unseen: Iterable[Unseen]) -> float | None:
    """Return the median spread of points that were measured more than once."""
    spreads = [one.point.spread for one in unseen if one.point.spread is not None]
    return float(np.median(spreads)) if spreads else None


def record(found: Judged | None) -> Mapping[str, float] | None:
    """Return percents for a report."""
    if found is None:
        return None
    return {
        "points": found.points,
        "median_%": round(100 * found.median, 1),
        "p90_%": round(100 * found.p90, 1),
        "within_2_%": round(100 * found.within_2, 1),
        "log_p90": round(found.log_p90, 2),
    }
