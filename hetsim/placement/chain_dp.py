"""Strategy ``chain-dp``: a topological order cut into runs, each on one device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from hetsim.errors import Infeasible, OutOfMemory, UsageError
from hetsim.graph.dag import topological_order
from hetsim.placement.chain_dp_runs import Run, fastest_runs, fastest_staged_runs
from hetsim.placement.coarsening import uncoarsened
from hetsim.placement.constraints import Constrained
from hetsim.placement.constructive import prepared
from hetsim.placement.objective import Objective, check_objective
from hetsim.placement.slice import depth_first
from hetsim.placement.strategy import best_grouping
from hetsim.placement.throughput_costs import costs_of
from hetsim.placement.throughput_slices import cut
from hetsim.placement.throughput_stages import plan_of_stages, refined
from hetsim.plans import Plan
from hetsim.problem import Problem
from hetsim.simulation.clock import simulate


@dataclass(frozen=True, slots=True)
class ChainDp(Constrained):
    """Cuts of a topological order, chosen by dynamic programming; exact on chains.

    The nodes run in the order, one after another. For ``latency`` a device may have many runs,
    and a cut between two devices costs the transfer of every value that is needed behind it,
    as if handed on from run to run: exact where values lead to the next run only, too high
    elsewhere. With staged tensors a run costs what it fetches, computes and stores, and a
    device whose memory does not hold everything has one run. The clock chooses among the orders
    and the groupings. For ``throughput`` each device has one run, and the largest load counts.

    Attributes
    ----------
    objective : "latency" or "throughput"
    orders : int
        Orders that are tried: node ids, depth first from either end, then random ones.
    seed : int

    Sources: S. H. Bokhari, Partitioning problems in parallel, pipelined and distributed
    computing, IEEE TC 37(1), 1988 (chains on chains); D. Narayanan et al., PipeDream, SOSP
    2019, section 3.1, without replicas; both here for unlike devices.
    """

    objective: Objective = "latency"
    orders: int = 3
    seed: int = 0

    @classmethod
    def parse(cls, argument: str) -> ChainDp:
        """Read ``chain-dp`` or ``chain-dp:OBJECTIVE``."""
        text = argument.strip()
        return cls(objective=check_objective(text)) if text else cls()

    def solve(self, problem: Problem) -> Plan:
        """Return the plan.

        An order costs O(n P^2 + values) and four simulations for latency; O(n^2 K S) for
        latency with staged tensors and for the bottleneck, with K kinds of devices and S
        multisets of them.

        Raises
        ------
        Infeasible
            Where no order has supported runs that fit the memory.
        UsageError
            For an unknown objective or no order.
        """
        check_objective(self.objective)
        if self.orders < 1:
            raise UsageError(f"{self.orders} orders", hint="try one or more")
        return self.within(problem, self._solve)

    def _solve(self, problem: Problem) -> Plan:
        # Exact on chains: only what a device runs as one kernel is joined beforehand.
        plain = not problem.fused and bool(problem.runnable.any(axis=1).all())
        coarse = uncoarsened(problem) if plain else prepared(problem)
        return refined(coarse, self._best(coarse.problem))

    def _best(self, problem: Problem) -> Plan:
        best: tuple[float, int, Plan] | None = None
        refused: list[OutOfMemory] = []
        for number, order in enumerate(_orders(problem, self.orders, self.seed)):
            try:
                found = (
                    _bottleneck(problem, order)
                    if self.objective == "throughput"
                    else _latency(problem, order)
                )
            except OutOfMemory as error:
                refused.append(error)
                continue
            if found is not None and (best is None or found[0] < best[0]):
                best = (found[0], number, found[1])
        if best is None and refused:
            raise refused[0]
        if best is None:
            raise Infeasible(
                "no runs of a topological order are supported and fit the memory",
                where=problem.name,
                hint="offer it a device that supports more alone, or use another strategy",
            )
        return best[2]


def _orders(problem: Problem, count: int, seed: int) -> list[list[int]]:
    dag = problem.dag
    found = [
        list(range(dag.n)),
        depth_first(dag.preds, dag.succs),
        depth_first(dag.succs, dag.preds)[::-1],
    ][:count]
    random = Random(seed)
    while len(found) < count:
        order = topological_order(dag.succs, [random.random() for _ in range(dag.n)])
        assert order is not None
        found.append(order)
    return [order for at, order in enumerate(found) if order not in found[:at]]


def _bottleneck(problem: Problem, order: Sequence[int]) -> tuple[float, Plan] | None:
    costs = costs_of(problem)
    slices = cut(costs, order)
    if slices is None:
        return None
    left = [list(devices) for devices in costs.kinds]
    stages = [(order[first:end], left[kind].pop(0)) for first, end, kind in slices.segments]
    reason = "least bottleneck over the cuts of one order"
    return slices.bottleneck_s, plan_of_stages(problem, "chain-dp", stages, reason)


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
        # Streams of their own let the nodes of a run go side by side.
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
        ((simulate(plan, trace=False).latency_s, plan) for plan in made), key=lambda pair: pair[0]
    )


def _spread(problem: Problem, order: Sequence[int], runs: Sequence[Run]) -> list[int]:
    assignment = np.zeros(problem.n, dtype=np.int64)
    for first, end, device in runs:
        assignment[list(order[first:end])] = device
    return [int(device) for device in assignment]
