"""Sensitivities: effect of 10 % faster devices and links on an answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter

from hetsim.analysis.comparison import COPIES
from hetsim.analysis.explanation import MANY, QUICK, REPLANNERS
from hetsim.analysis.what_if import SEARCHED, WarmStart
from hetsim.core import checks
from hetsim.core.progress import each
from hetsim.core.result import Result
from hetsim.errors import Infeasible, UsageError
from hetsim.hardware.spec import Platform, unnumbered
from hetsim.hardware.what_if import what_if
from hetsim.placement.constraints import Constrained
from hetsim.placement.objective import Objective, check_objective, judge
from hetsim.placement.planning import again, under
from hetsim.placement.replicas import distributed
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.problem.repriced import repriced
from hetsim.simulation.service.layout import check_together, set_up
from hetsim.simulation.service.resolution import ModelOptions, PlanCache, kept_on
from hetsim.simulation.service.service import Service
from hetsim.simulation.service.serving import played, serve
from hetsim.workload.deployment import Deployment

STEP = "10%"
"""Improvement of each device and link."""

EACH = 6
"""Number of devices, or links, up to which each is changed individually, instead of by kind."""


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Effect of one change.

    - `change`: as in ``hetsim.what_if``.
    - `kept`: relative change of the figure with the plans kept, -0.05 for 5 % less; NaN without
    one.
    - `anew`: the same with replanning.
    - `strategy`: strategy of the plan of `anew`: the plan's own if its subgraphs were kept,
    ``local-search`` if moves from these found a better one, or a fast strategy. Empty for
    deployments.
    """

    change: str
    kept: float
    anew: float
    strategy: str = ""

    @property
    def most(self) -> float:
        """Better of both; NaN without either."""
        known = [share for share in (self.kept, self.anew) if not math.isnan(share)]
        return min(known, default=math.nan)


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivities(Result):
    """Effects of all changes on one figure, the largest first.

    - `figure`: ``latency``, ``time a request``, ``p99 of STREAM``.
    - `changes`: changes by saving, ties in the order of devices and links.
    """

    figure: str
    value_s: float
    changes: tuple[Sensitivity, ...]


def levers(platform: Platform, measured: Collection[str] = ()) -> tuple[str, ...]:
    """Return the changes to try: 10 % more speed of devices and bandwidth of links, and 10 % less
    latency of links, if any.

    Many identical devices are changed together, as are many links of a kind. Devices that are
    `measured` are omitted, as their times follow no figure.
    """
    names = list(platform.devices)
    without = set(measured)
    if len(names) > EACH:
        names = list(dict.fromkeys(map(unnumbered, names)))
        without = set(map(unnumbered, measured))
    names = [name for name in names if name not in without]
    links = {link.name: link.latency_s for link in platform.links}
    if len(links) > EACH:
        links = {}
        for link in platform.links:
            kind = link.of or link.name
            links[kind] = max(links.get(kind, 0.0), link.latency_s)
    found = [f"device {name}.speed +{STEP}" for name in names]
    for name, latency_s in links.items():
        found.append(f"link {name}.bandwidth +{STEP}")
        if latency_s > 0:
            found.append(f"link {name}.latency -{STEP}")
    return tuple(found)


@checks.takes(
    plan=checks.instance("hetsim.problem.plan:Plan"),
    objective=checks.text,
    tell=checks.function,
)
def sensitivities(
    plan: Plan,
    *,
    objective: Objective = "latency",
    tell: Callable[[str], None] | None = None,
) -> Sensitivities:
    """Return the effect of 10 % faster devices and links, with the plan kept and replanned.

    Replans by its own strategy if that is fast and there are few nodes, and by a short search from
    the present plan (``what_if.WarmStart``). If there is no such search, as for throughput, and its
    own strategy is slow, REPLANNERS and copies on all devices replace it, and requests are
    redistributed over its replicas. The best counts.

    Parameters
    ----------
    plan : Plan
        Plan of a model on a platform.
    objective : "latency" or "throughput"
        Objective.
    tell : callable, optional
        Progress callback with the change being tried.

    Raises
    ------
    UsageError
        For an unknown objective, or a problem without a platform.

    Complexity: one pricing, simulation and planning per device, and two per link.
    """
    check_objective(objective)
    platform = plan.problem.platform
    if platform is None or plan.problem.model is None:
        raise UsageError(
            "the plan is of no platform whose figures could be others",
            hint="build the problem with Problem.of(model, platform)",
        )
    before_s = judge(plan, objective)
    search = WarmStart.of(plan, before_s) if objective == "latency" else None
    quick = plan.strategy.partition(":")[0] in (*QUICK, COPIES)
    quick = quick and (search is None or plan.problem.n <= MANY)
    limits = Constrained.of(plan)
    instead = () if quick or search is not None else (*REPLANNERS, COPIES)

    def effect(change: str) -> Sensitivity:
        problem = repriced(plan.problem, what_if(platform, change))

        def cost_s(made: Callable[[], Plan]) -> float:
            try:
                return judge(made(), objective)
            except Infeasible:
                return math.nan

        kept_s = cost_s(lambda: replace(plan, problem=problem))
        anew = [(kept_s, plan.strategy)]
        if quick:
            anew.append((cost_s(lambda: again(plan, problem)), plan.strategy))
        anew += [(cost_s(partial(under, limits, problem, name)), name) for name in instead]
        if instead and plan.sizes:
            anew.append((cost_s(lambda: _dealt(plan, problem)), plan.strategy))
        if search is not None and not math.isnan(kept_s):
            anew.append((search.cost_s(problem, kept_s), SEARCHED))
        known = [one for one in anew if not math.isnan(one[0])]
        anew_s, by = min(known, key=itemgetter(0), default=(math.nan, ""))
        return Sensitivity(change, _share(kept_s, before_s), _share(anew_s, before_s), by)

    found = []
    for change in each(levers(platform, plan.problem.profiles)):
        if tell is not None:
            tell(change)
        found.append(effect(change))
    name = "latency" if objective == "latency" else "time a request"
    return Sensitivities(name, before_s, _ranked(found))


def served_sensitivities(
    service: Service,
    deployment: Deployment,
    platform: Platform,
    asked: ModelOptions,
) -> tuple[Sensitivities, ...]:
    """Return the sensitivities of the p99 of each stream, under the arrivals of `service`.

    - `service`: result of a workload on `deployment`; the same number of requests is simulated each
    time.
    - `asked`: options with which they were served.

    Complexity: two services per device, and four per link.
    """
    workload = replace(service.workload, requests=service.requests, duration_s=None)
    before_s = _tails(service)
    changes: list[list[Sensitivity]] = [[] for _ in service.streams]
    fixed = any(entry.plan for model in deployment.models for entry in model.instances)
    common = PlanCache()
    measured = {name for one in service.resolved for name in one.problem.profiles}
    for change in each(levers(platform, measured)):
        on = what_if(platform, change)
        kept = anew = [math.nan] * len(before_s)
        with suppress(Infeasible):
            resolved = kept_on(service.resolved, on)
            setup = set_up(resolved, workload, check_together(resolved, on))
            kept = _tails(played(workload, resolved, setup))
        # A saved plan belongs to the present platform, so it is not replanned.
        with suppress(Infeasible):
            if not fixed:
                made = common.elsewhere()
                anew = _tails(serve(deployment, workload, on, asked=asked, made=made))
        for at, was_s in enumerate(before_s):
            changes[at].append(
                Sensitivity(change, _share(kept[at], was_s), _share(anew[at], was_s))
            )
    return tuple(
        Sensitivities(f"p99 of {stream.name}", was_s, _ranked(found))
        for stream, was_s, found in zip(service.streams, before_s, changes, strict=True)
    )


def _tails(service: Service) -> list[float]:
    return [stream.p99_s for stream in service.streams]


def _dealt(plan: Plan, problem: Problem) -> Plan:
    replicas = [replace(one, problem=problem) for one in plan.replicas]
    return distributed(replicas, strategy=plan.strategy, reason=plan.reason)


def _share(after_s: float, before_s: float) -> float:
    return after_s / before_s - 1 if before_s and math.isfinite(before_s) else math.nan


def _ranked(found: Sequence[Sensitivity]) -> tuple[Sensitivity, ...]:
    return tuple(
        sorted(found, key=lambda one: math.inf if math.isnan(one.most) else round(one.most, 9))
    )
