"""What crosses the borders of a partition, and why two nodes are apart."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from hetsim.errors import UsageError, nearest
from hetsim.partitioning.methods import refusal
from hetsim.partitioning.partition import Group, condense, owners
from hetsim.problem import GRAPH_INPUT, Problem


@dataclass(frozen=True, slots=True)
class Border:
    """The values that a group exchanges with the rest, as indices into ``problem.values``.

    Attributes
    ----------
    inputs : tuple of int
        Values made elsewhere, in the order in which the group's nodes first read them.
    outputs : tuple of int
        Values that another group reads or the caller gets, in the order they are made.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def borders(problem: Problem, groups: Sequence[Group]) -> tuple[Border, ...]:
    """Return each group's border, every value once. O(V + E)."""
    owner = owners(problem.n, groups)
    reads: list[list[int]] = [[] for _ in range(problem.n)]
    inputs: list[list[int]] = [[] for _ in groups]
    outputs: list[list[int]] = [[] for _ in groups]
    for index, value in enumerate(problem.values):
        home = -1 if value.producer == GRAPH_INPUT else owner[value.producer]
        leaves = value.is_output
        for node in value.consumers:
            if owner[node] != home:
                reads[node].append(index)
                leaves = True
        if leaves and home >= 0:
            outputs[home].append(index)
    for index, group in enumerate(groups):
        inputs[index] = list(dict.fromkeys(v for node in group.nodes for v in reads[node]))
        outputs[index].sort(key=lambda v: (problem.values[v].producer, v))
    return tuple(Border(tuple(i), tuple(o)) for i, o in zip(inputs, outputs, strict=True))


def boundary_values(problem: Problem, groups: Sequence[Group]) -> tuple[int, ...]:
    """Return the values that lead from one group to another, ascending. O(V + E)."""
    owner = owners(problem.n, groups)
    return tuple(
        index
        for index, value in enumerate(problem.values)
        if value.producer != GRAPH_INPUT
        and any(owner[node] != owner[value.producer] for node in value.consumers)
    )


def node_named(problem: Problem, name: str) -> int:
    """Return the node called `name`, by its own name or that of a node it stands for.

    Raises UsageError with the nearest name.
    """
    for node, own in enumerate(problem.node_names):
        if own == name:
            return node
    for node, origins in enumerate(problem.origins):
        if name in origins:
            return node
    known = (*problem.node_names, *(o for origins in problem.origins for o in origins))
    raise UsageError(f"no node '{name}' in {problem.name}", hint=nearest(name, known))


def explain(problem: Problem, groups: Sequence[Group], u: int, v: int) -> str:
    """Say why nodes `u` and `v` are in one group or in two, naming the path that blocks it.

    Parameters
    ----------
    problem : Problem
    groups : sequence of Group
        A valid partition in execution order.
    u, v : int
        Node ids.

    Complexity: O(V + E).
    """
    owner = owners(problem.n, groups)
    a, b = owner[u], owner[v]
    names = f"{_called(problem, u)} and {_called(problem, v)}"
    if a == b:
        return f"{names} are both in group {a} on {groups[a].device}"
    if groups[a].device != groups[b].device:
        return f"{names} are on {groups[a].device} and {groups[b].device}" + _refused(
            problem, groups, ((u, b), (v, a))
        )
    a, b = min(a, b), max(a, b)
    both = f"groups {a} and {b} on {groups[a].device}"
    path = _detour(problem, groups, owner, a, b)
    if path:
        way = " > ".join(
            f"{_called(problem, node)} on {groups[owner[node]].device}" for node in path
        )
        return f"{names} are in {both}: merged, they would wait for their own result through {way}"
    if b not in condense(problem.dag, owner, len(groups))[a]:
        return f"{names} are in {both}: no value leads from one to the other"
    return f"{names} are in {both}: nothing forbids the merge, but the method did not make it"


def _called(problem: Problem, node: int) -> str:
    return f"'{problem.node_names[node]}'"


def _refused(problem: Problem, groups: Sequence[Group], pairs: tuple[tuple[int, int], ...]) -> str:
    reasons = [
        f"{_called(problem, node)}, {refusal(problem, node, device)}"
        for node, group in pairs
        for device in (problem.devices.index(groups[group].device),)
        if not problem.supported[node, device]
    ]
    return f": {'; '.join(reasons)}" if reasons else ": by the order of devices"


def _detour(
    problem: Problem, groups: Sequence[Group], owner: Sequence[int], a: int, b: int
) -> list[int]:
    """A shortest path of nodes from group a to group b through at least one other; or none."""
    came: dict[int, int] = dict.fromkeys(groups[a].nodes, -1)
    queue = deque(groups[a].nodes)
    while queue:
        node = queue.popleft()
        for target in problem.dag.succs[node]:
            if owner[target] == b:
                if owner[node] == a:
                    continue
                path = [target, node]
                while came[path[-1]] >= 0:
                    path.append(came[path[-1]])
                return path[::-1]
            if target not in came:
                came[target] = node
                queue.append(target)
    return []
