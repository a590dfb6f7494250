"""Observations of a kin as arrays, chips that are one silicon, and priors of their figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from catalog.points import Point, Series, Tables, bytes_of, centre, kin_bytes
from hetsim.cost.kernels.networks import Networks, log_total, log_total_and_gradient
from hetsim.hardware.datasheet import COVARIATES, centred_covariates
from hetsim.hardware.kernel_figures import PARAMETERS
from hetsim.hardware.kin import Limits

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

_ARM = COVARIATES.index("arm")


@dataclass(frozen=True, slots=True)
class KinData:
    """A kin ready to be fitted; its points one series behind the other.

    - `first` [series + 1]: points of series s are ``points[first[s]:first[s + 1]]``.
    - `owner` [points]: the series of each point.
    - `kernels`: of each point.
    - `log_seconds` [points]
    - `weights` [points]: information of each: below 1 where a network has several batches in its
      series, 0 where it is left out.
    - `keys`: networks and batches that points have, sorted.
    - `key` [points]
    - `network` [keys]: index of each key's network among the sorted ones.
    - `covariates` [series, covariates]: logs of datasheet figures, about `middle`; 0 where unknown.
    - `middle` [covariates]
    - `silicon`: the chip, or the one that it is the same die as.
    - `places`: kernels of the keys at the bytes of `kin_bytes`.
    """

    name: str
    series: tuple[Series, ...]
    points: tuple[Point, ...]
    first: Indices
    owner: Indices
    kernels: Networks
    log_seconds: Floats
    weights: Floats
    keys: tuple[tuple[str, int], ...]
    key: Indices
    network: Indices
    covariates: Floats
    middle: Floats
    silicon: tuple[str, ...]
    limits: Limits
    places: Networks

    def slices(self) -> list[slice]:
        """Return where the points of each series are."""
        return [slice(a, b) for a, b in zip(self.first[:-1], self.first[1:], strict=True)]

    def logs(self, theta: Floats) -> Floats:
        """Log seconds of all points by the log values [series, parameters] of their series."""
        return log_total(theta, self.kernels, self.owner.astype(np.int64))

    def logs_and_slopes(self, theta: Floats) -> tuple[Floats, Floats]:
        """The same with the derivatives [points, parameters] by their series' log values."""
        return log_total_and_gradient(theta, self.kernels, self.owner.astype(np.int64))


def merged_limits(limits: Iterable[Limits]) -> Limits:
    """Return the concatenated limits of several devices."""
    every = list(limits)
    return Limits(
        np.concatenate([one.flops for one in every]),
        np.concatenate([one.nbytes for one in every]),
        np.concatenate([one.held for one in every]),
    )


def kin_data(
    name: str,
    series: Mapping[Series, Sequence[Point]],
    tables: Tables,
    covariates: Mapping[Series, Sequence[float]],
    silicon: Mapping[str, str] | None = None,
    limits: Limits | None = None,
) -> KinData:
    """Lay out a kin."""
    precision = next(iter(series)).precision
    pairs = [(point.network, point.batch) for found in series.values() for point in found]
    keys = sorted(set(pairs))
    index = {key: at for at, key in enumerate(keys)}
    networks = sorted({network for network, _ in keys})
    sizes = [len(found) for found in series.values()]
    asked, weights = [], []
    for one, found in series.items():
        batches = Counter(point.network for point in found)
        halves = covariates[one][_ARM] == 1.0
        item_bytes, weight_bytes = bytes_of(name, one.precision, halves)
        asked += [(point.network, point.batch, item_bytes, weight_bytes) for point in found]
        weights += [batches[point.network] ** -0.5 for point in found]
    raw = [covariates[one] for one in series]
    middle = centre(raw)
    points = tuple(point for found in series.values() for point in found)
    return KinData(
        name=name,
        series=tuple(series),
        points=points,
        first=np.cumsum([0, *sizes]).astype(np.intp),
        owner=np.repeat(np.arange(len(sizes)), sizes).astype(np.intp),
        kernels=tables.networks(asked),
        log_seconds=np.log([point.seconds for point in points]),
        weights=np.array(weights),
        keys=tuple(keys),
        key=np.array([index[pair] for pair in pairs], dtype=np.intp),
        network=np.array([networks.index(network) for network, _ in keys], dtype=np.intp),
        covariates=np.array([centred_covariates(middle, values) for values in raw]),
        middle=middle,
        silicon=tuple((silicon or {}).get(one.chip, one.chip) for one in series),
        limits=limits or merged_limits(Limits.of(None, None) for _ in series),
        places=tables.networks((*key, *kin_bytes(name, precision)) for key in keys),
    )


ALIKE = 0.02
"""Times that are apart by less than this, by the median over networks, are of one silicon: runs of
one board differ by as much."""
LEAST_NETWORKS = 20
"""That two must have in common: of few, some pair among thousands is alike by chance."""


def chip_groups(kin: KinData) -> NDArray[np.intp]:
    """Return a number for each series, the same for those of one chip and of its sisters."""
    names = sorted({series.chip for series in kin.series})
    chip = np.array([names.index(series.chip) for series in kin.series], dtype=np.intp)
    times = np.full((len(kin.series), len(kin.keys)), np.nan)
    times[kin.owner, kin.key] = kin.log_seconds
    group = np.arange(len(names))
    for one in range(len(times)):
        apart = np.abs(times[:one] - times[one])
        enough = (~np.isnan(apart)).sum(axis=1) >= LEAST_NETWORKS
        for other in np.flatnonzero(enough).tolist():
            if chip[other] != chip[one] and np.nanmedian(apart[other]) < ALIKE:
                first, second = sorted((int(group[chip[one]]), int(group[chip[other]])))
                group[group == second] = first
    found: NDArray[np.intp] = np.unique(group[chip], return_inverse=True)[1].astype(np.intp)
    return found


def dies(kin: KinData) -> NDArray[np.str_]:
    """Return the name of the die of each series [series], as known and as measured."""
    found = np.array(kin.silicon)
    groups = chip_groups(kin)
    for group in range(int(groups.max()) + 1):
        same = np.isin(found, found[groups == group])
        found[same] = min(found[same].tolist())
    return found


@dataclass(frozen=True, slots=True)
class Prior:
    """Means and standard deviations of logs of parameters, for one kin.

    - `mean`, `mean_sd` [parameters]: of the kin's mean.
    - `own_sd` [parameters]: of a device about it.
    - `first_sd` [parameters]: the same before any device was seen: wide where devices differ by
      orders.
    - `slopes` [covariates, parameters]: what a covariate adds by what the parameters are.
    - `pace_sd` [covariates]: standard deviation of what it adds to the logs of all seconds beyond
      that.
    """

    mean: Floats
    mean_sd: Floats
    own_sd: Floats
    first_sd: Floats
    slopes: Floats
    pace_sd: Floats


@dataclass(frozen=True, slots=True)
class _Belief:
    """Of one parameter: its usual value (SI), the sd of its log in a kin and of a device."""

    value: float
    kin_sd: float
    own_sd: float


_FIXED = 1e-3
"""Deviation of what a kin does not have: its value stays."""

_BELIEFS: Mapping[str, _Belief] = {
    "rate_tflops": _Belief(5e10, 1.5, 1.5),
    "pointwise": _Belief(1.0, 0.4, 0.25),
    "depthwise": _Belief(0.22, 0.8, 0.4),
    "grouped": _Belief(0.5, 0.7, 0.3),
    "matmul": _Belief(0.74, 0.4, 0.3),
    "batched": _Belief(0.5, 0.7, 0.3),
    "winograd": _Belief(1.22, 0.35, 0.25),
    "fill_columns": _Belief(4.0, 1.2, 0.5),
    "fill_depth": _Belief(16.0, 1.2, 0.5),
    "fill_rows": _Belief(2.0, 1.2, 0.5),
    "fill_outputs": _Belief(300.0, 1.2, 0.8),
    "channel_granule": _Belief(2.0, 1.0, 0.4),
    "tile_compute": _Belief(1.0, _FIXED, _FIXED),
    "tile_traffic": _Belief(1.0, _FIXED, _FIXED),
    "bandwidth_gbytes_s": _Belief(1.5e10, 1.2, 1.5),
    "movement": _Belief(1.35, 0.6, 0.3),
    "concat": _Belief(1.0, _FIXED, _FIXED),
    "normalization": _Belief(2.0, 0.7, 0.35),
    "softmax": _Belief(2.0, 0.7, 0.35),
    "transpose": _Belief(1.65, 0.7, 0.35),
    "pooling": _Belief(1.35, 0.6, 0.3),
    "elementwise": _Belief(1.0, 0.5, 0.3),
    "resize": _Belief(2.7, 0.7, 0.3),
    "exponential": _Belief(1.0, 1.0, 0.4),
    "cache_mib": _Belief(2e6, 1.5, 0.5),
    "beyond_cache": _Belief(0.5, 0.5, 0.3),
    # Tight: with a loose one the fit hides traffic of weights elsewhere.
    "weights_gbytes_s": _Belief(8e9, 0.6, 1.5),
    "weights_on_chip_mib": _Belief(1e6, 0.8, 0.3),
    "overlap": _Belief(1.5, 0.3, 0.15),
    "launch_us": _Belief(5e-6, 1.2, 0.8),
    "launch_other": _Belief(0.5, 0.8, 0.3),
    "dispatch_us": _Belief(5e-5, 2.0, 0.8),
    "io_gbytes_s": _Belief(3e9, 2.0, 0.8),
}

_DATASHEETS = ("rate_tflops", "bandwidth_gbytes_s", "weights_gbytes_s")
"""What datasheets say, but those of a processor's threads and of Hailo, which has no memory."""
_NEAR_DATASHEET = 0.6
"""Deviation of these from the datasheet at the kin's mean: 0.33 to 0.64 in kins of 25 devices and
more (ncnn on Vulkan, Hexagon)."""

_ROWS_OF_GPUS = 0.2
"""Rows at which products reach half of their rate: 0.06 to 0.37 by the formula fitted to products
in bfloat16 on seven of NVIDIA's GPUs, 315 shapes each, of the tables of ai-dynamo/aiconfigurator
(Apache-2.0)."""

_KINS: Sequence[tuple[str, Mapping[str, float]]] = (
    # Tiles tell what granules and columns would: those begin where they do nothing.
    ("aihub-npu", {"rate_tflops": 2e13, "bandwidth_gbytes_s": 6e10, "weights_gbytes_s": 4e10,
                   "launch_us": 1e-6, "fill_outputs": 3e3, "channel_granule": 1,
                   "fill_columns": 1, "overlap": 2, "matmul": 1}),
    ("aihub-cpu", {"rate_tflops": 5e10}),
    ("hailort", {"matmul": 1,
                  "rate_tflops": 1e13, "bandwidth_gbytes_s": 6e10, "weights_gbytes_s": 4e9,
                 "launch_us": 2e-6, "fill_outputs": 3e3, "channel_granule": 4}),
    ("edgetpu", {"rate_tflops": 2e12, "bandwidth_gbytes_s": 5e9, "weights_gbytes_s": 3.5e8,
                 "launch_us": 1e-6, "fill_outputs": 1e3, "channel_granule": 4,
                 "weights_on_chip_mib": 7.6e6, "io_gbytes_s": 3e8, "matmul": 1}),
    ("rknn", {"matmul": 1,
                  "rate_tflops": 1e12, "bandwidth_gbytes_s": 5e9, "weights_gbytes_s": 5e9,
              "launch_us": 1e-5, "fill_outputs": 1e3, "channel_granule": 8}),
    ("sophon", {"matmul": 1,
                  "rate_tflops": 1e13, "bandwidth_gbytes_s": 5e10, "weights_gbytes_s": 5e10,
                "launch_us": 2e-6, "fill_outputs": 1e4}),
    # Attention is one kernel, whose scores stay on the chip, and a sum joins its layer norm.
    ("tensorrt", {"matmul": 1, "softmax": 0.2, "transpose": 0.2, "normalization": 1,
                  "rate_tflops": 1e14, "bandwidth_gbytes_s": 5e11, "weights_gbytes_s": 5e11,
                  "launch_us": 2e-6, "fill_outputs": 2e5, "dispatch_us": 3e-5}),
    ("paddle-gpu", {"rate_tflops": 1e13, "bandwidth_gbytes_s": 2e11, "weights_gbytes_s": 2e11,
                    "fill_rows": _ROWS_OF_GPUS, "fill_outputs": 1e5}),
    ("framework-gpu", {"matmul": 1,
                  "rate_tflops": 3e13, "bandwidth_gbytes_s": 5e11, "weights_gbytes_s": 5e11,
                       "launch_us": 2e-5, "fill_outputs": 1e5}),
    ("pytorch-gpu", {"rate_tflops": 3e12, "bandwidth_gbytes_s": 1e11, "weights_gbytes_s": 1e11,
                     "launch_us": 2e-5, "fill_outputs": 3e4}),
    ("onnxruntime-gpu", {"rate_tflops": 3e12, "bandwidth_gbytes_s": 1e11,
                         "weights_gbytes_s": 1e11, "launch_us": 1e-5, "fill_outputs": 3e4}),
    ("onnxruntime-tensorrt", {"rate_tflops": 3e12, "bandwidth_gbytes_s": 5e10,
                              "weights_gbytes_s": 5e10, "fill_rows": _ROWS_OF_GPUS,
                              "fill_outputs": 3e4}),
    ("mlperf-gpu", {"rate_tflops": 1e13, "bandwidth_gbytes_s": 1e11, "weights_gbytes_s": 1e11,
                    "fill_outputs": 1e5}),
    ("mlperf-npu", {"rate_tflops": 1e14, "bandwidth_gbytes_s": 2e11, "weights_gbytes_s": 1e11,
                    "fill_outputs": 1e4}),
    ("mlperf-cpu", {"rate_tflops": 2e12, "bandwidth_gbytes_s": 1e11, "weights_gbytes_s": 1e11}),
    ("openvino-gpu", {"rate_tflops": 5e12, "bandwidth_gbytes_s": 5e10, "weights_gbytes_s": 5e10,
                      "fill_outputs": 2e4}),
    ("openvino-npu", {"rate_tflops": 2e12, "bandwidth_gbytes_s": 3e10, "weights_gbytes_s": 3e10,
                      "fill_outputs": 1e4}),
    ("openvino-cpu", {"rate_tflops": 2e12, "bandwidth_gbytes_s": 1e11, "weights_gbytes_s": 1e11,
                      "launch_us": 3e-6, "weights_on_chip_mib": 2e6}),
    ("ncnn-cpu", {"weights_gbytes_s": 4.8e9}),
    ("ncnn-gpu", {"rate_tflops": 5e11, "bandwidth_gbytes_s": 2e10, "weights_gbytes_s": 9e9,
                  "launch_us": 3e-5, "fill_outputs": 1e4, "weights_on_chip_mib": 1e5}),
    ("armnn-gpu", {"rate_tflops": 1e11, "bandwidth_gbytes_s": 5e9, "weights_gbytes_s": 5e9,
                   "launch_us": 5e-5, "fill_outputs": 3e3, "weights_on_chip_mib": 1e5}),
    ("phone-gpu", {"rate_tflops": 1e11, "bandwidth_gbytes_s": 8e9, "weights_gbytes_s": 8e9,
                   "launch_us": 5e-5, "fill_outputs": 3e3, "weights_on_chip_mib": 1e5}),
    ("tflite-cpu", {"rate_tflops": 2e10, "bandwidth_gbytes_s": 6e9, "weights_gbytes_s": 4e9}),
    ("phone-cpu", {"rate_tflops": 2e10, "bandwidth_gbytes_s": 8e9, "weights_gbytes_s": 6e9}),
)  # fmt: skip
"""Where kins lie by order of magnitude, by the start of their name; the first that fits holds."""

_LARGE_CACHE = _Belief(1e7, 1.5, 1.0)
"""Of servers and their cards: 4 to 100 MB, which is why near memory may outrun memory there."""
_CACHES_OF_STREAMS = _Belief(3e8, 1.5, 1.0)
"""Of runtimes that do a large batch as streams of one sample, each within its own core's caches."""
_NO_COPY = _Belief(0.135, 0.7, 0.3)

_HAVE: Sequence[tuple[str, Mapping[str, _Belief]]] = (
    ("aihub-npu", {"concat": _NO_COPY, "tile_compute": _Belief(1.62, 0.28, 0.21),
                   "tile_traffic": _Belief(1.62, 0.28, 0.21)}),
    ("openvino-cpu", {"concat": _NO_COPY, "cache_mib": _CACHES_OF_STREAMS}),
    ("openvino", {"concat": _NO_COPY, "cache_mib": _LARGE_CACHE}),
    ("tensorrt", {"cache_mib": _LARGE_CACHE}),
    ("mlperf-cpu", {"cache_mib": _LARGE_CACHE}),
    ("edgetpu", {"weights_on_chip_mib": _Belief(7.6e6, 0.08, 0.08)}),
)  # fmt: skip
"""What some kin have and others have not, or what is known of them well."""

_FLOATS_WITHIN_INT8 = ("normalization", "softmax", "exponential")
"""What OpenVINO leaves in floats in a quantized network: four bytes an element, not one."""
_FLOAT_TRAFFIC = 3.0

_ACCELERATORS = ("aihub-npu", "hailort", "rknn", "sophon", "tensorrt", "paddle-gpu",
                 "framework-gpu", "pytorch-gpu", "onnxruntime-gpu", "onnxruntime-tensorrt",
                 "mlperf-gpu", "mlperf-npu", "openvino-gpu", "openvino-npu")  # fmt: skip
_ON_CHIP_OF_ACCELERATORS = 1e5

_FIRST = {"rate_tflops": 1.4, "bandwidth_gbytes_s": 1.4, "weights_gbytes_s": 1.0}

_SLOPES: Mapping[str, Mapping[str, float]] = {
    "peak": {"rate_tflops": 1.0, "fill_outputs": 0.7},
    "bandwidth": {"bandwidth_gbytes_s": 1.0, "weights_gbytes_s": 1.0},
}
_CPU_SLOPES: Mapping[str, Mapping[str, float]] = {
    # The peak is of all threads: what a thread has, and how many there are, count unlike.
    "peak": {"rate_tflops": 1.0, "bandwidth_gbytes_s": 0.8, "weights_gbytes_s": 0.4,
             "launch_us": -0.6, "dispatch_us": -0.6},
    "threads": {"rate_tflops": -0.25, "bandwidth_gbytes_s": -0.2, "weights_gbytes_s": -0.1,
                "fill_outputs": 0.8, "launch_us": 0.9, "dispatch_us": 0.6},
}  # fmt: skip
_VULKAN_SLOPES: Mapping[str, Mapping[str, float]] = {
    "peak": {"rate_tflops": 1.0, "bandwidth_gbytes_s": 0.8, "weights_gbytes_s": 0.7,
             "fill_outputs": 0.7, "launch_us": -0.3, "dispatch_us": -0.2},
}  # fmt: skip
_HEXAGON_SLOPES: Mapping[str, Mapping[str, float]] = {
    # Peaks of makers' pages, which count what a kernel never sees.
    "peak": {"rate_tflops": 0.5},
    "bandwidth": {"bandwidth_gbytes_s": 0.5, "weights_gbytes_s": 0.5},
}
_HAILO_SLOPES: Mapping[str, Mapping[str, float]] = {
    # Weights stay on the chip or come over the host's link: no memory of its own tells them apart.
    "peak": {"rate_tflops": 1.0, "fill_outputs": 0.7},
}
_PACE_SD = {"peak": 0.08, "bandwidth": 0.08, "threads": 0.25, "beyond_8_threads": 0.25}
"""Peaks and bandwidths of datasheets act by the rates that they are."""
_GENERATIONS_SD = 0.25
"""Of peaks of makers' pages, which tell generations of one unit apart: the clock of all it does."""
_FAMILY_SD = 0.5
"""Of families, and of cores that issue in order."""


def prior_of(kin: str) -> Prior:
    """Return what is known of the kin called `kin` before its rows."""
    own = next((given for start, given in _HAVE if kin.startswith(start)), {})
    beliefs = {**_BELIEFS, **own}
    values = {name: belief.value for name, belief in beliefs.items()}
    if kin.startswith(_ACCELERATORS):
        values["weights_on_chip_mib"] = _ON_CHIP_OF_ACCELERATORS
    values.update(next((given for start, given in _KINS if kin.startswith(start)), {}))
    if kin.startswith("openvino") and kin.endswith("int8"):
        for name in _FLOATS_WITHIN_INT8:
            values[name] *= _FLOAT_TRAFFIC
    names = [parameter.name for parameter in PARAMETERS]
    slopes = _slopes_of(kin)
    generations = {"peak": _GENERATIONS_SD, "bandwidth": _GENERATIONS_SD}
    pace_sd = {**_PACE_SD, **(generations if kin.startswith("aihub-npu") else {})}
    fixed = ("bandwidth",) if kin.startswith("hailort") else ()
    own_sd = np.array([beliefs[name].own_sd for name in names])
    if "-cpu-" not in kin and not kin.startswith("hailort"):
        own_sd[np.isin(names, _DATASHEETS)] = _NEAR_DATASHEET
    return Prior(
        mean=np.log([values[name] for name in names]),
        mean_sd=np.array([beliefs[name].kin_sd for name in names]),
        own_sd=own_sd,
        first_sd=np.maximum(own_sd, [_FIRST.get(name, 0.0) for name in names]),
        slopes=np.array([[slopes.get(c, {}).get(name, 0.0) for name in names] for c in COVARIATES]),
        pace_sd=np.array(
            [_FIXED if c in fixed else pace_sd.get(c, _FAMILY_SD) for c in COVARIATES]
        ),
    )


def _slopes_of(kin: str) -> Mapping[str, Mapping[str, float]]:
    if "-cpu-" in kin:
        return _CPU_SLOPES
    if kin.startswith(("ncnn-gpu", "armnn-gpu", "phone-gpu")):
        return _VULKAN_SLOPES
    if kin.startswith("hailort"):
        return _HAILO_SLOPES
    return _HEXAGON_SLOPES if kin.startswith("aihub") else _SLOPES
