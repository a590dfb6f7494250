"""Initial plans for searches: each device alone, and the plans of constructive strategies."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from hetsim.core import deadline
from hetsim.errors import Infeasible, OutOfMemory, UnsupportedNode, UsageError
from hetsim.graph.dag import orders_by_rule
from hetsim.partitioning.flow import partition
from hetsim.placement.coarsening import coarsen, pays_to_coarsen
from hetsim.placement.constraints import Constrained, check_runnable, with_less_until
from hetsim.placement.feasibility import plan_that_fits
from hetsim.placement.footprint import Footprint, least_total, quickest_homes, weights_that_fit
from hetsim.placement.grouping import best_grouping, groupings, merge_where_it_pays
from hetsim.placement.listing.list_schedule import Schedule
from hetsim.placement.objective import Objective, measure, memory_binds
from hetsim.placement.registry import resolve
from hetsim.problem.coarse import Coarse, uncoarsened
from hetsim.problem.columns import cached
from hetsim.problem.groups import Group
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.runs import once


@dataclass(frozen=True, slots=True)
class Constructive(Constrained):
    """Strategy that makes one schedule of tasks, grouped by a few dozen simulations."""

    promises: ClassVar = ("latency",)
    name: ClassVar[str]
    how: ClassVar[str]
    """Description of the schedule in the plan's reason."""

    def _solve(self, problem: Problem) -> Plan:
        coarse = prepared(problem)
        try:
            groups, how = self.groups(coarse)
        except OutOfMemory:
            # A plan that does not fit is changed by ``within``.
            ample = replace(coarse.problem, capacity_bytes=None)
            made = self.schedule(ample)
            groups, how = best_grouping(ample, made.assignment, made.order)
            reason = f"{self.how}, grouped by {how}, memory aside"
            return Plan(problem, self.name, coarse.spread(groups), reason)
        reason = f"{self.how}, grouped by {how}"
        plan = Plan(problem, self.name, coarse.spread(groups), reason)
        if pays_to_coarsen(problem):
            merged = coarse.spread(merge_where_it_pays(coarse.problem, groups))
            better = Plan(problem, self.name, merged, reason)
            with suppress(OutOfMemory):
                check_fits(better)
                return better
        return plan

    def groups(self, coarse: Coarse) -> tuple[tuple[Group, ...], str]:
        """Schedule the tasks and group them; return the groups of tasks and the grouping's name."""
        tasks = coarse.problem

        def grouped(made: Schedule) -> tuple[tuple[Group, ...], str]:
            groups, how = best_grouping(tasks, made.assignment, made.order)
            check_fits(Plan(coarse.fine, self.name, coarse.spread(groups)))
            return groups, how

        return with_less_until(tasks, self.scheduled, grouped)[1]

    def scheduled(self, problem: Problem) -> Schedule:
        """Return the schedule; if memory binds, one along an assignment that fits if it is faster.

        Otherwise early nodes fill the fastest device, whatever later nodes lose elsewhere.
        """
        try:
            made = self.schedule(problem)
        except OutOfMemory:
            homes = weights_that_fit(problem, Footprint.of(problem), problem.supported)
            if homes is None:
                raise
            return self.schedule(problem, homes)
        homes = quickest_homes(problem) if memory_binds(problem) else None
        if homes is None:
            return made
        return min(made, self.schedule(problem, homes), key=lambda one: one.makespan_s)

    @abstractmethod
    def schedule(self, problem: Problem, homes: Sequence[int] | None = None) -> Schedule:
        """Return the strategy's schedule of `problem`, in which each node is a task."""


def check_fits(plan: Plan) -> None:
    """Raise OutOfMemory if activations and weights do not fit."""
    if plan.problem.capacity_bytes is not None:
        measure(plan, "latency")


def prepared(problem: Problem) -> Coarse:
    """Return the tasks that strategies place."""
    check_runnable(problem)
    if not pays_to_coarsen(problem):
        return uncoarsened(problem)
    return Coarse(problem, *_tasks(problem))


@cached
def _tasks(problem: Problem) -> tuple[Problem, tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """Fields of the tasks except `fine`, shared by the strategies that ``auto`` tries."""
    coarse = coarsen(problem)
    return coarse.problem, coarse.members, coarse.task_of


def plan_alone(problem: Problem, device: int) -> Plan:
    """Return the plan with the whole model as one subgraph on a device. O(n)."""
    name = problem.devices[device]
    lacking = Counter(
        problem.op_types[node] for node in range(problem.n) if not problem.runnable[node, device]
    )
    if lacking:
        ops = ", ".join(f"{op} ({count})" for op, count in sorted(lacking.items()))
        raise UnsupportedNode(
            f"'{name}' does not support: {ops}",
            nodes=tuple(
                node
                for node, able in zip(problem.node_names, problem.runnable, strict=True)
                if not able[device]
            ),
            ops=tuple(sorted(lacking)),
            devices=(name,),
        )
    groups = (Group(name, tuple(range(problem.n))),) if problem.n else ()
    return Plan(problem, f"single:{name}", groups, f"everything on {name}")


def whole_models(
    problem: Problem, devices: Sequence[int], objective: Objective = "throughput"
) -> tuple[list[Plan], list[Infeasible]]:
    """Return the feasible single-device plans, and the errors of the other devices."""
    found: list[Plan] = []
    refused: list[Infeasible] = []
    for device in devices:
        deadline.check()
        try:
            plan = plan_alone(problem, device)
            measure(plan, objective)
            found.append(plan)
        except Infeasible as error:
            refused.append(error)
    return found, refused


def expand(problem: Problem) -> tuple[str, ...]:
    """Return ``single:DEVICE`` for every device."""
    if not problem.devices:
        raise UsageError("the problem has no device")
    return tuple(f"single:{name}" for name in problem.devices)


CONSTRUCTIVE: Mapping[str, int] = {
    "heft": 100_000,
    "cpop": 100_000,
    "peft": 100_000,
    "lookahead": 2_000,
    "dls": 100_000,
    "etf": 100_000,
}
"""Constructive strategies, and the number of tasks above which each is too slow to try."""

MOST_PAIRS = 4_000_000_000
"""Product of tasks, devices and tasks of the widest level above which ``dls`` and ``etf`` are not
tried: they compare all ready tasks at each step, about 200 million pairs per second."""

MOST_LIMITED = 2_000
"""Number of tasks above which they are not tried before a deadline, which they do not check."""

MERGED = 2
"""Number of constructive plans, the best first, whose subgraphs are merged where that pays."""


@dataclass(frozen=True, slots=True)
class Start:
    """Plan with its form on tasks and its simulated cost."""

    name: str  # Name of the strategy
    plan: Plan  # On the fine problem
    groups: tuple[Group, ...]  # On tasks
    cost: float  # Cost of the plan


def starting_plans(coarse: Coarse, objective: Objective) -> list[Start]:
    """Return the single-device and constructive plans, best first; ties keep that order."""
    found: list[Start] = []
    refused: list[Infeasible] = []
    with suppress(deadline.OutOfTime):
        _construct(coarse, objective, found, refused)
    if not found and not refused:
        raise deadline.OutOfTime
    if not found:
        raise refused[0]
    found.sort(key=lambda start: start.cost)
    if objective == "latency" and pays_to_coarsen(coarse.fine):
        with suppress(deadline.OutOfTime):
            for best in [start for start in found if len(start.groups) > 1][:MERGED]:
                made = merged(coarse, best, "latency")
                if made is not None and made.cost <= best.cost:
                    found[found.index(best)] = made
        found.sort(key=lambda start: start.cost)
    return found


def quick_start(problem: Problem, objective: Objective) -> Start | None:
    """Return the plan on the best device, or of each node on its fastest; None if none fits."""
    if not problem.n or problem.unpriced:
        return None
    total_s = np.where(problem.runnable, problem.shared_seconds, np.inf).sum(axis=0)
    for device in np.argsort(total_s, kind="stable").tolist():
        if np.isfinite(total_s[device]):
            with suppress(Infeasible):
                plan = plan_alone(problem, device)
                return Start(plan.strategy, plan, plan.groups, measure(plan, objective))
    with suppress(Infeasible):
        if problem.supported.any(axis=1).all():
            each_s = np.where(problem.supported, problem.shared_seconds, np.inf)
            quickest = each_s.argmin(axis=1).tolist()
            groups = partition(problem, "compact", assignment=quickest).groups
            plan = Plan(problem, "quick", groups, "each node on its fastest device")
            return Start("quick", plan, plan.groups, measure(plan, objective))
    return None


def _construct(
    coarse: Coarse, objective: Objective, found: list[Start], refused: list[Infeasible]
) -> None:
    """Append the plans to `found`, and the errors of strategies without a plan to `refused`."""
    problem = coarse.fine
    for plan in whole_models(problem, range(len(problem.devices)), objective)[0]:
        groups = tuple(Group(g.device, tuple(range(coarse.problem.n))) for g in plan.groups)
        found.append(Start(plan.strategy, plan, groups, measure(plan, objective)))
    seen: list[tuple[Group, ...]] = []
    for name in CONSTRUCTIVE:
        if not affordable(name, coarse.problem):
            continue
        deadline.check()
        try:
            groups, how = constructive(name).groups(coarse)
            if groups in seen:
                continue
            seen.append(groups)
            plan = Plan(problem, name, coarse.spread(groups), how)
            found.append(Start(name, plan, groups, measure(plan, objective)))
        except Infeasible as error:
            refused.append(error)


def affordable(name: str, tasks: Problem) -> bool:
    """Return whether a constructive strategy is fast enough for the tasks. O(V + E)."""
    if tasks.n > CONSTRUCTIVE[name]:
        return False
    if name in ("dls", "etf") and tasks.n > MOST_LIMITED and deadline.is_set():
        return False
    if name not in ("dls", "etf") or tasks.n**2 * len(tasks.devices) <= MOST_PAIRS:
        return True
    levels = [0] * tasks.n
    for v in range(tasks.n):
        levels[v] = max((levels[u] + 1 for u in tasks.dag.preds[v]), default=0)
    widest = max(Counter(levels).values())
    return tasks.n * len(tasks.devices) * widest <= MOST_PAIRS


def starts_that_fit(coarse: Coarse, objective: Objective) -> tuple[Coarse, list[Start]]:
    """Return ``starting_plans``, or a plan found by search if none fits memory."""
    try:
        return coarse, starting_plans(coarse, objective)
    except OutOfMemory:
        return start_that_fits(coarse, objective)


def start_that_fits(coarse: Coarse, objective: Objective) -> tuple[Coarse, list[Start]]:
    """Return a plan that fits memory, of the tasks or else of the nodes."""
    found = plan_that_fits(coarse.fine)
    groups = coarse.gathered(found.groups)
    if groups is None:
        coarse, groups = uncoarsened(coarse.fine), found.groups
    return coarse, [Start("the search for memory", found, groups, measure(found, objective))]


MOST_DEALT = 5_000
"""Number of (node, device) pairs above which tasks are used; and maximum (task, device) pairs."""
LESS = 6
"""Maximum number of times that memory for weights is reduced because activations did not fit."""


@cached
def least_total_groups(problem: Problem) -> tuple[Group, ...] | None:
    """Return the fastest groups of ``least_total``'s devices that fit; None if none is found.

    The excess of the fastest grouping is subtracted from the room for weights, at most LESS times.
    Memory must bind.
    """
    coarse = prepared(problem)
    if not problem.composites and problem.n * len(problem.devices) <= MOST_DEALT:
        coarse = uncoarsened(problem)
    tasks = left = coarse.problem
    if tasks.n * len(tasks.devices) > MOST_DEALT:
        return None
    fitting: list[tuple[float, tuple[Group, ...]]] = []
    for _ in range(LESS):
        deadline.check()
        assignment = None
        with suppress(OutOfMemory):
            assignment = least_total(left, Footprint.of(left), left.supported)
        if assignment is None:
            break
        tried = []
        for order in orders_by_rule(tasks.dag):
            for _, groups in groupings(tasks, assignment, order):
                fine = coarse.spread(groups)
                tried.append((once(Plan(problem, "mincut", fine)), fine))
        fitting += [(run.latency_s, fine) for run, fine in tried if not any(run.lacks)]
        run, _ = min(tried, key=lambda one: one[0].latency_s)
        if not any(run.lacks):
            break
        room = zip(left.capacity_bytes or (), run.weights, run.lacks, strict=True)
        less = tuple(max(weights - lack, 0) if lack else now for now, weights, lack in room)
        left = replace(left, capacity_bytes=less)
    return min(fitting, key=lambda one: one[0])[1] if fitting else None


def constructive(name: str) -> Constructive:
    """Return the constructive strategy with the given name."""
    made = resolve(name)
    assert isinstance(made, Constructive)
    return made


def merged(coarse: Coarse, start: Start, objective: Objective) -> Start | None:
    """Return a start with subgraphs merged where that pays; None if no merge does."""
    groups = merge_where_it_pays(coarse.problem, start.groups)
    if groups == start.groups:
        return None
    plan = replace(start.plan, groups=coarse.spread(groups))
    with suppress(Infeasible):
        return replace(start, plan=plan, groups=groups, cost=measure(plan, objective))
    return None
