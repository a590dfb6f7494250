"""Points of comparable rows, their series, and the chips that these are of."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from catalog.measured import LeftOut, sample_of
from hetsim.core.units import GIGA, TERA
from hetsim.hardware.datasheet import (
    COVARIATES,
    FAMILIES,
    Datasheet,
    has_matrices,
    peak_of,
    processor,
)


@dataclass(frozen=True, slots=True, order=True)
class Series:
    """Runs of one chip's unit by one runtime in one precision and setting.

    Attributes
    ----------
    kin : str
        The runtime and precision that it shares with others: ``tensorrt-int8``.
    where : tuple of (str, str)
        What else tells it from the chip's others, by name, sorted.
    """

    kin: str
    chip: str
    unit: str
    precision: str
    where: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        settings = ", ".join(f"{name} {value}" for name, value in self.where)
        return f"{self.chip} ({settings})" if settings else self.chip


@dataclass(frozen=True, slots=True)
class Point:
    """What a series took for a network at a batch.

    Attributes
    ----------
    network : str
        File name of the graph.
    seconds : float
        Median of the rows, for the whole batch.
    lowest, highest : float
        Of the rows, in seconds.
    spread : float or None
        Median of how far the rows are from `seconds`, as a share of it; None of a single row.
    """

    network: str
    batch: int
    seconds: float
    rows: int
    lowest: float
    highest: float
    spread: float | None


@dataclass(frozen=True, slots=True)
class Points:
    """All points, and what was left out.

    Attributes
    ----------
    series : mapping of Series to tuple of Point
        Sorted, the points by network and batch.
    left_out : mapping of str to int
        Rows by the reason why they are compared with nothing, the most frequent first.
    """

    series: Mapping[Series, tuple[Point, ...]]
    left_out: Mapping[str, int]

    def kin(self, name: str) -> dict[Series, tuple[Point, ...]]:
        """Return the series of the kin called `name`."""
        return {series: points for series, points in self.series.items() if series.kin == name}


def points_of(rows: Iterable[Mapping[str, Any]], chips: Mapping[str, str] | None = None) -> Points:
    """Join comparable rows to points.

    Parameters
    ----------
    rows : iterable of mapping
        Of the measurements' file.
    chips : mapping of str to str, optional
        What a chip is called, by what rows call it; a name that is absent stands for itself.
    """
    called = chips or {}
    seconds: defaultdict[tuple[Series, str, int], list[float]] = defaultdict(list)
    left_out: Counter[str] = Counter()
    for row in rows:
        sample = sample_of(row)
        if isinstance(sample, LeftOut):
            left_out[sample.reason] += 1
            continue
        chip = called.get(sample.chip, sample.chip)
        series = Series(sample.kin, chip, sample.unit, sample.precision, sample.where)
        seconds[series, sample.network, sample.batch].append(sample.seconds)
    found: defaultdict[Series, list[Point]] = defaultdict(list)
    for (series, network, batch), times in sorted(seconds.items()):
        found[series].append(_point(network, batch, times))
    return Points(
        {series: tuple(points) for series, points in sorted(found.items())},
        dict(sorted(left_out.items(), key=lambda entry: (-entry[1], entry[0]))),
    )


def _point(network: str, batch: int, times: list[float]) -> Point:
    middle = median(times)
    return Point(
        network=network,
        batch=batch,
        seconds=middle,
        rows=len(times),
        lowest=min(times),
        highest=max(times),
        spread=math.expm1(median(abs(math.log(time / middle)) for time in times))
        if len(times) > 1
        else None,
    )


_RUNTIMES: Sequence[tuple[str, str]] = (
    ("aihub-npu", "Qualcomm AI Hub on the NPU: QNN, TensorFlow Lite or ONNX Runtime"),
    ("aihub", "Qualcomm AI Hub off the NPU"),
    ("armnn-gpu", "Arm NN on OpenCL (MLPerf)"),
    ("edgetpu", "Edge TPU runtime of TensorFlow Lite"),
    ("framework-gpu", "PyTorch and TensorFlow 1 on CUDA (NVIDIA's examples)"),
    ("hailort", "HailoRT, pipelined at batch 8"),
    ("mlperf", "runtimes of MLPerf submitters"),
    ("ncnn-cpu", "ncnn"),
    ("ncnn-gpu", "ncnn on Vulkan"),
    ("onnxruntime-cpu", "ONNX Runtime from Python"),
    ("onnxruntime-gpu", "ONNX Runtime on CUDA from Python"),
    ("onnxruntime-tensorrt", "ONNX Runtime on TensorRT from Python"),
    ("openvino", "OpenVINO 2024"),
    ("paddle-cpu", "Paddle Lite"),
    ("paddle-gpu", "TensorRT 8.0 in Paddle Inference"),
    ("phone", "Paddle Lite, TNN and MNN on phones"),
    ("pytorch", "PyTorch from Python"),
    ("rknn", "RKNN, one core"),
    ("sophon", "Sophon's bmrt_test"),
    ("tensorrt", "TensorRT 6 to 10 (MLPerf, NVIDIA's BERT)"),
    ("tflite-cpu", "TensorFlow Lite and Arm NN (MLPerf)"),
)

_PIPELINED = ("hailort",)
"""Starts of the names of kins whose rows are rates of a pipeline at a small batch."""


def is_pipelined(kin: str) -> bool:
    """Whether rows of a kin are rates of a pipeline, the inverse of which is no latency."""
    return kin.startswith(_PIPELINED)


def runtime_of(kin: str) -> str:
    """Return what software ran the rows of a kin."""
    return next((told for start, told in _RUNTIMES if kin.startswith(start)), kin)


_FILE = "chips.yaml"
_OF_A_CHIP = ("rows", "silicon")
"""Keys that are no unit's."""
_HALF_OF_VECTORS = "Without AVX512"
"""What a row's build says where it leaves the wide half of the vectors alone."""


@dataclass(frozen=True, slots=True)
class Chips:
    """The chips of the measurements.

    Attributes
    ----------
    called : mapping of str to str
        Name of a chip by what rows call it.
    units : mapping of (str, str) to mapping
        What the file says, by chip and unit.
    silicon : mapping of str to str
        The chip that another one is the same silicon as, at another clock or on another board.
    """

    called: Mapping[str, str]
    units: Mapping[tuple[str, str], Mapping[str, Any]]
    silicon: Mapping[str, str] = field(default_factory=dict)

    def name(self, told: str) -> str:
        """Return what the chip that rows call `told` is called."""
        return self.called.get(told, told)

    def bandwidth(self, series: Series) -> float | None:
        """Return the bytes/s of the memory of the unit that a series ran on, where it is known."""
        told = self.units.get((series.chip, series.unit), {})
        bandwidth = told.get("bandwidth_gbytes_s")
        return None if bandwidth is None else bandwidth * GIGA

    def datasheet(self, series: Series) -> Datasheet:
        """Return what is known of the unit that a series ran on."""
        told = self.units.get((series.chip, series.unit))
        if told is None:
            return Datasheet()
        if "clusters" in told:
            return of_cores(told["clusters"], series)
        bandwidth = told.get("bandwidth_gbytes_s")
        return Datasheet(
            flops_per_s=peak_of(
                {name: value * TERA for name, value in told["peak_tflops"].items()},
                series.precision,
            ),
            bytes_per_s=None if bandwidth is None else bandwidth * GIGA,
            family=told.get("family"),
        )


def read_chips(folder: Path) -> Chips:
    """Read the file of chips in the folder of the measurements."""
    told = yaml.safe_load((folder / _FILE).read_text(encoding="utf-8"))["chips"]
    called, units, silicon = {}, {}, {}
    for name, entry in told.items():
        called.update(dict.fromkeys(entry.get("rows", ()), name))
        if "silicon" in entry:
            silicon[name] = entry["silicon"]
        for unit, figures in entry.items():
            if unit not in _OF_A_CHIP:
                units[name, unit] = figures
    return Chips(called, units, silicon)


def of_cores(clusters: Iterable[Any], series: Series) -> Datasheet:
    """Return what the threads of a series have of the cores of a processor."""
    where = dict(series.where)
    return processor(
        [(count, clock_ghz, core) for count, clock_ghz, core in clusters],
        series.precision,
        int(where["threads"]) if "threads" in where else None,
        matrices=has_matrices(series.kin),
        slowest=where.get("powersave") == "1",
        vector_share=0.5 if _HALF_OF_VECTORS in where.get("build", "") else 1.0,
    )


def centre(raw: Iterable[Iterable[float]]) -> NDArray[np.float64]:
    """Return the mean of each covariate over those that know it; 0 where none does."""
    every = np.array(list(raw))
    known = ~np.isnan(every)
    total = np.where(known, every, 0.0).sum(axis=0)
    mean: NDArray[np.float64] = total / np.maximum(known.sum(axis=0), 1)
    mean[[COVARIATES.index(name) for name in FAMILIES]] = 0.0
    return mean
