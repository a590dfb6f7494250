"""Platforms side by side: the best plan of one model on each, its interval, price and power."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hetsim.analysis.comparison import COPIES, Comparison, Row, check_target, compare
from hetsim.analysis.confidence import (
    DRAWS,
    MOST_DRAWS,
    TIE,
    Interval,
    costs_over,
    draw_together,
    interval,
)
from hetsim.core import checks
from hetsim.core.progress import each, part
from hetsim.core.result import Result, short
from hetsim.core.units import format_seconds
from hetsim.cost import DEFAULT_COST
from hetsim.cost.kernels.float_equivalent import model_dtype
from hetsim.errors import UsageError, all_refused, nearest
from hetsim.graph.model import Model
from hetsim.graph.work import graph_work
from hetsim.hardware.catalog import load_catalog_platforms, load_platform
from hetsim.hardware.files.prices_schema import offers_by_name, sum_of_parts
from hetsim.hardware.files.runtimes import every_runtime, has_runtime, platform_by_runtime
from hetsim.hardware.price import Offer, Price
from hetsim.hardware.spec import Platform, unnumbered
from hetsim.hardware.variants import EVERY, INT8, can_execute, that_can
from hetsim.placement.objective import Objective, check_objective
from hetsim.problem.parts import Contention
from hetsim.problem.problem import Problem

STRATEGIES: Mapping[Objective, tuple[str, ...]] = {
    "latency": ("single", "hetero", "heft"),
    "throughput": ("single", "multi", "hetero", "heft"),
}
"""Default strategies on each platform: those without a search."""

READ, PLANNED = 0.2, 0.9
"""Approximate shares of the time after which platforms are read, and planned for."""


@dataclass(frozen=True, slots=True, repr=False)
class PlatformRow:
    """Plan to take on one platform.

    - `comparison`: strategies on the platform, by the point estimates.
    - `taken`: row to take: the fastest single device, unless a plan on several devices is at least
    5 % faster; see ``ComparisonVerdict``. None if no strategy found a plan.
    - `alone`: whether it is a single device of the catalog; unless that is a CPU, its host is not
    counted.
    - `precisions`: by device of the plan, the precision of most of its arithmetic.
    - `offers`: at most one offer to buy and one to rent it; empty if no price is known.
    - `busy_w`: watts with all its devices busy, within the platform's power limit; None if a device
    states none.
    - `integer_only`: devices that run no node of the given model, but would in int8.
    - `interval`: 80 % interval of the cost; None without samples.
    - `fastest`: share of the samples in which no peer costs less; see ``PlatformComparison.peers``.
    """

    comparison: Comparison = field(repr=False)
    taken: Row | None = field(repr=False)
    alone: bool
    precisions: Mapping[str, str]
    offers: tuple[Offer, ...]
    busy_w: float | None
    integer_only: tuple[str, ...] = ()
    interval: Interval | None = None
    fastest: float | None = None

    def __repr__(self) -> str:
        if self.cost_s is None:
            return short(f"PlatformRow: {self.name}, {self.reason}")
        used = ", ".join(f"{name} {kind}" for name, kind in self.precisions.items())
        return short(f"PlatformRow: {self.name}, {format_seconds(self.cost_s)} on {used}")

    @property
    def platform(self) -> Platform:
        """Platform of the row."""
        found = self.comparison.problem.platform
        assert found is not None
        return found

    @property
    def name(self) -> str:
        """Name of the platform."""
        return self.platform.name

    @property
    def energy_j(self) -> float | None:
        """Joules per request of the plan; None if no power is stated."""
        if self.taken is None or self.taken.timeline is None or self.busy_w is None:
            return None
        return self.taken.timeline.energy_j / len(self.taken.timeline.latencies_s)

    @property
    def cost_s(self) -> float | None:
        """Value of the objective in seconds, by the point estimates; None without a plan."""
        return None if self.taken is None else self.taken.cost_s

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices that the plan uses."""
        return () if self.taken is None or self.taken.plan is None else self.taken.plan.devices_used

    @property
    def speedup(self) -> float | None:
        """Speed-up over the best single device; None if none runs the whole model."""
        return None if self.taken is None else self.taken.speedup_over_best_single

    @property
    def reason(self) -> str | None:
        """Reason why there is no plan."""
        if self.taken is not None:
            return None
        return next((row.reason for row in self.comparison.rows if row.reason), None)

    def offer(self, *, rented: bool) -> Offer | None:
        """Return the offer to rent it, or to buy it; None if no price is known."""
        return next((one for one in self.offers if one.price.rented == rented), None)


@dataclass(frozen=True, slots=True, repr=False)
class PlatformComparison(Result):
    """Platforms by the cost of the best plan of one model, best first.

    Attributes
    ----------
    model : Model
    rows : tuple of PlatformRow
        Rows by cost; those without a plan last.
    strategies : tuple of str
        Strategies tried on each.
    objective : "latency" or "throughput"
    samples, seed : int
        Monte Carlo samples in which plans were simulated; 0: none.
    """

    model: Model
    rows: tuple[PlatformRow, ...]
    strategies: tuple[str, ...]
    objective: Objective = "latency"
    samples: int = 0
    seed: int = 0

    @property
    def feasible(self) -> tuple[PlatformRow, ...]:
        """Rows with a plan."""
        return tuple(row for row in self.rows if row.taken is not None)

    @property
    def peers(self) -> tuple[PlatformRow, ...]:
        """Feasible rows that are compared for the fastest.

        Boards and machines, if there are several; else all, including single devices.
        """
        return _peers(self.feasible)

    @property
    def best(self) -> PlatformRow | None:
        """Fastest of the peers."""
        return next(iter(self.peers), None)

    def cheapest(self, *, rented: bool, within: float | None = None) -> PlatformRow | None:
        """Return the peer with the lowest price, hourly or of purchase.

        `within`: only those that cost at most this share more than the best.
        """
        best = self.best
        if best is None or best.cost_s is None:
            return None
        most_s = np.inf if within is None else best.cost_s * (1.0 + within)
        priced = [
            (amount, row.cost_s, row)
            for row in self.peers
            if row.cost_s is not None
            and row.cost_s <= most_s
            and (offer := row.offer(rented=rented)) is not None
            and (amount := offer.usd_per_hour if rented else offer.usd) is not None
        ]
        return min(priced, key=lambda one: one[:2])[2] if priced else None

    def require(self, target_s: float | None = None) -> PlatformRow:
        """Return the best row, which has a plan and costs at most `target_s`.

        Raises
        ------
        Infeasible
            If no platform runs the model: UnsupportedNode or OutOfMemory if that is the reason for
            all.
        ObjectiveMissed
            If the best costs more.
        """
        best = self.best
        if best is None or best.cost_s is None:
            refusals = [
                row.refusal
                for one in self.rows
                for row in one.comparison.rows
                if row.refusal is not None
            ]
            what = f"none of {len(self.rows)} platforms runs {self.model.name}"
            raise all_refused(what, refusals, hint="the table says why, platform by platform")
        if target_s is not None:
            check_target(self.objective, best.cost_s, target_s, f"platform '{best.name}'")
        return best


def _peers(feasible: Sequence[PlatformRow]) -> tuple[PlatformRow, ...]:
    whole = tuple(row for row in feasible if not row.alone)
    return whole if len(whole) > 1 else tuple(feasible)


@checks.takes(
    model=checks.instance("hetsim.graph.model:Model"),
    platforms=checks.sequence(
        checks.either(checks.instance("hetsim.hardware.spec:Platform"), checks.path)
    ),
    strategies=checks.sequence(checks.text),
    objective=checks.text,
    execute=checks.mapping(checks.text, checks.text),
    runtime=checks.mapping(checks.text, checks.text),
    samples=checks.whole(0, MOST_DRAWS),
    seed=checks.whole(0),
    cost=checks.text,
    contention=checks.text,
    pessimistic=checks.flag,
)
def compare_platforms(
    model: Model,
    platforms: Sequence[Platform | str | os.PathLike[str]] | None = None,
    strategies: Sequence[str] | None = None,
    *,
    objective: Objective = "latency",
    execute: Mapping[str, str] | None = None,
    runtime: Mapping[str, str] | None = None,
    samples: int = DRAWS,
    seed: int = 0,
    cost: str = DEFAULT_COST,
    contention: Contention = "fifo",
    pessimistic: bool = False,
) -> PlatformComparison:
    """Plan `model` for each platform, and compare the platforms.

    Parameters
    ----------
    model : Model
    platforms : sequence of Platform, str or path, optional
        Catalog names or YAML files. Absent: all platforms of the catalog, and each of its devices
        that belongs to none, alone.
    strategies : sequence of str, optional
        As in ``compare``, in addition to single devices, and for throughput copies on several.
        Absent: STRATEGIES of the objective. For a single device, only that one is planned.
    objective : "latency" or "throughput"
    execute, runtime : mapping of str to str, optional
        Precisions and runtimes by device, as in ``Problem.of`` and ``load_platform``; ``"*"``:
        every device that can. Platforms without such a device are unchanged.
    samples, seed : int
        Monte Carlo samples of the cost-model error in which each plan is simulated, with common
        random numbers: shared parts of two platforms have the same error in both. 0: none.
    cost, contention, pessimistic
        As in ``Problem.of``.

    Raises
    ------
    UsageError
        For an unknown strategy or cost model, no platform, or a precision or runtime that no device
        of any platform has.
    PlatformError
        For an unknown platform, or an invalid description.
    UnboundDimension
        For a model with open dimensions.

    Complexity: one ``Problem.of`` and one ``compare`` per platform.
    """
    check_objective(objective)
    with part(0.0, READ, "reading the catalog" if platforms is None else ""):
        asked = (
            load_catalog_platforms()
            if platforms is None
            else tuple(
                one if isinstance(one, Platform) else load_platform(one) for one in platforms
            )
        )
    if not asked:
        raise UsageError("no platform to compare", hint="name one, e.g. rock-5b")
    named = STRATEGIES[objective] if strategies is None else strategies
    # A single device, or copies of the model on several, may be the plan to take.
    simple = ("single",) if objective == "latency" else ("single", COPIES)
    names = tuple(dict.fromkeys((*simple, *named)))
    for name in names:
        if ":" in name:
            raise UsageError(
                f"strategy '{name}' names devices of one platform",
                hint=f"name one platform, or write {name.partition(':')[0]}",
            )
    execute, runtime = execute or {}, runtime or {}
    _check_that_some_can(asked, execute, runtime)
    rows: list[PlatformRow] = []
    with part(READ, PLANNED):
        for platform in each(asked, lambda platform: platform.name):
            chosen = that_can(platform, runtime, has_runtime)
            problem = Problem.of(
                model,
                platform_by_runtime(platform, chosen) if chosen else platform,
                contention=contention,
                execute=that_can(platform, execute, can_execute),
                cost=cost,
                pessimistic=pessimistic,
            )
            lone = len(problem.devices) == 1
            found = compare(
                problem,
                ("single",) if lone else names,
                objective=objective,
                samples=0,
                bounded=False,
            )
            rows.append(_row(found))
    with part(PLANNED, 1.0, f"{samples} samples"):
        rows = _sampled(rows, objective, 0 if pessimistic else samples, seed)
    rows.sort(key=lambda row: np.inf if row.cost_s is None else row.cost_s)
    drawn = samples if any(row.interval is not None for row in rows) else 0
    return PlatformComparison(model, tuple(rows), names, objective, drawn, seed)


def _check_that_some_can(
    platforms: Sequence[Platform], execute: Mapping[str, str], runtime: Mapping[str, str]
) -> None:
    """Raise UsageError for a device, precision or runtime that no platform has."""
    specs = [(name, spec) for one in platforms for name, spec in one.devices.items()]
    known = sorted({each for name, _ in specs for each in (name, unnumbered(name))})
    for asked, can, what, words in (
        (execute, can_execute, "can execute in", {w for _, one in specs for w in one.flops_per_s}),
        (
            runtime,
            has_runtime,
            "has figures by",
            {w for _, one in specs for w in every_runtime(one)},
        ),
    ):
        for name, word in asked.items():
            if name != EVERY and name not in known:
                raise UsageError(
                    f"no device '{name}' on any of {len(platforms)} platforms",
                    hint=nearest(name, known),
                )
            if not any(that_can(one, {name: word}, can) for one in platforms):
                which = "device" if name == EVERY else f"device '{name}'"
                raise UsageError(
                    f"no {which} of {len(platforms)} platforms {what} '{word}'",
                    hint=nearest(word, sorted(words)),
                )


def _row(found: Comparison) -> PlatformRow:
    problem, take = found.problem, found.verdict.take
    platform, model = problem.platform, problem.model
    assert platform is not None
    assert model is not None
    taken = next((row for row in found.rows if take and row.strategy == take.strategy), None)
    specs = platform.devices
    works = graph_work(model.graph)
    precisions = {
        name: model_dtype(
            specs[name],
            model.graph,
            [works[v] for v in np.flatnonzero(problem.runnable[:, p]).tolist()],
        )
        for p, name in enumerate(problem.devices)
        if taken is not None and taken.plan is not None and name in taken.plan.devices_used
    }
    watts = [spec.busy_w for spec in specs.values()]
    return PlatformRow(
        found,
        taken,
        alone=next(iter(specs.values())).name == platform.name,
        precisions=precisions,
        offers=_offers(platform),
        busy_w=min(sum(watts), platform.power_w or np.inf) if all(watts) else None,
        integer_only=tuple(
            name
            for p, (name, spec) in enumerate(specs.items())
            if spec.executes is None
            and can_execute(spec, INT8)
            and not problem.runnable[:, p].any()
        ),
    )


def _offers(platform: Platform) -> tuple[Offer, ...]:
    """Return at most one offer to buy and one to rent the platform.

    First those that the catalog lists or its file states, then the sum of device prices.
    """
    known = list(offers_by_name().get(platform.name, ())) * (platform.source == platform.name)
    if platform.price is not None:
        known.append(_stated(platform.name, platform.name, platform.price))
    parts = [
        [] if spec.price is None else [_stated(spec.name, spec.full_name, spec.price)]
        for spec in platform.devices.values()
    ]
    known += parts[0] if len(parts) == 1 else filter(None, [sum_of_parts(platform.name, parts)])
    bought = [one for one in known if one.usd is not None][:1]
    rented = sorted((one.usd_per_hour, at) for at, one in enumerate(known) if one.usd_per_hour)
    return (*bought, *(known[at] for _, at in rented[:1]))


def _stated(name: str, what: str, price: Price) -> Offer:
    return Offer(
        name, (), what, price.of, "list", "no", price.source, price.usd, price.usd_per_hour
    )


def _sampled(
    rows: Sequence[PlatformRow], objective: Objective, samples: int, seed: int
) -> list[PlatformRow]:
    """Return rows with 80 % intervals, and the share of samples in which each is fastest."""
    sure = [row for row in rows if row.taken is not None and not row.comparison.problem.certain]
    if not samples or not sure:
        return list(rows)
    drawn = draw_together([row.comparison.problem for row in sure], samples, seed)
    costs = {}
    for row, draws in zip(each(sure, lambda row: row.name), drawn, strict=True):
        assert row.taken is not None
        assert row.taken.plan is not None
        costs[id(row)] = costs_over(row.taken.plan, draws, objective)
    peers = _peers([row for row in rows if row.taken is not None])
    every = {
        id(row): costs.get(id(row), np.full(samples, row.cost_s, dtype=np.float64)) for row in peers
    }
    least = np.min(list(every.values()), axis=0) * (1 + TIE)
    return [
        replace(
            row,
            interval=interval(costs[id(row)]) if id(row) in costs else None,
            fastest=float((every[id(row)] <= least).mean()) if id(row) in every else None,
        )
        for row in rows
    ]
