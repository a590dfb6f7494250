"""Factors between runtimes, learned from chips that ran both.

``PYTHONPATH=tools python -m catalog.runtimes`` writes ``devices/fitted/runtimes.csv`` from
data/measured and the catalog's figures, and prints how far each chip is from what others say.

The logarithm of a runtime's measured times over those predicted by a device's figures of another is
a difference of two effects, one a runtime, alike on all chips with a kind of unit, plus what a chip
differs by and what a network does. Effects are found by least squares with a normal prior. On GPUs
frameworks add a fixed time to every kernel: the one at which chips and networks differ least.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from catalog.fidelity.judged import device_of, with_shipped
from catalog.fidelity.points import FidelityPoint, grouped
from catalog.kin_fits import catalog_asks
from catalog.measured import measured_folder, read_rows
from catalog.points import Chips, Point, Series, Tables, points_of, read_chips, read_graphs
from hetsim.core.files import sha256_of, whole_file
from hetsim.cost.kernels.float_equivalent import figures_for
from hetsim.hardware.catalog import device_names, load_device, load_kin
from hetsim.hardware.datasheet import Datasheet
from hetsim.hardware.files.catalog_files import catalog_folder, find
from hetsim.hardware.files.runtimes import runtimes_of
from hetsim.hardware.kernel_figures import HALF_WIDTH, KernelFigures, RuntimeFactor

Floats = NDArray[np.float64]

_OF_KIN = {
    "tensorrt": "tensorrt", "paddle-gpu": "tensorrt",
    "onnxruntime-tensorrt": "onnxruntime-tensorrt", "onnxruntime": "onnxruntime",
    "openvino": "openvino", "pytorch": "pytorch", "armnn": "armnn", "ncnn": "ncnn",
}  # fmt: skip
"""Runtime of a kin, by how its name starts."""
_TOLD = {
    "armnn": "armnn", "ruy": "tflite", "xnnpack": "tflite", "onnx": "onnxruntime",
    "onnxruntime": "onnxruntime", "pytorch": "pytorch", "pytorcheager": "pytorch",
    "tensorflow1": "tensorflow", "tf": "tensorflow", "tensorflow1+xla": "tensorflow-xla",
    "cuda": "tensorrt", "qnn": "qnn", "tflite": "tflite", "paddlelite": "paddlelite", "tnn": "tnn",
    "mnn": "mnn",
}  # fmt: skip
"""Runtime by what rows call it."""
_KIN, _ANY = "openvino-cpu-float32", "intel-core-i9-13900k"
"""Family whose figures at the datasheet stand for processors that are not in the catalog, and a
device of it."""
_SAME_CHIP = {
    "13th Gen Intel Core i9-13900K": "Intel i9-13900K",
    "Intel Xeon Platinum 8380  @ 2.30GHz": "Intel Xeon Platinum 8380",
    "NVIDIA A100 SXM4 40 GB": "NVIDIA A100 SXM4 80 GB",
}
_PRECISIONS = {
    "float": "float16", "tf32": "float32", "float32": "float32", "float16": "float16",
    "bfloat16": "bfloat16", "int8": "int8",
}  # fmt: skip
"""Precision that a series is compared in, by its own."""
_FRAMEWORKS = ("onnxruntime", "pytorch", "tensorflow", "tensorflow-xla")
_LAUNCHES_S = (0.0, 1e-5, 2e-5, 3e-5, 4e-5, 6e-5, 8e-5, 10e-5, 13e-5)
_ON_ANY_GPU = ("armnn", "mnn", "ncnn", "paddlelite", "tflite", "tnn")
"""Runtimes that are bound to no maker's graphics: no others take the place of ncnn there."""
EFFECT_SD = 1.0
"""Prior standard deviation of the logarithm of a runtime's effect."""
BETWEEN, BETWEEN_CHIPS = 0.3, 3.0
"""Usual standard deviation between chips, and how many chips it counts for."""
USUAL_NETWORKS = 10.0
"""How many networks the usual deviation of networks on a chip counts for."""
LEAST_SD = 0.25
FARTHEST_SD = 0.9
"""Beyond which a factor that no chip stands behind says nothing."""


def runtime_of_series(series: Series) -> str | None:
    """Return the runtime of a series as users name it; None where it is none of those."""
    if series.kin.startswith("phone-cpu"):
        # Their tables differ by threads.
        return None
    told = dict(series.where).get("runtime")
    if told is not None:
        # TensorFlow Lite of the first rounds of MLPerf ran on one thread.
        old = series.kin.startswith("tflite-cpu") and told == "tflite"
        return None if old else _TOLD.get(told)
    return next((name for kin, name in _OF_KIN.items() if series.kin.startswith(kin)), None)


@dataclass(frozen=True, slots=True)
class Both:
    """Network that a chip ran by `runtime`, beside what figures by `base` say of it.

    - `known_sd`: standard deviation that the figures state.
    - `launches`: kernels of the network.
    - `sure`: whether the figures are fitted to measurements of the chip.
    """

    unit: str
    precision: str
    base: str
    runtime: str
    chip: str
    network: str
    measured_s: float
    predicted_s: float
    known_sd: float
    launches: float
    sure: bool = True

    def log(self, launch_s: float) -> float:
        """Logarithm of the factor, where each kernel takes longer by `launch_s`."""
        rest = self.measured_s - self.launches * launch_s
        return math.log(max(rest, 0.1 * self.measured_s) / self.predicted_s)

    def error(self, factor: float, launch_s: float) -> float:
        """Logarithm of measured over predicted."""
        return math.log(self.measured_s / (self.predicted_s * factor + self.launches * launch_s))


def gathered(tables: Tables | None = None) -> list[Both]:
    """Return what chips ran by another runtime than that of figures of theirs."""
    folder = measured_folder()
    chips, tables = read_chips(folder), tables or Tables(read_graphs(folder))
    points = points_of(read_rows(folder), chips.called)
    devices: defaultdict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for asked in catalog_asks(points, chips):
        if asked.series is not None:
            devices[asked.series.chip, asked.series.unit].setdefault(asked.device)
    named = {one: name for one in points.series if (name := runtime_of_series(one)) is not None}
    series = {one: points.series[one] for one in named if one.precision in _PRECISIONS}
    asked_of = [
        (one, point)
        for one, ran in series.items()
        for device in list(devices.get((_SAME_CHIP.get(one.chip, one.chip), one.unit), ()))[:1]
        for base in runtimes_of(device_of(device))
        if _may_stand_for(one.unit, base, named[one])
        for point in _asked(device, base, one, ran)
    ]
    own = {(one.unit, one.chip) for one, _ in asked_of}
    others = [
        one for one in series if named[one] in _FRAMEWORKS and (one.unit, one.chip) not in own
    ]
    by_chip = _at_datasheets(others, chips)
    asked_of += [
        (one, replace(point, kin=one.chip))
        for one in others
        if one.unit == "cpu" and one.precision == "float32" and one.chip in by_chip
        for point in _asked(_ANY, "openvino", one, series[one])
    ]

    def figures(point: FidelityPoint) -> KernelFigures | None:
        return by_chip.get(point.kin) or nearest_figures(point.device, point.precision)

    used = {point.network: tables.table(f"{point.network}.onnx") for _, point in asked_of}
    predicted = with_shipped((point for _, point in asked_of), used, figures)
    found = []
    for (one, _), point in zip(asked_of, predicted, strict=True):
        if point.shipped is not None:
            told = figures(point)
            found.append(
                Both(
                    one.unit, point.precision, device_of(point.device).runtime, named[one],
                    _SAME_CHIP.get(one.chip, one.chip), point.network, point.measured_s,
                    point.shipped.seconds, math.log(point.shipped.within) / HALF_WIDTH,
                    float(used[point.network].counts.sum()),
                    told is not None and told.standing in ("measured", "fitted"),
                )
            )  # fmt: skip
    found += [
        each for each in _beside_one_another(series, named) if (each.unit, each.chip) not in own
    ]
    pairs = grouped(found, lambda one: (one.unit, one.precision, one.base, one.runtime))
    # On graphics, where some chips' figures are fitted, those of a datasheet are left aside.
    return [
        one
        for each in pairs.values()
        for one in each
        if one.sure or one.unit == "cpu" or not any(other.sure for other in each)
    ]


def _at_datasheets(series: Iterable[Series], chips: Chips) -> dict[str, KernelFigures]:
    """Figures of processors that are not in the catalog, by chip: those of `_KIN`."""
    kin, likeness = load_kin(_KIN), sha256_of(find("kin", _KIN)[0])
    return {
        one.chip: replace(kin.figures("float32", sheet), likeness=likeness)
        for one in series
        if one.unit == "cpu" and (sheet := chips.datasheet(one)) != Datasheet()
    }


def nearest_figures(device: str, precision: str) -> KernelFigures | None:
    """Return the figures that price a precision on a device; None where it ran no such one."""
    spec = device_of(device)
    # Of float16 alone float32 is told: ncnn computes it on Arm.
    told = precision in spec.kernels or (precision == "float32" and "float16" in spec.kernels)
    return figures_for(spec, precision)[0] if told else None


def _asked(device: str, base: str, one: Series, ran: Sequence[Point]) -> Iterator[FidelityPoint]:
    name = device if base == device_of(device).runtime else f"{device}:{base}"
    for point in ran:
        yield FidelityPoint(
            name, _PRECISIONS[one.precision], Path(point.network).stem, point.batch, one.kin,
            point.rows, point.seconds, point.lowest, point.highest,
        )  # fmt: skip


def _beside_one_another(
    series: Mapping[Series, Sequence[Point]], named: Mapping[Series, str]
) -> Iterator[Both]:
    """Yield pairs of runtimes that ran one network at one batch on a chip."""
    by_chip = grouped(series, lambda one: (one.unit, one.chip, _PRECISIONS[one.precision]))
    for (unit, chip, precision), each in by_chip.items():
        for one, other in combinations(each, 2):
            base, runtime = named[one], named[other]
            times = {(point.network, point.batch): point.seconds for point in series[one]}
            for point in series[other] if _may_stand_for(unit, base, runtime) else ():
                before = times.get((point.network, point.batch))
                if before is not None:
                    yield Both(
                        unit, precision, base, runtime, chip, Path(point.network).stem,
                        point.seconds, before, 0.0, 0.0,
                    )  # fmt: skip


def _may_stand_for(unit: str, base: str, runtime: str) -> bool:
    """Whether devices with figures by `base` may run `runtime`."""
    if base == runtime:
        return False
    portable = base in _ON_ANY_GPU, runtime in _ON_ANY_GPU
    return unit != "gpu" or portable[0] == portable[1] or runtime == "ncnn"


Pair = tuple[str, str, str, str]
"""Kind of unit, precision, runtime of the figures, and the other."""


def fitted(every: Sequence[Both]) -> dict[Pair, RuntimeFactor]:
    """Return the factors, by kind of unit, precision and pair of runtimes. O(pairs^3)."""
    found: dict[Pair, RuntimeFactor] = {}
    for (unit, precision), each in grouped(every, lambda one: (one.unit, one.precision)).items():
        pairs = grouped(each, lambda one: (one.base, one.runtime))
        usual = float(np.median([_Apart.of(own, 0.0).within for own in pairs.values()]))
        names = sorted({name for pair in pairs for name in pair})
        for base, runtime in permutations(names, 2):
            own = {
                pair: pairs[pair] for pair in ((base, runtime), (runtime, base)) if pair in pairs
            }
            # Processors run everything; on other units a pair alone says it.
            told = pairs if unit == "cpu" else {(base, runtime): pairs.get((base, runtime), [])}
            if not any(told.values()):
                continue
            one = _factor((unit, precision, base, runtime), told, own, usual)
            if one.chips or one.sd < FARTHEST_SD:
                found[unit, precision, base, runtime] = one
    return dict(sorted(found.items()))


Pairs = Mapping[tuple[str, str], Sequence[Both]]


def _factor(pair: Pair, told: Pairs, own: Pairs, usual: float) -> RuntimeFactor:
    """Return the factor of a pair by all that pairs of runtimes say.

    - `own`: of the very pair, either way.
    - `usual`: standard deviation of networks within a chip.
    """
    unit, precision, base, runtime = pair
    ran = own.get((base, runtime), ())
    on_gpu = unit == "gpu" and runtime in _FRAMEWORKS and base not in _FRAMEWORKS
    launch_s = min(_LAUNCHES_S, key=lambda one: _mean_square(ran, one)) if on_gpu else 0.0
    names = sorted({name for each in told for name in each})
    apart = {each: _Apart.of(of, launch_s) for each, of in told.items()}
    freedom = [len(one.middles) - 1 for one in apart.values()]
    squares = [one.between**2 for one in apart.values()]
    between = (BETWEEN_CHIPS * BETWEEN**2 + np.dot(freedom, squares)) / (
        BETWEEN_CHIPS + sum(freedom)
    )
    system, right = np.eye(len(names)) / EFFECT_SD**2, np.zeros(len(names))
    for (first, second), of in apart.items():
        towards = np.array([float(name == second) - float(name == first) for name in names])
        for middle, count, known in of.middles:
            weight = 1.0 / (between + of.within**2 / count + known**2)
            system += weight * np.outer(towards, towards)
            right += weight * middle * towards
    covariance = np.linalg.inv(system)
    asked = np.array([float(name == runtime) - float(name == base) for name in names])
    both = [one for of in own.values() for one in of]
    left = _Apart.of(ran, launch_s).left
    within = (USUAL_NETWORKS * usual**2 + left @ left) / (USUAL_NETWORKS + len(left))
    total = float(asked @ covariance @ asked + between + within)
    surest = [one for one in both if one.sure] or both
    stated = float(np.mean([one.known_sd**2 for one in surest])) if both else 0.0
    return RuntimeFactor(
        unit, precision, base, runtime,
        factor=math.exp(float(asked @ covariance @ right)),
        sd=math.sqrt(max(total - stated, total / 4)),
        launch_s=launch_s,
        chips=len({one.chip for one in both}),
        networks=len({one.network for one in both}),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Apart:
    """How a pair of runtimes differs on chips and networks, in logarithms.

    - `middles`: by chip: median, how many networks, and the standard deviation that figures state.
    - `left` [networks]: of each about its chip's median.
    """

    middles: tuple[tuple[float, int, float], ...]
    left: Floats

    @classmethod
    def of(cls, each: Sequence[Both], launch_s: float) -> _Apart:
        chips = list(grouped(each, lambda one: one.chip).values())
        logs = [np.array([one.log(launch_s) for one in ran]) for ran in chips]
        stated = [float(np.mean([one.known_sd for one in ran])) for ran in chips]
        return cls(
            tuple(
                (float(np.median(log)), len(log), sd) for log, sd in zip(logs, stated, strict=True)
            ),
            np.concatenate([log - np.median(log) for log in logs]) if logs else np.zeros(0),
        )

    @property
    def within(self) -> float:
        return math.sqrt((LEAST_SD**2 + float(self.left @ self.left)) / (1 + len(self.left)))

    @property
    def between(self) -> float:
        middles = [middle for middle, _, _ in self.middles]
        return float(np.std(middles, ddof=1)) if len(middles) > 1 else 0.0


def _mean_square(each: Sequence[Both], launch_s: float) -> float:
    """Mean square of the logarithmic errors of the best factor with this launch."""
    if not each:
        return 0.0
    middles = [middle for middle, _, _ in _Apart.of(each, launch_s).middles]
    factor = math.exp(float(np.median(middles)))
    return float(np.mean([one.error(factor, launch_s) ** 2 for one in each]))


def left_out(every: Sequence[Both]) -> list[tuple[Both, RuntimeFactor]]:
    """Return each network with the factor that other chips give. O(chips pairs^3)."""
    found = []
    for (unit, _), own in grouped(every, lambda one: (one.unit, one.chip)).items():
        rest = [one for one in every if one.unit == unit and one.chip != own[0].chip]
        told = fitted(rest)
        for one in own:
            factor = told.get((one.unit, one.precision, one.base, one.runtime))
            if factor is not None:
                found.append((one, factor))
    return found


_COLUMNS = "unit,precision,base,runtime,factor,sd,launch_us,chips,networks"


def factors_text(factors: Mapping[Pair, RuntimeFactor]) -> str:
    """Return the file of factors from runtimes that devices of the catalog have figures by."""
    by = {
        (spec.kind, name) for spec in map(load_device, device_names()) for name in runtimes_of(spec)
    }
    lines = [
        f"{one.unit},{one.precision},{one.base},{one.runtime},{one.factor:.3g},{one.sd:.2g},"
        f"{one.launch_s * 1e6:g},{one.chips},{one.networks}"
        for one in factors.values()
        if (one.unit, one.base) in by
    ]
    return "\n".join((_COLUMNS, *lines, ""))


def write_factors(every: Sequence[Both]) -> None:
    """Write the file of factors."""
    with whole_file(catalog_folder() / "fitted" / "runtimes.csv") as draft:
        draft.write(factors_text(fitted(every)).encode())


def main() -> int:
    """Write the factors, and print how far left-out chips are from them."""
    every = gathered()
    print("unit precision base -> runtime: chips, networks; median error of left-out chips without")
    print("a factor, and with it; share inside the 80 % interval")
    pairs = grouped(
        left_out(every), lambda it: (it[0].unit, it[0].precision, it[0].base, it[0].runtime)
    )
    everything = [each for own in pairs.values() for each in own]
    for key, own in [*sorted(pairs.items()), (("all", "", "", ""), everything)]:
        errors = np.array([one.error(by.factor, by.launch_s) for one, by in own])
        plain = np.array([one.log(0.0) for one, _ in own])
        sds = np.array([math.hypot(one.known_sd, by.sd) for one, by in own])
        off, was = (np.median(np.abs(np.expm1(-each))) for each in (errors, plain))
        held = float(np.mean(np.abs(errors) <= HALF_WIDTH * sds))
        chips, networks = (len({getattr(one, at) for one, _ in own}) for at in ("chip", "network"))
        print(f"{' '.join(key)}: {chips}, {networks}; {was:.0%}, {off:.0%}; {held:.0%}")
    write_factors(every)
    return 0


if __name__ == "__main__":
    sys.exit(main())
