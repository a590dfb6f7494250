"""Bounds on rates and latencies: the ceiling of a deployment, objectives that no plan meets."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from hetsim.core.units import format_bytes, format_seconds
from hetsim.errors import UnsupportedNode, UsageError
from hetsim.hardware.spec import Platform
from hetsim.placement.bounds.area import prices
from hetsim.placement.bounds.lower_bound import stated_bound
from hetsim.placement.constraints import check_runnable
from hetsim.placement.planning import without
from hetsim.problem.parts import StorageWidth
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.metrics import busy_s
from hetsim.simulation.clock.runs import timeline_of
from hetsim.simulation.service.layout import EngineArguments
from hetsim.simulation.service.resolution import PlanCache, Resolved
from hetsim.workload.arrivals import Closed
from hetsim.workload.workload import Stream, Workload

Floats = NDArray[np.float64]

SLACK = 1e-9
"""Relative margin for rounding of a bound's sums."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """Factor on arrivals from which waiting times grow without limit; infinite without a bound.

    `binds` is then always busy: a device, a link, or the instances of a model; of several, that
    with the highest price.
    """

    factor: float
    binds: str


def rates_of(workload: Workload) -> tuple[float, ...]:
    """Return the requests per second of each stream; 0 for clients."""
    found = []
    for stream in workload.streams:
        arrivals, share = workload.arrivals_of(stream)
        found.append(0.0 if isinstance(arrivals, Closed) else arrivals.rate_per_s * share)
    return tuple(found)


def demand_of(workload: Workload) -> tuple[float, ...]:
    """Return the requests per second of each stream; raises UsageError unless the sum is a rate."""
    rates = rates_of(workload)
    if not sum(rates) > 0:
        raise UsageError(
            "nothing comes at a rate above 0",
            hint="give arrivals at a rate, or a trace of two requests or more",
        )
    for stream, rate in zip(workload.streams, rates, strict=True):
        if math.isinf(rate):
            raise UsageError(
                f"all requests of '{stream.name}' come at one time, so they have no rate",
                hint="give a trace of several times, or simulate this one",
            )
    return rates


def ceiling_of(
    resolved: Sequence[Resolved],
    setup: EngineArguments,
    rates_per_s: Sequence[float],
    variants: Sequence[Floats],
) -> Ceiling:
    """Return the factor on all rates at which some device, link or instance is always busy.

    Solves the linear program that routes each request to the best instance and batch size, in any
    proportions, or in turn for round robin. The bound is computed from the prices of its optimum,
    so that the solver's tolerance cannot make it too small.

    Parameters
    ----------
    resolved, setup
        Results of ``resolve`` and ``set_up``.
    rates_per_s : sequence of float
        By stream.
    variants : sequence of float array
        By stream: the share of its requests that each variant of its model has.
    """
    loads, width, names, instance_at = _loads(resolved, setup)
    columns: list[Floats] = []
    group: list[int] = []
    demand: list[float] = []
    for at, (model, one) in enumerate(zip(setup.models, resolved, strict=True)):
        share = sum(
            (
                rate * variants[stream]
                for stream, rate in enumerate(rates_per_s)
                if setup.sources[stream].model == at
            ),
            np.zeros(len(one.variants)),
        )
        for variant in np.flatnonzero(share).tolist():
            ways = []
            for instance in range(model.template.shape[1]):
                for size in range(1, model.template.shape[2] + 1):
                    load = loads[int(model.template[variant, instance, size - 1])].copy()
                    if model.limits[instance]:
                        load[instance_at[at] + instance] = load[-1]
                    load[-1] = 0.0
                    ways.append(load / size)
            if model.routing == "round_robin" and not model.gated:
                ways = [np.mean(ways, axis=0)]
            columns += ways
            group += [len(demand)] * len(ways)
            demand.append(float(share[variant]))
    if not columns:
        return Ceiling(math.inf, "")
    busy_s = np.array(columns).T
    most = float(busy_s.max())
    if most == 0.0:
        return Ceiling(math.inf, "")
    asked = np.array(demand)
    solved = balanced(busy_s / most, width, np.array(group), asked / float(asked.max()))
    assert solved is not None
    worth = solved.price * width
    if worth.sum() <= 0.0:
        return Ceiling(math.inf, "")
    cost = solved.price @ busy_s
    least = [float(cost[np.array(group) == one].min()) for one in range(len(demand))]
    needed = float(np.dot(demand, least)) / float(worth.sum())
    factor = math.inf if needed == 0.0 else (1 + SLACK) / needed
    return Ceiling(factor, names[int(worth.argmax())])


class Balanced(NamedTuple):
    """Demand distributed as `parts` [ways]: each row's load is at most `most` times its room.

    A second of the room of each row has the price `price` [rows].
    """

    parts: Floats
    price: Floats
    most: float


def balanced(
    load: Floats, room: Floats, group: NDArray[np.int64], demand: Floats
) -> Balanced | None:
    """Return the optimal distribution of groups' demand over ways, or None if not solved.

    The load `load` [rows, ways] is at most `most` times the `room` [rows], and the ways of each
    `group` [ways] share its `demand`.
    """
    groups = np.equal.outer(np.arange(len(demand)), group)
    found = optimize.linprog(
        c=[*np.zeros(load.shape[1]), 1.0],
        A_ub=np.column_stack([load, -room]),
        b_ub=np.zeros(len(load)),
        A_eq=np.column_stack([groups, np.zeros(len(demand))]),
        b_eq=demand,
        bounds=[(0, None)] * (load.shape[1] + 1),
        method="highs",
    )
    if found.status != 0 or found.x is None:
        return None
    price = np.maximum(-np.asarray(found.ineqlin.marginals), 0.0)
    return Balanced(np.asarray(found.x[:-1]), price, float(found.fun or 0.0))


def quickest_s(setup: EngineArguments, stream: int) -> float:
    """Return the least latency of a request of a stream, over all instances."""
    model = setup.sources[stream].model
    table = setup.models[model].template[np.unique(setup.variant[stream])]
    return min(_uncrowded_s(setup, which) for which in np.unique(table).tolist())


def _uncrowded_s(setup: EngineArguments, template: int) -> float:
    """Return the latency of one request with links that carry any number of transfers at once."""
    plan = setup.plan_tasks.templates[template].plan
    return timeline_of(plan, contention="none", trace=False).latency_s * (1 - SLACK)


def _loads(
    resolved: Sequence[Resolved], setup: EngineArguments
) -> tuple[list[Floats], Floats, list[str], list[int]]:
    """Return by template busy seconds of devices, links, instances (0), and least latency."""
    problem = setup.plan_tasks.plan.problem
    names = [f"device {name}" for name in problem.devices]
    names += [f"link {name}" for name in setup.plan_tasks.links]
    width = [float(streams) for streams in problem.streams] + [1.0] * len(setup.plan_tasks.links)
    instance_at = []
    for one, model in zip(resolved, setup.models, strict=True):
        instance_at.append(len(names))
        graph = one.problem.model
        of = one.served.model if graph is None else graph.name
        names += [f"instance {instance} of {of}" for instance in range(len(model.limits))]
        width += [float(limit or 1) for limit in model.limits]
    limited = any(limit for model in setup.models for limit in model.limits)
    found = []
    for at, template in enumerate(setup.plan_tasks.templates):
        load = np.zeros(len(names) + 1)
        busy = busy_s(template)
        load[: len(busy)] = busy
        load[-1] = _uncrowded_s(setup, at) if limited else 0.0
        found.append(load)
    return found, np.array([*width, 1.0]), [*names, ""], instance_at


def impossible_as(workload: Workload, made: PlanCache, lost: Sequence[str] = ()) -> str | None:
    """Return why no plan without some devices meets an objective, at any rate."""
    for stream in workload.streams:
        if not stream.slos:
            continue
        able: list[Problem] = []
        unable: list[UnsupportedNode] = []
        for (model, _, _), problem in made.problems.items():
            if model != stream.model:
                continue
            try:
                able.append(without(problem, lost) if lost else problem)
            except UnsupportedNode as error:
                unable.append(error)
        if unable and not able:
            return f"{unable[0].where}: {unable[0].what}"
        why = too_slow(stream, able) if able else None
        if why is not None:
            return why
    return None


def too_slow(stream: Stream, problems: Iterable[Problem]) -> str | None:
    """Return the reason why no plan meets a stream's objective, by its model's problems."""
    least_s = min(stated_bound(problem) or 0.0 for problem in problems)
    for slo in stream.slos:
        if least_s > slo.latency_s:
            least = format_seconds(least_s)
            return f"no plan of {stream.model} takes less than {least}, and {slo} is asked"
    return None


Sized = Sequence[tuple[int, Problem]]
"""Problems of one model with their batch sizes, for any dimensions."""


def problems_of(workload: Workload, made: PlanCache) -> dict[str, Sized]:
    """Return the problems of each model of a workload from the cache."""
    found: dict[str, list[tuple[int, Problem]]] = {one.model: [] for one in workload.streams}
    for (model, size, _), problem in made.problems.items():
        if model in found:
            found[model].append((size, problem))
    return {model: each for model, each in found.items() if each}


def why_impossible(
    workload: Workload, platform: Platform, made: PlanCache, quick: Collection[str] = ()
) -> str | None:
    """Return the reason why no placement meets the objectives; None without a proof.

    Checks for a node that no device supports, weights above all memory, a latency that no plan
    reaches, and more work on time than devices can do for any partition: in the long run, so not
    for a finite trace. `quick`: models with a plan known to be within all limits.
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
    """Return the reason if weights do not fit: each is on a device, in its narrowest storage."""
    needed = 0.0
    for sized in each.values():
        needed += min(
            sum(constant.nbytes for constant in problem.constants)
            * min(
                (held.bits / held.wide_bits for held in problem.held or (StorageWidth(),)),
                default=1.0,
            )
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
    most = infeasible_factor(demand, each)
    if most >= 1:
        return None
    return (
        f"no placement has time for more than {most:.3g} times the requests that must be on time, "
        "whatever its plans"
    )


def infeasible_factor(demand: Mapping[str, float], each: Mapping[str, Sized]) -> float:
    """Return a factor on a demand [requests per second by model] that no devices sustain.

    At any prices of device seconds, each request costs at least its nodes on their cheapest devices
    in the best batch size, while the available seconds are limited. The prices are those of a
    linear program that lets every node run anywhere, in any proportions.
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
