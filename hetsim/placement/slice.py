"""Strategy ``slice``: stages cut from a topological order, and orders searched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from hetsim.errors import Infeasible, UsageError
from hetsim.graph.dag import Dag, topological_order
from hetsim.placement.constraints import Constrained
from hetsim.placement.constructive import prepared
from hetsim.placement.slice_moves import spread_freely
from hetsim.placement.throughput_costs import Costs, contract, costs_of
from hetsim.placement.throughput_slices import Slices, States, cut
from hetsim.placement.throughput_stages import plan_of_assignment, plan_of_stages, refined
from hetsim.plans import Plan
from hetsim.problem import Problem


@dataclass(frozen=True, slots=True)
class Slice(Constrained):
    """The largest load of contiguous stages, one a device, on graphs of any size.

    An order is cut exactly by dynamic programming; the orders are the node ids, depth first
    from either end, and then changes of the best one: some nodes get new random keys, and the
    order follows the keys as far as the edges allow. Loads are those of
    ``throughput_costs.Costs``.

    Attributes
    ----------
    orders : int
        Orders that are cut.
    seed : int
    contiguous : bool
        False: afterwards nodes move freely between the devices by simulated annealing, so that
        a device may have several subgraphs. ``max_load`` counts a tensor once a device; the
        clock counts what each subgraph fetches and stores, which is no less.
    moves : int
        Steps of that search.

    Source: A. Archer, M. Fahrbach, K. Liu, P. Prabhu, Practical performance guarantees for
    pipelined DNN inference, ICML 2024, section 3, where orders come from a genetic algorithm
    on random keys; here from hill climbing on them.
    """

    orders: int = 50
    seed: int = 0
    contiguous: bool = True
    moves: int = 2_000_000

    def solve(self, problem: Problem) -> Plan:
        """Return the plan. O(orders n^2 K S) for K kinds of devices and S multisets of them.

        Raises
        ------
        Infeasible
            Where no order that was tried has supported slices that fit the memory.
        UsageError
            Where an option is below its least value.
        """
        if self.orders < 1 or self.moves < 0:
            raise UsageError(
                f"{self.orders} orders and {self.moves} moves", hint="cut one order or more"
            )
        return self.within(problem, self._solve)

    def _solve(self, problem: Problem) -> Plan:
        coarse = prepared(problem)
        return refined(coarse, self._cut(coarse.problem))

    def _cut(self, problem: Problem) -> Plan:
        contracted = contract(costs_of(problem))
        stages = slice_stages(contracted.costs, self)
        if stages is None:
            raise Infeasible(
                f"no slices of {self.orders} orders are supported and fit the memory",
                where=problem.name,
                hint="try more orders, or a strategy that returns to a device",
            )
        spread = [
            (sorted(v for part in nodes for v in contracted.members[part]), device)
            for nodes, device in stages
        ]
        if self.contiguous:
            reason = f"least bottleneck of the slices of {self.orders} orders"
            return plan_of_stages(problem, "slice", spread, reason)
        start = [0] * contracted.costs.n
        for nodes, device in stages:
            for node in nodes:
                start[node] = device
        found = spread_freely(contracted.costs, start, self.moves, self.seed)
        assignment = [0] * problem.n
        for members, device in zip(contracted.members, found, strict=True):
            for node in members:
                assignment[node] = device
        reason = f"slices of {self.orders} orders, then {self.moves} moves of single nodes"
        return plan_of_assignment(problem, "slice", assignment, reason)


def slice_stages(costs: Costs, how: Slice) -> list[tuple[list[int], int]] | None:
    """Return (nodes, device) of each stage, in order; None where nothing was feasible."""
    states = States.of(costs.kinds)
    best: Slices | None = None
    best_order: list[int] = []
    keys: list[float] = []
    candidates = _orders(costs.dag)
    random = Random(how.seed)
    for _ in range(how.orders):
        order = next(candidates, None)
        if order is not None:
            trial = [0.0] * costs.n
            for place, node in enumerate(order):
                trial[node] = place / max(1, costs.n)
        else:
            trial = _changed(keys, random)
            order = _by_keys(costs.dag, trial)
        ceiling = float("inf") if best is None else best.bottleneck_s
        found = cut(costs, order, states, ceiling)
        if not keys or (
            found is not None and (best is None or found.bottleneck_s <= best.bottleneck_s)
        ):
            best, best_order, keys = found, order, trial
    if best is None:
        return None
    left = [list(devices) for devices in costs.kinds]
    return [
        (sorted(best_order[start:end]), left[kind].pop(0)) for start, end, kind in best.segments
    ]


def _orders(dag: Dag) -> Iterator[list[int]]:
    yield list(range(dag.n))
    yield depth_first(dag.preds, dag.succs)
    yield depth_first(dag.succs, dag.preds)[::-1]


def depth_first(before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]) -> list[int]:
    """Return a topological order that follows a path as far as it goes. O(V + E)."""
    waits = [len(found) for found in before]
    stack = [v for v in range(len(before) - 1, -1, -1) if waits[v] == 0]
    order: list[int] = []
    while stack:
        node = stack.pop()
        order.append(node)
        for v in reversed(after[node]):
            waits[v] -= 1
            if waits[v] == 0:
                stack.append(v)
    return order


def _changed(keys: Sequence[float], random: Random) -> list[float]:
    """Give a few nodes another key: near the old one or anywhere."""
    made = list(keys)
    for _ in range(1 + random.randrange(max(1, min(8, len(made))))):
        node = random.randrange(len(made))
        near = random.random() < 0.5
        made[node] = made[node] + random.gauss(0.0, 0.1) if near else random.random()
    return made


def _by_keys(dag: Dag, keys: Sequence[float]) -> list[int]:
    order = topological_order(dag.succs, keys)
    assert order is not None
    return order
