"""How an assignment becomes subgraphs: grouped in several ways, the best by the clock."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.core import deadline, left_to_python
from hetsim.core.machine_code import machine_code
from hetsim.errors import OutOfMemory
from hetsim.graph.dag import Dag, Ints, Rows
from hetsim.partitioning.flow import as_resolution, partition
from hetsim.partitioning.methods import compact
from hetsim.placement.objective import latency_of_groups, memory_binds
from hetsim.problem.groups import Group, as_groups, order_groups, owners_in_order
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.one_request import one_request

LARGE_FROM = 1_000
"""Nodes from which groups are tried as arrays."""


@dataclass(frozen=True, eq=False, slots=True)
class Owned:
    """A partition in executable order.

    Attributes
    ----------
    owner : int array [n]
        The place of each node's group.
    device : int array [groups]
    """

    owner: Ints
    device: Ints

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
        """Return what ``groups.order_groups`` makes of `labels`; None on a cycle."""
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
        """Return what ``latency_of_groups`` does, where ``are_for`` says so."""
        found = one_request(problem).latency_of_owned(problem, self.owner, self.device, name)
        return latency_of_groups(problem, self.groups(problem), name) if found is None else found

    def seconds(self, problem: Problem) -> NDArray[np.float64]:
        """Return the seconds of each group."""
        played = one_request(problem)
        if played.adds_up:
            return played.seconds_of_owned(problem, self.owner, self.device)
        return np.array(played.seconds(problem, self.groups(problem)))

    def first_nodes(self) -> list[int]:
        """Return the first node of each group."""
        found = np.empty(len(self), dtype=np.int64)
        # Of what is written to one place, the last stays.
        found[self.owner[::-1]] = np.arange(len(self.owner) - 1, -1, -1)
        nodes: list[int] = found.tolist()
        return nodes


def are_for(problem: Problem) -> bool:
    """Whether groups of a problem are tried as arrays.

    Where there are many nodes, what a group takes is a sum over its nodes, and its memory suffices.
    """
    return problem.n >= LARGE_FROM and one_request(problem).adds_up and not memory_binds(problem)


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
    """Label nodes by runs: a node joins its device's open run if no later run feeds it.

    Parameters
    ----------
    order, device : int [n]
        The nodes in schedule order, and where each runs.
    pred_at, preds : int [n + 1], int
        The nodes before each.
    cuts : int [n]
        Whether a run ends with the node.
    opened : int [devices], -1
        Room to work in.
    labels : int [n]
        Out.

    Complexity: O(V + E).
    """
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


@functools.cache
def _runs() -> Callable[..., None]:
    """Return ``label_runs`` as machine code for int64 arrays."""
    return machine_code(label_runs)


def pays(nodes: int) -> bool:
    """Whether runs of so many nodes are for machine code."""
    return left_to_python.pays(_runs, label_runs, nodes, LEAST, COMPILE_FROM)


def runs(dag: Dag, assignment: Sequence[int], order: Sequence[int], *, cut_at_exits: bool) -> Ints:
    """Return the run of each node; see ``label_runs``.

    Every edge then leads from an earlier run to the same or a later one, so the graph of
    runs is acyclic. With `cut_at_exits` a run ends with a node that feeds another device.
    """
    device = np.asarray(assignment, dtype=np.int64)
    cuts = np.zeros(dag.n, dtype=np.int64)
    if cut_at_exits:
        source = dag.succ_rows.owner
        cuts[source[device[source] != device[dag.succ_rows.node]]] = 1
    columns = (
        np.asarray(order, dtype=np.int64), device, dag.pred_rows.at, dag.pred_rows.node, cuts,
        np.full(int(device.max(initial=0)) + 1, -1), np.empty(dag.n, dtype=np.int64),
    )  # fmt: skip
    if pays(dag.n):
        _runs()(*columns)
        return columns[-1]
    rows = [column.tolist() for column in columns]
    label_runs(*rows)
    return np.array(rows[-1], dtype=np.int64)


def best_grouping(
    problem: Problem, assignment: Sequence[int], order: Sequence[int], *, may_miss: bool = False
) -> tuple[tuple[Group, ...], str]:
    """Group an assignment in several ways and keep the one that the clock likes best.

    A merge saves a dispatch and transfers, but holds outputs back to the end of the
    group; which weighs more only the clock knows. Tried are: the groups of ``compact``;
    runs of nodes in schedule order; such runs cut wherever a tensor leaves the device;
    and every node alone.

    Parameters
    ----------
    problem : Problem
    assignment : sequence of int
        Device index by node.
    order : sequence of int
        The nodes in schedule order, which is a topological order.
    may_miss : bool
        Where no way fits the devices, return the first that misses by the fewest bytes.

    Returns
    -------
    The groups and the name of the way; ties go to the fewest groups, then to the first
    in the order above. Cost: four simulations of one request. None is needed where a merge
    can win nothing: dispatch, fusion, contention and memory play no part.

    Raises
    ------
    OutOfMemory
        Where no way fits the devices and none may miss: of the one that does by the fewest bytes.
    """
    if _merges_in_vain(problem):
        parts = order_groups(problem.dag, range(problem.n), _places(order))
        if parts is None:
            raise AssertionError("a problem's graph is cyclic")
        return as_groups(parts, assignment, problem.devices), "single nodes"
    if are_for(problem):
        return _best_of_many(problem, assignment, order)
    candidates = groupings(problem, assignment, order)
    best: tuple[float, int, int] | None = None
    refused: list[tuple[int, int, OutOfMemory]] = []
    for index, (name, groups) in enumerate(candidates):
        deadline.check()
        try:
            latency_s = latency_of_groups(problem, groups, name)
        except OutOfMemory as error:
            refused.append((error.over_bytes, index, error))
            continue
        score = (latency_s, len(groups), index)
        best = score if best is None else min(best, score)
    if best is None:
        _, index, missed = min(refused, key=lambda entry: entry[:2])
        if not may_miss:
            raise missed
        name, groups = candidates[index]
        return groups, name
    name, groups = candidates[best[2]]
    return groups, name


def _best_of_many(
    problem: Problem, assignment: Sequence[int], order: Sequence[int]
) -> tuple[tuple[Group, ...], str]:
    """Do the same on arrays."""
    device_of, nodes = np.asarray(assignment, dtype=np.int64), np.arange(problem.n)
    rank = np.empty(problem.n, dtype=np.int64)
    rank[np.asarray(order, dtype=np.int64)] = nodes
    if not problem.supported[nodes, device_of].all():
        as_resolution(problem, assignment)
    compacted = compact.merge(problem.dag, device_of.tolist(), problem.host)
    found: list[tuple[str, Owned]] = []
    for name, labels in (
        ("compact", np.array(compacted, dtype=np.int64)),
        ("runs", runs(problem.dag, assignment, order, cut_at_exits=False)),
        ("eager runs", runs(problem.dag, assignment, order, cut_at_exits=True)),
        ("single nodes", nodes),
    ):
        deadline.check()
        made = Owned.ordered(problem, labels, device_of, rank)
        if made is None:
            raise AssertionError(f"grouping '{name}' is cyclic")
        if not any(made.is_like(known) for _, known in found):
            found.append((name, made))
    scores = [(made.latency_s(problem, name), len(made)) for name, made in found]
    name, made = found[min(range(len(found)), key=lambda index: (*scores[index], index))]
    return made.groups(problem), name


def groupings(
    problem: Problem, assignment: Sequence[int], order: Sequence[int]
) -> list[tuple[str, tuple[Group, ...]]]:
    """Return the ways that ``best_grouping`` tries, by name; those that are alike once."""
    rank = _places(order)
    found: list[tuple[str, tuple[Group, ...]]] = [
        ("compact", partition(problem, "compact", assignment=assignment, rank=rank).groups)
    ]
    for name, labels in (
        ("runs", runs(problem.dag, assignment, order, cut_at_exits=False).tolist()),
        ("eager runs", runs(problem.dag, assignment, order, cut_at_exits=True).tolist()),
        ("single nodes", list(range(problem.n))),
    ):
        parts = order_groups(problem.dag, labels, rank)
        if parts is None:
            raise AssertionError(f"grouping '{name}' is cyclic")
        groups = as_groups(parts, assignment, problem.devices)
        if all(groups != known for _, known in found):
            found.append((name, groups))
    return found


def _places(order: Sequence[int]) -> list[float]:
    rank = [0.0] * len(order)
    for place, node in enumerate(order):
        rank[node] = float(place)
    return rank


def _merges_in_vain(problem: Problem) -> bool:
    return (
        not any(problem.dispatch_s)
        and not problem.fused
        and problem.contention == "none"
        and problem.capacity_bytes is None
        and problem.staging is None
    )
