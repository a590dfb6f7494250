"""Comparable points of measured rows, and the graphs and kernel tables that they are of."""

from __future__ import annotations

import hashlib
import io
import json
import math
import tarfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml
from numpy.typing import NDArray

from catalog.measured import ITEM_BYTES, WEIGHT_BYTES, LeftOut, sample_of
from hetsim.core.units import GIGA, TERA
from hetsim.cost.kernels.networks import KernelTable, Networks, network_table
from hetsim.errors import ModelError, UsageError, nearest
from hetsim.hardware.datasheet import (
    COVARIATES,
    FAMILIES,
    Datasheet,
    has_matrices,
    peak_of,
    processor,
)

if TYPE_CHECKING:
    from hetsim.graph.model import Model


_ARCHIVE = "graphs.tar.gz"
_INDEX = "INDEX.json"


@dataclass(frozen=True, slots=True)
class GraphEntry:
    """What the archive's index says of a graph.

    - `file`: its name, as rows say it: ``resnet50.onnx``.
    - `macs`: multiply-accumulates of one sample.
    - `params`: weights.
    - `sha256`: of the file's bytes: it changes where the network does.
    - `package`, `version`, `function`, `licence`: what it was made from, and under which licence
      that stands.
    """

    file: str
    macs: int
    params: int
    sha256: str
    package: str
    version: str
    function: str
    licence: str


@dataclass(frozen=True, slots=True)
class Graphs:
    """The networks' graphs, at batch 1 and without weights, by file name.

    - `entries`: by file name, sorted.
    """

    entries: Mapping[str, GraphEntry]
    _contents: Mapping[str, bytes]

    def content(self, file: str) -> bytes:
        """Return the bytes of the ONNX file called `file`.

        Raises UsageError where the archive has none of that name, with the nearest one.
        """
        if file not in self.entries:
            raise UsageError(
                f"there is no graph '{file}' of a measured network",
                hint=nearest(file, self.entries),
            )
        return self._contents[file]

    def load(self, file: str) -> Model:
        """Return the network of the file called `file`, loaded as any other is.

        Raises UsageError as for ``content``.
        """
        import onnx

        from hetsim.graph.loading import model_of

        proto = onnx.load_model_from_string(self.content(file))
        return model_of(proto, name=Path(file).stem)


def read_graphs(folder: Path) -> Graphs:
    """Read the archive in the folder of the measurements.

    Raises ModelError where a graph is missing or is not the one that the index names.
    """
    path = folder / _ARCHIVE
    with tarfile.open(fileobj=io.BytesIO(path.read_bytes()), mode="r:gz") as archive:
        contents = {
            member.name: held.read()
            for member in archive
            if (held := archive.extractfile(member)) is not None
        }
    entries: dict[str, GraphEntry] = {}
    for told in json.loads(contents[_INDEX])["graphs"]:
        entry = GraphEntry(
            file=told["file"],
            macs=told["macs"],
            params=told["params"],
            sha256=told["sha256"],
            **{key: told["source"][key] for key in ("package", "version", "function", "licence")},
        )
        content = contents.get(entry.file, b"")
        if hashlib.sha256(content).hexdigest() != entry.sha256:
            raise ModelError(
                f"'{entry.file}' is not the graph that {_INDEX} names",
                where=str(path),
                hint="take the archive as it was released",
            )
        entries[entry.file] = entry
    return Graphs(dict(sorted(entries.items())), contents)


@dataclass(frozen=True, slots=True)
class Tables:
    """Kernel tables by graph; each is made when it is first asked for, in about 0.1 s."""

    graphs: Graphs
    _made: dict[str, KernelTable] = field(default_factory=dict)

    def table(self, file: str) -> KernelTable:
        """Return the kernels of the network of the file called `file`."""
        if file not in self._made:
            self._made[file] = network_table(self.graphs.load(file).graph)
        return self._made[file]

    def networks(self, points: Iterable[tuple[str, int, int, int]]) -> Networks:
        """Lay points end to end: each a file, a batch, bytes of an activation and of a weight."""
        return Networks.of(
            self.table(file).laid(batch, item_bytes, weight_bytes)
            for file, batch, item_bytes, weight_bytes in points
        )


def bytes_of(kin: str, precision: str, halves: bool = False) -> tuple[int, int]:
    """Return the bytes of an activation and of a weight in a kin's precision."""
    if precision == "float" and (halves or "-gpu-" in kin):
        return 2, 2
    return ITEM_BYTES[precision], WEIGHT_BYTES[precision]


def kin_bytes(kin: str, precision: str) -> tuple[int, int]:
    """Return the same for what its networks are told apart by, on all devices alike."""
    return bytes_of(kin, precision, halves=True)


@dataclass(frozen=True, slots=True, order=True)
class Series:
    """Runs of one chip's unit by one runtime in one precision and setting.

    - `kin`: the runtime and precision that it shares with others: ``tensorrt-int8``.
    - `where`: what else tells it from the chip's others, by name, sorted.
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

    - `network`: file name of the graph.
    - `seconds`: median of the rows, for the whole batch.
    - `lowest`, `highest`: of the rows, in seconds.
    - `spread`: median of how far the rows are from `seconds`, as a share of it; None of a single
      row.
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

    - `series`: sorted, the points by network and batch.
    - `left_out`: rows by the reason why they are compared with nothing, the most frequent first.
    - `by_source`: by series and source, log seconds by network and batch: medians of its rows.
    """

    series: Mapping[Series, tuple[Point, ...]]
    left_out: Mapping[str, int]
    by_source: Mapping[Series, Mapping[str, Mapping[tuple[str, int], float]]]

    def kin(self, name: str) -> dict[Series, tuple[Point, ...]]:
        """Return the series of the kin called `name`."""
        return {series: points for series, points in self.series.items() if series.kin == name}


def points_of(rows: Iterable[Mapping[str, Any]], chips: Mapping[str, str] | None = None) -> Points:
    """Join comparable rows to points.

    - `rows`: of the measurements' file.
    - `chips`: what a chip is called, by what rows call it; a name that is absent stands for itself.
    """
    called = chips or {}
    seconds: defaultdict[tuple[Series, str, int], list[float]] = defaultdict(list)
    by_source: dict[Series, dict[str, dict[tuple[str, int], list[float]]]] = {}
    left_out: Counter[str] = Counter()
    for row in rows:
        sample = sample_of(row)
        if isinstance(sample, LeftOut):
            left_out[sample.reason] += 1
            continue
        chip = called.get(sample.chip, sample.chip)
        series = Series(sample.kin, chip, sample.unit, sample.precision, sample.where)
        seconds[series, sample.network, sample.batch].append(sample.seconds)
        of_source = by_source.setdefault(series, {}).setdefault(sample.source, {})
        of_source.setdefault((sample.network, sample.batch), []).append(math.log(sample.seconds))
    found: defaultdict[Series, list[Point]] = defaultdict(list)
    for (series, network, batch), times in sorted(seconds.items()):
        found[series].append(_point(network, batch, times))
    return Points(
        {series: tuple(points) for series, points in sorted(found.items())},
        dict(sorted(left_out.items(), key=lambda entry: (-entry[1], entry[0]))),
        {
            series: {
                source: {key: median(logs) for key, logs in sorted(times.items())}
                for source, times in sorted(sources.items())
            }
            for series, sources in sorted(by_source.items())
        },
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

    - `called`: name of a chip by what rows call it.
    - `units`: what the file says, by chip and unit.
    - `silicon`: the chip that another one is the same silicon as, at another clock or on another
      board.
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
