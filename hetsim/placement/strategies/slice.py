"""Strategy ``slice``: stages cut from topological orders, then improved by moves of nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from hetsim.errors import UsageError
from hetsim.placement.constraints import Constrained, check_runnable
from hetsim.placement.objective import Objective
from hetsim.placement.throughput.search import (
    STARTS,
    as_plan,
    first_supported,
    layouts,
    nothing_met,
    search_stages,
    views,
    within_memory,
)
from hetsim.placement.throughput.stage_moves import StageMoves
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem


@dataclass(frozen=True, slots=True)
class Slice(Constrained):
    """The largest load of contiguous stages, one a device, on graphs of any size.

    An order is cut exactly by dynamic programming over the loads of ``costs.Costs``;
    the orders are the node ids, depth first from either end, and then changes of the best one.
    Simulated annealing then moves nodes, chains and kernels between the stages, with every
    device and link counted as the clock counts it.

    Attributes
    ----------
    orders : int
        Orders that are cut.
    seed : int
        Of the orders and of the search beside them.
    contiguous : bool
        False: in that search a device may have several subgraphs. Where only staging makes
        these dearer, loads are those of ``max_load``, which the clock may exceed.
    moves : int
        Steps of that search.

    Source: A. Archer, M. Fahrbach, K. Liu, P. Prabhu, Practical performance guarantees for
    pipelined DNN inference, ICML 2024, section 3, where orders come from a genetic algorithm
    on random keys; here from hill climbing on them.
    """

    objective: ClassVar[Objective] = "throughput"

    orders: int = 50
    seed: int = 0
    contiguous: bool = True
    moves: int = 200_000

    def solve(self, problem: Problem) -> Plan:
        """Return the plan. O(orders n^2 K S + moves d P), d the neighbours of a node."""
        if self.orders < 1 or self.moves < 0:
            raise UsageError(
                f"{self.orders} orders and {self.moves} moves", hint="cut one order or more"
            )
        return self.within(problem, self._solve)

    def _solve(self, problem: Problem) -> Plan:
        return within_memory(problem, self._stages)[0]

    def _stages(self, problem: Problem) -> Plan:
        reason = f"slices of {self.orders} orders, then {self.moves} moves of nodes between "
        if not self.contiguous:
            made = search_stages(
                problem,
                (),
                self.orders,
                lambda tried: min(self.moves // STARTS, self.moves - tried),
                self.seed,
                by_device=True,
            )
            return replace(made, strategy="slice", reason=reason + "subgraphs")
        check_runnable(problem)
        moves = StageMoves(problem, contiguous=True)
        found = layouts(moves, views(problem), self.orders, self.seed) or [first_supported(moves)]
        start = min(found, key=lambda layout: layout.load_s)
        best = moves.improved(start, self.moves, self.seed)
        if best.load_s == float("inf"):
            raise nothing_met(problem)
        return as_plan(moves, "slice", best, reason + "contiguous stages")
