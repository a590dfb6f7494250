"""Strategy ``ideal-dp``: contiguous stages with the least bottleneck, exact over all orders."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetsim.errors import Infeasible, UsageError
from hetsim.graph.dag import Dag
from hetsim.placement.constraints import Constrained
from hetsim.placement.constructive import prepared
from hetsim.placement.ideal_dp_engine import compiled
from hetsim.placement.slice import Slice, slice_stages
from hetsim.placement.throughput_costs import Costs, contract, costs_of
from hetsim.placement.throughput_slices import States
from hetsim.placement.throughput_stages import plan_of_stages, refined
from hetsim.plans import Plan
from hetsim.problem import Problem
from hetsim.simulation.lowering import flat

MOST_ENTRIES = 10_000_000
"""Pairs of an ideal and a multiset of devices that are stored at most, 24 bytes each."""

Ints = NDArray[np.int64]

Stages = list[tuple[list[int], int]]
"""Nodes and device of each stage, in execution order."""


@dataclass(frozen=True, slots=True)
class IdealDp(Constrained):
    """Each device has one contiguous stage at most; the largest load is as small as can be.

    Dynamic programming over the ideals of the DAG (sets closed under predecessors) and the
    devices used: an ideal grows by the stage of one more device. Exact for the loads that
    ``throughput_costs.Costs`` counts, which with staged tensors are those of ``max_load``.
    Where the graph has too many ideals or the search takes too long, the plan of ``slice`` is
    returned and the reason says so.

    Attributes
    ----------
    max_ideals : int
        Ideals that are stored at most; fewer where many unlike devices make many states.
    budget : int
        Stages that are looked at at most; some five million a second.
    required : bool
        Whether to raise UsageError in place of falling back on ``slice``.

    Source: J. Tarnawski, A. Phanishayee, N. Devanur, D. Mahajan, F. Nina Paravecino, Efficient
    algorithms for device placement of DNN graph operators, NeurIPS 2020, section 5.1. Beyond
    the paper: unlike devices in several kinds, nodes without compute contracted first, and
    sets above the bottleneck of ``slice`` are not followed.
    """

    max_ideals: int = 300_000
    budget: int = 300_000_000
    required: bool = False

    def solve(self, problem: Problem) -> Plan:
        """Return the plan.

        O(I J) stages for I ideals, each with J below the ceiling, times kinds and states.

        Raises
        ------
        Infeasible
            Where no contiguous assignment is supported and fits the memory.
        UsageError
            Where it cannot be exact and that is `required`.
        """
        return self.within(problem, self._solve)

    def _solve(self, problem: Problem) -> Plan:
        coarse = prepared(problem)
        return refined(coarse, self._exact(coarse.problem))

    def _exact(self, problem: Problem) -> Plan:
        contracted = contract(costs_of(problem))
        costs = contracted.costs
        first = slice_stages(costs, Slice(orders=10))
        # The table of (ideal, devices used) is kept within memory.
        most = min(self.max_ideals, MOST_ENTRIES // States.of(costs.kinds).count)
        lattice = ideals(costs.dag, most)
        stages, cut_short = first, ""
        if lattice is None:
            cut_short = f"more than {most} ideals"
        else:
            ceiling = bottleneck(costs, first) if first is not None else float("inf")
            looked, better = _search(costs, lattice, ceiling * (1.0 + 1e-9), self.budget)
            if looked < 0:
                cut_short = f"more than {self.budget} stages to look at"
            elif better is not None:
                stages = better
        if cut_short and self.required:
            raise UsageError(
                f"{problem.name} has {cut_short}", hint="raise the limit or use strategy slice"
            )
        if stages is None:
            raise Infeasible(
                "no contiguous assignment is supported and fits the memory",
                where=problem.name,
                hint="allow more devices, or use a strategy that returns to a device",
            )
        if cut_short:
            reason = f"best slices of ten orders, not proven: {cut_short}"
        else:
            reason = "least bottleneck of all contiguous stages"
        spread = [
            (sorted(v for part in nodes for v in contracted.members[part]), device)
            for nodes, device in stages
        ]
        return plan_of_stages(problem, "ideal-dp", spread, reason)


def bottleneck(costs: Costs, stages: Stages) -> float:
    """Return the largest load of `stages`, counted from scratch."""
    kind_of = {device: k for k, devices in enumerate(costs.kinds) for device in devices}
    found = 0.0
    for nodes, device in stages:
        kind = kind_of[device]
        inside = set(nodes)
        fetch = store = 0.0
        for index, (producer, consumers, leaves) in enumerate(costs.values):
            if producer in inside:
                if leaves or not inside.issuperset(consumers):
                    store += float(costs.store_s[kind, index])
            elif not inside.isdisjoint(consumers):
                fetch += float(costs.fetch_s[kind, index])
        compute = float(costs.dispatch_s[kind] + costs.compute_s[sorted(inside), kind].sum())
        parts = (np.array(compute), np.array(fetch), np.array(store))
        found = max(found, float(costs.load(*parts)))
    return found


@dataclass(frozen=True, slots=True)
class Lattice:
    """Ideals by size, 0 the empty one and the last all nodes, and the steps between them."""

    at: Ints
    node: Ints
    to: Ints


def ideals(dag: Dag, limit: int) -> Lattice | None:
    """Return the ideals of `dag`, or None where there are more than `limit`. O(ideals width)."""
    before = [sum(1 << u for u in preds) for preds in dag.preds]
    sources = tuple(v for v in range(dag.n) if not dag.preds[v])
    index = {0: 0}
    level: list[tuple[int, tuple[int, ...]]] = [(0, sources)]
    at, node, to = [0], [], []
    while level:
        following: list[tuple[int, tuple[int, ...]]] = []
        for ideal, able in level:
            for v in able:
                larger = ideal | 1 << v
                found = index.get(larger)
                if found is None:
                    found = len(index)
                    if found >= limit:
                        return None
                    index[larger] = found
                    fresh = [w for w in dag.succs[v] if before[w] & ~larger == 0]
                    following.append((larger, (*(w for w in able if w != v), *fresh)))
                node.append(v)
                to.append(found)
            at.append(len(node))
        level = following
    return Lattice(*(np.array(row, dtype=np.int64) for row in (at, node, to)))


def _search(
    costs: Costs, lattice: Lattice, ceiling: float, budget: int
) -> tuple[int, Stages | None]:
    n = costs.n
    states = States.of(costs.kinds)
    reads: list[list[int]] = [[] for _ in range(n)]
    makes: list[list[int]] = [[] for _ in range(n)]
    for index, (producer, consumers, _) in enumerate(costs.values):
        if producer >= 0:
            makes[producer].append(index)
        for v in consumers:
            reads[v].append(index)
    holds: list[list[int]] = [[] for _ in range(n)]
    for index, (_, consumers) in enumerate(costs.constants):
        for v in consumers:
            holds[v].append(index)
    count = len(lattice.at) - 1
    best = np.full((count, states.count), np.inf)
    best[0, 0] = 0.0
    came_from = np.full((count, states.count), -1, dtype=np.int64)
    came_by = np.full((count, states.count), -1, dtype=np.int64)
    rows = [np.array(part, dtype=np.int64) for table in (reads, makes) for part in flat(table)]
    held = [np.array(part, dtype=np.int64) for part in flat(holds)]
    looked = compiled()(
        lattice.at, lattice.node, lattice.to, *rows,
        np.array([producer for producer, _, _ in costs.values], dtype=np.int64),
        np.array([len(consumers) for _, consumers, _ in costs.values], dtype=np.int64),
        np.array([leaves for _, _, leaves in costs.values], dtype=np.bool_),
        *held, np.array([nbytes for nbytes, _ in costs.constants], dtype=np.float64),
        costs.compute_s, costs.dispatch_s, costs.fetch_s, costs.store_s, costs.overlapped,
        costs.capacity_bytes, states.count, np.array(states.stride, dtype=np.int64), states.room,
        ceiling, budget, best, came_from, came_by,
    )  # fmt: skip
    last = count - 1
    if looked < 0 or not np.isfinite(best[last]).any():
        return int(looked), None
    state = int(best[last].argmin())
    inside_of = _walk(lattice)
    found: Stages = []
    left = [list(devices) for devices in costs.kinds]
    steps: list[tuple[int, int, int]] = []
    while last > 0:
        source, kind = int(came_from[last, state]), int(came_by[last, state])
        steps.append((source, last, kind))
        last, state = source, state - states.stride[kind]
    for source, target, kind in reversed(steps):
        nodes = sorted(set(inside_of(target)) - set(inside_of(source)))
        found.append((nodes, left[kind].pop(0)))
    return int(looked), found


def _walk(lattice: Lattice):  # type: ignore[no-untyped-def]
    """Return a function that lists the nodes of an ideal."""
    parent = np.full(len(lattice.at) - 1, -1, dtype=np.int64)
    by = np.full(len(lattice.at) - 1, -1, dtype=np.int64)
    source = np.repeat(np.arange(len(parent)), np.diff(lattice.at))
    parent[lattice.to], by[lattice.to] = source, lattice.node

    def nodes(ideal: int) -> list[int]:
        found: list[int] = []
        while ideal > 0:
            found.append(int(by[ideal]))
            ideal = int(parent[ideal])
        return found

    return nodes
