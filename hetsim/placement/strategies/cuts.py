"""Strategies by cuts: ``mincut`` of the graph, ``chain-dp`` and ``slice`` of orders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from hetsim.core import deadline
from hetsim.errors import Infeasible, OutOfMemory, UsageError
from hetsim.partitioning.minimum_cut import least_serial
from hetsim.placement.constraints import Constrained, check_runnable
from hetsim.placement.grouping import best_grouping, merge_where_it_pays, plan_of_stages
from hetsim.placement.initial_plans import least_total_groups, prepared
from hetsim.placement.objective import Objective, check_objective, latency_of_groups, memory_binds
from hetsim.placement.throughput.search import (
    STARTS,
    as_plan,
    first_supported,
    layouts,
    no_feasible_stages,
    search_stages,
    views,
    within_memory,
)
from hetsim.placement.throughput.slices import Climb, Run, fastest_runs, fastest_staged_runs
from hetsim.placement.throughput.stage_moves import StageMoves
from hetsim.problem.coarse import uncoarsened
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.runs import once


@dataclass(frozen=True, slots=True)
class Mincut(Constrained):
    """Least sum of compute and transfer times by minimum cut; exact on two devices.

    The total is the sum of every node's time on its device and of every transfer's time, once
    a destination device, to the host and back included; staging counts, dispatch does not. On
    two devices the assignment is the best there is, up to how finely capacities are scaled
    (``minimum_cut.expand``). On more, alpha-expansion: device by device, the best set of
    nodes to move there at once, until none helps. What a move would save on transfers from it to
    a third device is left out of its choice, so that the total never rises; else it is exact.
    Grouping is by the clock, which runs devices side by side: the latency is at most the total
    and what dispatch adds. Where that plan misses the memory, an integer program finds the least
    total within it (``initial_plans.least_total_groups``); of many nodes the plan is changed until
    it fits.

    Attributes
    ----------
    rounds : int
        Most times that every device is tried as the target, with more than two devices.

    Sources: H. S. Stone, Multiprocessor scheduling with the aid of network flow algorithms,
    IEEE TSE 3(1), 1977; Y. Boykov, O. Veksler, R. Zabih, Fast approximate energy minimization
    via graph cuts, IEEE TPAMI 23(11), 2001. Beyond Stone: a tensor is paid once a destination,
    by a node of the network for each tensor and direction.

    Complexity: one maximum flow on two devices, else rounds x P of them.
    """

    promises: ClassVar = ("latency",)

    rounds: int = 10

    name: ClassVar[str] = "mincut"

    def check(self) -> None:
        """Raise UsageError for broken options."""
        Constrained.check(self)
        if self.rounds < 1:
            raise UsageError(f"{self.rounds} rounds", hint="use 1 or more")

    def _solve(self, problem: Problem) -> Plan:
        coarse = prepared(problem)
        assignment = least_serial(coarse.problem, self.rounds)
        groups, how = best_grouping(
            coarse.problem, assignment, range(coarse.problem.n), may_miss=True
        )
        reason = f"least total of compute and transfers, grouped by {how}"
        plan = Plan(
            problem, self.name, coarse.spread(merge_where_it_pays(coarse.problem, groups)), reason
        )
        if memory_binds(problem) and once(plan).lacking:
            within = least_total_groups(problem)
            if within is not None:
                within = merge_where_it_pays(problem, within, thorough=True)
                reason = "least total of compute and transfers within the memory of devices"
                return Plan(problem, self.name, within, reason)
        return plan


WORK = 8_000
"""Total number of nodes to cut, which sets the default number of orders."""

LEAST_ORDERS, MOST_ORDERS = 3, 40


@dataclass(frozen=True, slots=True)
class ChainDp(Constrained):
    """Cuts of a topological order into runs, for latency or throughput.

    The nodes run in the order, one after another. For ``latency`` a device may have many runs,
    and a cut between two devices costs the transfer of every value that is needed behind it,
    as if handed on from run to run: exact where values lead to the next run only, too high
    elsewhere. With staged tensors a run costs what it fetches, computes and stores, and a
    device whose memory does not hold everything has one run. The clock chooses among the orders
    and the groupings. For ``throughput`` each device has one run, and the largest load counts.

    Attributes
    ----------
    objective : "latency" or "throughput"
        What the plan is for.
    orders : int, optional
        Orders that are tried: node ids, depth first from either end, then changes of the best
        one. Absent: as many as cut WORK nodes in all, from LEAST_ORDERS to MOST_ORDERS.
    seed : int
        Of the changes.

    Sources: S. H. Bokhari, Partitioning problems in parallel, pipelined and distributed
    computing, IEEE TC 37(1), 1988 (chains on chains); D. Narayanan et al., PipeDream, SOSP
    2019, section 3.1, without replicas; both here for unlike devices.
    """

    promises: ClassVar = ("latency", "throughput")
    argument: ClassVar = "[:latency|throughput]"

    objective: Objective = "latency"
    orders: int | None = None
    seed: int = 0

    @classmethod
    def parse(cls, argument: str) -> ChainDp:
        """Read ``chain-dp`` or ``chain-dp:OBJECTIVE``."""
        text = argument.strip()
        return cls(objective=check_objective(text)) if text else cls()

    def check(self) -> None:
        """Raise UsageError for broken options."""
        Constrained.check(self)
        check_objective(self.objective)
        if self.orders is not None and self.orders < 1:
            raise UsageError(f"{self.orders} orders", hint="use one or more")

    def _solve(self, problem: Problem) -> Plan:
        if self.objective == "throughput":
            return within_memory(problem, self._stages)[0]
        # Exact on chains: only nodes that a device runs as one kernel are merged first.
        plain = not problem.fused and bool(problem.runnable.any(axis=1).all())
        coarse = uncoarsened(problem) if plain else prepared(problem)
        best = self._best(coarse.problem)
        return Plan(problem, best.strategy, coarse.spread(best.groups), best.reason)

    def _stages(self, problem: Problem) -> Plan:
        check_runnable(problem)
        moves = StageMoves(problem, contiguous=True)
        count = self._count(problem)
        found = layouts(moves, views(problem), count, self.seed)
        best = min(found, key=lambda layout: layout.load_s, default=None)
        if best is None or best.load_s == float("inf"):
            raise _infeasible(problem)
        return as_plan(moves, "chain-dp", best, f"the best cuts of {count} orders")

    def _count(self, problem: Problem) -> int:
        if self.orders is not None:
            return self.orders
        return min(MOST_ORDERS, max(LEAST_ORDERS, WORK // max(problem.n, 1)))

    def _best(self, problem: Problem) -> Plan:
        refused: list[OutOfMemory] = []

        def judge(order: list[int], _: float) -> tuple[float, Plan] | None:
            try:
                return _latency(problem, order)
            except OutOfMemory as error:
                refused.append(error)
                return None

        found = Climb(problem.dag, self.seed, judge).first(self._count(problem))
        if found:
            return min(found, key=lambda one: one[0])[1]
        deadline.check()
        raise refused[0] if refused else _infeasible(problem)


def _infeasible(problem: Problem) -> Infeasible:
    return Infeasible(
        "no cut of a topological order is supported and fits the memory",
        where=problem.name,
        hint="add a device that supports more nodes, or use another strategy",
    )


def _latency(problem: Problem, order: Sequence[int]) -> tuple[float, Plan] | None:
    reason = "least serial time over the cuts of one order, grouped by "
    if problem.staging is None:
        runs = fastest_runs(problem, order)
        if runs is None:
            return None
        assignment = _spread(problem, order, runs)
        groups, how = best_grouping(problem, assignment, order)
        made = [Plan(problem, "chain-dp", groups, reason + how)]
    else:
        runs = fastest_staged_runs(problem, order)
        if runs is None:
            return None
        whole = [(order[first:end], device) for first, end, device in runs]
        # Several streams let the nodes of a run execute in parallel.
        apart = [
            stage
            for nodes, device in whole
            for stage in (
                [([node], device) for node in nodes]
                if problem.streams[device] > 1
                else [(list(nodes), device)]
            )
        ]
        made = [
            plan_of_stages(problem, "chain-dp", apart, reason + "single nodes where streams allow"),
            plan_of_stages(problem, "chain-dp", whole, reason + "runs"),
        ]
    return min(
        ((latency_of_groups(problem, plan.groups, plan.strategy), plan) for plan in made),
        key=lambda pair: pair[0],
    )


def _spread(problem: Problem, order: Sequence[int], runs: Sequence[Run]) -> list[int]:
    assignment = np.zeros(problem.n, dtype=np.int64)
    for first, end, device in runs:
        assignment[list(order[first:end])] = device
    return [int(device) for device in assignment]


@dataclass(frozen=True, slots=True)
class Slice(Constrained):
    """For throughput: stages cut from many topological orders, for graphs of any size.

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

    Complexity: O(orders n^2 K S + moves d P), d the neighbours of a node.
    """

    promises: ClassVar = ("throughput",)

    objective: ClassVar[Objective] = "throughput"

    orders: int = 50
    seed: int = 0
    contiguous: bool = True
    moves: int = 200_000

    def check(self) -> None:
        """Raise UsageError for broken options."""
        Constrained.check(self)
        if self.orders < 1 or self.moves < 0:
            raise UsageError(
                f"{self.orders} orders and {self.moves} moves", hint="use one order or more"
            )

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
            raise no_feasible_stages(problem)
        return as_plan(moves, "slice", best, reason + "contiguous stages")
