"""Judging of a few measurements on a device: errors and intervals of the networks left out.

``PYTHONPATH=tools python -m catalog.user_measured`` reads ``data/fidelity/points.csv`` and prints a
table. K networks of a device are chosen at random and taken as measured by the user; the others are
predicted by ``hetsim.problem.measured``. Of *by datasheet* the whole chip was left out of the fit;
of *left out* only each network was left out of the device's fit. Of *across sources* a source of
``data/measured`` stands for the figures and another one, of the same chip, runtime and precision,
for the user.
"""

from __future__ import annotations

import gzip
import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

from catalog.fidelity.points import FidelityPoint, grouped, read_points
from hetsim.cost.kernels.likeness import Placed
from hetsim.hardware.catalog import load_kin
from hetsim.hardware.kernel_figures import HALF_WIDTH
from hetsim.hardware.kin import KnownNetwork
from hetsim.hardware.measurement import Measurement
from hetsim.problem.measured import Alone, measured_on
from hetsim.problem.parts import Evidence

COUNTS = (0, 1, 3, 5)
LEAST_NETWORKS = 6
"""Networks that a device must have run, so that some are left to predict."""

TIMES = 2
"""Random choices for each device and count."""

ACROSS_SD = 0.2
"""Standard deviation that figures by one source are taken to have on another network."""

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
        "across sources": list(_of_sources(ROOT / "data/measured/rows.jsonl.gz")),
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
        evidence = Evidence(
            point.device, point.device, status, math.log(predicted.within) / HALF_WIDTH
        )
        alone = Alone(
            point.network, predicted.seconds, point.batch, evidence, point.precision, "",
            Placed.of([network]),
        )  # fmt: skip
        found.append(Ran(alone, point.measured_s))
    return found


_known: dict[str, dict[tuple[str, int], KnownNetwork]] = {}


def _traits(kin: str) -> Mapping[tuple[str, int], KnownNetwork]:
    if kin not in _known:
        _known[kin] = {(one.name, one.batch): one for one in load_kin(kin).networks}
    return _known[kin]


def _of_sources(path: Path) -> Iterator[list[Ran]]:
    """Pairs of sources of one chip, precision, runtime and threads, at batch 1."""
    times: dict[tuple[str, str, str, str], dict[str, dict[str, list[float]]]] = {}
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            graphs, seconds = row.get("graphs"), row.get("latency_ms")
            if not graphs or not seconds or row.get("batch") != 1 or row.get("flags"):
                continue
            if "catalog" not in row or row["kind"] in ("aihub", "aihub-old"):
                # Two editions of one service, whose definitions of a latency differ.
                continue
            config = row.get("config")
            threads = str(config.get("threads")) if isinstance(config, dict) else ""
            key = (row["catalog"], row["precision"], row["runtime"], threads)
            source = f"{row['source'].split('@')[0]} {row['device']}"
            by_network = times.setdefault(key, {}).setdefault(source, {})
            by_network.setdefault(graphs[0]["file"], []).append(seconds / 1e3)
    for key, sources in sorted(times.items()):
        for one, other in combinations(sorted(sources), 2):
            both = sorted(sources[one].keys() & sources[other].keys())
            evidence = Evidence(key[0], key[0], "fitted", ACROSS_SD)
            yield [
                Ran(
                    Alone(name, median(sources[one][name]), 1, evidence, key[1], ""),
                    median(sources[other][name]),
                )
                for name in both
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
