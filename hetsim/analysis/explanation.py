"""Explanation of a plan: its bottleneck, and the changes that would help most."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

import numpy as np

from hetsim.analysis.what_if import (
    SEARCHED,
    WarmStart,
    faster_device,
    link_names,
    missing_ops,
    wider_link,
    with_nodes_on,
)
from hetsim.core import checks
from hetsim.core.progress import part
from hetsim.core.result import Result
from hetsim.errors import Infeasible
from hetsim.hardware.spec import unnumbered
from hetsim.partitioning.flow import partition
from hetsim.placement.bounds.lower_bound import stated_bound
from hetsim.placement.constraints import Constrained
from hetsim.placement.objective import (
    Objective,
    check_objective,
    judge,
    kept_s,
    seconds_a_request,
)
from hetsim.placement.planning import again, under
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.problem.timeline import Event, Timeline
from hetsim.simulation.simulate import simulate

REPLANNERS = ("single", "heft")
"""Strategies that plan for changed hardware, besides the plan's own."""

QUICK = ("single", "hetero", "pipeline", "heft", "cpop", "peft", "dls", "etf")
"""Strategies that plan for every change if they made the plan; others for a few changes."""

SHOWN = 3
OPS_TRIED = 8
"""Number of missing ops to try: those whose nodes take longest at present."""

AGAIN = 3
"""Number of changed problems planned by the plan's own strategy, if it is slow and no search
continues from the plan: those for which the replanners promise most."""

MANY = 300
"""Number of nodes from which changes of links and devices are planned only by that search and, for
devices, on one device."""

MOVES_TRIED = 12
"""Number of subgraphs of the critical path to try elsewhere: the longest."""


@dataclass(frozen=True, slots=True)
class Improvement:
    """Change, and the cost found after it.

    - `kind`: "move", "link", "device" or "op".
    - `cost_s`: objective after the change, with the best plan found for it.
    - `gain`: share of the present cost that it saves, in (0, 1].
    - `strategy`: strategy of that plan; the plan's own if its subgraphs were kept; ``local-search``
    if moves from these found a better one.
    """

    kind: str
    what: str
    cost_s: float
    gain: float
    strategy: str


@dataclass(frozen=True, slots=True)
class CriticalStep:
    """Event of the critical path.

    - `kind`: "compute" or "transfer".
    - `where`: device, or held links joined by ``+``; ``source>target`` without contention.
    - `what`: subgraph or tensor.
    """

    kind: str
    where: str
    what: str
    nodes: tuple[int, ...]
    start_s: float
    seconds: float


@dataclass(slots=True)
class _WhatIf:
    """Changed problem, and the best plan for it so far.

    - `reached`: cost and strategy of the best plan found.
    - `hope_s`: cost that the plan's own strategy may reach.
    """

    kind: str
    what: str
    problem: Problem
    reached: tuple[float, str] | None = None
    hope_s: float = math.inf


def best_changes(
    plan: Plan,
    objective: Objective,
    path: Sequence[CriticalStep],
    cost_s: float,
    strategies: Sequence[str],
    tell: Callable[[str], None],
) -> tuple[tuple[Improvement, ...], int]:
    """Return the changes that save most, and how many were tried; see ``explain``."""
    problem, limits = plan.problem, Constrained.of(plan)
    moves = [
        (what, moved)
        for what, moved in _moves(limits.narrow(problem), plan, path)
        if limits.max_devices is None or len(moved.devices_used) <= limits.max_devices
    ]
    changed = [_WhatIf(*change) for change in _hardware(problem, plan)]
    base = plan.strategy.partition(":")[0]
    search = WarmStart.of(plan, cost_s) if objective == "latency" else None
    if base in QUICK:
        strategies = tuple(dict.fromkeys((plan.strategy, *strategies)))
    dear = search is None and base not in QUICK and plan.strategy not in strategies
    few = {"link": (), "device": ("single",)} if search and problem.n > MANY else {}
    total = len(moves) + len(changed) + (min(AGAIN, len(changed)) if dear else 0)
    found: list[Improvement] = []
    done = 0

    @contextmanager
    def trying(what: str) -> Iterator[None]:
        nonlocal done
        text = f"{done + 1} of {total}: {what}"
        tell(text)
        with part(done / total, (done + 1) / total, text):
            yield
        done += 1

    def note(kind: str, what: str, reached: tuple[float, str] | None) -> None:
        # A gain below a millionth is rounding.
        if reached is not None and reached[0] < cost_s * (1.0 - 1e-6):
            gain = 1.0 - reached[0] / cost_s
            found.append(Improvement(kind, what, reached[0], gain, reached[1]))

    for what, moved in moves:
        with trying(what):
            note("move", what, _measured(moved, objective))
    before = {name: _by(name, problem, objective, limits) for name in strategies} if dear else {}
    usual = min((cost for cost, _ in filter(None, before.values())), default=math.inf)
    for what_if in changed:
        with trying(what_if.what):
            kept = _measured(replace(plan, problem=what_if.problem), objective)
            by = few.get(what_if.kind, strategies)
            anew: list[tuple[float, str] | None] = []
            for name in by:
                best = _best(kept, *anew)
                # No plan on one device takes less than its kernels.
                if name != "single" or best is None or _alone_s(what_if.problem) < best[0]:
                    anew.append(_by(name, what_if.problem, objective, limits))
            if search is not None and kept is not None:
                anew.append((search.cost_s(what_if.problem, kept[0]), SEARCHED))
        quickest = min((cost for cost, _ in filter(None, anew)), default=math.inf)
        what_if.reached = _best(kept, *anew)
        if kept is not None:
            what_if.hope_s = kept[0]
        if quickest < usual:
            # An op that nothing ran before has an infinite gain.
            gained = quickest / usual if usual < math.inf else 0.0
            what_if.hope_s = min(what_if.hope_s, cost_s * gained)
    if dear:
        for what_if in sorted(changed, key=lambda one: one.hope_s)[:AGAIN]:
            with trying(f"{what_if.what}, by {plan.strategy}"), suppress(Infeasible):
                made = again(plan, what_if.problem)
                what_if.reached = _best(what_if.reached, _measured(made, objective))
    for what_if in changed:
        note(what_if.kind, what_if.what, what_if.reached)
    found.sort(key=lambda change: change.cost_s)
    return tuple(found[:SHOWN]), len(moves) + len(changed)


def _moves(problem: Problem, plan: Plan, path: Sequence[CriticalStep]) -> list[tuple[str, Plan]]:
    """Return plans with a subgraph of the critical path on another device, longest first."""
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
            what = f"move {step.what} ({_size(step.nodes)}) from {step.where} to {name}"
            replicas_now = list(replicas)
            replicas_now[first] = Plan(problem, plan.strategy, groups)
            found.append((what, Plan.dealt(replicas_now, plan.deal, strategy=plan.strategy)))
    return found


def _hardware(problem: Problem, plan: Plan) -> list[tuple[str, str, Problem]]:
    alike = _alike(problem, plan)
    found = [
        ("link", f"link {name}: bandwidth x2", wider_link(problem, name))
        for name in link_names(problem)
    ]
    found += [
        ("device", f"{name}: kernels twice as fast", faster_device(problem, device))
        for device, name in ((p, problem.devices[p]) for p in alike)
    ]

    def weight(nodes: Sequence[int]) -> float:
        return -sum(
            share * float(problem.shared_seconds[v, replica.assignment[v]])
            for share, replica in zip(plan.shares, plan.replicas, strict=True)
            for v in nodes
        )

    # The most expensive ops first; ties go to the first device.
    lacking = sorted(
        (missing for missing in missing_ops(problem) if missing.device in alike),
        key=lambda missing: weight(missing.nodes),
    )
    for missing in lacking[:OPS_TRIED]:
        what = f"{problem.devices[missing.device]}: support for {missing.op}"
        changed = with_nodes_on(problem, missing.device, missing.nodes)
        found.append(("op", f"{what} ({_size(missing.nodes)})", changed))
    return found


def _size(nodes: Sequence[int]) -> str:
    return f"{len(nodes)} nodes" if len(nodes) > 1 else "1 node"


def _alike(problem: Problem, plan: Plan) -> list[int]:
    """Return one device of each kind of identical ones: that which the plan uses most."""
    work = defaultdict[int, float](float)
    for group in plan.groups:
        device = problem.devices.index(group.device)
        work[device] += sum(float(problem.shared_seconds[v, device]) for v in group.nodes)
    kept: dict[tuple[object, ...], int] = {}
    for p, name in enumerate(problem.devices):
        capacity = problem.capacity_bytes[p] if problem.capacity_bytes is not None else 0
        kernels = tuple((k.nodes, k.seconds) for k in problem.fused if k.device == p)
        key = (
            unnumbered(name), problem.seconds[:, p].tobytes(), kernels, problem.dispatch_s[p],
            problem.streams[p], capacity,
        )  # fmt: skip
        if key not in kept or work[p] > work[kept[key]]:
            kept[key] = p
    return sorted(kept.values())


def _by(
    name: str, problem: Problem, objective: Objective, limits: Constrained
) -> tuple[float, str] | None:
    try:
        return _measured(under(limits, problem, name), objective)
    except Infeasible:
        return None


def _alone_s(problem: Problem) -> float:
    """Return a bound on the seconds per request of each single device, over its streams."""
    streams = np.asarray(problem.streams, dtype=np.float64)
    return float((problem.shared_seconds.sum(axis=0) / streams).min())


def _best(*reached: tuple[float, str] | None) -> tuple[float, str] | None:
    """Return the cheapest, the first of equal ones."""
    return min(filter(None, reached), key=lambda entry: entry[0], default=None)


def _measured(plan: Plan, objective: Objective) -> tuple[float, str] | None:
    try:
        return judge(plan, objective), plan.strategy
    except Infeasible:
        return None


@dataclass(frozen=True, slots=True, repr=False)
class Explanation(Result):
    """Explanation of a plan.

    Attributes
    ----------
    plan, timeline : Plan, Timeline
        Plan, and timeline of one request.
    objective : "latency" or "throughput"
    cost_s : float
        Cost of the plan.
    bound_s : float or None
        Lower bound over plans with this one's pins, exclusions, number of devices and memory; None
        if a node is not priced.
    path : tuple of CriticalStep
        Critical path of the first request, first to last.
    shares : mapping of str to float
        For latency: seconds of the path by device and link. For throughput: seconds per request of
        every device, over its streams, and link. Largest first.
    changes : tuple of Improvement
        Up to three changes that save most, best first.
    tried : int
        Number of changes evaluated; of identical devices, that which the plan uses most.
    """

    plan: Plan = field(repr=False)
    timeline: Timeline = field(repr=False)
    objective: Objective
    cost_s: float
    bound_s: float | None
    path: tuple[CriticalStep, ...]
    shares: Mapping[str, float]
    changes: tuple[Improvement, ...]
    tried: int

    @property
    def limited_by(self) -> str:
        """Device or link with the largest share; empty if nothing takes time."""
        return next(iter(self.shares), "")


@checks.takes(
    plan=checks.instance("hetsim.problem.plan:Plan"),
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
    """Return the bottleneck of `plan` and the three most helpful changes.

    Tries every subgraph of the critical path on every other device; twice the bandwidth of every
    link; kernels twice as fast on every device; and the ops that a device lacks. For the last three
    the changed problem is replanned by `strategies`, with the plan's subgraphs as a further
    candidate. The plan's own strategy, with its options, also plans for all of them if it is fast
    (``QUICK``). For latency a short search continues from the plan (``what_if.WarmStart``); without
    one, a slow strategy plans for the ``AGAIN`` most promising changes, by the cost of the kept
    plan, or the plan's cost times the best gain of `strategies`. The best result counts. Changes
    excluded by the plan's pins, exclusions, number of devices and memory are not tried.

    Parameters
    ----------
    plan : Plan
    objective : "latency" or "throughput"
    strategies : sequence of str
        As in ``plan``.
    tell : callable, optional
        Progress callback with the change being tried, its number and the total.

    Raises
    ------
    UsageError
        For an unknown objective or strategy.

    Complexity: `strategies`, a search and a simulation per change, some dozens of them; above MANY
    nodes, `strategies` for missing ops only.
    """
    check_objective(objective)
    timeline = simulate(plan)
    path = _path(plan, timeline)
    cost_s = timeline.latency_s if objective == "latency" else kept_s(plan)
    changes, tried = best_changes(
        plan, objective, path, cost_s, strategies, tell or (lambda text: None)
    )
    return Explanation(
        plan=plan,
        timeline=timeline,
        objective=objective,
        cost_s=cost_s,
        bound_s=stated_bound(
            plan.problem,
            objective,
            Constrained.of(plan),
            cost_s if objective == "latency" else float("inf"),
        ),
        path=path,
        shares=limits_of(plan, timeline, objective),
        changes=changes,
        tried=tried,
    )


def _path(plan: Plan, timeline: Timeline) -> tuple[CriticalStep, ...]:
    def step(event: Event) -> CriticalStep:
        compute = event.kind == "compute"
        held = " + ".join(event.tracks) or f"{event.source}>{event.device}"
        return CriticalStep(
            kind=event.kind,
            where=event.device if compute else held,
            what=event.name,
            nodes=plan.groups[event.group].nodes if compute else (),
            start_s=event.start_s,
            seconds=event.end_s - event.start_s,
        )

    return tuple(step(timeline.events[index]) for index in timeline.critical_path)


def limits_of(plan: Plan, timeline: Timeline, objective: Objective) -> dict[str, float]:
    """Return the seconds of a plan by device and link, as in ``Explanation.shares``."""
    found: dict[str, float] = {}
    if objective == "latency":
        for step in _path(plan, timeline):
            found[step.where] = found.get(step.where, 0.0) + step.seconds
    else:
        device_s, link_s = seconds_a_request(plan)
        found.update(zip(timeline.device_busy_s, device_s, strict=True))
        found.update(zip(timeline.link_busy_s, link_s, strict=True))
    kept = [(name, seconds) for name, seconds in found.items() if seconds > 0]
    return dict(sorted(kept, key=lambda entry: -entry[1]))
