"""Judging of a few measurements on a device: errors and intervals of the networks left out.

``PYTHONPATH=tools python -m catalog.user_measured`` reads ``data/fidelity/points.csv`` and prints a
table. K networks of a device are chosen at random and taken as measured by the user; the others are
predicted by ``hetsim.problem.measured``. Of *by datasheet* the whole chip was left out of the fit;
of *left out* only each network was left out of the device's fit. Of *across sources* a source of
``data/measured`` stands for the figures and another one, of the same chip, runtime and precision,
for the user; how far sources differ was learned on other makers' runtimes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from catalog.fidelity.judged import figures_of
from catalog.fidelity.points import FidelityPoint, grouped, read_points
from catalog.measured import read_rows
from catalog.points import points_of, read_chips
from catalog.widths import source_pairs, spread_of
from hetsim.cost.kernels.similarity import NetworkPositions
from hetsim.hardware.catalog import load_kin
from hetsim.hardware.kernel_figures import HALF_WIDTH
from hetsim.hardware.kin import KnownNetwork
from hetsim.hardware.measurement import Measurement
from hetsim.problem.evidence import basis_floors
from hetsim.problem.measured import Alone, measured_on
from hetsim.problem.parts import Evidence, Floor

COUNTS = (0, 1, 3, 5)
LEAST_NETWORKS = 6
"""Networks that a device must have run, so that some are left to predict."""

TIMES = 2
"""Random choices for each device and count."""

MANY_NETWORKS = 1000
"""Their widths in data/fidelity are not wider for being known from few networks."""

WITHIN_SD = 0.13
"""Standard deviation that figures by one source have on a network of that source: 80 % of those
left out of the catalog's devices are within 1.18."""

ROOT = Path(__file__).parents[2]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Ran:
    """Network on a device: as predicted, and as measured."""

    alone: Alone
    measured_s: float


def main() -> None:
    """Print the table of errors."""
    points = read_points(ROOT / "data/fidelity/points.csv")
    splits = {
        "by datasheet": [
            _of_points(each, "datasheet", "prior") for each in _by_device(points).values()
        ],
        "left out": [
            _of_points(each, "left_out", "fitted") for each in _by_device(points).values()
        ],
        "across sources": list(_of_sources(ROOT / "data/measured")),
    }
    print("split            K  median    p90  within 2x  80 % hold      n")
    for split, devices in splits.items():
        for count in COUNTS:
            errors, sds = _errors(devices, count)
            off = np.abs(np.exp(-errors) - 1)
            held = np.abs(errors) <= HALF_WIDTH * sds
            print(
                f"{split:15} {count:2} {np.median(off):7.1%} {np.quantile(off, 0.9):6.0%} "
                f"{np.mean(np.abs(errors) <= math.log(2)):10.0%} {held.mean():10.0%} {len(off):6}"
            )


def _by_device(points: Sequence[FidelityPoint]) -> Mapping[tuple[str, str], list[FidelityPoint]]:
    return grouped(points, lambda point: (point.device, point.precision))


def _of_points(points: Sequence[FidelityPoint], way: str, status: str) -> list[Ran]:
    found = []
    for point in points:
        predicted = getattr(point, way)
        if predicted is None:
            continue
        network = _traits(point.kin)[point.network, point.batch]
        sd = math.log(predicted.within) / HALF_WIDTH
        floors = tuple(_floors(point, status, sd))
        whole = math.hypot(sd, *(floor.sd for floor in floors))
        evidence = Evidence(point.device, point.device, status, whole, floors=floors)
        alone = Alone(
            point.network, predicted.seconds, point.batch, evidence, point.precision, "",
            NetworkPositions.of([network]),
        )  # fmt: skip
        found.append(Ran(alone, point.measured_s))
    return found


def _floors(point: FidelityPoint, status: str, sd: float) -> Iterator[Floor]:
    """Yield what errors of networks or chips left out do not contain, as the catalog has it."""
    figures = figures_of(point.device, point.precision)
    told = _kin(point.kin).by_datasheet if status == "prior" else figures
    if told is not None and told.basis is not None:
        yield from basis_floors(told.basis, sd, MANY_NETWORKS)


_kin = cache(load_kin)


@cache
def _traits(kin: str) -> Mapping[tuple[str, int], KnownNetwork]:
    return {(one.name, one.batch): one for one in _kin(kin).networks}


def _of_sources(folder: Path) -> Iterator[list[Ran]]:
    """Pairs of sources of one chip, kin and setting; each stands for the figures in turn."""
    chips = read_chips(folder)
    points = points_of(read_rows(folder), chips.called)
    pairs = list(source_pairs(points, chips))
    for maker in sorted({pair.maker for pair in pairs}):
        # As in the catalog, but for what this maker's runtimes tell themselves.
        spread = spread_of(pair for pair in pairs if pair.maker != maker)
        floor = Floor("sources", spread * math.sqrt(2.0))
        sd = math.hypot(WITHIN_SD, floor.sd)
        for pair in (one for one in pairs if one.maker == maker):
            evidence = Evidence(pair.die, pair.die, "fitted", sd, floors=(floor,))
            for figures, user in ((pair.one, pair.other), (pair.other, pair.one)):
                yield [
                    Ran(
                        Alone(file, math.exp(log), batch, evidence, pair.kin, ""),
                        math.exp(user[file, batch]),
                    )
                    for (file, batch), log in sorted(figures.items())
                ]


def _errors(devices: Sequence[Sequence[Ran]], count: int) -> tuple[Floats, Floats]:
    """Logarithms of measured over predicted, and their standard deviations."""
    rng = random.Random(0)
    errors, sds = [], []
    for ran in devices:
        names = sorted({one.alone.sha256 for one in ran})
        if len(names) < LEAST_NETWORKS:
            continue
        for _ in range(TIMES):
            chosen = set(rng.sample(names, count))
            known = [
                min(
                    (one for one in ran if one.alone.sha256 == name),
                    key=lambda one: one.alone.batch,
                )
                for name in sorted(chosen)
            ]
            given = [Measurement("", one.measured_s) for one in known]
            for one in ran:
                if one.alone.sha256 in chosen:
                    continue
                factor, evidence = 1.0, one.alone.evidence
                if known:
                    here, evidence = measured_on(one.alone, [k.alone for k in known], given)
                    factor = here.factor
                errors.append(math.log(one.measured_s / (one.alone.seconds * factor)))
                sds.append(evidence.sd)
    return np.array(errors), np.array(sds)


if __name__ == "__main__":
    main()
