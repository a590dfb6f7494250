"""What the constructive strategies share: coarsen, schedule, group by the clock."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar
from weakref import WeakKeyDictionary

from hetsim.errors import Infeasible, OutOfMemory, UsageError
from hetsim.placement.coarsening.tasks import Coarse, coarsen, pays_to_coarsen, uncoarsened
from hetsim.placement.constraints import Constrained
from hetsim.placement.fitting.footprint import Footprint
from hetsim.placement.fitting.plan_that_fits import plan_that_fits
from hetsim.placement.fitting.weights import weights_that_fit
from hetsim.placement.grouping.best import best_grouping
from hetsim.placement.grouping.refinement import merge_where_it_pays
from hetsim.placement.listing.list_schedule import Schedule
from hetsim.placement.narrowing import check_runnable, with_less
from hetsim.placement.objective import measure
from hetsim.problem.groups import Group
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem

ATTEMPTS = 8
"""Schedules made anew where activations do not fit."""


@dataclass(frozen=True, slots=True)
class Constructive(Constrained):
    """A strategy that makes one schedule of tasks; its groups are then made by the clock."""

    name: ClassVar[str]
    how: ClassVar[str]
    """What it did, for the plan's reason."""

    @classmethod
    def parse(cls, argument: str) -> Constructive:
        """Read the bare name; there is no argument."""
        if argument:
            raise UsageError(f"strategy '{cls.name}' takes no argument, got '{argument}'")
        return cls()

    def solve(self, problem: Problem) -> Plan:
        """Return the plan: one schedule, and a few dozen simulations where grouping matters.

        Raises
        ------
        UnsupportedNode
            Where no device supports a node.
        OutOfMemory
            Where the devices that do have no room.
        """
        return self.within(problem, self._solve)

    def _solve(self, problem: Problem) -> Plan:
        coarse = prepared(problem)
        try:
            groups, how = self.groups(coarse)
        except OutOfMemory:
            return self._near(coarse)
        reason = f"{self.how}, grouped by {how}"
        plan = Plan(problem, self.name, coarse.spread(groups), reason)
        if pays_to_coarsen(problem):
            merged = coarse.spread(merge_where_it_pays(coarse.problem, groups))
            better = Plan(problem, self.name, merged, reason)
            with suppress(OutOfMemory):
                fits(better)
                return better
        return plan

    def groups(self, coarse: Coarse) -> tuple[tuple[Group, ...], str]:
        """Schedule the tasks and group them; return groups of tasks and how they were made.

        A schedule sees the memory of weights alone; where it gets stuck, it is made again with
        room kept for every node. Where activations then do not fit, it is made again with less
        room for weights on that device, up to ATTEMPTS times, at last with none.
        """
        tasks = left = coarse.problem
        made = self.scheduled(tasks)
        for attempt in range(ATTEMPTS + 1):
            try:
                groups, how = best_grouping(tasks, made.assignment, made.order)
                fits(Plan(coarse.fine, self.name, coarse.spread(groups)))
                return groups, how
            except OutOfMemory as error:
                if error.device is None or attempt == ATTEMPTS:
                    raise
                try:
                    device = left.device_index(error.device)
                    left = with_less(left, device, error.over_bytes << attempt)
                    made = self.scheduled(left)
                except Infeasible:
                    raise error from None
        raise AssertionError("the last attempt neither returned nor raised")

    def scheduled(self, problem: Problem) -> Schedule:
        """Return the schedule; where weights get stuck, that along an assignment which fits.

        Raises OutOfMemory where no such assignment was found.
        """
        try:
            return self.schedule(problem)
        except OutOfMemory:
            homes = weights_that_fit(problem, Footprint.of(problem), problem.supported)
            if homes is None:
                raise
            return self.schedule(problem, homes)

    def _near(self, coarse: Coarse) -> Plan:
        """Return a plan that fits, near to the schedule that memory aside would be made."""
        problem, ample = coarse.fine, replace(coarse.problem, capacity_bytes=None)
        made = self.schedule(ample)
        groups, _ = best_grouping(ample, made.assignment, made.order)
        found = plan_that_fits(problem, (Plan(problem, self.name, coarse.spread(groups)),))
        return Plan(problem, self.name, found.groups, f"{self.how}, then {found.reason}")

    @abstractmethod
    def schedule(self, problem: Problem, homes: Sequence[int] | None = None) -> Schedule:
        """Return the strategy's schedule of `problem`, each node a task.

        `homes` are devices by node for which room is kept; see ``Listing``.
        """


def fits(plan: Plan) -> None:
    """Raise OutOfMemory where activations beside the weights do not fit."""
    if plan.problem.capacity_bytes is not None:
        measure(plan, "latency")


def prepared(problem: Problem) -> Coarse:
    """Return the tasks that strategies are to see.

    Raises UnsupportedNode, with the devices' reasons, where a node runs nowhere.
    """
    check_runnable(problem)
    if not pays_to_coarsen(problem):
        return uncoarsened(problem)
    known = _TASKS.get(problem)
    if known is None:
        coarse = coarsen(problem)
        known = _TASKS[problem] = coarse.problem, coarse.members, coarse.task_of
    return Coarse(problem, *known)


_TASKS: WeakKeyDictionary[Problem, tuple[Problem, tuple[tuple[int, ...], ...], tuple[int, ...]]] = (
    WeakKeyDictionary()
)
"""Tasks of problems, as long as these are there: strategies that ``auto`` tries share them."""
