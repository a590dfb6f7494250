"""Answer of a platform with what-if changes, compared with its present answer."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from hetsim.analysis.explanation import limits_of
from hetsim.errors import Infeasible, UsageError
from hetsim.hardware.spec import Platform, Supposed
from hetsim.hardware.what_if import what_if
from hetsim.placement.objective import Objective, kept_s
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.problem.repriced import repriced
from hetsim.simulation.simulate import simulate


@dataclass(frozen=True, slots=True)
class WhatIfSide:
    """Side of a comparison of two answers.

    - `plan`: None without one.
    - `cost_s`: value of the objective: the latency of one request, or the seconds per request.
    - `limited_by`: device or link with the largest share of the critical path, or of the load.
    - `energy_j`: energy of a single request; NaN if no power is stated.
    - `bound_s`, `single_s`: lower bound, and cost on the fastest single device, if requested.
    - `reason`: reason why there is no plan.
    """

    plan: Plan | None = field(repr=False)
    cost_s: float = math.nan
    strategy: str = ""
    devices: tuple[str, ...] = ()
    limited_by: str = ""
    energy_j: float = math.nan
    bound_s: float | None = None
    single_s: float | None = None
    single: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class WhatIfComparison:
    """Two answers side by side.

    - `was`, `now`: present answer, and the replanned answer with the changes.
    - `kept`: the present plan kept on the changed hardware; None if it is invalid or infeasible
    there.
    - `idle`: changes without effect on this answer: no price, route, memory or power in it depends
    on them.
    """

    supposed: Supposed
    objective: Objective
    was: WhatIfSide
    now: WhatIfSide
    kept: WhatIfSide | None
    idle: tuple[str, ...]

    @property
    def change(self) -> float | None:
        """Ratio of the new to the present cost, minus 1; None if one has no plan."""
        found = self.now.cost_s / self.was.cost_s - 1.0 if self.was.cost_s else math.nan
        return None if math.isnan(found) else found

    @property
    def moved(self) -> tuple[str, ...]:
        """Changed decisions: strategy, devices, subgraphs, limited_by."""
        was, now = self.was, self.now
        if was.plan is None or now.plan is None:
            return ()
        found = [
            name
            for name in ("strategy", "devices", "limited_by")
            if getattr(was, name) != getattr(now, name)
        ]
        if was.plan.groups != now.plan.groups or was.plan.deal != now.plan.deal:
            found.append("subgraphs")
        return tuple(found)


def what_if_comparison(
    was: WhatIfSide, now: WhatIfSide, objective: Objective, idle: tuple[str, ...] = ()
) -> WhatIfComparison:
    """Return two answers side by side, with the hypothetical changes of the problem of `now`.

    Raises UsageError if it has no hypothetical changes.
    """
    assert now.plan is not None
    platform = now.plan.problem.platform
    if platform is None or platform.supposed is None:
        raise UsageError("nothing is supposed of it", hint="plan for what_if(platform, ...)")
    kept = None
    if was.plan is not None:
        kept = _kept(was.plan, now.plan.problem, objective)
    return WhatIfComparison(platform.supposed, objective, was, now, kept, idle)


def side_of(plan: Plan, objective: Objective, label: str = "") -> WhatIfSide:
    """Return cost, bottleneck and energy of a plan; `label` replaces the name of its strategy.

    Raises as ``simulate``.
    """
    timeline = simulate(plan)
    limits = limits_of(plan, timeline, objective)
    return WhatIfSide(
        plan,
        timeline.latency_s if objective == "latency" else kept_s(plan),
        label or plan.strategy,
        plan.devices_used,
        next(iter(limits), ""),
        timeline.energy_j if any(plan.problem.busy_w) else math.nan,
    )


def _kept(plan: Plan, problem: Problem, objective: Objective) -> WhatIfSide | None:
    """Return the answer of the present plan on the changed hardware."""
    if set(plan.devices_used) - set(problem.devices):
        return None
    try:
        made = replace(plan, problem=problem)
        made.validate()
        return side_of(made, objective)
    except Infeasible:
        return None


def idle_suppositions(
    problem: Problem, platform: Platform, *, sustained: bool = False
) -> tuple[str, ...]:
    """Return the hypothetical changes without effect on `problem`.

    - `problem`: problem of a platform with hypothetical changes.
    - `platform`: the platform as it was read.
    - `sustained`: whether power and memory shared by devices count.

    Complexity: one pricing of the model for each.
    """
    assert problem.platform is not None
    supposed = problem.platform.supposed
    if supposed is None:
        return ()
    found = []
    for text in supposed.changes:
        others = [other for other in supposed.changes if other != text]
        less = repriced(problem, what_if(platform, *others, without=supposed.without))
        if _asked(less, sustained=sustained) == _asked(problem, sustained=sustained):
            found.append(text)
    return tuple(found)


def _asked(problem: Problem, *, sustained: bool) -> tuple[object, ...]:
    """Return all properties of a problem that an answer may depend on."""
    platform = problem.platform
    shared = (platform.power_w, platform.memories) if platform is not None and sustained else ()
    return (problem.fingerprint, problem.idle_w, problem.busy_w, *shared)
