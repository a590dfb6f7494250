"""The verb ``compare``: strategies side by side, against every device alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hetsim.errors import Infeasible, UsageError
from hetsim.placement.bound import lower_bound
from hetsim.placement.registry import plan
from hetsim.placement.single import expand
from hetsim.plans import Plan
from hetsim.problem import Problem
from hetsim.simulation.clock import simulate
from hetsim.timeline import Timeline

DEFAULT_STRATEGIES = ("single", "hetero", "heft")


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
        Latency of each device alone over this latency; devices that cannot run the whole
        model are absent.
    speedup_over_best_single : float or None
        The same over the fastest of them; None where no device can.
    gap : float or None
        Latency over the lower bound, less 1.
    """

    strategy: str
    plan: Plan | None
    timeline: Timeline | None
    reason: str | None
    speedup_over: Mapping[str, float]
    speedup_over_best_single: float | None
    gap: float | None

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
        By latency, then in the order asked for; those without a plan last.
    bound_s : float
        ``lower_bound(problem)``; inf where a node runs nowhere.
    best_single : str or None
        The device that is fastest alone.
    single_s : mapping of str to float
        Latency of each device alone, where it can run the whole model.
    """

    problem: Problem
    rows: tuple[Row, ...]
    bound_s: float
    best_single: str | None
    single_s: Mapping[str, float]

    @property
    def ceiling(self) -> float | None:
        """Proven ceiling on the speed-up of any plan over the best single device."""
        if self.best_single is None or self.bound_s <= 0:
            return None
        return self.single_s[self.best_single] / self.bound_s


def compare(problem: Problem, strategies: Sequence[str] = DEFAULT_STRATEGIES) -> Comparison:
    """Plan and simulate one request by each strategy.

    Parameters
    ----------
    problem : Problem
    strategies : sequence of str
        As ``plan`` takes them; ``"single"`` stands for every device alone. The devices
        alone are always simulated for the speed-ups, whether asked for or not.

    Raises
    ------
    UsageError
        For an unknown strategy or device, or none at all.
    """
    if not strategies:
        raise UsageError("no strategy to compare", hint="name one, e.g. heft")
    alone = {name: _attempt(problem, name) for name in expand(problem)}
    single_s = {
        name.removeprefix("single:"): timeline.latency_s
        for name, (_, timeline, _) in alone.items()
        if timeline is not None
    }
    best_single = min(single_s, key=lambda name: single_s[name]) if single_s else None
    names: dict[str, None] = {}
    for strategy in strategies:
        names.update(dict.fromkeys(alone if strategy == "single" else (strategy,)))
    bound_s = lower_bound(problem)
    rows: list[Row] = []
    for name in names:
        made, timeline, reason = alone[name] if name in alone else _attempt(problem, name)
        latency_s = timeline.latency_s if timeline is not None else None
        rows.append(
            Row(
                strategy=name,
                plan=made,
                timeline=timeline,
                reason=reason,
                speedup_over={
                    device: _ratio(seconds, latency_s)
                    for device, seconds in single_s.items()
                    if latency_s is not None
                },
                speedup_over_best_single=(
                    _ratio(single_s[best_single], latency_s)
                    if best_single is not None and latency_s is not None
                    else None
                ),
                gap=latency_s / bound_s - 1.0 if latency_s is not None and bound_s > 0 else None,
            )
        )
    infinity = float("inf")
    rows.sort(key=lambda row: infinity if row.latency_s is None else row.latency_s)
    return Comparison(problem, tuple(rows), bound_s, best_single, single_s)


def _attempt(problem: Problem, strategy: str) -> tuple[Plan | None, Timeline | None, str | None]:
    try:
        made = plan(problem, strategy)
        return made, simulate(made), None
    except Infeasible as error:
        return None, None, str(error)


def _ratio(seconds: float, latency_s: float) -> float:
    if latency_s > 0:
        return seconds / latency_s
    return 1.0 if seconds == latency_s else float("inf")
