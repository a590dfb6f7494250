"""Bounds that hold for every placement, whatever instances, plans and batches."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from hetsim.core.units import format_bytes
from hetsim.errors import UnsupportedNode
from hetsim.hardware.spec import Platform
from hetsim.placement.bounds.area import prices
from hetsim.placement.constraints import check_runnable
from hetsim.problem.parts import Held
from hetsim.problem.problem import Problem
from hetsim.provisioning.rates.ceiling import SLACK, rates_of, too_slow
from hetsim.simulation.service.resolution import Made
from hetsim.workload.workload import Workload

Sized = Sequence[tuple[int, Problem]]
"""Problems of one model, whatever its dimensions, with their batch sizes."""


def problems_of(workload: Workload, made: Made) -> dict[str, Sized]:
    """Problems of each model of a workload, as they were made."""
    found: dict[str, list[tuple[int, Problem]]] = {one.model: [] for one in workload.streams}
    for (model, size, _), problem in made.problems.items():
        if model in found:
            found[model].append((size, problem))
    return {model: each for model, each in found.items() if each}


def why_impossible(
    workload: Workload, platform: Platform, made: Made, quick: Collection[str] = ()
) -> str | None:
    """Why no placement meets what is asked, where that is proved; else None.

    A node that no device takes, weights that all memory does not hold, a latency that no plan
    reaches, and more work on time than devices can do, however it is cut: in the long run, and so
    not of a trace, which ends. `quick`: models of which a plan is known that is within all limits.
    """
    each = problems_of(workload, made)
    for model, sized in each.items():
        for _, problem in sized[:1]:
            try:
                check_runnable(problem)
            except UnsupportedNode as error:
                return f"{model}: {error}"
    return (
        _too_heavy(each, platform)
        or _too_slow(workload, {model: each[model] for model in each if model not in quick})
        or (None if workload.traces else _too_much(workload, each))
    )


def _too_heavy(each: Mapping[str, Sized], platform: Platform) -> str | None:
    """Every weight is on one device at least, in no fewer bytes than the narrowest holds it in."""
    needed = 0.0
    for sized in each.values():
        needed += min(
            sum(constant.nbytes for constant in problem.constants)
            * min((held.bits / held.wide_bits for held in problem.held or (Held(),)), default=1.0)
            for _, problem in sized
        )
    there = sum(spec.memory_bytes for spec in platform.devices.values())
    if needed * (1 - SLACK) <= there:
        return None
    return (
        f"the weights of all models are {format_bytes(int(needed))}, and all devices together have "
        f"{format_bytes(there)}"
    )


def _too_slow(workload: Workload, each: Mapping[str, Sized]) -> str | None:
    for stream in workload.streams:
        if stream.slos and stream.model in each:
            why = too_slow(stream, [problem for _, problem in each[stream.model]])
            if why is not None:
                return why
    return None


def _too_much(workload: Workload, each: Mapping[str, Sized]) -> str | None:
    demand: dict[str, float] = {}
    for stream, rate in zip(workload.streams, rates_of(workload), strict=True):
        share = max((slo.share for slo in stream.slos), default=0.0)
        demand[stream.model] = demand.get(stream.model, 0.0) + rate * share
    most = most_carried(demand, each)
    if most >= 1:
        return None
    return (
        f"no placement has time for more than {most:.3g} times the requests that must be on time, "
        "whatever its plans"
    )


def most_carried(demand: Mapping[str, float], each: Mapping[str, Sized]) -> float:
    """Factor on a demand [requests a second by model] beyond which no device keeps up.

    At any prices of the devices' seconds each request costs no less than all its nodes, each where
    it is cheapest, in the batch size that suits best; and seconds that there are can be sold once.
    The prices are those of a linear program that lets every node run anywhere, in any parts.
    """
    asked = {model: rate for model, rate in demand.items() if rate > 0 and model in each}
    rows: list[np.ndarray[tuple[int, int], np.dtype[np.float64]]] = []
    streams: tuple[int, ...] = ()
    for model, rate in asked.items():
        size, problem = max(each[model], key=lambda row: row[0])
        streams = problem.streams
        if not problem.unpriced:
            rows.append(problem.least_seconds * rate / size)
    if not rows:
        return np.inf
    price = prices(np.vstack(rows), streams)
    worth = float(price @ np.array(streams, dtype=np.float64))
    needed = sum(
        rate * min(_cost(problem, price) / size for size, problem in each[model])
        for model, rate in asked.items()
    )
    return np.inf if needed <= 0 else worth / needed * (1 + SLACK)


def _cost(problem: Problem, price: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    if problem.unpriced or not problem.n:
        return 0.0
    able = np.isfinite(problem.least_seconds)
    costs = np.where(able, price * np.where(able, problem.least_seconds, 0.0), np.inf)
    return float(costs.min(axis=1).sum())
