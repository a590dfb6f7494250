"""Strategy ``ideal-dp``: contiguous stages with the least bottleneck, exact over all orders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hetsim.core.machine_code import machine_code
from hetsim.errors import Infeasible, UsageError
from hetsim.graph.dag import Dag
from hetsim.placement.constraints import Constrained, check_runnable
from hetsim.placement.objective import Objective
from hetsim.placement.throughput.costs import Costs, contract
from hetsim.placement.throughput.search import (
    EQUAL,
    Stages,
    as_plan,
    assigned,
    best_assignment,
    bound_of_one_copy,
    claim,
    layouts,
    swapped,
    views,
    within_memory,
)
from hetsim.placement.throughput.slices import States
from hetsim.placement.throughput.stage_moves import StageLayout, StageMoves, by_member
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.templates import flat


def search(  # type: ignore[no-untyped-def]
    lattice_at, lattice_node, lattice_to,
    reads_at, reads, makes_at, makes, producer, readers,
    constants_at, constants, constant_bytes,
    member_at, member, kernel_size, kernel_kind, kernel_delta_s, kernel_covers,
    compute_s, lacks, shares_s, dispatch_s, fetch_s, make_s, store_s, overlapped, joint, capacity,
    state_count, stride, room, ceiling, budget,
    best, came_from, came_by,
):  # fmt: skip
    """Fill `best` with the least bottleneck by (ideal, devices used); return steps or -1.

    Adding node ``lattice_node[k]`` to ideal i gives ideal ``lattice_to[k]``, for k from
    ``lattice_at[i]`` to ``lattice_at[i + 1]``. States number multisets of used kinds; one more of
    kind k adds ``stride[k]`` if ``room[state, k]``. Loads above `ceiling` are pruned.
    """
    ideals = len(lattice_at) - 1
    n, kinds = compute_s.shape
    values = len(producer)
    seen = np.full(ideals, -1, np.int64)
    inside = np.zeros(n, np.bool_)
    taken = np.zeros(values, np.int64)
    left = np.zeros(values, np.int64)
    held = np.zeros(len(constant_bytes), np.int64)
    there = np.zeros(len(kernel_size), np.int64)
    # By depth of the walk: the ideal, the next step to try, the node added, its sums.
    at = np.zeros(n + 1, np.int64)
    step = np.zeros(n + 1, np.int64)
    added = np.zeros(n + 1, np.int64)
    compute = np.zeros((n + 1, kinds))
    share = np.zeros((n + 1, kinds))
    lacking = np.zeros((n + 1, kinds), np.int64)
    fetch = np.zeros((n + 1, kinds))
    make = np.zeros((n + 1, kinds))
    store = np.zeros((n + 1, kinds))
    memory = np.zeros(n + 1)
    usable = np.zeros(state_count, np.bool_)
    looked = 0
    for start in range(ideals):
        some = False
        for state in range(state_count):
            usable[state] = best[start, state] < np.inf
            some = some or usable[state]
        if not some:
            continue
        depth = 0
        at[0] = start
        step[0] = lattice_at[start]
        compute[0, :] = dispatch_s
        share[0, :] = dispatch_s
        lacking[0, :] = 0
        fetch[0, :] = 0.0
        make[0, :] = 0.0
        store[0, :] = 0.0
        memory[0] = 0.0
        while depth >= 0:
            here = at[depth]
            if step[depth] == lattice_at[here + 1]:
                if depth > 0:
                    node = added[depth]
                    inside[node] = False
                    for k in range(makes_at[node], makes_at[node + 1]):
                        left[makes[k]] = 0
                    for k in range(reads_at[node], reads_at[node + 1]):
                        value = reads[k]
                        if producer[value] >= 0 and inside[producer[value]]:
                            left[value] += 1
                        else:
                            taken[value] -= 1
                    for k in range(constants_at[node], constants_at[node + 1]):
                        held[constants[k]] -= 1
                    for k in range(member_at[node], member_at[node + 1]):
                        there[member[k]] -= 1
                depth -= 1
                continue
            k = step[depth]
            step[depth] += 1
            target = lattice_to[k]
            if seen[target] == start:
                continue
            seen[target] = start
            looked += 1
            if looked > budget:
                return -1
            node = lattice_node[k]
            new = depth + 1
            memory[new] = memory[depth]
            for c in range(kinds):
                compute[new, c] = compute[depth, c] + compute_s[node, c]
                share[new, c] = share[depth, c] + shares_s[node, c]
                lacking[new, c] = lacking[depth, c] + lacks[node, c]
                fetch[new, c] = fetch[depth, c]
                make[new, c] = make[depth, c]
                store[new, c] = store[depth, c]
            for i in range(member_at[node], member_at[node + 1]):
                kernel = member[i]
                there[kernel] += 1
                if there[kernel] == kernel_size[kernel]:
                    c = kernel_kind[kernel]
                    compute[new, c] += kernel_delta_s[kernel]
                    lacking[new, c] -= kernel_covers[kernel]
            for i in range(reads_at[node], reads_at[node + 1]):
                value = reads[i]
                if producer[value] >= 0 and inside[producer[value]]:
                    left[value] -= 1
                    if left[value] == 0:
                        for c in range(kinds):
                            store[new, c] -= store_s[c, value]
                else:
                    if taken[value] == 0:
                        for c in range(kinds):
                            fetch[new, c] += fetch_s[c, value]
                    taken[value] += 1
            inside[node] = True
            for i in range(makes_at[node], makes_at[node + 1]):
                value = makes[i]
                left[value] = readers[value]
                for c in range(kinds):
                    make[new, c] += make_s[c, value]
                    if readers[value] > 0:
                        store[new, c] += store_s[c, value]
            for i in range(constants_at[node], constants_at[node + 1]):
                if held[constants[i]] == 0:
                    memory[new] += constant_bytes[constants[i]]
                held[constants[i]] += 1
            # Shares of compute, fetched and final tensors and memory grow monotonically with the
            # set: once above the ceiling on every kind, no superset is below it.
            grows = False
            for c in range(kinds):
                if memory[new] > capacity[c]:
                    continue
                out = make[new, c] + max(store[new, c], 0.0)
                if overlapped:
                    if joint[c]:
                        moved = fetch[new, c] + out
                        least = max(share[new, c], fetch[new, c] + make[new, c])
                    else:
                        moved = max(fetch[new, c], out)
                        least = max(share[new, c], max(fetch[new, c], make[new, c]))
                    load = max(compute[new, c], moved)
                else:
                    least = share[new, c] + fetch[new, c] + make[new, c]
                    load = compute[new, c] + fetch[new, c] + out
                if least > ceiling:
                    continue
                grows = True
                if load > ceiling or lacking[new, c] > 0:
                    continue
                for state in range(state_count):
                    if not usable[state] or not room[state, c]:
                        continue
                    reached = max(best[start, state], load)
                    other = state + stride[c]
                    if reached < best[target, other]:
                        best[target, other] = reached
                        came_from[target, other] = start
                        came_by[target, other] = c
            depth = new
            at[depth] = target
            added[depth] = node
            step[depth] = lattice_at[target] if grows else lattice_at[target + 1]
    return looked


compiled = machine_code(search)


MOST_ENTRIES = 10_000_000
"""Maximum number of (ideal, multiset of devices) pairs to store, 24 bytes each."""

ORDERS = 10
"""Number of orders to cut for a start."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class IdealDp(Constrained):
    """For throughput: least bottleneck of contiguous stages, exact within a budget.

    Dynamic programming over the ideals of the DAG (sets closed under predecessors) and the
    devices used: an ideal grows by the stage of one more device. It works on the nodes and is
    exact for the loads that ``costs.Costs`` counts, below which no contiguous stages
    can be. Those are the clock's where tensors are staged or links are free. Elsewhere moves of
    nodes look for stages that meet the bound by the clock, which counts every link; where none
    do, all assignments are searched that could still be better. The reason says what is proven:
    that no plan is better, that no contiguous stages are, or by how much they may be.

    Attributes
    ----------
    max_ideals : int
        Ideals that are stored at most; fewer where many unlike devices make many states.
    budget : int
        Stages that are looked at at most; some five million a second.
    steps : int
        Steps of the search of assignments at most; some three million a second.
    moves : int
        Moves of nodes that are tried before and after.
    required : bool
        Whether to raise UsageError where nothing is proven.

    Source: J. Tarnawski, A. Phanishayee, N. Devanur, D. Mahajan, F. Nina Paravecino, Efficient
    algorithms for device placement of DNN graph operators, NeurIPS 2020, section 5.1. Beyond
    the paper: unlike devices in several kinds, kernels that fuse, links of their own, nodes
    without compute contracted first, and sets above the bottleneck of ``slice`` not followed.
    """

    promises: ClassVar = ("throughput", "proof")

    objective: ClassVar[Objective] = "throughput"

    max_ideals: int = 300_000
    budget: int = 300_000_000
    steps: int = 3_000_000
    moves: int = 50_000
    required: bool = False

    def solve(self, problem: Problem) -> Plan:
        """Return the plan."""
        made = self.within(problem, self._solve)
        if self.required and "not proven" in made.reason:
            raise UsageError(
                f"{problem.name}: {made.reason}", hint="raise the limits or use strategy slice"
            )
        return made

    def _solve(self, problem: Problem) -> Plan:
        return within_memory(problem, self._stages)[0]

    def _stages(self, problem: Problem) -> Plan:
        check_runnable(problem)
        moves = StageMoves(problem, contiguous=True)
        known = views(problem)
        best = _best(layouts(moves, known, ORDERS, 0))
        if best is not None:
            best = moves.improved(best, self.moves, 0)
        any_s = bound_of_one_copy(problem)
        contiguous_s, why = any_s, ""
        if _above(best, any_s):
            least_s, stages, why = self._dynamic(known[0], best)
            contiguous_s = max(contiguous_s, least_s)
            if stages is not None:
                found = swapped(moves, moves.layout(assigned(stages)))
                best = _best([*([best] if best else []), moves.improved(found, self.moves, 1)])
        if _above(best, contiguous_s):
            ceiling_s = float("inf") if best is None else best.load_s
            searched = best_assignment(
                problem, ceiling_s, self.steps, contiguous=True, network=moves.network
            )
            if searched.assignment is not None:
                best = moves.layout(searched.assignment)
            if searched.complete:
                contiguous_s = float("inf") if best is None else best.load_s
        if best is None or best.load_s == float("inf"):
            raise Infeasible(
                "no contiguous assignment is supported and fits the memory"
                if contiguous_s == float("inf")
                else "no contiguous assignment was found that is supported and fits the memory",
                where=problem.name,
                hint="allow more devices, or use a strategy that may return to a device",
            )
        reason = claim(problem, best.load_s, contiguous_s, any_s)
        return as_plan(moves, "ideal-dp", best, f"{reason}{why if 'not proven' in reason else ''}")

    def _dynamic(self, costs: Costs, known: StageLayout | None) -> tuple[float, Stages | None, str]:
        """Return a bound on contiguous stages, stages that meet it by `costs`, and what failed."""
        contracted = contract(costs)
        costs = contracted.costs
        # The table of (ideal, devices used) is limited to the memory.
        most = min(self.max_ideals, MOST_ENTRIES // States.number(costs.kinds))
        lattice = ideals(costs.dag, most)
        if lattice is None:
            return 0.0, None, f"; more than {most} ideals"
        ceiling_s = float("inf") if known is None else known.load_s
        looked, least_s, stages = _search(costs, lattice, ceiling_s, self.budget)
        if looked < 0:
            return 0.0, None, f"; more than {self.budget} stages to search"
        if stages is None:
            return ceiling_s, None, ""
        return least_s, [(contracted.spread(nodes), device) for nodes, device in stages], ""


def _best(found: list[StageLayout]) -> StageLayout | None:
    feasible = [layout for layout in found if layout.load_s < float("inf")]
    return min(feasible, key=lambda layout: layout.load_s, default=None)


def _above(best: StageLayout | None, bound_s: float) -> bool:
    return best is None or best.load_s > bound_s * (1.0 + EQUAL)


@dataclass(frozen=True, slots=True)
class Lattice:
    """Ideals by size, from the empty one to all nodes, and the steps between them."""

    at: Ints
    node: Ints
    to: Ints
    ideal: tuple[int, ...]  # Nodes of each ideal, as bits


def ideals(dag: Dag, limit: int) -> Lattice | None:
    """Return the ideals of `dag`, or None if there are more than `limit`. O(ideals width)."""
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
    first, added, target = (np.array(row, dtype=np.int64) for row in (at, node, to))
    return Lattice(first, added, target, tuple(index))


def _search(
    costs: Costs, lattice: Lattice, ceiling_s: float, budget: int
) -> tuple[int, float, Stages | None]:
    n = costs.n
    states = States.of(costs.kinds, MOST_ENTRIES)
    makes: list[list[int]] = [[] for _ in range(n)]
    for index, (producer, _, _) in enumerate(costs.values):
        if producer >= 0:
            makes[producer].append(index)
    reads = by_member(n, [consumers for _, consumers, _ in costs.values])
    holds = by_member(n, [consumers for _, consumers in costs.constants])
    within = by_member(n, [kernel.nodes for kernel in costs.kernels])
    count = len(lattice.at) - 1
    best = np.full((count, states.count), np.inf)
    best[0, 0] = 0.0
    came_from = np.full((count, states.count), -1, dtype=np.int64)
    came_by = np.full((count, states.count), -1, dtype=np.int64)
    rows, held, members = (
        [np.array(part, dtype=np.int64) for table in tables for part in flat(table)]
        for tables in ((reads, makes), (holds,), (within,))
    )
    looked = compiled(
        lattice.at, lattice.node, lattice.to, *rows,
        np.array([producer for producer, _, _ in costs.values], dtype=np.int64),
        np.array([len(consumers) for _, consumers, _ in costs.values], dtype=np.int64),
        *held, np.array([nbytes for nbytes, _ in costs.constants], dtype=np.float64),
        *members, np.array([len(k.nodes) for k in costs.kernels], dtype=np.int64),
        np.array([k.kind for k in costs.kernels], dtype=np.int64),
        np.array([k.delta_s for k in costs.kernels], dtype=np.float64),
        np.array([k.covers for k in costs.kernels], dtype=np.int64),
        costs.compute_s, costs.lacks, costs.shares_s, costs.dispatch_s,
        costs.fetch_s, costs.make_s, costs.store_s, costs.overlapped, costs.joint,
        costs.capacity_bytes, states.count, np.array(states.stride, dtype=np.int64), states.room,
        ceiling_s, budget, best, came_from, came_by,
    )  # fmt: skip
    last = count - 1
    if looked < 0 or not np.isfinite(best[last]).any():
        return int(looked), np.inf, None
    state = int(best[last].argmin())
    least_s = float(best[last, state])
    found: Stages = []
    left = [list(devices) for devices in costs.kinds]
    steps: list[tuple[int, int, int]] = []
    while last > 0:
        source, kind = int(came_from[last, state]), int(came_by[last, state])
        steps.append((source, last, kind))
        last, state = source, state - states.stride[kind]
    for source, target, kind in reversed(steps):
        fresh = lattice.ideal[target] & ~lattice.ideal[source]
        found.append(([v for v in range(n) if fresh >> v & 1], left[kind].pop(0)))
    return int(looked), least_s, found
