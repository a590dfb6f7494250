"""What the constructive strategies share: coarsen, schedule, group by the clock."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from hetsim.errors import UsageError
from hetsim.partitioning.deconflict import by_priority
from hetsim.placement.coarsening import Coarse, coarsen, pays_to_coarsen, uncoarsened
from hetsim.placement.constraints import Constrained
from hetsim.placement.listing import Schedule
from hetsim.placement.regrouping import merge_where_it_pays
from hetsim.placement.strategy import best_grouping
from hetsim.plans import Plan
from hetsim.problem import Problem


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
        made = self.schedule(coarse.problem)
        groups, how = best_grouping(coarse.problem, made.assignment, made.order)
        if pays_to_coarsen(problem):
            groups = merge_where_it_pays(coarse.problem, groups)
        return Plan(problem, self.name, coarse.spread(groups), f"{self.how}, grouped by {how}")

    @abstractmethod
    def schedule(self, problem: Problem) -> Schedule:
        """Return the strategy's schedule of `problem`, each node a task."""


def prepared(problem: Problem) -> Coarse:
    """Return the tasks that strategies are to see.

    Raises UnsupportedNode, with the devices' reasons, where a node runs nowhere.
    """
    if not problem.runnable.any(axis=1).all():
        by_priority(problem)
    return coarsen(problem) if pays_to_coarsen(problem) else uncoarsened(problem)
