"""The verb ``compare``: strategies side by side, against every device alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hetsim.errors import Infeasible, UsageError, nearest
from hetsim.placement.bound import stated_bound
from hetsim.placement.constraints import NAMES, Constrained
from hetsim.placement.objective import Objective, bottleneck, check_objective
from hetsim.placement.options import option_types, under
from hetsim.placement.single import expand
from hetsim.plans import Plan
from hetsim.problem import Problem
from hetsim.simulation.clock import simulate
from hetsim.timeline import Timeline

DEFAULT_STRATEGIES = ("single", "hetero", "heft", "auto")


@dataclass(frozen=True, slots=True)
class Row:
    """One strategy's plan and what it costs.

    Attributes
    ----------
    strategy : str
    plan, timeline : Plan, Timeline or None
        None where there is no feasible plan.
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
        What the objective counts: the latency, or the seconds a request of the busiest device
        or link.
    """

    strategy: str
    plan: Plan | None
    timeline: Timeline | None
    reason: str | None
    speedup_over: Mapping[str, float]
    speedup_over_best_single: float | None
    gap: float | None
    cost_s: float | None

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
class Comparison:
    """Rows best first, and what no plan can beat.

    Attributes
    ----------
    problem : Problem
    rows : tuple of Row
        By cost, then in the order asked for; those without a plan last.
    bound_s : float or None
        ``lower_bound(problem, objective)``; inf where a node runs nowhere, None where a node
        is not priced.
    best_single : str or None
        The device that is fastest alone.
    single_s : mapping of str to float
        Cost of each device alone, where it can run the whole model.
    objective : "latency" or "throughput"
    """

    problem: Problem
    rows: tuple[Row, ...]
    bound_s: float | None
    best_single: str | None
    single_s: Mapping[str, float]
    objective: Objective = "latency"

    @property
    def ceiling(self) -> float | None:
        """Proven ceiling on the speed-up of any plan over the best single device."""
        if self.best_single is None or not self.bound_s:
            return None
        return self.single_s[self.best_single] / self.bound_s


def compare(
    problem: Problem,
    strategies: Sequence[str] = DEFAULT_STRATEGIES,
    *,
    objective: Objective = "latency",
    **options: Any,
) -> Comparison:
    """Plan and simulate one request by each strategy.

    Parameters
    ----------
    problem : Problem
    strategies : sequence of str
        As ``plan`` takes them; ``"single"`` stands for every device alone. The devices
        alone are always simulated for the speed-ups, whether asked for or not.
    objective : "latency" or "throughput"
        What rows are sorted, and speed-ups and gaps counted by. Strategies that take an
        objective, and are given none in their name, plan for it.
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
    if not strategies:
        raise UsageError("no strategy to compare", hint="name one, e.g. heft")
    known = {key for strategy in strategies for key in option_types(strategy)} | {*NAMES}
    for key in options:
        if key not in known or key == "objective":
            raise UsageError(
                f"no strategy here has an option '{key}'", hint=nearest(key, sorted(known))
            )
    limits = Constrained(**{key: value for key, value in options.items() if key in NAMES})
    bound_s = stated_bound(limits.narrow(problem), objective)

    def attempt(strategy: str) -> tuple[Plan | None, Timeline | None, str | None]:
        return _attempt(limits, problem, strategy, objective, options)

    alone = {name: attempt(name) for name in expand(problem)}
    single_s = {
        name.removeprefix("single:"): cost
        for name, (made, timeline, _) in alone.items()
        if (cost := _cost(made, timeline, objective)) is not None
    }
    best_single = min(single_s, key=lambda name: single_s[name]) if single_s else None
    names: dict[str, None] = {}
    for strategy in strategies:
        names.update(dict.fromkeys(alone if strategy == "single" else (strategy,)))
    rows: list[Row] = []
    for name in names:
        made, timeline, reason = alone[name] if name in alone else attempt(name)
        cost_s = _cost(made, timeline, objective)
        rows.append(
            Row(
                strategy=name,
                plan=made,
                timeline=timeline,
                reason=reason,
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
            )
        )
    infinity = float("inf")
    rows.sort(key=lambda row: infinity if row.cost_s is None else row.cost_s)
    return Comparison(problem, tuple(rows), bound_s, best_single, single_s, objective)


def _attempt(
    limits: Constrained,
    problem: Problem,
    strategy: str,
    objective: Objective,
    options: Mapping[str, Any],
) -> tuple[Plan | None, Timeline | None, str | None]:
    if objective != "latency" and ":" not in strategy:
        options = {**options, "objective": objective}
    try:
        made = under(limits, problem, strategy, **options)
        return made, simulate(made), None
    except Infeasible as error:
        why = " (under the pins, exclusions and memory given)" if limits.given() else ""
        return None, None, f"{error}{why}"


def _cost(made: Plan | None, timeline: Timeline | None, objective: Objective) -> float | None:
    if made is None or timeline is None:
        return None
    return timeline.latency_s if objective == "latency" else bottleneck(made)


def _ratio(seconds: float, cost_s: float) -> float:
    if cost_s > 0:
        return seconds / cost_s
    return 1.0 if seconds == cost_s else float("inf")
