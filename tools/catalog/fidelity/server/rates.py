"""Rates of servers: batch times, arrivals in batches, predictions, and their errors."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catalog.fidelity.judged import figures_of
from catalog.fidelity.points import FidelityPoint, Key, Predicted
from catalog.fidelity.server.points import GOAL, Alone, ServerPoint, ServerSystem
from catalog.measured import BULK_BATCH, ITEM_BYTES
from hetsim.core.machine_code import machine_code
from hetsim.cost.kernels.networks import KernelTable, Networks, log_total
from hetsim.cost.kernels.similarity import likeness_of

Floats = NDArray[np.float64]

QUERIES = 270_336
"""Of a Server run at least, and of the sample (inference_rules.adoc, "Scenarios")."""
LOOK = QUERIES // 8
"""Of the sample, the first, by which settings are compared."""
LATE_SHARE = 0.01
MOST = 1024
"""The largest batch that is thought of."""
MOST_INSTANCES = 32
"""On a device."""
KEPT = 3
"""Settings that are tried on the whole sample."""
PRECISE = 1e-4
SEED = 41


@dataclass(frozen=True, slots=True)
class Carried:
    """What is carried at best, and how.

    - `rate_per_s`: 0 where no rate is.
    - `instances`: on each device.
    - `batch`: the most that an instance takes at once.
    """

    rate_per_s: float
    instances: int
    batch: int


def best_carried(seconds: Floats, devices: int, limit_s: float) -> Carried:
    """Return the highest rate over instances a device (1, 2, 4, ...) and sizes of batches."""
    settings = sorted(_settings(seconds, limit_s), key=_bound_of(seconds, devices))
    looked = _rising(settings, seconds, devices, limit_s, LOOK)
    nearest = sorted(looked, key=lambda one: (-one.rate_per_s, one.instances, one.batch))[:KEPT]
    again = [(one.instances, one.batch) for one in nearest]
    whole = _rising(again, seconds, devices, limit_s, QUERIES)
    return max(whole, key=lambda one: one.rate_per_s, default=Carried(0.0, 1, 1))


def _rising(
    settings: Iterable[tuple[int, int]],
    seconds: Floats,
    devices: int,
    limit_s: float,
    queries: int,
) -> list[Carried]:
    """Those of the settings, one after the other, that carry what the last of these does."""
    found: list[Carried] = []
    for instances, batch in settings:
        beyond = found[-1].rate_per_s if found else 0.0
        takes = _takes(seconds, instances, batch)
        rate = carried(takes, devices * instances, limit_s, queries, beyond)
        if rate:
            found.append(Carried(rate, instances, batch))
    return found


def _takes(seconds: Floats, instances: int, batch: int) -> Floats:
    """Seconds of a batch by its size up to `batch`, where so many instances share a device."""
    return seconds[: instances * batch + 1 : instances]


def _settings(seconds: Floats, limit_s: float) -> Iterator[tuple[int, int]]:
    """Instances a device and sizes of batches that end within the limit."""
    instances = 1
    while instances <= MOST_INSTANCES and seconds[instances] <= limit_s:
        batch = 1
        while instances * batch <= MOST and seconds[instances * batch] <= limit_s:
            yield instances, batch
            batch *= 2
        instances *= 2


def _bound_of(seconds: Floats, devices: int) -> Callable[[tuple[int, int]], tuple[float, int, int]]:
    """What no rate of a setting is above, the highest first; of equals the simplest."""

    def bound(setting: tuple[int, int]) -> tuple[float, int, int]:
        instances, batch = setting
        most = _throughput(_takes(seconds, instances, batch))
        return -most * instances * devices, instances, batch

    return bound


def _throughput(takes: Floats) -> float:
    return float((np.arange(1, len(takes)) / takes[1:]).max())


def carried(
    takes: Floats, servers: int, limit_s: float, queries: int = QUERIES, beyond: float = 0.0
) -> float:
    """Return the highest rate at which no more requests are late than may be; 0: none is."""
    arrival = _unit_arrivals(queries)
    may_be = queries - int((1 - LATE_SHARE) * queries) - 1
    late = functools.partial(
        _compiled(), arrival, np.ascontiguousarray(takes), servers, limit_s, may_be
    )
    low, high = beyond, servers * _throughput(takes)
    if high <= low or takes[1] > limit_s or (low and late(low) > may_be):
        return 0.0
    while high - low > PRECISE * high:
        middle = (low + high) / 2
        if late(middle) <= may_be:
            low = middle
        else:
            high = middle
    return low


def late_of(
    arrival: Floats, takes: Floats, servers: int, limit_s: float, may_be: int, rate: float
) -> int:
    """Return how many requests take longer than the limit, or `may_be` + 1 where more do."""
    free = np.zeros(servers)
    requests, most, late, first = len(arrival), len(takes) - 1, 0, 0
    while first < requests:
        server = 0
        for other in range(1, servers):
            if free[other] < free[server]:
                server = other
        begin = max(free[server], arrival[first] / rate)
        end = first + 1
        while end < requests and end - first < most and arrival[end] / rate <= begin:
            end += 1
        finish = begin + takes[end - first]
        free[server] = finish
        while first < end and finish - arrival[first] / rate > limit_s:
            late += 1
            first += 1
        if late > may_be:
            return may_be + 1
        first = end
    return late


@functools.cache
def _unit_arrivals(queries: int) -> Floats:
    """Poisson arrivals at a rate of 1: fewer are the first of more."""
    gaps = np.random.default_rng(SEED).standard_exponential(QUERIES)
    return np.cumsum(gaps[:queries])


@functools.cache
def _compiled() -> Callable[..., Any]:
    return machine_code(late_of)


GRID = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, BULK_BATCH)
"""Sizes that are priced; others lie on lines between them. Bulk is what figures mean by 64: a
larger batch takes as long as so many of that size."""

OF_CHIPS: Mapping[str, str] = {
    "NVIDIA A100 SXM4 80 GB": "nvidia-a100-sxm4-80g",
    "NVIDIA A2": "nvidia-a2",
    "NVIDIA A30": "nvidia-a30",
    "NVIDIA H100 PCIe": "nvidia-h100-pcie-80g",
    "NVIDIA H100 SXM 80 GB": "nvidia-h100-sxm5-80g",
    "NVIDIA T4": "nvidia-t4",
    "Intel Xeon Platinum 8380": "intel-xeon-8380",
    "Intel Xeon Platinum 8480+": "intel-xeon-8480plus",
    "Intel Xeon Platinum 8592+": "intel-xeon-8592plus",
}
"""Devices of the catalog whose chips have Server results."""

NEAR: Mapping[str, str] = {
    "NVIDIA GH200": "nvidia-h200-sxm-141g",
    "INTEL XEON 6787P": "intel-xeon-8592plus",
    "INTEL XEON 6980P": "intel-xeon-8592plus",
    "Intel Xeon (code named Sapphire Rapids)": "intel-xeon-8480plus",
    "Intel Xeon Gold 6248R": "intel-xeon-8380",
    "Intel Xeon Gold 6258R": "intel-xeon-8380",
    "Intel Xeon Gold 6330": "intel-xeon-8380",
    "Intel Xeon Gold 8380H": "intel-xeon-8380",
    "Intel Xeon Platinum 8255C": "intel-xeon-8380",
    "Intel Xeon Platinum 8259CL": "intel-xeon-8380",
    "Intel Xeon Platinum 8280M": "intel-xeon-8380",
    "Intel Xeon Platinum 8352M": "intel-xeon-8380",
    "Intel Xeon Platinum 8360Y": "intel-xeon-8380",
    "Intel Xeon Platinum 8380H": "intel-xeon-8380",
    "Intel Xeon Platinum 9282": "intel-xeon-8380",
}
"""Of chips that are not in the catalog, the device whose times by batch are taken to have the same
shape: with the same units for such arithmetic, of its generation or the next."""

_IN_THE_PLACE_OF = {"bfloat16": "float32"}
"""Precisions that a device near lacks: vectors as wide, at another rate."""


def shape_of(system: ServerSystem, table: KernelTable) -> Floats | None:
    """Return seconds at the sizes of `GRID` on the device that stands for the system's."""
    device = OF_CHIPS.get(system.chip) or NEAR.get(system.chip)
    if device is None or not system.precision:
        return None
    precision = system.precision
    if figures_of(device, precision) is None:
        precision = _IN_THE_PLACE_OF.get(precision, precision)
    return _priced(device, precision, table)


def _priced(device: str, precision: str, table: KernelTable) -> Floats | None:
    """As ``shipped.with_shipped`` predicts points: the catalog's figures and what its kin say."""
    figures, each = figures_of(device, precision), ITEM_BYTES[precision]
    if figures is None:
        return None
    networks = Networks.of(table.laid(batch, each, each) for batch in GRID)
    of_all = np.zeros(len(GRID), dtype=np.int64)
    seconds = np.exp(log_total(np.log(np.array([figures.values])), networks, of_all))
    if figures.likeness:
        known = likeness_of(figures.kin, figures.likeness)
        io_s = networks.io_bytes / figures.value("io_gbytes_s")
        around = figures.dispatch_s + io_s
        likely = [known.of_table(table, batch).factor for batch in GRID]
        seconds = around + (seconds - around) * np.array(likely)
    priced: Floats = seconds
    return priced


def batch_times(shape: Floats | None, bulk_s: float | None, alone_s: float | None) -> Floats:
    """Return seconds of a batch of 0, 1, ... `MOST` samples: float array [MOST + 1]."""
    sizes = np.array(GRID, dtype=np.float64)
    if shape is None:
        assert bulk_s is not None
        first = bulk_s / BULK_BATCH if alone_s is None else alone_s
        at = first + (bulk_s - first) * (sizes - 1) / (BULK_BATCH - 1)
    else:
        at = shape * np.exp(_off_by(shape, bulk_s, alone_s))
    at = np.minimum(np.maximum.accumulate(at), at[-1])
    all_sizes = np.arange(MOST + 1, dtype=np.float64)
    seconds = np.interp(all_sizes, np.append(0.0, sizes), np.append(0.0, at))
    beyond = all_sizes > BULK_BATCH
    seconds[beyond] = at[-1] * all_sizes[beyond] / BULK_BATCH
    taken: Floats = seconds
    return taken


def _off_by(shape: Floats, bulk_s: float | None, alone_s: float | None) -> Floats | float:
    """Logarithms of what is measured over the shape, by size."""
    bulk = None if bulk_s is None else math.log(bulk_s / shape[-1])
    alone = None if alone_s is None else math.log(alone_s / shape[0])
    if bulk is None or alone is None:
        return bulk or alone or 0.0
    each = np.log(shape / np.array(GRID))
    gained = each[0] - each[-1]
    share = np.clip((each - each[-1]) / gained, 0, 1) if gained > 0 else np.zeros(len(GRID))
    share[0], share[-1] = 1.0, 0.0
    off: Floats = share * alone + (1 - share) * bulk
    return off


Rate = Callable[[ServerPoint], float | None]
Known = tuple[ServerPoint, float]


@dataclass(frozen=True, slots=True)
class RateErrors:
    """Errors of predicted rates.

    - `median`, `p90`: of the distance from the measured rate, as a share of that.
    - `within_goal`: share of predictions that are off by `GOAL` at most.
    - `low`, `middle`, `high`: predicted over measured: of 10, 50 and 90 in 100.
    """

    count: int
    median: float
    p90: float
    within_goal: float
    low: float
    middle: float
    high: float

    @classmethod
    def of(cls, points: Iterable[ServerPoint], rate: Rate) -> RateErrors | None:
        """Judge; None where nothing is predicted."""
        return cls.of_ratios([_ratio(point, found) for point, found in known(points, rate)])

    @classmethod
    def of_ratios(cls, ratios: Sequence[float]) -> RateErrors | None:
        """Judge ratios of predicted to measured; None where there is none."""
        if not ratios:
            return None
        errors = np.abs(np.array(ratios) - 1)
        low, middle, high = np.quantile(ratios, (0.1, 0.5, 0.9))
        return cls(
            count=len(ratios),
            median=float(np.median(errors)),
            p90=float(np.quantile(errors, 0.9)),
            within_goal=float((errors <= GOAL).mean()),
            low=float(low),
            middle=float(middle),
            high=float(high),
        )


def known(points: Iterable[ServerPoint], rate: Rate) -> list[Known]:
    """Return the points of which a rate is predicted, and the rate."""
    return [(point, found) for point in points if (found := rate(point))]


def _ratio(point: ServerPoint, rate_per_s: float) -> float:
    return rate_per_s / point.system.server_per_s


def anchored(point: ServerPoint) -> float | None:
    """Return the rate through what else was measured of the system."""
    return point.anchored_per_s


def naive(point: ServerPoint) -> float | None:
    """Return Offline's rate: what sizing by the highest rate takes to be served."""
    return point.system.offline_per_s


def each_once(points: Iterable[ServerPoint], rate: Rate) -> RateErrors | None:
    """Judge each chip, network and runtime's precision once, by the median of its systems."""
    found: dict[tuple[str, ...], list[float]] = {}
    for point, told in known(points, rate):
        of = point.system
        found.setdefault((of.chip, of.network, of.precision), []).append(_ratio(point, told))
    return RateErrors.of_ratios([float(np.median(ratios)) for ratios in found.values()])


def by_others(
    points: Sequence[ServerPoint], rate: Rate, group: Callable[[ServerPoint], str]
) -> RateErrors | None:
    """Judge rates over one factor: the median by which those of all other groups are too high."""
    found = [(group(point), _ratio(point, told)) for point, told in known(points, rate)]
    ratios = []
    for own, ratio in found:
        others = [other for name, other in found if name != own]
        if others:
            ratios.append(ratio / float(np.median(others)))
    return RateErrors.of_ratios(ratios)


@dataclass(frozen=True, slots=True)
class Sizing:
    """How many systems are bought of `NEEDED`: 10, 50 and 90 in 100; the share that is short."""

    count: int
    low: float
    middle: float
    high: float
    short: float


NEEDED = 100
SHORT = 0.1
"""Share of what is needed that may be missing before it counts as short."""


def sizing(points: Iterable[ServerPoint], rate: Rate) -> Sizing | None:
    """Size for `NEEDED` times each measured rate by ceil(demand / predicted rate)."""
    bought = [
        math.ceil(NEEDED * point.system.server_per_s / found)
        for point, found in known(points, rate)
    ]
    if not bought:
        return None
    low, middle, high = np.quantile(bought, (0.1, 0.5, 0.9))
    short = float(np.mean([one < NEEDED * (1 - SHORT) for one in bought]))
    return Sizing(len(bought), float(low), float(middle), float(high), short)


_Choose = Callable[[FidelityPoint], Predicted | None]


def predicted(
    systems: Iterable[ServerSystem],
    points: Sequence[FidelityPoint],
    tables: Mapping[str, KernelTable],
) -> list[ServerPoint]:
    """Return the systems with the rates that are predicted of them."""
    by_key = {point.key: point for point in points}
    return [_point(system, by_key, tables[system.network]) for system in systems]


def _point(
    system: ServerSystem, points: Mapping[Key, FidelityPoint], table: KernelTable
) -> ServerPoint:
    shape = shape_of(system, table)
    anchored, basis, no_shape = None, "", None
    if system.offline_per_s is not None:
        bulk_s = BULK_BATCH * system.devices / system.offline_per_s
        anchored = _carried(system, batch_times(shape, bulk_s, system.alone_s))
        no_shape = _carried(system, batch_times(None, bulk_s, None)).rate_per_s
        basis = _basis(system, shape)
    alone: dict[str, Alone | None] = {}
    for way, choose in _WAYS.items():
        seconds = _unseen(system, shape, points, choose, of_device=way == "left_out")
        alone[way] = None if seconds is None else _alone(system, seconds)
    return ServerPoint(
        system=system,
        basis=basis,
        anchored_per_s=anchored.rate_per_s if anchored else None,
        instances=anchored.instances if anchored else 0,
        batch=anchored.batch if anchored else 0,
        no_shape_per_s=no_shape,
        left_out=alone["left_out"],
        unseen=alone["unseen"],
        datasheet=alone["datasheet"],
    )


_WAYS: Mapping[str, _Choose] = {
    "left_out": lambda point: point.left_out,
    "unseen": lambda point: point.unseen,
    "datasheet": lambda point: point.datasheet,
}


def _basis(system: ServerSystem, shape: Floats | None) -> str:
    if system.alone_of:
        return system.alone_of
    if shape is None:
        return "rate"
    return "shape" if system.chip in OF_CHIPS else "near"


def _carried(system: ServerSystem, seconds: Floats) -> Carried:
    return best_carried(seconds, system.devices, system.limit_s)


def _alone(system: ServerSystem, seconds: Floats) -> Alone:
    bulk_per_s = system.devices * BULK_BATCH / float(seconds[BULK_BATCH])
    return Alone(_carried(system, seconds).rate_per_s, bulk_per_s)


def _unseen(
    system: ServerSystem,
    shape: Floats | None,
    points: Mapping[Key, FidelityPoint],
    choose: _Choose,
    of_device: bool,
) -> Floats | None:
    """Times by the catalog alone, none of them by figures that saw what they are told of."""
    device = OF_CHIPS.get(system.chip)
    if device is None or shape is None or system.altered:
        return None
    found = {
        batch: points.get((device, system.precision, system.network, batch))
        for batch in (1, 8, BULK_BATCH)
    }
    if not any(found.values()):
        return batch_times(shape, None, None) if of_device else None
    told = {batch: choose(point) for batch, point in found.items() if point is not None}
    alone, bulk = told.get(1), told.get(BULK_BATCH)
    if alone is None and bulk is None:
        return None
    return batch_times(
        shape, None if bulk is None else bulk.seconds, None if alone is None else alone.seconds
    )


_OF_CHIPS = {
    "Inferentia": "four cores a chip, each with queues of its own; no time of a batch is known",
    "HanGuang 800": "half of its answers take 0.4 ms, 1 in 100 over 10: stalls that no time of a "
    "batch has",
}
_ENDED_EARLY = 0.7
"""Of the limit: a run that ended below was not ended by its p99."""


def reason(point: ServerPoint) -> str:
    """Return what is known to be behind the error."""
    of = point.system
    if of.chip in _OF_CHIPS:
        return _OF_CHIPS[of.chip]
    if of.p99_s < _ENDED_EARLY * of.limit_s:
        return "something else than the limit ended the run: most likely what feeds the card"
    if of.precision == "bfloat16":
        return "the catalog has no chip with bfloat16 on plain vectors: float32's shape"
    if point.basis == "near":
        return "batch 1 is taken from another chip"
    return "not known"
