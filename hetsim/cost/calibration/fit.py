"""Fit of a device's figures to measured runs: points, prior, fit, errors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from hetsim.cost.calibration.measurements import NetworkRun
from hetsim.cost.kernels.formula import COLUMN, factors, row_of, streamed_share
from hetsim.cost.kernels.fusion import Uses, epilogues, joined_kernel
from hetsim.cost.kernels.layouts import COPIES, copies_of, copy_work
from hetsim.cost.kernels.networks import Networks, kernels_seconds, log_total_and_gradient
from hetsim.cost.profiles.formats import TimedKernel
from hetsim.cost.profiles.matching import match
from hetsim.cost.profiles.names import Names
from hetsim.graph.graph import Graph
from hetsim.graph.model import Model
from hetsim.graph.work import graph_work
from hetsim.hardware.kernel_figures import HALF_WIDTH, INDEX, PARAMETERS, Correction, FigureError

_WORK = [COLUMN[name] for name in ("flops", "read_bytes", "write_bytes", "weight_bytes")]


@dataclass(frozen=True, slots=True)
class KernelPoint:
    """Kernels measured together, usually one: float array [kernels, FEATURES].

    `launches` is the number of runtime kernels behind it.
    """

    rows: NDArray[np.float64]
    seconds: float
    launches: int


@dataclass(frozen=True, slots=True)
class NetworkPoint:
    """Network as kernels, float array [kernels, FEATURES], with the seconds of a run.

    `launches` runtime kernels took `timed_s` in total; 0 if none were timed. `points` are the
    individual kernels, if the runtime reports their times.
    """

    name: str
    rows: NDArray[np.float64]
    weight_bytes: float
    io_bytes: float
    seconds: float
    spread: float
    launches: int
    timed_s: float
    points: tuple[KernelPoint, ...]


def lowered(
    graph: Graph, joins: Mapping[str, frozenset[str]] | None = None
) -> tuple[tuple[tuple[int, ...], ...], NDArray[np.float64]]:
    """Return the kernels of a float graph as priced on devices with figures, without views."""
    works, uses = graph_work(graph), Uses.of(graph)
    sets = epilogues(graph, works, [True] * len(graph.nodes), joins=joins)
    joined = {v for members in sets for v in members}
    alone = [(node.id,) for node in graph.nodes if node.id not in joined]
    kernels = sorted((*sets, *alone))
    rows = [
        row_of(joined_kernel(uses, members).works, lambda work: 1.0, 1.0) for members in kernels
    ]
    kept = [index for index, row in enumerate(rows) if row[_WORK].any()]
    return (
        tuple(kernels[index] for index in kept),
        np.array([rows[index] for index in kept]).reshape(len(kept), -1),
    )


def network_of(
    model: Model,
    taken: NetworkRun,
    joins: Mapping[str, frozenset[str]] | None = None,
    block: int | None = None,
) -> NetworkPoint:
    """Return the kernels of a network with its measured time."""
    graph = model.graph
    kernels, rows = lowered(graph, joins)
    points: tuple[KernelPoint, ...] = ()
    if taken.kernels:
        points = _points(model, kernels, rows, taken, block)
    if block is not None:
        copies = [copy_row(one.elements, block) for one in copies_of(graph, block)]
        rows = np.array([*rows, *copies]).reshape(len(rows) + len(copies), -1)
    return NetworkPoint(
        name=taken.network,
        rows=rows,
        weight_bytes=float(rows[:, COLUMN["weight_bytes"]].sum()),
        io_bytes=float(sum(graph.tensors[name].nbytes for name in (*graph.inputs, *graph.outputs))),
        seconds=taken.seconds,
        spread=taken.spread,
        launches=len(taken.kernels),
        timed_s=sum(kernel.seconds for kernel in taken.kernels),
        points=points,
    )


def copy_row(elements: int, block: int) -> NDArray[np.float64]:
    """Return the row of a copy between orders of channels: float64 [FEATURES]."""
    return row_of((copy_work(elements, block),), lambda work: 1.0, 1.0)


def matched_nodes(
    model: Model, taken: NetworkRun
) -> tuple[list[TimedKernel], list[tuple[int, ...]]]:
    """Return the kernels that the runtime ran, and the graph nodes of each."""
    graph = model.graph
    timed = [
        TimedKernel(k.name, k.seconds, k.seconds, k.seconds, op=k.op, elements=k.elements)
        for k in taken.kernels
    ]
    classes = [work.op_class for work in graph_work(graph)]
    found = match(graph, classes, Names.of(model), timed, [True] * len(timed), ordered=True)
    return timed, found.nodes


def _points(
    model: Model,
    kernels: Sequence[Sequence[int]],
    rows: NDArray[np.float64],
    taken: NetworkRun,
    block: int | None,
) -> tuple[KernelPoint, ...]:
    """Return points that match predicted and measured kernels, merged if they share nodes."""
    copies: list[KernelPoint] = []
    if block is not None:
        copies += [
            KernelPoint(copy_row(one.elements, block)[None], one.seconds, 1)
            for one in taken.kernels
            if one.op in COPIES and one.elements
        ]
        others = tuple(one for one in taken.kernels if one.op not in COPIES)
        taken = replace(taken, kernels=others)
    timed, nodes = matched_nodes(model, taken)
    owner = {v: index for index, members in enumerate(kernels) for v in members}
    group = list(range(len(kernels)))

    def leader(index: int) -> int:
        while group[index] != index:
            group[index] = group[group[index]]
            index = group[index]
        return index

    owners = [sorted({owner[v] for v in each if v in owner}) for each in nodes]
    for each in owners:
        for other in each[1:]:
            a, b = sorted((leader(each[0]), leader(other)))
            group[b] = a
    seconds: dict[int, float] = {}
    launches: dict[int, int] = {}
    for each, kernel in zip(owners, timed, strict=True):
        if each:
            first = leader(each[0])
            seconds[first] = seconds.get(first, 0.0) + kernel.seconds
            launches[first] = launches.get(first, 0) + 1
    members: dict[int, list[int]] = {}
    for index in range(len(kernels)):
        members.setdefault(leader(index), []).append(index)
    found = [
        KernelPoint(rows[indices], seconds[first], launches[first])
        for first, indices in members.items()
        if first in seconds
    ]
    return (*found, *copies)


_FORM_OFF, _WHOLE_OFF = 0.10, 0.05
"""Errors of the formula for kernels and for networks, as deviations of the logarithm."""

_CLOCK_S = 0.7e-6
"""Uncertainty of one kernel's time in a profile of whole microseconds."""

_EVALUATIONS = 60
_NO_DISPATCH = np.log(1e-15)
_LONG_S = 1.5e-3
_APART = 0.1
_DISTURBED = (0.3, 1.15)
"""Range of factors on long kernels that make a network's kernels add up to its time."""

_FAR = 2.0
"""Number of deviations from which a residual's loss grows linearly."""


@dataclass(frozen=True, slots=True)
class Overheads:
    """Profiler overhead per kernel, and time of a run outside its kernels."""

    profiler_s: float
    dispatch_s: float


@dataclass(frozen=True, slots=True)
class Fit:
    """Fitted parameters: logarithms in SI units, float array [PARAMETERS]."""

    log_values: NDArray[np.float64]
    overheads: Overheads


def overheads(networks: Sequence[NetworkPoint]) -> Overheads:
    """Return the time of runs outside their kernels, and the profiler overhead per kernel."""
    timed = [one for one in networks if one.launches]
    if len(timed) < 3:
        return Overheads(0.0, 0.0)
    launches = np.array([one.launches for one in timed], dtype=np.float64)
    apart = np.array([one.seconds - one.timed_s for one in timed])
    scale = np.array([0.02 * one.seconds for one in timed]) + 2e-6

    def off(micro: NDArray[np.float64]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = (micro[0] * 1e-6 - micro[1] * 1e-6 * launches - apart) / scale
        return found

    solved = least_squares(
        off, (5.0, 1.0), loss="cauchy", bounds=((0.0, 0.0), (200.0, 5.0)), max_nfev=100
    )
    return Overheads(float(solved.x[1]) * 1e-6, float(solved.x[0]) * 1e-6)


def undisturbed(network: NetworkPoint, found: Overheads) -> list[tuple[KernelPoint, float]]:
    """Return the points of a network, with times while the process was running."""
    alone = [point.seconds - found.profiler_s * point.launches for point in network.points]
    of_kernels = network.timed_s - found.profiler_s * network.launches
    long_s = sum(seconds for seconds in alone if seconds > _LONG_S)
    factor = 1.0
    missed_s = of_kernels - (network.seconds - found.dispatch_s)
    if abs(missed_s) > _APART * network.seconds:
        if long_s < abs(missed_s):
            return []
        factor = 1.0 - missed_s / long_s
    if not _DISTURBED[0] < factor < _DISTURBED[1]:
        return []
    return [
        (point, seconds * (factor if seconds > _LONG_S else 1.0))
        for point, seconds in zip(network.points, alone, strict=True)
        if seconds > _CLOCK_S
    ]


def fit(
    networks: Sequence[NetworkPoint], mean: NDArray[np.float64], deviation: NDArray[np.float64]
) -> Fit:
    """Fit the parameters to kernels with known times, and to whole networks."""
    found = overheads(networks)
    tables = []
    seconds: list[float] = []
    off: list[float] = []
    which: list[int] = []
    for network in networks:
        tables.append(
            (network.rows, np.ones(len(network.rows)), network.weight_bytes, network.io_bytes)
        )
        seconds.append(network.seconds)
        off.append(float(np.hypot(_WHOLE_OFF, network.spread)))
        which.append(0)
        for point, alone_s in undisturbed(network, found):
            tables.append((point.rows, np.ones(len(point.rows)), network.weight_bytes, 0.0))
            seconds.append(alone_s)
            off.append(float(np.hypot(_FORM_OFF, _CLOCK_S / alone_s)))
            which.append(1)
    laid = Networks.of(tables)
    target, scale = np.log(seconds), np.array(off)
    kinds = np.array(which, dtype=np.int64)
    alone = INDEX["dispatch_us"]

    def at(z: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        own = mean + deviation * z
        kernel = own.copy()
        kernel[alone] = _NO_DISPATCH
        logs, slopes = log_total_and_gradient(np.stack([own, kernel]), laid, kinds)
        slopes[kinds == 1, alone] = 0.0
        return logs, slopes

    def residuals(z: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.concatenate([(at(z)[0] - target) / scale, z])

    def jacobian(z: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.concatenate([at(z)[1] * deviation / scale[:, None], np.eye(len(PARAMETERS))])

    solved = least_squares(
        residuals,
        np.zeros(len(PARAMETERS)),
        jac=jacobian,
        loss="soft_l1",
        f_scale=_FAR,
        max_nfev=_EVALUATIONS,
    )
    return Fit(mean + deviation * solved.x, found)


_COMMON: Mapping[str, tuple[float, float]] = {
    "rate_tflops": (0.1, 1.5),
    "pointwise": (1.0, 0.4),
    "depthwise": (0.3, 0.8),
    "grouped": (0.5, 0.7),
    "matmul": (1.0, 0.5),
    "batched": (0.7, 0.7),
    "winograd": (1.0, 0.25),
    "fill_columns": (4.0, 1.2),
    "fill_depth": (8.0, 1.2),
    "fill_rows": (2.0, 1.2),
    "fill_outputs": (200.0, 1.2),
    "channel_granule": (1.0, 1.0),
    "bandwidth_gbytes_s": (30.0, 0.7),
    "movement": (1.3, 0.7),
    "concat": (1.0, 0.5),
    "normalization": (2.0, 0.5),
    "softmax": (2.0, 0.8),
    "transpose": (1.6, 0.8),
    "pooling": (1.3, 0.8),
    "elementwise": (1.0, 0.6),
    "resize": (4.0, 1.0),
    "exponential": (2.0, 0.7),
    "cache_mib": (4.0, 1.2),
    "beyond_cache": (0.5, 0.5),
    "weights_gbytes_s": (20.0, 0.7),
    "weights_on_chip_mib": (4.0, 1.2),
    "overlap": (1.8, 0.4),
    "launch_us": (2.0, 1.0),
    "launch_other": (0.8, 0.8),
    "dispatch_us": (8.0, 1.0),
    "io_gbytes_s": (20.0, 1.0),
}
"""Median and deviation of the logarithm of each parameter, in the units of the YAML keys."""

_LEFT_OUT = 0.01

_ACCELERATOR: Mapping[str, tuple[float, float]] = {
    "rate_tflops": (5.0, 2.5),
    "fill_outputs": (20000.0, 2.0),
    "bandwidth_gbytes_s": (200.0, 2.0),
    "weights_gbytes_s": (200.0, 2.0),
    "launch_us": (4.0, 1.5),
    "dispatch_us": (40.0, 1.5),
    "io_gbytes_s": (6.0, 1.5),
}


def prior(provider: str, threads: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the medians and deviations of the logarithms of all parameters, in SI units."""
    given = dict(_COMMON)
    if provider not in ("cpu", "xnnpack"):
        given |= _ACCELERATOR
    mean, deviation = np.zeros(len(PARAMETERS)), np.zeros(len(PARAMETERS))
    for one in PARAMETERS:
        # Parameters that processors lack keep their neutral values.
        middle, off = given.get(one.name, (one.neutral or 1.0, _LEFT_OUT))
        mean[INDEX[one.name]] = math.log(one.si(middle))
        deviation[INDEX[one.name]] = off
    if provider in ("cpu", "xnnpack"):
        mean[INDEX["rate_tflops"]] += math.log(threads)
    return mean, deviation


_COVERED = 0.8
_FEWEST = 2


@dataclass(frozen=True, slots=True)
class JudgedNetwork:
    """Network that the fit did not use; `spread` is relative, `part`: it is a part of a cut."""

    name: str
    measured_s: float
    predicted_s: float
    spread: float
    part: bool

    @property
    def error(self) -> float:
        """Ratio of prediction to measurement, minus 1."""
        return self.predicted_s / self.measured_s - 1.0


def predicted_s(network: NetworkPoint, fitted: Fit, corrections: Sequence[Correction]) -> float:
    """Return the predicted time of a network: kernels, dispatch, inputs and outputs."""
    values = np.exp(fitted.log_values)
    streamed = streamed_share(values[INDEX["weights_on_chip_mib"]], network.weight_bytes)
    kernels = kernels_seconds(values, network.rows, streamed)
    kernels = kernels * factors(corrections, network.rows, network.weight_bytes)
    moved = network.io_bytes / values[INDEX["io_gbytes_s"]]
    return float(kernels.sum() + values[INDEX["dispatch_us"]] + moved)


def judge(
    networks: Sequence[NetworkPoint], fitted: Fit, corrections: Sequence[Correction]
) -> tuple[JudgedNetwork, ...]:
    """Return prediction and measurement of each network, in their order."""
    return tuple(
        JudgedNetwork(
            network.name,
            network.seconds,
            predicted_s(network, fitted, corrections),
            network.spread,
            "/" in network.name,
        )
        for network in networks
    )


def median_and_p90(judged: Sequence[JudgedNetwork]) -> tuple[float, float] | None:
    """Return the median and the P90 of the relative errors; None for no errors."""
    if not judged:
        return None
    errors = np.abs([one.error for one in judged])
    return float(np.median(errors)), float(np.quantile(errors, 0.9))


def figure_errors(judged: Sequence[JudgedNetwork]) -> tuple[FigureError, ...]:
    """Return the errors for the device file: of whole networks at batch 1."""
    whole = [one for one in judged if not one.part]
    found = median_and_p90(whole)
    if found is None or len(whole) < _FEWEST:
        return ()
    logs = np.abs([np.log(one.predicted_s / one.measured_s) for one in whole])
    sd = max(float(np.quantile(logs, _COVERED)) / HALF_WIDTH, 1e-3)
    return (
        FigureError(
            batch="1",
            networks=len(whole),
            rows=len(whole),
            median=found[0],
            p90=found[1],
            spread=float(np.median([one.spread for one in whole])),
            sd=sd,
            common=sd,
        ),
    )
