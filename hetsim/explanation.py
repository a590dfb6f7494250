"""The verb ``explain``: what bounds a plan, and what would help most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from hetsim import checks
from hetsim.errors import Infeasible, PlanError
from hetsim.partitioning.flow import partition
from hetsim.placement.bound import stated_bound
from hetsim.placement.constraints import Constrained
from hetsim.placement.objective import (
    Objective,
    bottleneck,
    check_objective,
    measure,
    seconds_a_request,
)
from hetsim.placement.options import under
from hetsim.placement.registry import again
from hetsim.plans import Plan
from hetsim.problem import Problem
from hetsim.simulation.clock import simulate
from hetsim.timeline import Event, Timeline
from hetsim.what_if import faster_device, link_names, missing_ops, wider_link, with_op

REPLANNERS = ("single", "heft")
"""Strategies that plan for changed hardware, beside the one that made the plan."""

SHOWN = 3
OPS_TRIED = 8
"""Missing ops that are tried: those whose nodes take the longest where they are now."""

MOVES_TRIED = 12
"""Subgraphs of the critical path that are tried elsewhere: the longest."""


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
class Change:
    """What could be changed, and what it was found to give.

    Attributes
    ----------
    kind : "move", "link", "device" or "op"
    what : str
    cost_s : float
        The objective after the change, with the best plan found for it.
    gain : float
        Part of the present cost that it saves, in (0, 1].
    strategy : str
        What made that plan; the plan's own name where the same subgraphs were kept.
    """

    kind: str
    what: str
    cost_s: float
    gain: float
    strategy: str


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
        What none can go below; None where a node is not priced.
    path : tuple of Step
        The critical path of the first request, first to last.
    shares : mapping of str to float
        For latency: seconds of the path by device and link. For throughput: seconds a request
        of every device, over its streams, and link. Largest first.
    changes : tuple of Change
        The three that save most, best first; fewer where fewer save anything.
    tried : int
        How many changes were evaluated.
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
    problem=checks.instance("hetsim.problem:Problem"),
    plan=checks.instance("hetsim.plans:Plan"),
    strategies=checks.sequence(checks.text),
    objective=checks.text,
)
def explain(
    problem: Problem,
    plan: Plan,
    *,
    objective: Objective = "latency",
    strategies: Sequence[str] = REPLANNERS,
) -> Explanation:
    """Say what bounds `plan`, and which three changes would help most.

    Tried are: every subgraph of the critical path on every other device; twice the bandwidth of
    every link; kernels twice as fast on every device; and the ops that a device lacks. For the
    last three the changed problem is planned anew by `strategies` and by the one that made the
    plan, with its options, and the plan's subgraphs are kept as one more candidate; the best
    counts. What the plan's pins, exclusions, number of devices and memory rule out is not
    tried.

    Parameters
    ----------
    problem : Problem
    plan : Plan
        Of this problem.
    objective : "latency" or "throughput"
    strategies : sequence of str
        As ``plan`` takes them.

    Raises
    ------
    UsageError
        For an unknown objective or strategy.

    Complexity: a few dozen times planning and simulating one request.
    """
    check_objective(objective)
    if plan.problem is not problem and plan.problem.fingerprint != problem.fingerprint:
        raise PlanError(
            f"made for another problem ('{plan.problem.name}'; this one is '{problem.name}')",
            where=f"plan '{plan.strategy}'",
        )
    timeline = simulate(plan)
    path = _path(plan, timeline)
    cost_s = timeline.latency_s if objective == "latency" else bottleneck(plan)
    changes, tried = _changes(problem, plan, objective, path, cost_s, strategies)
    return Explanation(
        plan=plan,
        timeline=timeline,
        objective=objective,
        cost_s=cost_s,
        bound_s=stated_bound(problem, objective),
        path=path,
        shares=_shares(plan, timeline, objective, path),
        changes=changes,
        tried=tried,
    )


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


def _changes(
    problem: Problem,
    plan: Plan,
    objective: Objective,
    path: Sequence[Step],
    cost_s: float,
    strategies: Sequence[str],
) -> tuple[tuple[Change, ...], int]:
    found: list[Change] = []
    tried = 0

    def note(kind: str, what: str, reached: tuple[float, str] | None) -> None:
        nonlocal tried
        tried += 1
        # Less than a millionth is rounding, not a gain.
        if reached is not None and reached[0] < cost_s * (1.0 - 1e-6):
            gain = 1.0 - reached[0] / cost_s
            found.append(Change(kind, what, reached[0], gain, reached[1]))

    limits = Constrained.of(plan)
    for what, moved in _moves(limits.narrow(problem), plan, path):
        if limits.max_devices is None or len(moved.devices_used) <= limits.max_devices:
            note("move", what, _measured(moved, objective))
    for kind, what, changed in _hardware(problem, plan):
        note(kind, what, _replanned(changed, plan, objective, strategies, limits))
    found.sort(key=lambda change: change.cost_s)
    return tuple(found[:SHOWN]), tried


def _moves(problem: Problem, plan: Plan, path: Sequence[Step]) -> list[tuple[str, Plan]]:
    found: list[tuple[str, Plan]] = []
    replicas = [replace(replica, problem=problem) for replica in plan.replicas]
    first = plan.replica_of(0)
    steps = [step for step in path if step.kind == "compute"]
    for step in sorted(steps, key=lambda step: -step.seconds)[:MOVES_TRIED]:
        for device, name in enumerate(problem.devices):
            if name == step.where or problem.unsupported(device, step.nodes):
                continue
            assignment = list(replicas[first].assignment)
            for node in step.nodes:
                assignment[node] = device
            groups = partition(problem, assignment=assignment).groups
            size = f"{len(step.nodes)} nodes" if len(step.nodes) > 1 else "1 node"
            what = f"move {step.what} ({size}) from {step.where} to {name}"
            replicas_now = list(replicas)
            replicas_now[first] = Plan(problem, plan.strategy, groups)
            found.append((what, Plan.dealt(replicas_now, plan.deal, strategy=plan.strategy)))
    return found


def _hardware(problem: Problem, plan: Plan) -> list[tuple[str, str, Problem]]:
    found = [
        ("link", f"link {name}: bandwidth x2", wider_link(problem, name))
        for name in link_names(problem)
    ]
    found += [
        ("device", f"{name}: kernels twice as fast", faster_device(problem, device))
        for device, name in enumerate(problem.devices)
    ]

    def weight(nodes: Sequence[int]) -> float:
        return -sum(
            share * float(problem.shared_seconds[v, replica.assignment[v]])
            for share, replica in zip(plan.shares, plan.replicas, strict=True)
            for v in nodes
        )

    # The heaviest ops first; of equal ones those of the first device.
    lacking = sorted(missing_ops(problem), key=lambda missing: weight(missing.nodes))
    for missing in lacking[:OPS_TRIED]:
        what = f"{problem.devices[missing.device]}: support for {missing.op}"
        size = f"{len(missing.nodes)} nodes" if len(missing.nodes) > 1 else "1 node"
        found.append(("op", f"{what} ({size})", with_op(problem, missing)))
    return found


def _replanned(
    changed: Problem,
    plan: Plan,
    objective: Objective,
    strategies: Sequence[str],
    limits: Constrained,
) -> tuple[float, str] | None:
    kept = _measured(replace(plan, problem=changed), objective)
    best = kept
    for name in dict.fromkeys((plan.strategy, *strategies)):
        try:
            made = again(plan, changed) if name == plan.strategy else under(limits, changed, name)
        except Infeasible:
            continue
        reached = _measured(made, objective)
        if reached is not None and (best is None or reached[0] < best[0]):
            best = reached
    return best


def _measured(plan: Plan, objective: Objective) -> tuple[float, str] | None:
    try:
        return measure(plan, objective), plan.strategy
    except Infeasible:
        return None
