"""Grouping of an assignment into subgraphs: several methods, merged and refined on the clock."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.core import deadline, left_to_python
from hetsim.core.machine_code import machine_code
from hetsim.errors import Infeasible, OutOfMemory
from hetsim.graph.dag import Dag, Ints, Rows
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
    """Partition in executable order."""

    owner: Ints  # [n]: The place of each node's group
    device: Ints  # [groups]

    def __len__(self) -> int:
        return len(self.device)

    @classmethod
    def of(cls, problem: Problem, groups: Sequence[Group]) -> Owned:
        """Read groups. O(n)."""
        rows = Rows.of([group.nodes for group in groups])
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
        # Of what is written to one place, the last stays.
        device[owner[::-1]] = device_of[::-1]
        return cls(owner, device)

    def groups(self, problem: Problem) -> tuple[Group, ...]:
        """Return them as records. O(n log n)."""
        rows = Rows.sorted_by(len(self), self.owner, np.arange(problem.n))
        names = [problem.devices[p] for p in self.device.tolist()]
        return tuple(map(Group, names, rows.tuples()))

    def is_like(self, other: Owned) -> bool:
        """Whether they are the same groups on the same devices in the same order."""
        return np.array_equal(self.owner, other.owner) and np.array_equal(self.device, other.device)

    def latency_s(self, problem: Problem, name: str) -> float:
        """Return ``latency_of_groups``. Raises as it does."""
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
        # Of what is written to one place, the last stays.
        found[self.owner[::-1]] = np.arange(len(self.owner) - 1, -1, -1)
        nodes: list[int] = found.tolist()
        return nodes


Array = Any
"""A list of numbers, or an array of them where it is compiled."""

LEAST, COMPILE_FROM = 3_000, 250_000
"""Nodes of one plan, and of all of a process, that are for machine code."""


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
    many = left_to_python.pays(_runs, dag.n, LEAST, COMPILE_FROM)
    _, rows = left_to_python.called(_runs, (), columns, as_arrays=many)
    return np.asarray(rows[-1], dtype=np.int64)


def best_grouping(
    problem: Problem, assignment: Sequence[int], order: Sequence[int], *, may_miss: bool = False
) -> tuple[tuple[Group, ...], str]:
    """Return the grouping of an assignment of least latency on the clock, and its name.

    Of the groups of ``compact``, runs in schedule `order`, runs cut where a tensor leaves the
    device, and single nodes: four simulations at most. Ties go to the fewest groups.

    Raises OutOfMemory where no way fits the devices: of the one that does by the fewest bytes,
    which is returned where it `may_miss`.
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
    """Results of ``_compacted``: strategies and changes come to the same assignments."""
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
    """Return the plan with one subgraph a stage. O(V + E)."""
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
    """Return the groupings that ``best_grouping`` tries, by name; duplicates once."""
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
"""Merges tried; each is a simulation."""
MANY = 500
"""Subgraphs from which on many pairs are merged at a time."""
BATCH = 64
"""Pairs merged together at first, where there are so many."""
MERGE_WORK = 20_000
"""Subgraphs simulated at most, over all trials, where there are so many; but LEAST_MERGES."""
LEAST_MERGES = 4


def merge_where_it_pays(
    problem: Problem, groups: tuple[Group, ...], *, thorough: bool = False
) -> tuple[Group, ...]:
    """Merge neighbouring groups of a device as long as the latency does not grow.

    The smallest first, pair by pair, or in batches where there are MANY groups or the search is
    `thorough`. At most MERGES simulations; `thorough`, as many as simulate MERGE_WORK groups.
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
    """Groups that follow each other on a device, by the seconds of the smaller of the two."""
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
    """The first `size` pairs that were not refused and share no group."""
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
    """Whether groups between two in executable order lead from one to the other: a cycle if merged.

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
    """The groups with each of `pairs` as one, in an executable order; None where there is none."""
    into = np.arange(len(owned))
    for u, v in pairs:
        into[v] = u
    device_of = owned.device[owned.owner]
    return Owned.ordered(problem, into[owned.owner], device_of, owned.owner)


Crossing = tuple[int, int, int]
"""A node, the first of the subgraph that it moves into, and that one's device."""

Kind = tuple[str, int, int, int]
"""Op type, own device, other device, bytes across: what moves of repeated layers have in common."""

TRIALS = 200
"""Moves that the clock judges at most."""
WORK = 100_000
"""Nodes simulated at most, over all trials."""


def refine(plan: Plan, objective: Objective, cost: float) -> Plan:
    """Move nodes on a border between devices into the subgraph across, where the clock gains.

    By the bytes that cross the border, the most first; for latency all equal layers are then made
    as one of them is, where that gains. `cost` is that of `plan`, which is returned where nothing
    gains. At most TRIALS simulations, fewer where they would exceed WORK nodes, beside those of
    equal layers.
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
                # Memory, or the rest of a composite that a device takes whole only.
                continue
            if found < cost:
                kept, cost, gained = moved, found, True
                refusals[kind] = 0
                break
    if objective == "latency":
        kept, cost = _with_equal_layers(problem, kept, cost)
    return plan if kept is begun else replace(plan, groups=kept.groups(problem))


LAYER_TRIALS, LAYER_WORK = 64, 400_000
"""Simulations of plans with equal layers at most, and their nodes in all."""
BEGINNINGS = 4
"""Nodes at which layers are taken to begin: those with the fewest groups before and after them."""


def _with_equal_layers(problem: Problem, owned: Owned, latency_s: float) -> tuple[Owned, float]:
    """Return the best met where all equal layers are placed, cut and ordered as one of them is."""
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
    """Give the partitions in which all layers are as one of them is, executable ones alone."""
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
    """Give the partitions in which one node crosses a border, executable ones alone."""
    owner, first = owned.owner, owned.first_nodes()
    device_of = owned.device[owner]
    values = problem.value_arrays
    reader, source = values.readers.node, values.producer[values.readers.owner]
    across = (source != GRAPH_INPUT) & (device_of[source] != device_of[reader])
    u, v = source[across], reader[across]
    node, target = np.concatenate((u, v)), np.concatenate((owner[v], owner[u]))
    nbytes = np.tile(values.nbytes[values.readers.owner[across]], 2)
    # The largest of what crosses for the same reason.
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
            # Refused since it was put there: those of other kinds go first.
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
