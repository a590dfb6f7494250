"""Predicted served rates, and why some are not predicted."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from catalog.fidelity.points import FidelityPoint, Key, Predicted
from catalog.fidelity.server.batches import (
    OF_CHIPS,
    Carried,
    Floats,
    batch_times,
    best_carried,
    shape_of,
)
from catalog.fidelity.server.points import GOAL, Alone, ServerPoint, ServerSystem
from catalog.measured import BULK_BATCH
from hetsim.cost.kernels.networks import KernelTable

Rate = Callable[[ServerPoint], float | None]
Known = tuple[ServerPoint, float]


@dataclass(frozen=True, slots=True)
class RateErrors:
    """Errors of predicted rates.

    Attributes
    ----------
    median, p90 : float
        Of the distance from the measured rate, as a share of that.
    within_goal : float
        Share of predictions that are off by `GOAL` at most.
    low, middle, high : float
        Predicted over measured: of 10, 50 and 90 in 100.
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
