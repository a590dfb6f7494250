"""How sure a comparison is: its rows on draws of what the figures of devices may be off by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetsim.analysis.draws import DRAWS, Draws, draw
from hetsim.base.going import each
from hetsim.placement.objective import Objective, bottleneck, kept_s
from hetsim.plans.plan import Plan
from hetsim.problem.parts import Contention
from hetsim.simulation.clock.replaying import bottlenecks, finishes, latencies
from hetsim.simulation.clock.templates import tasks_of_plan

ENDS = (0.1, 0.9)
"""Quantiles that 80 % of the draws are between."""

EVENTS_MOST = 20_000_000
"""Tasks of all draws that are played where an interval is asked for: some two seconds."""

TIE = 1e-9
"""Relative difference of costs that is none."""


@dataclass(frozen=True, slots=True)
class Interval:
    """What 80 % of the draws are between, one in ten below and one in ten above."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Sureness:
    """One plan over the draws, beside the others of its comparison.

    What is best of a draw is the least cost in it of all plans that were compared, every device
    alone among them.

    Attributes
    ----------
    cost_s : Interval
        Of what the objective counts.
    speedup : Interval or None
        Over the device that is fastest alone by the figures as they are; None where there is
        none.
    best : float
        Share of the draws in which no plan costs less. Plans that tie are each of them best.
    regret_mean_s, regret_p90_s : float
        Cost beyond the best of the draw: mean, and what one draw in ten exceeds.
    regret_mean, regret_p90 : float
        The same, relative to the best of the draw.
    pays : float or None
        Share of the draws in which it costs no more than that device alone.
    loss_mean, loss_p90 : float or None
        Cost beyond that device alone, relative to it; 0 in draws in which it costs less.
    """

    cost_s: Interval
    speedup: Interval | None
    best: float
    regret_mean_s: float
    regret_p90_s: float
    regret_mean: float
    regret_p90: float
    pays: float | None
    loss_mean: float | None
    loss_p90: float | None


def costs_over(plan: Plan, draws: Draws, objective: Objective) -> NDArray[np.float64]:
    """Return what the objective counts of a plan, in seconds, by draw.

    For throughput the seconds of the busiest device or link are drawn; by how much the clock keeps
    less than that is taken as it is where nothing is off.

    Raises what ``simulate`` raises, but for memory, which is not followed. O(N E log E).
    """
    devices, routes = draws.of_devices(plan), draws.routes
    if objective == "latency":
        return latencies(plan, devices, routes)
    least_s = bottleneck(plan)
    return bottlenecks(plan, devices, routes) * (kept_s(plan) / least_s if least_s else 1.0)


def interval(costs: NDArray[np.float64]) -> Interval:
    """Return the interval that 80 % of the draws are in."""
    low, high = quantiles(costs, ENDS)
    return Interval(low, high)


@dataclass(frozen=True, slots=True)
class Spread:
    """What 80 % of the draws of some requests are between.

    Attributes
    ----------
    latency_s : Interval
        Of the mean over the requests.
    makespan_s : Interval
        Until the last of them ends.
    draws, draw_seed : int
    """

    latency_s: Interval
    makespan_s: Interval
    draws: int
    draw_seed: int


def spread(
    plan: Plan,
    arrivals_s: Sequence[float] = (0.0,),
    *,
    contention: Contention | None = None,
    draws: int = DRAWS,
    draw_seed: int = 0,
) -> Spread | None:
    """Play requests of `plan` on draws of what figures may be off by.

    None where nothing is drawn: all is taken as exact or at the bad end, `draws` is 0, or it
    would be more than EVENTS_MOST tasks.

    Raises what ``simulate`` raises, but for memory, which is not followed.
    """
    problem, arrival = plan.problem, np.asarray(arrivals_s, dtype=np.float64)
    if problem.certain or not draws:
        return None
    widest = tasks_of_plan(plan, contention or problem.contention).widest
    if len(arrival) * widest * draws > EVENTS_MOST:
        return None
    drawn = draw(problem.uncertainty, draws, draw_seed)
    finish = finishes(plan, drawn.of_devices(plan), drawn.routes, arrival, contention=contention)
    return Spread(
        interval((finish - arrival).mean(axis=1)), interval(finish.max(axis=1)), draws, draw_seed
    )


def quantiles(numbers: NDArray[np.float64], shares: Sequence[float]) -> list[float]:
    """Return quantiles, the k-th of n ordered numbers being that of (k + 1/2) / n.

    Between a finite number and an infinite one it is infinite.
    """
    if np.isfinite(numbers).all():
        found: list[float] = np.quantile(numbers, shares, method="hazen").tolist()
        return found
    places = np.clip(np.array(shares) * len(numbers) - 0.5, 0.0, len(numbers) - 1.0)
    ends = np.sort(numbers)[np.stack((np.floor(places), np.ceil(places))).astype(np.int64)]
    return [
        low if low == high else low + (high - low) * (place % 1.0)
        for (low, high), place in zip(ends.T.tolist(), places.tolist(), strict=True)
    ]


def sampled(
    plans: Mapping[str, Plan], draws: Draws, objective: Objective
) -> dict[str, NDArray[np.float64]]:
    """Return by name what the objective counts of each of `plans` in every sample, in seconds.

    Plans that are equal are played once.

    Complexity: O(N E log E) for the E tasks of all plans that differ.
    """
    known: dict[object, NDArray[np.float64]] = {}
    costs: dict[str, NDArray[np.float64]] = {}
    for name in each(tuple(plans)):
        plan = plans[name]
        same = (plan.groups, plan.sizes, plan.deal)
        if same not in known:
            known[same] = costs_over(plan, draws, objective)
        costs[name] = known[same]
    return costs


def how_sure(costs: Mapping[str, NDArray[np.float64]], single: str | None) -> dict[str, Sureness]:
    """Return by name how sure each plan is, of what ``sampled`` gives of all that are compared.

    `single` is the device that is fastest alone; None where none runs the whole model.
    """
    if not costs:
        return {}
    best = np.min(list(costs.values()), axis=0)
    alone = None if single is None else costs[single]
    return {name: _beside(found, best, alone) for name, found in costs.items()}


def _beside(
    costs: NDArray[np.float64], best: NDArray[np.float64], alone: NDArray[np.float64] | None
) -> Sureness:
    regret = np.where(costs > best * (1 + TIE), costs - best, 0.0)
    relative = _over(regret, best)
    speedup = pays = loss_mean = loss_p90 = None
    if alone is not None:
        speedup = interval(_over(alone, costs, none=1.0))
        beyond = np.where(costs > alone * (1 + TIE), costs - alone, 0.0)
        loss = _over(beyond, alone)
        pays, loss_mean, loss_p90 = float((beyond == 0).mean()), _mean(loss), _worst(loss)
    return Sureness(
        cost_s=interval(costs),
        speedup=speedup,
        best=float((regret == 0).mean()),
        regret_mean_s=_mean(regret),
        regret_p90_s=_worst(regret),
        regret_mean=_mean(relative),
        regret_p90=_worst(relative),
        pays=pays,
        loss_mean=loss_mean,
        loss_p90=loss_p90,
    )


def _mean(numbers: NDArray[np.float64]) -> float:
    return float(numbers.mean())


def _worst(numbers: NDArray[np.float64]) -> float:
    return quantiles(numbers, ENDS)[1]


def _over(
    numbers: NDArray[np.float64], by: NDArray[np.float64], none: float = 0.0
) -> NDArray[np.float64]:
    """Quotients; those of nothing and nothing are `none`, of something and nothing infinite."""
    filler = np.where(numbers > 0, np.inf, none)
    return np.divide(numbers, by, out=filler, where=by > 0)
