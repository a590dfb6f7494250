"""The verb ``explain``: what bounds a plan, and what would help most."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hetsim.analysis.changes import REPLANNERS, Change, best_changes
from hetsim.base import checks
from hetsim.placement.bounding import stated_bound
from hetsim.placement.constraints import Constrained
from hetsim.placement.objective import (
    Objective,
    check_objective,
    kept_s,
    seconds_a_request,
)
from hetsim.plans.plan import Plan
from hetsim.plans.timeline import Event, Timeline
from hetsim.simulation.simulate import simulate


@dataclass(frozen=True, slots=True)
class Step:
    """One event of the critical path.

    Attributes
    ----------
    kind : "compute" or "transfer"
    where : str
        The device, or the links held joined by ``+``; ``source>target`` without contention.
    what : str
        The subgraph, or the tensor.
    nodes : tuple of int
        Of the subgraph.
    start_s, seconds : float
    """

    kind: str
    where: str
    what: str
    nodes: tuple[int, ...]
    start_s: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """What bounds a plan.

    Attributes
    ----------
    plan, timeline : Plan, Timeline
        The timeline is of one request.
    objective : "latency" or "throughput"
    cost_s : float
        What the plan costs.
    bound_s : float or None
        What no plan can go below that obeys this one's pins, exclusions, number of devices and
        memory; None where a node is not priced.
    path : tuple of Step
        The critical path of the first request, first to last.
    shares : mapping of str to float
        For latency: seconds of the path by device and link. For throughput: seconds a request
        of every device, over its streams, and link. Largest first.
    changes : tuple of Change
        The three that save most, best first; fewer where fewer save anything.
    tried : int
        How many changes were evaluated; of alike devices the one that the plan uses most.
    """

    plan: Plan = field(repr=False)
    timeline: Timeline = field(repr=False)
    objective: Objective
    cost_s: float
    bound_s: float | None
    path: tuple[Step, ...]
    shares: Mapping[str, float]
    changes: tuple[Change, ...]
    tried: int

    @property
    def limited_by(self) -> str:
        """The device or link with the largest share; empty where nothing takes time."""
        return next(iter(self.shares), "")


@checks.takes(
    plan=checks.instance("hetsim.plans.plan:Plan"),
    strategies=checks.sequence(checks.text),
    objective=checks.text,
    tell=checks.function,
)
def explain(
    plan: Plan,
    *,
    objective: Objective = "latency",
    strategies: Sequence[str] = REPLANNERS,
    tell: Callable[[str], None] | None = None,
) -> Explanation:
    """Say what bounds `plan`, and which three changes would help most.

    Tried are: every subgraph of the critical path on every other device; twice the bandwidth of
    every link; kernels twice as fast on every device; and the ops that a device lacks. For the
    last three the changed problem is planned anew by `strategies`, and the plan's subgraphs are
    kept as one more candidate. The strategy that made the plan, with its options, plans for all
    of them, too, where it is quick (``changes.QUICK``). Where it is dear, it plans for the
    ``changes.AGAIN`` that promise most: a change promises what the kept plan costs in it, or the
    plan's cost times what the best of `strategies` gains by it. The best counts. What the plan's
    pins, exclusions, number of devices and memory rule out is not tried.

    Parameters
    ----------
    plan : Plan
    objective : "latency" or "throughput"
    strategies : sequence of str
        As ``plan`` takes them.
    tell : callable, optional
        Is told what is being tried, and how many of how many.

    Raises
    ------
    UsageError
        For an unknown objective or strategy.

    Complexity: `strategies` and a simulation a change, some dozens of them, and AGAIN times the
    plan's own strategy.
    """
    check_objective(objective)
    problem = plan.problem
    timeline = simulate(plan)
    path = _path(plan, timeline)
    cost_s = timeline.latency_s if objective == "latency" else kept_s(plan)
    steps = [(s.where, s.what, s.nodes, s.seconds) for s in path if s.kind == "compute"]
    changes, tried = best_changes(
        problem, plan, objective, steps, cost_s, strategies, tell or (lambda text: None)
    )
    return Explanation(
        plan=plan,
        timeline=timeline,
        objective=objective,
        cost_s=cost_s,
        bound_s=stated_bound(
            problem,
            objective,
            Constrained.of(plan),
            cost_s if objective == "latency" else float("inf"),
        ),
        path=path,
        shares=_shares(plan, timeline, objective, path),
        changes=changes,
        tried=tried,
    )


def limits_of(plan: Plan, timeline: Timeline, objective: Objective) -> Mapping[str, float]:
    """Return what takes a plan's time, by device and link, as ``Explanation.shares``."""
    return _shares(plan, timeline, objective, _path(plan, timeline))


def _path(plan: Plan, timeline: Timeline) -> tuple[Step, ...]:
    def step(event: Event) -> Step:
        compute = event.kind == "compute"
        held = " + ".join(event.tracks) or f"{event.source}>{event.device}"
        return Step(
            kind=event.kind,
            where=event.device if compute else held,
            what=event.name,
            nodes=plan.groups[event.group].nodes if compute else (),
            start_s=event.start_s,
            seconds=event.end_s - event.start_s,
        )

    return tuple(step(timeline.events[index]) for index in timeline.critical_path)


def _shares(
    plan: Plan, timeline: Timeline, objective: Objective, path: Sequence[Step]
) -> dict[str, float]:
    found: dict[str, float] = {}
    if objective == "latency":
        for step in path:
            found[step.where] = found.get(step.where, 0.0) + step.seconds
    else:
        device_s, link_s = seconds_a_request(plan)
        found.update(zip(timeline.device_busy_s, device_s, strict=True))
        found.update(zip(timeline.link_busy_s, link_s, strict=True))
    kept = [(name, seconds) for name, seconds in found.items() if seconds > 0]
    return dict(sorted(kept, key=lambda entry: -entry[1]))
