"""Grouping of an assignment into subgraphs: several methods, merged and refined in simulation."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.core import compile_threshold, deadline
from hetsim.core.machine_code import machine_code
from hetsim.errors import Infeasible, OutOfMemory
from hetsim.graph.dag import Dag, Ints, NodeRows
from hetsim.partitioning.flow import as_resolution, partition
from hetsim.partitioning.methods import compact
from hetsim.placement.objective import Objective, latency_of_groups, measure, memory_binds
from hetsim.problem.columns import cached
from hetsim.problem.groups import Group, as_groups, condense, order_groups, owners, owners_in_order
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.problem.repeats import Repeat, repeats
from hetsim.simulation.clock.one_request import one_request


@dataclass(frozen=True, eq=False, slots=True)
class Owned:
    """Partition into groups in executable order."""

    owner: Ints  # [n]: Index of each node's group
    device: Ints  # [groups]

    def __len__(self) -> int:
        return len(self.device)

    @classmethod
    def of(cls, problem: Problem, groups: Sequence[Group]) -> Owned:
        """Return the partition of `groups`. O(n)."""
        rows = NodeRows.of([group.nodes for group in groups])
        owner = np.empty(problem.n, dtype=np.int64)
        owner[rows.node] = rows.owner
        index = {name: device for device, name in enumerate(problem.devices)}
        return cls(owner, np.array([index[group.device] for group in groups], dtype=np.int64))

    @classmethod
    def ordered(cls, problem: Problem, labels: Ints, device_of: Ints, rank: Ints) -> Owned | None:
        """Return ``groups.order_groups`` of `labels`; None on a cycle."""
        found = owners_in_order(problem.dag, labels, rank)
        if found is None:
            return None
        owner, count = found
        device = np.empty(count, dtype=np.int64)
        # Of several writes to one index, the last one stays.
        device[owner[::-1]] = device_of[::-1]
        return cls(owner, device)

    def groups(self, problem: Problem) -> tuple[Group, ...]:
        """Return the groups as records. O(n log n)."""
        rows = NodeRows.sorted_by(len(self), self.owner, np.arange(problem.n))
        names = [problem.devices[p] for p in self.device.tolist()]
        return tuple(map(Group, names, rows.tuples()))

    def is_like(self, other: Owned) -> bool:
        """Return whether both have the same groups on the same devices in the same order."""
        return np.array_equal(self.owner, other.owner) and np.array_equal(self.device, other.device)

    def latency_s(self, problem: Problem, name: str) -> float:
        """Return ``latency_of_groups``, and raise as it does."""
        found = None
        if not memory_binds(problem):
            found = one_request(problem).latency_of_owned(problem, self.owner, self.device, name)
        return latency_of_groups(problem, self.groups(problem), name) if found is None else found

    def seconds(self, problem: Problem) -> NDArray[np.float64]:
        """Return the seconds of each group."""
        return one_request(problem).seconds_of_owned(problem, self.owner, self.device)

    def first_nodes(self) -> list[int]:
        """Return the first node of each group."""
        found = np.empty(len(self), dtype=np.int64)
        # Of several writes to one index, the last one stays.
        found[self.owner[::-1]] = np.arange(len(self.owner) - 1, -1, -1)
        nodes: list[int] = found.tolist()
        return nodes


Array = Any
"""List of numbers, or an array in machine code."""

LEAST, COMPILE_FROM = 3_000, 250_000
"""Number of nodes of one plan, and of all plans of a process, from which machine code is used."""


def label_runs(
    order: Array,
    device: Array,
    pred_at: Array,
    preds: Array,
    cuts: Array,
    opened: Array,
    labels: Array,
) -> None:
    """Label nodes by runs: a node joins its device's open run if no later run feeds it."""
    count = 0
    for node in order:
        run = opened[device[node]]
        joins = run >= 0
        for k in range(pred_at[node], pred_at[node + 1]):
            if labels[preds[k]] > run:
                joins = False
        if not joins:
            run = count
            count += 1
            opened[device[node]] = run
        labels[node] = run
        if cuts[node]:
            opened[device[node]] = -1


_runs = machine_code(label_runs, inline=True)


def runs(dag: Dag, assignment: Sequence[int], order: Sequence[int], *, cut_at_exits: bool) -> Ints:
    """Return the run of each node; see ``label_runs``."""
    device = np.asarray(assignment, dtype=np.int64)
    cuts = np.zeros(dag.n, dtype=np.int64)
    if cut_at_exits:
        source = dag.succ_rows.owner
        cuts[source[device[source] != device[dag.succ_rows.node]]] = 1
    columns = (
        np.asarray(order, dtype=np.int64), device, dag.pred_rows.at, dag.pred_rows.node, cuts,
        np.full(int(device.max(initial=0)) + 1, -1), np.empty(dag.n, dtype=np.int64),
    )  # fmt: skip
    many = compile_threshold.pays(_runs, dag.n, LEAST, COMPILE_FROM)
    _, rows = compile_threshold.called(_runs, (), columns, as_arrays=many)
    return np.asarray(rows[-1], dtype=np.int64)


def best_grouping(
    problem: Problem, assignment: Sequence[int], order: Sequence[int], *, may_miss: bool = False
) -> tuple[tuple[Group, ...], str]:
    """Return the grouping of an assignment with the least simulated latency, and its name.

    Compares the groups of ``compact``, runs in schedule `order`, runs cut where a tensor leaves the
    device, and single nodes, in at most four simulations. Ties go to the fewest groups.

    Raises OutOfMemory if no grouping fits, naming the smallest excess; with `may_miss` that
    grouping is returned instead.
    """
    if _merges_in_vain(problem):
        name, made = next(_ways(problem, assignment, order, WAYS[-1:]))
        return made.groups(problem), name
    candidates = _different_ways(problem, assignment, order)
    best: tuple[float, int, int] | None = None
    refused: list[tuple[int, int, OutOfMemory]] = []
    for index, (name, made) in enumerate(candidates):
        deadline.check()
        try:
            latency_s = made.latency_s(problem, name)
        except OutOfMemory as error:
            refused.append((error.over_bytes, index, error))
            continue
        score = (latency_s, len(made), index)
        best = score if best is None else min(best, score)
    if best is None:
        _, index, missed = min(refused, key=lambda entry: entry[:2])
        if not may_miss:
            raise missed
    else:
        _, _, index = best
    name, made = candidates[index]
    return made.groups(problem), name


@cached
def _known_labels(_: Problem) -> dict[bytes, Ints]:
    """Cache of ``_compacted``, as strategies and moves reach the same assignments."""
    return {}


def _compacted(problem: Problem, device_of: Ints) -> Ints:
    """Return labels of the groups of ``compact``. Raises UnsupportedNode."""
    known, asked = _known_labels(problem), device_of.tobytes()
    if asked not in known:
        devices = device_of.tolist()
        if problem.composites:
            found = owners(problem.n, partition(problem, assignment=devices).groups)
        else:
            if not problem.supported[np.arange(problem.n), device_of].all():
                as_resolution(problem, devices)
            found = compact.merge(problem.dag, devices, problem.host)
        known[asked] = np.array(found, dtype=np.int64)
    return known[asked]


def plan_of_stages(
    problem: Problem, name: str, stages: Sequence[tuple[Sequence[int], int]], reason: str
) -> Plan:
    """Return the plan with one subgraph per stage. O(V + E)."""
    labels = [-1] * problem.n
    assignment = [-1] * problem.n
    rank = [0.0] * problem.n
    for index, (nodes, device) in enumerate(stages):
        for node in nodes:
            labels[node], assignment[node], rank[node] = index, device, float(index)
    parts = order_groups(problem.dag, labels, rank)
    if parts is None:
        raise AssertionError(f"stages of '{name}' feed each other in a circle")
    return Plan(problem, name, as_groups(parts, assignment, problem.devices), reason)


WAYS = ("compact", "runs", "eager runs", "single nodes")


def groupings(
    problem: Problem, assignment: Sequence[int], order: Sequence[int]
) -> list[tuple[str, tuple[Group, ...]]]:
    """Return the groupings that ``best_grouping`` tries, by name, without duplicates."""
    found = _different_ways(problem, assignment, order)
    return [(name, made.groups(problem)) for name, made in found]


def _different_ways(
    problem: Problem, assignment: Sequence[int], order: Sequence[int]
) -> list[tuple[str, Owned]]:
    found: list[tuple[str, Owned]] = []
    for name, made in _ways(problem, assignment, order, WAYS):
        deadline.check()
        if not any(made.is_like(known) for _, known in found):
            found.append((name, made))
    return found


def _ways(
    problem: Problem, assignment: Sequence[int], order: Sequence[int], names: Sequence[str]
) -> Iterator[tuple[str, Owned]]:
    device_of, nodes = np.asarray(assignment, dtype=np.int64), np.arange(problem.n)
    rank = np.empty(problem.n, dtype=np.int64)
    rank[np.asarray(order, dtype=np.int64)] = nodes
    for name in names:
        if name == "compact":
            labels = _compacted(problem, device_of)
        elif name == "single nodes":
            labels = nodes
        else:
            labels = runs(problem.dag, assignment, order, cut_at_exits=name == "eager runs")
        made = Owned.ordered(problem, labels, device_of, rank)
        if made is None:
            raise AssertionError(f"grouping '{name}' is cyclic")
        yield name, made


def _merges_in_vain(problem: Problem) -> bool:
    return (
        not any(problem.dispatch_s)
        and not problem.fused
        and problem.contention == "none"
        and problem.capacity_bytes is None
        and problem.staging is None
    )


MERGES = 16
"""Maximum number of merges to try, each with one simulation."""
MANY = 500
"""Number of subgraphs from which several pairs are merged at a time."""
BATCH = 64
"""Number of pairs merged at a time at first, for MANY subgraphs."""
MERGE_WORK = 20_000
"""Maximum number of subgraphs to simulate in all trials for MANY; at least LEAST_MERGES trials."""
LEAST_MERGES = 4


def merge_where_it_pays(
    problem: Problem, groups: tuple[Group, ...], *, thorough: bool = False
) -> tuple[Group, ...]:
    """Merge neighbouring groups of a device as long as the latency does not grow.

    Pairs with the smallest group come first, one by one, or in batches for MANY groups or if
    `thorough`. At most MERGES simulations; `thorough` allows as many as simulate MERGE_WORK groups.
    """
    owned = Owned.of(problem, groups)
    latency_s = _latency(problem, owned)
    if latency_s is None:
        return groups
    many = thorough or len(groups) > MANY
    size, trials = BATCH if many else 1, max(LEAST_MERGES, MERGE_WORK // max(len(groups), 1))
    if not thorough:
        trials = min(trials, MERGES)
    refused: set[tuple[int, int]] = set()
    kept = owned
    pairs, first = _pairs(problem, kept), kept.first_nodes()
    succs = condense(problem.dag, kept.owner, len(kept))
    while trials > 0 and deadline.left_s() > 0.0:
        batch = _disjoint(first, pairs, refused, size)
        if not batch:
            break
        merged = None
        if not any(_joined_by_others(succs, *pair) for pair in batch):
            merged = _merged(problem, kept, batch)
        if merged is not None:
            trials -= 1
            found = _latency(problem, merged)
            if found is not None and found <= latency_s:
                kept, latency_s = merged, found
                pairs, first = _pairs(problem, kept), kept.first_nodes()
                succs = condense(problem.dag, kept.owner, len(kept))
                size *= 2 if many else 1
                continue
        if size == 1:
            refused.add(_key(first, batch[0]))
        size = max(1, size // 4)
    return groups if kept is owned else kept.groups(problem)


def _latency(problem: Problem, owned: Owned) -> float | None:
    try:
        return owned.latency_s(problem, "regrouping")
    except Infeasible:
        return None


def _key(first: Sequence[int], pair: tuple[int, int]) -> tuple[int, int]:
    return first[pair[0]], first[pair[1]]


def _pairs(problem: Problem, owned: Owned) -> list[tuple[int, int]]:
    """Return consecutive groups of a device, in ascending order of the smaller one's seconds."""
    seconds = owned.seconds(problem)
    by_device = np.argsort(owned.device, kind="stable")
    before, after = by_device[:-1], by_device[1:]
    follow = owned.device[before] == owned.device[after]
    before, after = before[follow], after[follow]
    order = np.lexsort((after, before, np.minimum(seconds[before], seconds[after])))
    return list(zip(before[order].tolist(), after[order].tolist(), strict=True))


def _disjoint(
    first: Sequence[int],
    pairs: Sequence[tuple[int, int]],
    refused: set[tuple[int, int]],
    size: int,
) -> list[tuple[int, int]]:
    """Return the first `size` pairs that were not refused and share no group."""
    taken: set[int] = set()
    found: list[tuple[int, int]] = []
    for pair in pairs:
        if taken.isdisjoint(pair) and not (refused and _key(first, pair) in refused):
            taken.update(pair)
            found.append(pair)
            if len(found) == size:
                break
    return found


def _joined_by_others(succs: Sequence[Sequence[int]], before: int, after: int) -> bool:
    """Return whether groups between two lead from one to the other, so that a merge closes a cycle.

    O(edges between them).
    """
    waiting, seen = [before], {before}
    while waiting:
        group = waiting.pop()
        for reader in succs[group]:
            if reader == after and group != before:
                return True
            if reader < after and reader not in seen:
                seen.add(reader)
                waiting.append(reader)
    return False


def _merged(problem: Problem, owned: Owned, pairs: Sequence[tuple[int, int]]) -> Owned | None:
    """Return the groups with each of `pairs` merged, in an executable order; None on a cycle."""
    into = np.arange(len(owned))
    for u, v in pairs:
        into[v] = u
    device_of = owned.device[owned.owner]
    return Owned.ordered(problem, into[owned.owner], device_of, owned.owner)


Crossing = tuple[int, int, int]
"""Node, first node of the subgraph that it moves into, and device of that subgraph."""

Kind = tuple[str, int, int, int]
"""Op type, own device, other device, bytes across: equal for moves in repeated layers."""

TRIALS = 200
"""Maximum number of moves to simulate."""
WORK = 100_000
"""Maximum number of nodes to simulate, over all trials."""


def refine(plan: Plan, objective: Objective, cost: float) -> Plan:
    """Move nodes at a device border into the subgraph across it if the simulated cost improves.

    Borders with the most bytes come first; for latency, all equal layers are then laid out like one
    of them if that improves. `cost` is that of `plan`, which is returned if nothing improves it. At
    most TRIALS simulations and WORK nodes, besides the simulations of equal layers.
    """
    problem = plan.problem
    kept = begun = Owned.of(problem, plan.groups)
    trials = min(TRIALS, WORK // max(problem.n, 1))
    tried: set[Crossing] = set()
    refusals: Counter[Kind] = Counter()
    gained = True
    while gained and trials > 0:
        gained = False
        for crossing, kind, moved in _moves(problem, kept, tried, refusals):
            if trials == 0 or deadline.left_s() <= 0.0:
                trials = 0
                break
            tried.add(crossing)
            refusals[kind] += 1
            trials -= 1
            try:
                found = _cost(plan, moved, objective)
            except Infeasible:
                # Not enough memory, or the move splits a composite supported only as a whole.
                continue
            if found < cost:
                kept, cost, gained = moved, found, True
                refusals[kind] = 0
                break
    if objective == "latency":
        kept, cost = _with_equal_layers(problem, kept, cost)
    return plan if kept is begun else replace(plan, groups=kept.groups(problem))


LAYER_TRIALS, LAYER_WORK = 64, 400_000
"""Maximum number of simulations of plans with equal layers, and of their nodes in total."""
BEGINNINGS = 4
"""Number of candidate first nodes of a layer: those with the fewest groups before and after."""


def _with_equal_layers(problem: Problem, owned: Owned, latency_s: float) -> tuple[Owned, float]:
    """Return the best partition in which all equal layers are laid out like one of them."""
    trials = min(LAYER_TRIALS, LAYER_WORK // max(problem.n, 1))
    for repeat in repeats(problem):
        begun = None
        while begun is not owned:
            begun = owned
            for made in _by_layers(problem, begun, repeat):
                if trials == 0 or deadline.left_s() <= 0.0:
                    return owned, latency_s
                trials -= 1
                found_s = _latency(problem, made)
                if found_s is not None and found_s < latency_s:
                    owned, latency_s = made, found_s
    return owned, latency_s


def _by_layers(problem: Problem, owned: Owned, repeat: Repeat) -> Iterator[Owned]:
    """Yield executable partitions in which all layers are laid out like one of them."""
    first, nodes, period = repeat
    count, groups = nodes // period, len(owned)
    last = np.empty(groups, dtype=np.int64)
    last[owned.owner] = np.arange(problem.n)
    across = np.zeros(problem.n + 1, dtype=np.int64)
    np.add.at(across, np.array(owned.first_nodes()) + 1, 1)
    np.add.at(across, last + 1, -1)
    across = np.cumsum(across)
    rows = first + period * np.arange(count)[:, None] + np.arange(period)
    for begin in np.argsort(across[rows].sum(axis=0), kind="stable")[:BEGINNINGS].tolist():
        whole = rows[: (nodes - begin) // period] + begin
        owner, seen = owned.owner[whole], set()
        for own in owner:
            known = owned.device[own].tobytes(), np.unique(own, return_inverse=True)[1].tobytes()
            if known in seen:
                continue
            seen.add(known)
            labels, devices = owned.owner.copy(), owned.device[owned.owner]
            labels[whole[-1, -1] + 1 :] += groups * (len(whole) + 1)
            labels[whole] = own + groups * np.arange(1, len(whole) + 1)[:, None]
            devices[whole] = owned.device[own]
            made = Owned.ordered(problem, labels, devices, labels)
            if made is not None:
                yield made


def _cost(plan: Plan, owned: Owned, objective: Objective) -> float:
    problem = plan.problem
    if objective == "latency":
        return owned.latency_s(problem, plan.strategy)
    return measure(Plan(problem, plan.strategy, owned.groups(problem)), objective)


def _moves(
    problem: Problem,
    owned: Owned,
    tried: set[Crossing],
    refusals: Mapping[Kind, int],
) -> Iterator[tuple[Crossing, Kind, Owned]]:
    """Yield executable partitions in which one node crosses a border."""
    owner, first = owned.owner, owned.first_nodes()
    device_of = owned.device[owner]
    values = problem.value_arrays
    reader, source = values.readers.node, values.producer[values.readers.owner]
    across = (source != GRAPH_INPUT) & (device_of[source] != device_of[reader])
    u, v = source[across], reader[across]
    node, target = np.concatenate((u, v)), np.concatenate((owner[v], owner[u]))
    nbytes = np.tile(values.nbytes[values.readers.owner[across]], 2)
    # The move with the most bytes among those refused for the same reason.
    order = np.lexsort((-nbytes, target, node))
    node, target, nbytes = node[order], target[order], nbytes[order]
    new = np.ones(len(node), dtype=np.bool_)
    new[1:] = (node[1:] != node[:-1]) | (target[1:] != target[:-1])
    device = owned.device[target]
    able = new & problem.supported[node, device]
    left: list[tuple[int, int, int, int, Kind]] = []
    for moving, into, there, own, weight in zip(
        node[able].tolist(), target[able].tolist(), device[able].tolist(),
        device_of[node[able]].tolist(), map(int, nbytes[able].tolist()), strict=True,
    ):  # fmt: skip
        kind = (problem.op_types[moving], own, there, weight)
        left.append((refusals.get(kind, 0), -weight, moving, into, kind))
    heapq.heapify(left)
    while left:
        known, minus, moving, into, kind = heapq.heappop(left)
        if refusals.get(kind, 0) > known:
            # This kind was refused since it was queued, so other kinds go first.
            heapq.heappush(left, (refusals[kind], minus, moving, into, kind))
            continue
        crossed = (moving, first[into], kind[2])
        if crossed not in tried:
            made = _with_node_in(problem, owned, moving, into)
            if made is not None:
                yield crossed, kind, made


def _with_node_in(problem: Problem, owned: Owned, node: int, target: int) -> Owned | None:
    labels, devices = owned.owner.copy(), owned.device[owned.owner]
    labels[node], devices[node] = target, owned.device[target]
    return Owned.ordered(problem, labels, devices, labels)
