"""Errors of predictions of what was left out: their measures, right orders, and a rival's."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import NDArray

from catalog.kin_data import KinData, chip_groups
from catalog.kin_fits import FittedKin
from catalog.likeness import Unseen
from catalog.points import Series
from hetsim.cost.kernels.similarity import groups_of
from hetsim.hardware.kernel_figures import BATCHES, HALF_WIDTH, FigureError, as_sure, batch_range

KIN_NETWORKS = 8.0
"""How many networks of its own a device's spread must have to count as much as its kin's."""
SD_LEAST = 0.03
KNOWN = 0.5
"""Variance of what kin say of a network, relative to the usual one of networks that they did not
run, below which they have run it, or its like."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Predictions of points without their network, in two ways.

    - `of_device`: without the device's rows of it.
    - `of_kin`: without any rows of it.
    """

    of_device: Sequence[Unseen]
    of_kin: Sequence[Unseen]

    def of_batch(self, batch: str) -> LeftOut:
        """Return those of a range of batch sizes."""
        return self._only(lambda one: batch_range(one.point.batch) == batch)

    def of_series(self, series: Series) -> LeftOut:
        """Return those of one series."""
        return self._only(lambda one: one.series == series)

    def without(self, networks: Collection[str]) -> LeftOut:
        """Return those of other networks."""
        return self._only(lambda one: one.point.network not in networks)

    def known(self) -> list[Unseen]:
        """Return those of networks that others of the kin have run, or their like."""
        return [one for one in self.of_device if one.surer < KNOWN]

    def _only(self, wanted: Callable[[Unseen], bool]) -> LeftOut:
        return LeftOut(
            [one for one in self.of_device if wanted(one)],
            [one for one in self.of_kin if wanted(one)],
        )


def left_out(kin: FittedKin, with_rows: bool) -> LeftOut:
    """Return what was left out of a kin, for devices with rows of their own or without.

    Without, chips were left out, and the network was told by the kin that ran it, or by others.
    """
    if with_rows:
        return LeftOut(kin.of_chip_out, kin.networks_out)
    return LeftOut(kin.chips_out, [replace(one, effect=one.by_others) for one in kin.chips_out])


def errors_of(kin: FittedKin, series: Series | None) -> tuple[FigureError, ...]:
    """Return the errors of a device by range of batch sizes."""
    every = left_out(kin, series is not None)
    found = []
    for batch in BATCHES:
        pool = every.of_batch(batch)
        own = pool if series is None else pool.of_series(series)
        if own.of_kin:
            found.append(error_of(batch, own, pool))
    return tuple(found)


def error_of(batch: str, own: LeftOut, pool: LeftOut) -> FigureError:
    """Return the error of a device of which `own` was left out, among the `pool` of its kin."""
    misses = _relative(own.of_device or own.of_kin)
    unseen = _relative(own.of_kin)
    spreads = [one.point.spread for one in own.of_kin if one.point.spread is not None]
    sd = _width(own.of_kin, pool.of_kin)
    known = pool.known()
    # Where no two ran a network, nothing says what they have in common.
    alone = min(_width(own.known(), known), sd) if known else sd * math.sqrt(0.5)
    return FigureError(
        batch=batch,
        networks=len({one.point.network for one in own.of_kin}),
        rows=sum(one.point.rows for one in own.of_kin),
        median=float(np.median(misses)),
        p90=float(np.quantile(misses, 0.9)),
        spread=float(np.median(spreads)) if spreads else None,
        sd=sd,
        common=math.sqrt(sd**2 - alone**2),
        unseen_median=float(np.median(unseen)),
        unseen_p90=float(np.quantile(unseen, 0.9)),
    )


def widths(
    pool: LeftOut, wanted: Collection[Series], of_device: bool, noise: float
) -> Iterator[tuple[Unseen, float | None]]:
    """Give predictions of a pool the sd of their intervals, by misses of other families."""
    asked: defaultdict[tuple[str, Series], list[Unseen]] = defaultdict(list)
    for one in pool.of_device if of_device else pool.of_kin:
        if one.series in wanted:
            asked[one.point.network, one.series].append(one)
    group = groups_of({one.point.network for one in (*pool.of_device, *pool.of_kin)})
    others: dict[str, LeftOut] = {}
    for (network, series), ones in asked.items():
        of = group[network]
        if of not in others:
            others[of] = pool.without({name for name, its in group.items() if its == of})
        rest = others[of]
        own = rest.of_series(series)
        error = error_of(BATCHES[0], own if own.of_kin else rest, rest) if rest.of_kin else None
        for one in ones:
            if error is None:
                yield one, None
                continue
            alone = math.sqrt(max(error.sd**2 - error.common**2, 0.0))
            yield one, as_sure(alone, error.common, one.surer, noise)[0]


def _relative(found: Sequence[Unseen]) -> NDArray[np.float64]:
    return np.abs(np.expm1([one.total for one in found]))


def _width(own: Sequence[Unseen], pool: Sequence[Unseen]) -> float:
    """Sd of a normal distribution of which as many are within as are of misses."""
    networks = len({one.point.network for one in own})
    of_kin = len({one.point.network for one in pool})
    logs = networks * math.log(_inside(own)) + KIN_NETWORKS * math.log(_inside(pool))
    width = math.exp(logs / (networks + KIN_NETWORKS))
    few = float(scipy.stats.t.ppf(0.9, max(of_kin - 1, 1))) / HALF_WIDTH
    return max(width * min(few, 2.0), SD_LEAST)


def _inside(found: Sequence[Unseen]) -> float:
    if not found:
        return SD_LEAST
    return max(float(np.quantile([abs(one.total) for one in found], 0.8)) / HALF_WIDTH, SD_LEAST)


APART = 1.3
"""Times that two must be apart for their order to count."""


@dataclass(frozen=True, slots=True)
class Run:
    """One of those that can be chosen among.

    - `case`: what they have in common: a network at a batch, and the chip where units of one are
      told.
    - `name`: of the device or unit: choosing another run of the same one is no mistake.
    - `setting`: what else tells it from other runs, for ties.
    """

    case: Hashable
    name: str
    setting: str
    measured_s: float
    predicted_s: float


@dataclass(frozen=True, slots=True)
class Pairs:
    """How many pairs were measured apart, and how many of them are predicted in that order."""

    count: int
    right: int


@dataclass(frozen=True, slots=True)
class Best:
    """Of choices: how many, how many took the best, and what they cost beyond it.

    - `regrets`: of each choice: measured time of what was taken over that of the best, less 1;
      sorted.
    """

    count: int
    right: int
    regrets: tuple[float, ...]

    @property
    def mean_regret(self) -> float:
        """Mean of `regrets`; 0 without choices."""
        return sum(self.regrets) / max(self.count, 1)


def pairs(runs: Iterable[Run]) -> Pairs:
    """Count pairs of unlike names of a case that were measured more than `APART` times apart."""
    count = right = 0
    for found in _cases(runs):
        for index, one in enumerate(found):
            for other in found[:index]:
                apart = math.log(one.measured_s / other.measured_s)
                if one.name != other.name and abs(apart) > math.log(APART):
                    count += 1
                    right += (one.predicted_s - other.predicted_s) * apart > 0
    return Pairs(count, right)


def best(runs: Iterable[Run]) -> Best:
    """Take of each case the run that is predicted fastest.

    It is right where the run that was measured fastest is of the same name. Cases of one name
    alone are no choice.
    """
    right, regrets = 0, []
    for found in _cases(runs):
        if len({run.name for run in found}) < 2:
            continue
        fastest = min(found, key=lambda run: (run.measured_s, run.name, run.setting))
        taken = min(found, key=lambda run: (run.predicted_s, run.name, run.setting))
        right += taken.name == fastest.name
        regrets.append(taken.measured_s / fastest.measured_s - 1)
    return Best(len(regrets), right, tuple(sorted(regrets)))


def _cases(runs: Iterable[Run]) -> list[list[Run]]:
    cases: defaultdict[Hashable, list[Run]] = defaultdict(list)
    for run in runs:
        cases[run.case].append(run)
    return list(cases.values())


LEAST_NETWORKS = 5
"""Of a series, for its predictions to be judged."""


@dataclass(frozen=True, slots=True)
class Judged:
    """Relative errors of predictions, as shares.

    - `within_2`: share that is off by less than a factor of 2.
    - `log_p90`: nine of ten are off by less than this many e-foldings.
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
    """Return the share of points inside of 80 % intervals that were told without their network."""
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
    """Return what units of a chip there are for a network at batch 1, as one chooses among them."""
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


LEAST_COMMON = 3
"""Networks that two must have in common beside the one that is predicted."""


def donors(data: KinData, series: Series) -> dict[int, float]:
    """Return log seconds by index of the points of `series`, of one factor from the best donor.

    The donor is the series of another chip, no sister, that ran the network at the batch and whose
    times of the other networks follow those of `series` best, by the median of what a factor
    leaves; the factor is the median over those. It has run the network: it knows more than a
    prediction of what nobody ran. Points without a donor are absent.

    O(points * series * keys).
    """
    times = np.full((len(data.series), len(data.keys)), np.nan)
    times[data.owner, data.key] = data.log_seconds
    group = chip_groups(data)
    own = data.series.index(series)
    found = {}
    for at in np.flatnonzero(data.owner == own).tolist():
        key = data.key[at]
        others = data.network != data.network[key]
        ratios = times[own, others] - times[:, others]
        may = (~np.isnan(ratios)).sum(axis=1) >= LEAST_COMMON
        may &= (group != group[own]) & ~np.isnan(times[:, key])
        if not may.any():
            continue
        candidates = np.flatnonzero(may)
        factors = np.nanmedian(ratios[candidates], axis=1)
        left = np.nanmedian(np.abs(ratios[candidates] - factors[:, None]), axis=1)
        best = int(np.argmin(left))
        found[at] = float(times[candidates[best], key] + factors[best])
    return found
