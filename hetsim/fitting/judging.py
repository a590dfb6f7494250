"""How right the fits are: what was left out, in figures that can be compared."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hetsim.fitting.errors import error_of
from hetsim.fitting.leaving_out import Unseen
from hetsim.fitting.observing import KinData
from hetsim.hardware.kernel_figures import BATCHES, HALF_WIDTH, batch_range

LEAST_NETWORKS = 5
"""Of a series, for its predictions to be judged."""
APART = 1.3
"""Times as long from which on an order counts."""


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


def coverage(unseen: Sequence[Unseen]) -> float:
    """Return the share of points inside of 80 % intervals that were told without their network."""
    inside = total = 0
    for found in by_batch(unseen).values():
        for network in sorted({one.point.network for one in found}):
            pool = [one for one in found if one.point.network != network]
            for one in found:
                if one.point.network == network and pool:
                    own = [other for other in pool if other.series == one.series]
                    error = error_of("1", own or pool, pool)
                    own_part = math.sqrt(error.sd**2 - error.common**2)
                    sd = math.hypot(own_part, error.common * one.surer)
                    inside += abs(one.of_new) < HALF_WIDTH * sd
                    total += 1
    return inside / total if total else math.nan


def donors(data: KinData) -> list[float]:
    """Return misses of one factor from the best donor: another chip's times, scaled.

    The factor is the median over common networks but the one that is predicted; the donor is
    the chip where that fits the others best. It has run the network, so it knows more than a
    prediction of what nobody ran.
    """
    times: list[dict[tuple[str, int], float]] = [
        {
            (data.points[at].network, data.points[at].batch): float(data.log_seconds[at])
            for at in range(part.start, part.stop)
        }
        for part in data.slices()
    ]
    found = []
    for index, own in enumerate(times):
        for key, log in own.items():
            best: tuple[float, float] | None = None
            for other, theirs in enumerate(times):
                if data.series[other].chip == data.series[index].chip or key not in theirs:
                    continue
                common = [k for k in own if k in theirs and k[0] != key[0]]
                if len(common) < 3:
                    continue
                ratios = np.array([own[k] - theirs[k] for k in common])
                factor = float(np.median(ratios))
                spread = float(np.median(np.abs(ratios - factor)))
                if best is None or spread < best[0]:
                    best = (spread, theirs[key] + factor)
            if best is not None:
                found.append(best[1] - log)
    return found


def orders(unseen: Iterable[Unseen]) -> tuple[int, int]:
    """Return pairs of series of a kin that differ on a network, and of how many it is told right.

    Pairs count that were measured more than `APART` times apart.
    """
    groups: defaultdict[tuple[str, str, int], list[Unseen]] = defaultdict(list)
    for one in unseen:
        groups[one.series.kin, one.point.network, one.point.batch].append(one)
    total = right = 0
    for ones in groups.values():
        measured = np.log([one.point.seconds for one in ones])
        predicted = measured + np.array([one.total for one in ones])
        apart = measured[:, None] - measured[None, :]
        told = predicted[:, None] - predicted[None, :]
        counts = np.triu(np.abs(apart) > math.log(APART), 1)
        total += int(counts.sum())
        right += int((counts & (apart * told > 0)).sum())
    return total, right


def best_units(unseen: Iterable[Unseen]) -> tuple[int, int, float]:
    """Return networks that several units of a chip ran, of how many the best is told, the regret.

    A unit is a kin: what a chip has of them at batch 1. The regret is by how much longer than the
    best the told one takes, on average.
    """
    groups: defaultdict[tuple[str, str], dict[str, tuple[float, float]]] = defaultdict(dict)
    for one in unseen:
        if one.point.batch == 1:
            log = math.log(one.point.seconds)
            units = groups[one.series.chip, one.point.network]
            now = units.get(one.series.kin)
            if now is None or log < now[0]:
                units[one.series.kin] = (log, log + one.total)
    total = right = 0
    regret = 0.0
    for units in groups.values():
        if len({kin.rsplit("-", 1)[0] for kin in units}) < 2:
            continue
        measured = min(units.values())[0]
        told = min(units.values(), key=lambda pair: pair[1])[0]
        total += 1
        right += told == measured
        regret += math.expm1(told - measured)
    return total, right, regret / max(total, 1)


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
