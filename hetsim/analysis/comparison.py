"""What a comparison of strategies says: a row each, against every device alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hetsim.analysis.sureness import Sureness
from hetsim.analysis.target import check_target
from hetsim.analysis.verdict import NO_PLAN, Verdict
from hetsim.errors import Infeasible, all_refused
from hetsim.placement.objective import (
    Objective,
    seconds_a_request,
)
from hetsim.plans.plan import Plan
from hetsim.plans.timeline import Timeline
from hetsim.problem.parts import Slower
from hetsim.problem.problem import Problem

PLAY = 0.03
"""Part of the time in which the busiest device or link may be idle without a word."""


@dataclass(frozen=True, slots=True)
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
    """The whole model on each device that it pays on, and seconds a request."""

    plan: Plan
    cost_s: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Rows best first, and what no plan can beat.

    Attributes
    ----------
    problem : Problem
    rows : tuple of Row
        By cost, then in the order asked for; those without a plan last.
    bound_s : float or None
        ``lower_bound`` under the constraints that all rows obey; inf where a node runs nowhere,
        None where a node is not priced.
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
            names: dict[str, list[str]] = {}
            for row in self.rows:
                names.setdefault(row.reason or "", []).append(row.strategy)
            reasons = "; ".join(f"{', '.join(those)}: {why}" for why, those in names.items())
            raise all_refused(
                f"no strategy found a feasible plan for {self.problem.name}: {reasons}",
                [row.refusal for row in self.rows if row.refusal is not None],
            )
        if target_s is not None:
            check_target(self.objective, best.cost_s, target_s, f"plan '{best.strategy}'")
        return best

    @property
    def ceiling(self) -> float | None:
        """Proven ceiling on the speed-up of any plan over the best single device."""
        if self.best_single is None or not self.bound_s:
            return None
        return self.single_s[self.best_single] / self.bound_s
