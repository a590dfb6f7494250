"""Monte Carlo samples of the cost-model error, and the confidence of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from hetsim.core.progress import each
from hetsim.placement.objective import Objective, bottleneck, kept_s
from hetsim.problem.parts import Contention, Uncertainty
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.runs import bottlenecks, finishes
from hetsim.simulation.clock.templates import tasks_of_plan

DRAWS = 200
"""Default number of samples."""

MOST_DRAWS = 100_000
"""Maximum number of samples."""

_FINEST = 1e-9
"""Smallest place value of digits that are permuted."""

LEAST_SHARE = 0.1
"""Share of a device's time below which parts have the error of one of that share: the smallest that
were measured in some number."""

ENDS = (0.1, 0.9)
"""Quantiles of an 80 % interval."""

EVENTS_MOST = 20_000_000
"""Maximum tasks over all samples that are simulated for an interval: about two seconds."""

TIE = 1e-9
"""Relative difference of costs that counts as a tie."""


@dataclass(frozen=True, slots=True)
class Interval:
    """80 % interval: P10 and P90 of the samples."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Confidence:
    """Cost and regret of one plan over the samples, relative to the others of its comparison.

    The best of a sample is the least cost in it over all compared plans, including single devices.

    - `cost_s`: interval of the objective.
    - `speedup`: interval of the speed-up over the fastest single device by point estimates; None
    without one.
    - `best`: share of the samples in which no plan costs less. Tied plans all count as best.
    - `regret_mean_s`, `regret_p90_s`: cost above the best of the sample: mean and P90.
    - `regret_mean`, `regret_p90`: the same, relative to the best of the sample.
    - `pays`: share of the samples in which it costs no more than that single device.
    - `loss_mean`, `loss_p90`: cost above that single device, relative to it; 0 in samples in which
    it costs less.
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
    """Return the cost of a plan by sample, in seconds.

    For throughput the seconds of the busiest device or link are sampled; the excess of the
    simulated rate over that is taken from the point estimate.

    Raises as ``simulate``, except for memory, which is not tracked. O(N E log E).
    """
    devices, routes = draws.of_devices(plan), draws.routes
    if objective == "latency":
        return finishes(plan, devices, routes, np.zeros(1))[:, 0]
    least_s = bottleneck(plan)
    return bottlenecks(plan, devices, routes) * (kept_s(plan) / least_s if least_s else 1.0)


def interval(costs: NDArray[np.float64]) -> Interval:
    """Return the 80 % interval of the samples."""
    low, high = quantiles(costs, ENDS)
    return Interval(low, high)


@dataclass(frozen=True, slots=True)
class Spread:
    """80 % intervals of the latency and makespan of some requests.

    - `latency_s`: interval of the mean over the requests.
    - `makespan_s`: interval of the end of the last request.
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
    samples: int = DRAWS,
    draw_seed: int = 0,
) -> Spread | None:
    """Return intervals of simulating requests of `plan` in samples of the cost-model error.

    None without samples: times are exact or pessimistic, `samples` is 0, or it would take more than
    EVENTS_MOST tasks.

    Raises as ``simulate``, except for memory, which is not tracked.
    """
    problem, arrival = plan.problem, np.asarray(arrivals_s, dtype=np.float64)
    if problem.certain or not samples:
        return None
    widest = tasks_of_plan(plan, contention or problem.contention).widest
    if len(arrival) * widest * samples > EVENTS_MOST:
        return None
    drawn = draw(problem.uncertainty, samples, draw_seed)
    finish = finishes(plan, drawn.of_devices(plan), drawn.routes, arrival, contention=contention)
    return Spread(
        interval((finish - arrival).mean(axis=1)), interval(finish.max(axis=1)), samples, draw_seed
    )


def quantiles(numbers: NDArray[np.float64], shares: Sequence[float]) -> list[float]:
    """Return quantiles; the k-th of n ordered numbers is that of (k + 1/2) / n.

    Between a finite and an infinite number the result is infinite.
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


def cost_samples(
    plans: Mapping[str, Plan], draws: Draws, objective: Objective
) -> dict[str, NDArray[np.float64]]:
    """Return by name the objective of each of `plans` in every sample, in seconds.

    Equal plans are simulated once.

    Complexity: O(N E log E) for the E tasks of all distinct plans.
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


def confidence_by_plan(
    costs: Mapping[str, NDArray[np.float64]], single: str | None
) -> dict[str, Confidence]:
    """Return by name the uncertainty of each plan, from the result of ``cost_samples`` for all.

    `single` is the fastest single device; None if none runs the whole model.
    """
    if not costs:
        return {}
    best = np.min(list(costs.values()), axis=0)
    alone = None if single is None else costs[single]
    return {name: _beside(found, best, alone) for name, found in costs.items()}


def _beside(
    costs: NDArray[np.float64], best: NDArray[np.float64], alone: NDArray[np.float64] | None
) -> Confidence:
    regret = np.where(costs > best * (1 + TIE), costs - best, 0.0)
    relative = _over(regret, best)
    speedup = pays = loss_mean = loss_p90 = None
    if alone is not None:
        speedup = interval(_over(alone, costs, none=1.0))
        beyond = np.where(costs > alone * (1 + TIE), costs - alone, 0.0)
        loss = _over(beyond, alone)
        pays, loss_mean, loss_p90 = float((beyond == 0).mean()), _mean(loss), _worst(loss)
    return Confidence(
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
    """Return quotients; 0/0 is `none`, and x/0 is infinite."""
    filler = np.where(numbers > 0, np.inf, none)
    return np.divide(numbers, by, out=filler, where=by > 0)


@dataclass(frozen=True, eq=False, slots=True)
class Draws:
    """Factors on the times of a problem, one row per sample.

    - `devices`: float array [N, P].
    - `routes`: float array [N, P, P].
    - `parts`: float array [N, P]. Standard normal numbers of the additional error of parts of a
    model.
    """

    devices: NDArray[np.float64]
    routes: NDArray[np.float64]
    parts: NDArray[np.float64]

    def of_devices(self, plan: Plan) -> NDArray[np.float64]:
        """Return the factors [N, P] of devices for the parts of the model in a plan."""
        return self.devices * np.exp(self.parts * part_sd(plan))


def draw(uncertainty: Uncertainty, count: int = DRAWS, seed: int = 0) -> Draws:
    """Return `count` samples of all factors; correlated sources share their sample.

    Complexity: O(N S (P^2 + log N)) for S sources.
    """
    sources, devices = len(uncertainty.sources), len(uncertainty.devices)
    every = normals(count, sources + devices, seed)
    return _factors(uncertainty, every[:, :sources], every[:, sources:])


def _factors(uncertainty: Uncertainty, z: NDArray[np.float64], parts: NDArray[np.float64]) -> Draws:
    routes = np.einsum("ns,pqs->npq", z, uncertainty.routes)
    return Draws(np.exp(z @ uncertainty.devices.T), np.exp(routes), parts)


def draw_together(problems: Sequence[Problem], count: int = DRAWS, seed: int = 0) -> list[Draws]:
    """Return `count` samples of each problem, with common random numbers.

    A device family, kind of device or kind of link in several problems has the same error in all of
    them; the k-th device of a kind has the same number for its parts. For one problem the samples
    equal those of ``draw``.

    Complexity: O(N S (P^2 + log N)) for the S sources of all problems.
    """
    known = [problem.uncertainty for problem in problems]
    sources = {name: None for one in known for name in one.sources}
    kinds = [_counted([one.of for one in problem.evidence]) for problem in problems]
    columns = {
        name: at
        for at, name in enumerate((*sources, *{kind: None for own in kinds for kind in own}))
    }
    every = normals(count, len(columns), seed)
    return [
        _factors(
            one,
            every[:, [columns[name] for name in one.sources]],
            every[:, [columns[kind] for kind in own]],
        )
        for one, own in zip(known, kinds, strict=True)
    ]


def _counted(names: Sequence[str]) -> list[tuple[str, int]]:
    """Return names, each with the number of equal ones before it."""
    return [(name, names[:at].count(name)) for at, name in enumerate(names)]


def normals(count: int, sources: int, seed: int) -> NDArray[np.float64]:
    """Return standard normal numbers [count, sources], spread evenly.

    A Halton sequence, one prime base per source, with digits permuted by the seed (A. Owen, "A
    randomized Halton algorithm in R", 2017); each point is paired with its mirror image, and each
    source is then mapped to the quantiles (k + 1/2) / count, so that each alone is as even as
    possible. A share over 200 samples of 3 to 12 sources has an error of 0.010 to 0.015 (root mean
    square; independent samples: 0.028). O(N S log N).
    """
    if not sources:
        return np.zeros((count, 0))
    random = Random(seed)
    half = np.stack(
        [_radical_inverses((count + 1) // 2, base, random) for base in _primes(sources)], axis=1
    )
    points = np.concatenate((half, 1.0 - half))[:count]
    standard = NormalDist()
    quantiles = np.array([standard.inv_cdf((k + 0.5) / count) for k in range(count)])
    ranks = points.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable")
    return np.asarray(quantiles[ranks])


def _radical_inverses(count: int, base: int, random: Random) -> NDArray[np.float64]:
    """Return the radical inverses of 0 .. count - 1 in a base, with each digit place permuted."""
    found, left, unit = np.zeros(count), np.arange(count), 1.0 / base
    while unit > _FINEST:
        digits = list(range(base))
        random.shuffle(digits)
        found += np.array(digits)[left % base] * unit
        left //= base
        unit /= base
    return found


def _primes(count: int) -> list[int]:
    found: list[int] = []
    candidate = 2
    while len(found) < count:
        if all(candidate % prime for prime in found):
            found.append(candidate)
        candidate += 1
    return found


def part_sd(plan: Plan) -> NDArray[np.float64]:
    """Return the extra uncertainty of the parts that a plan gives to devices, [P].

    It is the standard deviation of a further factor per device, independent of all others. If
    kernels have an independent error with share b of the variance, and equal times, a part of share
    w of the whole's time has 1 + b (1/w - 1) times its variance: the whole, which was measured,
    keeps its own. The whole is all that the device supports of the model. For several replicas, the
    mean weighted by their time. O(nodes).
    """
    problem = plan.problem
    found = np.zeros(len(problem.devices))
    for p, one in enumerate(problem.evidence):
        if one.by_kernel <= 0 or one.sd <= 0 or one.name not in plan.devices_used:
            continue
        whole_s = _kernels_s(problem, p, np.flatnonzero(problem.runnable[:, p]).tolist())
        spent_s = wider_s = 0.0
        for replica, times in zip(plan.replicas, plan.shares, strict=True):
            nodes = [v for g in replica.groups if g.device == one.name for v in g.nodes]
            part_s = _kernels_s(problem, p, sorted(nodes))
            if part_s > 0 and whole_s > 0:
                share = min(max(part_s / whole_s, LEAST_SHARE), 1.0)
                spent_s += times * part_s
                wider_s += times * part_s * (1.0 / share - 1.0)
        if spent_s > 0:
            found[p] = one.sd * np.sqrt(one.by_kernel * wider_s / spent_s)
    return found


def _kernels_s(problem: Problem, device: int, nodes: list[int]) -> float:
    return sum(s for _, s in problem.kernels(device, nodes))
