"""Comparison of strategies with each other and with every device alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.analysis.sureness import DRAWS, MOST_DRAWS, Sureness, draw, how_sure, sampled
from hetsim.analysis.sustaining import Sustaining
from hetsim.analysis.verdict import NO_PLAN, Choice, Verdict, decide
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
from hetsim.problem.parts import Slower
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.problem.timeline import Timeline
from hetsim.simulation.simulate import simulate

PLAY = 0.03
"""Idle share of the bottleneck up to which it is not mentioned."""


@dataclass(frozen=True, slots=True, repr=False)
class Row:
    """One strategy's plan and what it costs.

    Attributes
    ----------
    strategy : str
    plan, timeline : Plan, Timeline or None
        Of one request; for throughput, of a period of the deal where there is one. None where
        there is no feasible plan.
    reason : str or None
        Why there is none.
    speedup_over : mapping of str to float
        Cost of each device alone over this cost; devices that cannot run the whole model are
        absent.
    speedup_over_best_single : float or None
        The same over the fastest of them; None where no device can.
    gap : float or None
        Cost over the lower bound, less 1; None where there is no bound.
    cost_s : float or None
        What the objective counts: the latency, or the seconds a request that the clock keeps
        when requests are always waiting (``objective.kept_s``).
    bottleneck_s : float or None
        For throughput, the seconds a request of the busiest device or link: below `cost_s` where
        that is idle at times, as links serve requests in the order in which they come. None for
        latency.
    refusal : Infeasible or None
        The error that `reason` is the text of.
    sure : Sureness or None
        How sure `cost_s` is, and that it is the least; None where nothing was drawn.
    slower : Slower or None
        By what factor its devices are slower than alone, where that is asked; None where they
        are as fast.
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
    sure: Sureness | None = None
    slower: Slower | None = None

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
    """Copies of the whole model on devices where they pay, and their time a request."""

    plan: Plan
    cost_s: float


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Result):
    """Rows of strategies, best first, and the lower bound.

    Attributes
    ----------
    problem : Problem
    rows : tuple of Row
        By cost, then in the order asked for; those without a plan last.
    bound_s : float or None
        ``lower_bound`` under the constraints that all rows obey; inf where a node runs nowhere,
        None where a node is not priced, or none was asked for.
    best_single : str or None
        The device that is fastest alone.
    single_s : mapping of str to float
        Cost of each device alone, where it can run the whole model.
    objective : "latency" or "throughput"
    copies : Copies or None
        What the same devices do without any split, for throughput; None for latency, and where
        copies gain nothing over one device.
    draws, draw_seed : int
        How many draws of what figures are off by the rows were played on; 0 where all is taken as
        exact, or at the bad end.
    sustained : bool
        Whether devices that are busy at once share the power and the memory that the platform
        states.
    verdict : Verdict
        Whether several devices pay, with the chance, and which plan to take.
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
    verdict: Verdict = NO_PLAN

    def busy(self, row: Row) -> dict[str, float]:
        """Return, by device, the share of the time in which it computes.

        Of the latency; for throughput, of the time from one request's end to the next.
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
            Where no row has a plan: UnsupportedNode or OutOfMemory where that is why all have
            none.
        ObjectiveMissed
            Where the best costs more.
        InvalidInput
            For a target that is no finite number above 0.
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
        """Strategies without a plan by the reason for it, in the order of the rows."""
        return grouped((row.reason or "", row.strategy) for row in self.rows if not row.feasible)

    @property
    def ceiling(self) -> float | None:
        """Proven ceiling on the speed-up of any plan over the best single device."""
        if self.best_single is None or not self.bound_s:
            return None
        return self.single_s[self.best_single] / self.bound_s


DEFAULT_STRATEGIES: Mapping[Objective, tuple[str, ...]] = {
    "latency": ("single", "hetero", "heft", "auto"),
    "throughput": ("single", "multi", "hetero", "heft", "auto"),
}
"""Default strategies of a comparison by objective."""

PLANNING = 0.8
"""About the part of the time of a comparison that plans are made in; draws take the rest."""

LONG: Mapping[str, float] = {"auto": 10.0, "exact": 10.0, "local-search": 5.0}
"""About how long strategies that search take beside those that do not."""

COPIES = "multi"
"""The strategy that ``copies`` are of."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A plan, the same at the speed at which it is judged, how that went, and what it costs.

    Or why there is none.
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
    """Plan and simulate one request by each strategy.

    Parameters
    ----------
    problem : Problem
    strategies : sequence of str, optional
        As ``plan`` takes them; ``"single"`` stands for every device alone. The devices
        alone, and for throughput copies on all of them, are always simulated for the speed-ups,
        whether asked for or not. Absent: DEFAULT_STRATEGIES of the objective.
    objective : "latency" or "throughput"
        What rows are sorted, and speed-ups and gaps counted by. Strategies that take an
        objective, and are given none in their name, plan for it.
    affinity : Affinity, optional
        Whose pins and exclusions hold, as if they were given as options.
    samples, draw_seed : int
        Monte Carlo samples of the errors of device and link figures that every plan is played on,
        for ``Row.sure``; the same seed gives the same samples. 0: none.
    sustained : bool
        Whether every plan is judged as slow as its devices make each other for long, within the
        ``power_w`` and the ``memories`` of the platform; see ``hetsim.analysis.sustaining``. Plans
        are made for devices as fast as alone; requests are dealt out again at the speeds that
        come of it, where that is better. The bound is that of devices alone, so it holds.
    bounded : bool
        Whether the lower bound is computed, which may take longer than all plans; without it
        ``bound_s`` and the gaps are None.
    **options
        Of ``Constrained``: pins, exclusions and memory hold for every plan, the devices alone
        and the bound included. Others go to the strategies that have them; one must.

    Raises
    ------
    UsageError
        For an unknown strategy, device, objective or option, or no strategy at all.
    InvalidInput, UnsupportedNode
        For a pin or an exclusion that names nothing, or where they leave a node no device.
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

    sustaining = Sustaining(problem) if sustained else None

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
            costs_s = sampled(
                {name: one.judged for name, one in attempts.items() if one.judged},
                draw(problem.uncertainty, drawn, draw_seed),
                objective,
            )
    sure = how_sure(costs_s, None if best_single is None else f"single:{best_single}")
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
    sure: Mapping[str, Sureness],
) -> Verdict:
    plans = [
        _choice(row.strategy, row.plan, row.cost_s)
        for row in rows
        if row.plan is not None and row.cost_s is not None
    ]
    if not plans:
        return NO_PLAN
    if best_single is None:
        found = Verdict("no single device", plans[0])
    else:
        single = Choice(f"single:{best_single}", single_s[best_single], (best_single,))
        if all(row.strategy.partition(":")[0] == "single" for row in rows):
            found = Verdict("nothing split", single)
        else:
            if copies is not None:
                plans.append(_choice(COPIES, copies.plan, copies.cost_s))
            found = decide(single, [one for one in plans if len(one.devices) > 1], samples)
    assert found.take is not None
    return replace(found, sure=sure.get(found.take.strategy))


def _choice(strategy: str, plan: Plan, cost_s: float) -> Choice:
    copies = all(len(one.devices_used) == 1 for one in plan.replicas)
    return Choice(strategy, cost_s, plan.devices_used, copies)


def _attempt(
    limits: Constrained,
    problem: Problem,
    strategy: str,
    objective: Objective,
    options: Mapping[str, Any],
    sustaining: Sustaining | None,
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
            # Dealt out anew where some devices are slower than others by now.
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
    """One request; for throughput with replicas a period of the deal, at the rate that it keeps.

    Where memory does not hold that, the requests come one after another.
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
    """Raise ObjectiveMissed where `reached_s` is above `target_s`; `where` names the plan.

    Raises InvalidInput for a target that is no finite number above 0.
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
