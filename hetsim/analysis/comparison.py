"""Comparison of strategies with each other and with every device alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.analysis.confidence import (
    DRAWS,
    MOST_DRAWS,
    Confidence,
    confidence_by_plan,
    cost_samples,
    draw,
)
from hetsim.analysis.sustained_speed import SustainedSpeed
from hetsim.analysis.verdict import NO_PLAN, ComparisonVerdict, PlanChoice, decide
from hetsim.core import checks
from hetsim.core.options import checked_fields
from hetsim.core.progress import each, part
from hetsim.core.result import Result, short
from hetsim.core.text import grouped
from hetsim.core.units import format_seconds
from hetsim.errors import Infeasible, ObjectiveMissed, OutOfMemory, UsageError, all_refused, nearest
from hetsim.partitioning.affinity import Affinity
from hetsim.placement.bounds.lower_bound import stated_bound
from hetsim.placement.constraints import NAMES, Constrained, with_affinity
from hetsim.placement.initial_plans import expand
from hetsim.placement.objective import (
    Objective,
    bottleneck,
    check_objective,
    check_room,
    kept_s,
    seconds_a_request,
)
from hetsim.placement.planning import under
from hetsim.placement.registry import option_types
from hetsim.problem.parts import Slowdown
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.problem.timeline import Timeline
from hetsim.simulation.simulate import simulate

PLAY = 0.03
"""Idle share of the bottleneck below which it is not reported."""


@dataclass(frozen=True, slots=True, repr=False)
class Row:
    """Plan of one strategy, and its cost.

    Attributes
    ----------
    strategy : str
    plan, timeline : Plan, Timeline or None
        Plan, and timeline of one request; for throughput with replicas, of a period of the deal.
        None without a feasible plan.
    reason : str or None
        Reason why there is none.
    speedup_over : mapping of str to float
        Ratio of each single device's cost to this cost; devices that cannot run the whole model are
        absent.
    speedup_over_best_single : float or None
        The same for the fastest of them; None if no device can.
    gap : float or None
        Ratio of cost to lower bound, minus 1; None without a bound.
    cost_s : float or None
        Value of the objective: the latency, or the simulated seconds per request with an unlimited
        backlog (``objective.kept_s``).
    bottleneck_s : float or None
        For throughput, the seconds per request of the busiest device or link: below `cost_s` if
        that is sometimes idle, as links serve requests in order. None for latency.
    refusal : Infeasible or None
        Error with the text `reason`.
    sure : Confidence or None
        Uncertainty of `cost_s`, and of its rank; None without samples.
    slower : Slowdown or None
        Factors by which its devices are slower than alone, if requested; None without a slowdown.
    """

    strategy: str
    plan: Plan | None
    timeline: Timeline | None
    reason: str | None
    speedup_over: Mapping[str, float]
    speedup_over_best_single: float | None
    gap: float | None
    cost_s: float | None
    bottleneck_s: float | None = None
    refusal: Infeasible | None = field(default=None, repr=False, compare=False)
    sure: Confidence | None = None
    slower: Slowdown | None = None

    def __repr__(self) -> str:
        if self.plan is None or self.cost_s is None:
            return short(f"Row: {self.strategy}, {self.reason}")
        devices = ", ".join(self.plan.devices_used)
        cost = format_seconds(self.cost_s)
        return short(f"Row: {self.strategy}, {cost}, subgraphs: {self.groups}, on {devices}")

    @property
    def lags(self) -> bool:
        """Whether the busiest device or link is idle for more than PLAY of the time."""
        known = self.cost_s is not None and self.bottleneck_s is not None
        return known and (self.cost_s or 0.0) > (self.bottleneck_s or 0.0) * (1.0 + PLAY)

    @property
    def feasible(self) -> bool:
        """Whether there is a plan."""
        return self.timeline is not None

    @property
    def latency_s(self) -> float | None:
        """End-to-end latency in virtual seconds."""
        return None if self.timeline is None else self.timeline.latency_s

    @property
    def groups(self) -> int:
        """Number of subgraphs."""
        return 0 if self.plan is None else len(self.plan.groups)


@dataclass(frozen=True, slots=True)
class Copies:
    """Copies of the whole model on devices that pay off, and their seconds per request."""

    plan: Plan
    cost_s: float


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Result):
    """Rows of strategies, best first, and the lower bound.

    Attributes
    ----------
    problem : Problem
    rows : tuple of Row
        Rows by cost, then in the order of strategies; those without a plan last.
    bound_s : float or None
        ``lower_bound`` under the constraints of all rows; inf if a node runs nowhere, None if a
        node is not priced, or not requested.
    best_single : str or None
        Fastest single device.
    single_s : mapping of str to float
        Cost of each single device that can run the whole model.
    objective : "latency" or "throughput"
    copies : Copies or None
        Result of the same devices without a split, for throughput; None for latency, or if copies
        gain nothing over one device.
    draws, draw_seed : int
        Number of Monte Carlo samples in which rows were simulated, and their seed; 0 if times are
        exact, or pessimistic.
    sustained : bool
        Whether concurrently busy devices share the power and memory stated by the platform.
    verdict : ComparisonVerdict
        Whether several devices pay off, with the probability, and the plan to take.
    """

    problem: Problem
    rows: tuple[Row, ...]
    bound_s: float | None
    best_single: str | None
    single_s: Mapping[str, float]
    objective: Objective = "latency"
    copies: Copies | None = None
    draws: int = 0
    draw_seed: int = 0
    sustained: bool = False
    verdict: ComparisonVerdict = NO_PLAN

    def busy(self, row: Row) -> dict[str, float]:
        """Return, by device, the share of the time in which it computes.

        Relative to the latency; for throughput, to the time between the ends of two requests.
        """
        if row.timeline is None or row.plan is None:
            return {}
        if self.objective == "latency":
            return row.timeline.device_busy_share
        device_s, _ = seconds_a_request(row.plan)
        slower = (1.0,) * len(device_s) if row.slower is None else row.slower.factors
        return {
            name: min(seconds * factor / row.cost_s, 1.0) if row.cost_s else 0.0
            for name, seconds, factor in zip(self.problem.devices, device_s, slower, strict=True)
        }

    def require(self, target_s: float | None = None) -> Row:
        """Return the best row, which has a plan and costs at most `target_s`.

        Raises
        ------
        Infeasible
            If no row has a plan: UnsupportedNode or OutOfMemory if that is the reason for all.
        ObjectiveMissed
            If the best costs more.
        InvalidInput
            For a target that is not a finite number above 0.
        """
        best = self.rows[0]
        if best.cost_s is None:
            told = (f"{', '.join(names)}: {why}" for why, names in self.refusals.items())
            raise all_refused(
                f"no strategy found a feasible plan for {self.problem.name}: {'; '.join(told)}",
                [row.refusal for row in self.rows if row.refusal is not None],
            )
        if target_s is not None:
            check_target(self.objective, best.cost_s, target_s, f"plan '{best.strategy}'")
        return best

    @property
    def refusals(self) -> dict[str, list[str]]:
        """Strategies without a plan, by reason, in the order of the rows."""
        return grouped((row.reason or "", row.strategy) for row in self.rows if not row.feasible)

    @property
    def ceiling(self) -> float | None:
        """Proven upper bound on the speed-up of any plan over the best single device."""
        if self.best_single is None or not self.bound_s:
            return None
        return self.single_s[self.best_single] / self.bound_s


DEFAULT_STRATEGIES: Mapping[Objective, tuple[str, ...]] = {
    "latency": ("single", "hetero", "heft", "auto"),
    "throughput": ("single", "multi", "hetero", "heft", "auto"),
}
"""Default strategies of a comparison by objective."""

PLANNING = 0.8
"""Approximate share of a time limit for planning; samples take the rest."""

LONG: Mapping[str, float] = {"auto": 10.0, "exact": 10.0, "local-search": 5.0}
"""Approximate time of searching strategies relative to others."""

COPIES = "multi"
"""Strategy of ``copies``."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """Plan, the same at its sustained speed, its timeline, and its cost.

    Or the reason why there is none.
    """

    plan: Plan | None = None
    judged: Plan | None = None
    timeline: Timeline | None = None
    cost_s: float | None = None
    refusal: Infeasible | None = None


@checks.takes(
    problem=checks.instance("hetsim.problem.problem:Problem"),
    strategies=checks.sequence(checks.text),
    objective=checks.text,
    affinity=checks.instance("hetsim.partitioning.affinity:Affinity"),
    samples=checks.whole(0, MOST_DRAWS),
    draw_seed=checks.whole(0),
    sustained=checks.flag,
    bounded=checks.flag,
)
def compare(
    problem: Problem,
    strategies: Sequence[str] | None = None,
    *,
    objective: Objective = "latency",
    affinity: Affinity | None = None,
    samples: int = DRAWS,
    draw_seed: int = 0,
    sustained: bool = False,
    bounded: bool = True,
    **options: Any,
) -> Comparison:
    """Return plans by each strategy, with simulated costs.

    Parameters
    ----------
    problem : Problem
    strategies : sequence of str, optional
        As in ``plan``; ``"single"`` stands for each single device. Single devices, and for
        throughput copies on all of them, are always simulated for the speed-ups, even if not
        listed. Absent: DEFAULT_STRATEGIES of the objective.
    objective : "latency" or "throughput"
        Objective of the order, speed-ups and gaps. Strategies that take an objective, but have none
        in their name, plan for it.
    affinity : Affinity, optional
        Pins and exclusions that apply as if they were given as options.
    samples, draw_seed : int
        Monte Carlo samples of errors of device and link figures in which every plan is simulated,
        for ``Row.sure``; the seed determines the samples. 0: none.
    sustained : bool
        Whether every plan is judged at the sustained speed of its devices within the ``power_w``
        and the ``memories`` of the platform; see ``hetsim.analysis.sustained_speed``. Plans
        are made for full speed; requests are redistributed at the resulting speeds if that is
        better. The bound at full speed remains valid.
    bounded : bool
        Whether to compute the lower bound, which may take longer than all plans; without it
        ``bound_s`` and the gaps are None.
    **options
        Options of ``Constrained`` apply to every plan, single devices and the bound included.
        Others apply to the strategies that have them; at least one must.

    Raises
    ------
    UsageError
        For an unknown strategy, device, objective or option, or without a strategy.
    InvalidInput, UnsupportedNode
        For a pin or an exclusion without a match, or if they leave a node without a device.
    """
    check_objective(objective)
    if strategies is None:
        strategies = DEFAULT_STRATEGIES[objective]
    if not strategies:
        raise UsageError("no strategy to compare", hint="name one, e.g. heft")
    if affinity is not None:
        options = with_affinity(options, affinity, problem)
    known = {key for strategy in strategies for key in option_types(strategy)} | {*NAMES}
    for key in options:
        if key not in known or key == "objective":
            raise UsageError(
                f"no strategy here has an option '{key}'", hint=nearest(key, sorted(known))
            )
    options |= checked_fields(Constrained, options)
    limits = Constrained(**{key: value for key, value in options.items() if key in NAMES})
    limits.check()
    limits.narrow(problem)

    sustaining = SustainedSpeed(problem) if sustained else None

    def attempt(strategy: str) -> _Attempt:
        return _attempt(limits, problem, strategy, objective, options, sustaining)

    alone = {name: attempt(name) for name in expand(problem)}
    single_s = {
        name.removeprefix("single:"): cost
        for name, tried in alone.items()
        if (cost := tried.cost_s) is not None
    }
    best_single = min(single_s, key=lambda name: single_s[name]) if single_s else None
    attempts = dict(alone)
    copies: Copies | None = None
    if objective == "throughput":
        found = attempts[COPIES] = attempt(COPIES)
        copies_s = found.cost_s
        if found.plan is not None and copies_s is not None and found.plan.sizes:
            copies = Copies(found.plan, copies_s)
    names: dict[str, None] = {}
    for strategy in strategies:
        names.update(dict.fromkeys(alone if strategy == "single" else (strategy,)))
    drawn = 0 if problem.certain else samples
    asked = [name for name in names if name not in attempts]
    with part(0.0, PLANNING if drawn else 1.0):
        for name in each(asked, weight=lambda name: LONG.get(name.partition(":")[0], 1.0)):
            attempts[name] = attempt(name)
    met_s = float("inf")
    if objective == "latency" and sustaining is None:
        costs = [tried.cost_s for tried in attempts.values()]
        met_s = min((cost_s for cost_s in costs if cost_s is not None), default=met_s)
    bound_s = stated_bound(problem, objective, limits, met_s) if bounded else None
    costs_s: dict[str, NDArray[np.float64]] = {}
    if drawn:
        with part(PLANNING, 1.0, f"{drawn} samples"):
            costs_s = cost_samples(
                {name: one.judged for name, one in attempts.items() if one.judged},
                draw(problem.uncertainty, drawn, draw_seed),
                objective,
            )
    sure = confidence_by_plan(costs_s, None if best_single is None else f"single:{best_single}")
    under_these = " (under the pins, exclusions and memory given)" if limits.given() else ""
    rows: list[Row] = []
    for name in names:
        tried = attempts[name]
        judged, refusal = tried.judged, tried.refusal
        cost_s = tried.cost_s
        rows.append(
            Row(
                strategy=name,
                plan=tried.plan,
                timeline=tried.timeline,
                reason=None if refusal is None else f"{refusal}{under_these}",
                speedup_over={
                    device: _ratio(seconds, cost_s)
                    for device, seconds in single_s.items()
                    if cost_s is not None
                },
                speedup_over_best_single=(
                    _ratio(single_s[best_single], cost_s)
                    if best_single is not None and cost_s is not None
                    else None
                ),
                gap=cost_s / bound_s - 1.0 if cost_s is not None and bound_s else None,
                cost_s=cost_s,
                bottleneck_s=bottleneck(judged) if judged and objective != "latency" else None,
                refusal=refusal,
                sure=sure.get(name),
                slower=None if judged is None else judged.problem.slower,
            )
        )
    infinity = float("inf")
    rows.sort(key=lambda row: infinity if row.cost_s is None else row.cost_s)
    return Comparison(
        problem, tuple(rows), bound_s, best_single, single_s, objective, copies, drawn, draw_seed,
        sustained, _verdict(rows, best_single, single_s, copies, costs_s, sure),
    )  # fmt: skip


def _verdict(
    rows: Sequence[Row],
    best_single: str | None,
    single_s: Mapping[str, float],
    copies: Copies | None,
    samples: Mapping[str, NDArray[np.float64]],
    sure: Mapping[str, Confidence],
) -> ComparisonVerdict:
    plans = [
        _choice(row.strategy, row.plan, row.cost_s)
        for row in rows
        if row.plan is not None and row.cost_s is not None
    ]
    if not plans:
        return NO_PLAN
    if best_single is None:
        found = ComparisonVerdict("no single device", plans[0])
    else:
        single = PlanChoice(f"single:{best_single}", single_s[best_single], (best_single,))
        if all(row.strategy.partition(":")[0] == "single" for row in rows):
            found = ComparisonVerdict("nothing split", single)
        else:
            if copies is not None:
                plans.append(_choice(COPIES, copies.plan, copies.cost_s))
            found = decide(single, [one for one in plans if len(one.devices) > 1], samples)
    assert found.take is not None
    return replace(found, sure=sure.get(found.take.strategy))


def _choice(strategy: str, plan: Plan, cost_s: float) -> PlanChoice:
    copies = all(len(one.devices_used) == 1 for one in plan.replicas)
    return PlanChoice(strategy, cost_s, plan.devices_used, copies)


def _attempt(
    limits: Constrained,
    problem: Problem,
    strategy: str,
    objective: Objective,
    options: Mapping[str, Any],
    sustaining: SustainedSpeed | None,
) -> _Attempt:
    if objective != "latency" and ":" not in strategy:
        options = {**options, "objective": objective}

    def judged(plan: Plan) -> Plan:
        if sustaining is None:
            return plan
        if objective == "latency":
            return sustaining.of_requests(plan)
        return sustaining.of_stream(plan)

    try:
        made = under(limits, problem, strategy, **options)
        at = judged(made)
        if made.sizes and at is not made:
            # Redistribute requests, as some devices are now slower than others.
            other = replace(under(limits, at.problem, strategy, **options), problem=problem)
            then = judged(other)
            if kept_s(then) < kept_s(at):
                made, at = other, then
        course = _course(at, objective)
        cost_s = course.latency_s if objective == "latency" else kept_s(at)
        return _Attempt(made, at, course, cost_s)
    except Infeasible as error:
        return _Attempt(refusal=error)


def _course(made: Plan, objective: Objective) -> Timeline:
    """Return the timeline of one request; for replicas, of a period at the sustained rate.

    If memory does not allow that, the requests arrive one after another.
    """
    if objective == "latency" or not made.sizes:
        return simulate(made)
    check_room(made)
    every_s = kept_s(made)
    try:
        return simulate(made, arrivals_s=[every_s * turn for turn in range(len(made.deal))])
    except OutOfMemory:
        longest_s = max(simulate(one, trace=False).latency_s for one in made.replicas)
        return simulate(made, arrivals_s=[longest_s * turn for turn in range(len(made.deal))])


def _ratio(seconds: float, cost_s: float) -> float:
    if cost_s > 0:
        return seconds / cost_s
    return 1.0 if seconds == cost_s else float("inf")


def check_target(objective: Objective, reached_s: float, target_s: float, where: str) -> None:
    """Raise ObjectiveMissed if `reached_s` is above `target_s`; `where` names the plan.

    Raises InvalidInput for a target that is not a finite number above 0.
    """
    checks.number(above=0)(target_s, "target_s")
    if reached_s > target_s:
        each = " a request" if objective == "throughput" else ""
        raise ObjectiveMissed(
            f"{objective} {format_seconds(reached_s)}{each} misses the target of "
            f"{format_seconds(target_s)} ({reached_s / target_s:.3g}x)",
            where=where,
            hint="see `hetsim compare --explain` for the most helpful changes",
            objective=objective,
            target_s=target_s,
            reached_s=reached_s,
        )
