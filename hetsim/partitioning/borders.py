"""Borders of a partition: values that cross them, and reasons that separate two nodes."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hetsim.core import checks
from hetsim.errors import UsageError, nearest
from hetsim.partitioning.regions import annotate
from hetsim.problem.groups import Group, condense, owners
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.problem import Problem


@dataclass(frozen=True, slots=True)
class Border:
    """Values that a group exchanges with the rest, as indices into ``problem.values``.

    Attributes
    ----------
    inputs : tuple of int
        Values produced elsewhere, in the order in which the group's nodes first read them.
    outputs : tuple of int
        Values that another group or the caller reads, in order of production.
    constants : tuple of int
        Indices of ``problem.constants`` read by its nodes, ascending. A constant is copied into
        every group that reads it, and does not connect groups.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    constants: tuple[int, ...]


def borders(problem: Problem, groups: Sequence[Group]) -> tuple[Border, ...]:
    """Return each group's border, without duplicates. O(V + E)."""
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
    constants: list[list[int]] = [[] for _ in groups]
    for index, constant in enumerate(problem.constants):
        for home in {owner[node] for node in constant.consumers}:
            constants[home].append(index)
    return tuple(
        Border(tuple(i), tuple(o), tuple(c))
        for i, o, c in zip(inputs, outputs, constants, strict=True)
    )


def memory_bytes(problem: Problem, nodes: Sequence[int]) -> int:
    """Return the bytes of a subgraph of `nodes` if nothing is ever freed.

    Counts its constants, outside inputs, and all outputs of its nodes, each once. An upper bound on
    the result of the clock, which tracks freed memory (``clock.memory``). Complexity: O(inputs and
    outputs of the nodes).
    """
    touched = {index for node in nodes for index in problem.values_of[node]}
    stored = {index for node in nodes for index in problem.constants_of[node]}
    return sum(problem.values[index].nbytes for index in touched) + sum(
        problem.constants[index].nbytes for index in stored
    )


def boundary_values(problem: Problem, groups: Sequence[Group]) -> tuple[int, ...]:
    """Return the values that one group produces and another reads, ascending. O(V + E)."""
    owner = owners(problem.n, groups)
    return tuple(
        index
        for index, value in enumerate(problem.values)
        if value.producer != GRAPH_INPUT
        and any(owner[node] != owner[value.producer] for node in value.consumers)
    )


@dataclass(frozen=True, slots=True)
class Crossing:
    """Bytes and values that a group exchanges with other devices.

    Attributes
    ----------
    receives_bytes : int
        Bytes of values that it reads from another device, counted at each group of the device that
        reads them.
    sends_bytes : int
        Bytes of values that it produces, once for each other device that needs them.
    """

    receives_bytes: int
    sends_bytes: int


def crossings(problem: Problem, groups: Sequence[Group]) -> tuple[Crossing, ...]:
    """Return the exchange of each group with other devices. O(V + E)."""
    owner = owners(problem.n, groups)
    receives, sends = [0] * len(groups), [0] * len(groups)
    host = problem.devices[problem.host] if problem.host is not None else None
    for value in problem.values:
        readers = dict.fromkeys(owner[node] for node in value.consumers)
        home = host if value.producer == GRAPH_INPUT else groups[owner[value.producer]].device
        if home is None:
            continue
        away = [group for group in readers if groups[group].device != home]
        for group in away:
            receives[group] += value.nbytes
        if value.producer == GRAPH_INPUT:
            continue
        targets = {groups[group].device for group in away}
        if value.is_output and host is not None and host != home:
            targets.add(host)
        sends[owner[value.producer]] += value.nbytes * len(targets)
    return tuple(Crossing(*both) for both in zip(receives, sends, strict=True))


@checks.takes(name=checks.either(checks.text, checks.whole()))
def node_named(problem: Problem, name: str | int) -> int:
    """Return the node called `name`, by its own name or that of a file node it was made from.

    An id is returned unchanged. Raises UsageError with the nearest name, or the range of ids.
    """
    if isinstance(name, int):
        if not 0 <= name < problem.n:
            raise UsageError(f"no node {name} in {problem.name}", hint=f"use 0 .. {problem.n - 1}")
        return name
    for node, own in enumerate(problem.node_names):
        if own == name:
            return node
    for node, origins in enumerate(problem.origins):
        if name in origins:
            return node
    known = (*problem.node_names, *(o for origins in problem.origins for o in origins))
    raise UsageError(f"no node '{name}' in {problem.name}", hint=nearest(name, known))


def explain(
    problem: Problem,
    groups: Sequence[Group],
    u: int,
    v: int,
    left: Mapping[int, str] | None = None,
    withdrawn: Mapping[tuple[int, int], str] | None = None,
) -> str:
    """Return the reason why nodes `u` and `v` are in one group or in two, with a blocking path.

    `left` and `withdrawn` are those of a Partition.

    Complexity: O(V + E).
    """
    owner = owners(problem.n, groups)
    a, b = owner[u], owner[v]
    names = f"{_called(problem, u)} and {_called(problem, v)}"
    if a == b:
        return f"{names} are both in group {a} on {groups[a].device}"
    if groups[a].device != groups[b].device:
        return f"{names} are on {groups[a].device} and {groups[b].device}" + _refused(
            problem, groups, ((u, b), (v, a)), left or {}, withdrawn or {}
        )
    a, b = min(a, b), max(a, b)
    both = f"groups {a} and {b} on {groups[a].device}"
    path = _detour(problem, groups, owner, a, b)
    if path:
        way = " > ".join(
            f"{_called(problem, node)} on {groups[owner[node]].device}" for node in path
        )
        return (
            f"{names} are in {both}: one group of both would depend on its own output through {way}"
        )
    if b not in condense(problem.dag, owner, len(groups))[a]:
        return f"{names} are in {both}: no value connects them"
    return (
        f"{names} are in {both}: a merge would be valid, but the method did not make it, or "
        "max_nodes_per_group forbids it"
    )


def _called(problem: Problem, node: int) -> str:
    return f"'{problem.node_names[node]}'"


def _refused(
    problem: Problem,
    groups: Sequence[Group],
    pairs: tuple[tuple[int, int], ...],
    left: Mapping[int, str],
    withdrawn: Mapping[tuple[int, int], str],
) -> str:
    regions = replace(annotate(problem), withdrawn=withdrawn)
    reasons = [f"{_called(problem, node)}, {left[node]}" for node, _ in pairs if node in left] or [
        f"{_called(problem, node)}, {regions.reason(node, device)}"
        for node, group in pairs
        for device in (problem.devices.index(groups[group].device),)
        if (node, device) in withdrawn or not problem.supported[node, device]
    ]
    return f": {'; '.join(reasons)}" if reasons else ": by the order of devices"


def _detour(
    problem: Problem, groups: Sequence[Group], owner: Sequence[int], a: int, b: int
) -> list[int]:
    """Return a shortest path of nodes from group a to b through another group; or none."""
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
