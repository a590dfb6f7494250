"""The record of a partition, and the one validator that every method's result passes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from hetsim import checks
from hetsim.errors import PlanError
from hetsim.graph.dag import Dag, find_cycle, joined, topological_order
from hetsim.problem import Problem, Value

if TYPE_CHECKING:
    import onnx

    from hetsim.partitioning.views import Border


@dataclass(frozen=True, slots=True)
class Group:
    """A subgraph on one device: its name, and the node ids in graph order."""

    device: str
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Partition:
    """Groups in execution order that cover every node once.

    Attributes
    ----------
    groups : tuple of Group
    method : str
        The merge method that made it.
    notes : tuple of str
        What its user should know: where a published method had to be repaired or cut
        short, and which composites their devices did not get.
    left : mapping of int to str
        Why a node was left to the last device of the priority; empty where there was none.
    problem : Problem
        What was cut.
    """

    groups: tuple[Group, ...]
    method: str
    notes: tuple[str, ...]
    left: Mapping[int, str]
    problem: Problem = field(repr=False, compare=False)

    def validate(self) -> None:
        """Raise PlanError where a group breaks a rule of partitions. O(V + E)."""
        check(self.problem, self.groups, where=f"method '{self.method}'")

    @property
    def borders(self) -> tuple[Border, ...]:
        """What each group reads from outside and gives away. O(V + E)."""
        from hetsim.partitioning.views import borders

        return borders(self.problem, self.groups)

    @property
    def boundary(self) -> tuple[Value, ...]:
        """The tensors that lead from one group to another, in the order they are made. O(V + E)."""
        from hetsim.partitioning.views import boundary_values

        return tuple(self.problem.values[v] for v in boundary_values(self.problem, self.groups))

    @property
    def boundary_bytes(self) -> int:
        """Bytes of the `boundary`, each tensor once."""
        return sum(value.nbytes for value in self.boundary)

    def explain(self, u: str | int, v: str | int) -> str:
        """Say why two nodes, by name or id, are in one group or in two.

        Where a merge would close a cycle, the path that forbids it is named. Raises
        UsageError for a node that does not exist. O(V + E).
        """
        from hetsim.partitioning.views import explain, node_named

        a, b = (node_named(self.problem, node) for node in (u, v))
        return explain(self.problem, self.groups, a, b, self.left)

    def to_json(self) -> str:
        """Return the partition as JSON text, the same for the same question in any process."""
        from hetsim.partitioning.record import partition_record
        from hetsim.text import to_json

        return to_json(partition_record(self))

    def to_mermaid(self) -> str:
        """Return the graph as a Mermaid flowchart, one subgraph a group, coloured by device."""
        from hetsim.partitioning.pictures import to_mermaid

        return to_mermaid(self.problem, self.groups)

    def to_dot(self) -> str:
        """Return the graph in Graphviz's language, one cluster a group, coloured by device."""
        from hetsim.partitioning.pictures import to_dot

        return to_dot(self.problem, self.groups)

    def to_onnx(self) -> onnx.ModelProto:
        """Return the model with every group as a model-local function named after its device.

        See ``as_onnx.to_functions``; ``as_onnx.save`` writes it with its weights.
        """
        from hetsim.partitioning.as_onnx import to_functions

        return to_functions(self.problem, self.groups)

    def to_models(self) -> tuple[onnx.ModelProto, ...]:
        """Return every group as a model of its own; see ``as_onnx.to_models``."""
        from hetsim.partitioning.as_onnx import to_models

        return to_models(self.problem, self.groups)

    def to_annotated(self) -> onnx.ModelProto:
        """Return the model with the device of every node noted; see ``as_onnx.to_annotated``."""
        from hetsim.partitioning.as_onnx import to_annotated

        return to_annotated(self.problem, self.groups)

    @checks.takes(folder=checks.path)
    def save_onnx(self, folder: str | os.PathLike[str]) -> tuple[str, ...]:
        """Write the split model, the annotated one and one a group; see ``onnx_folder.save_all``.

        Returns the names of the files.
        """
        from hetsim.partitioning.onnx_folder import save_all

        return tuple(save_all(self.problem, self.groups, Path(folder)))


_GROUP = checks.instance("hetsim.partitioning.partition:Group")
_NODE = checks.whole()


def owners(n: int, groups: Sequence[Group]) -> list[int]:
    """Return the index of each node's group, -1 where it is in none; a later group wins. O(n)."""
    owner = [-1] * n
    for index, group in enumerate(groups):
        for node in group.nodes:
            if 0 <= node < n:
                owner[node] = index
    return owner


def condense(dag: Dag, owner: Sequence[int], count: int) -> list[list[int]]:
    """Return the successors of each of `count` groups, ascending. O(V + E)."""
    succs: list[set[int]] = [set() for _ in range(count)]
    for u, v in dag.edges():
        if owner[u] != owner[v]:
            succs[owner[u]].add(owner[v])
    return [sorted(targets) for targets in succs]


def order_groups(
    dag: Dag, labels: Sequence[int], rank: Sequence[float] | None = None
) -> list[tuple[int, ...]] | None:
    """Sort the groups that `labels` names into execution order.

    Parameters
    ----------
    dag : Dag
    labels : sequence of int
        Any label a node; nodes of one label form a group.
    rank : sequence of float, optional
        Priority by node, smaller first; a group takes its least. Absent: the node id.

    Returns
    -------
    The groups' nodes, each ascending, so that every group stands after all that feed it
    and, among those that could stand next, the least rank comes first; None where the
    graph of groups has a cycle. O(V + E + G log G).
    """
    index_of: dict[int, int] = {}
    members: list[list[int]] = []
    owner: list[int] = []
    for node, label in enumerate(labels):
        index = index_of.setdefault(label, len(members))
        if index == len(members):
            members.append([])
        members[index].append(node)
        owner.append(index)
    if rank is None:
        key = [(float(nodes[0]), nodes[0]) for nodes in members]
    else:
        key = [min((rank[node], node) for node in nodes) for nodes in members]
    order = topological_order(condense(dag, owner, len(members)), key)
    return None if order is None else [tuple(members[index]) for index in order]


def problems_of(
    dag: Dag,
    groups: Sequence[Group],
    devices: Sequence[str],
    supported: Sequence[Sequence[bool]] | None = None,
    *,
    units: Sequence[tuple[int, tuple[int, ...]]] = (),
    connected: bool = False,
    name: Sequence[str] | None = None,
) -> list[str]:
    """List everything that is wrong with a partition; an empty list is a valid one.

    Parameters
    ----------
    dag : Dag
    groups : sequence of Group
        In execution order.
    devices : sequence of str
    supported : [n][P] of bool, optional
        Whether device p can run node v alone; absent: everything is supported.
    units : sequence of (device index, nodes)
        What a device supports as a whole only, in a group that has all of it.
    connected : bool
        Whether each group must be weakly connected; what a device supports as a whole counts
        as joined.
    name : sequence of str, optional
        Node names for the messages; absent: ``node 7``.

    Complexity: O(V + E).
    """

    def called(node: int) -> str:
        return f"'{name[node]}'" if name is not None and 0 <= node < len(name) else f"node {node}"

    found: list[str] = []
    seen: dict[int, int] = {}
    column_of = {device: column for column, device in enumerate(devices)}
    unit_of = {(column, node): nodes for column, nodes in units for node in nodes}
    for index, group in enumerate(groups):
        column = column_of.get(group.device)
        if column is None:
            found.append(f"group {index} is on unknown device '{group.device}'")
        if not group.nodes:
            found.append(f"group {index} is empty")
        if any(a >= b for a, b in zip(group.nodes, group.nodes[1:], strict=False)):
            found.append(f"group {index} does not list its nodes in graph order")
        members = set(group.nodes) if unit_of else ()
        for node in group.nodes:
            if not 0 <= node < dag.n:
                found.append(f"group {index} has {called(node)}, which does not exist")
            elif node in seen and seen[node] != index:
                found.append(f"{called(node)} is in groups {seen[node]} and {index}")
            elif supported is not None and column is not None and not supported[node][column]:
                unit = unit_of.get((column, node))
                if unit is None:
                    found.append(
                        f"'{group.device}' does not support {called(node)} (group {index})"
                    )
                else:
                    found.extend(
                        f"'{group.device}' supports {called(node)} only together with "
                        f"{called(other)} (group {index})"
                        for other in unit
                        if other not in members
                    )
            seen[node] = index
    found.extend(f"{called(node)} is in no group" for node in range(dag.n) if node not in seen)
    if found:
        return found
    owner = owners(dag.n, groups)
    succs = condense(dag, owner, len(groups))
    cycle = find_cycle(succs)
    if cycle:
        loop = " > ".join(f"group {index} ({groups[index].device})" for index in [*cycle, cycle[0]])
        found.append(f"the graph of groups has a cycle: {loop}")
    else:
        found.extend(
            f"group {v} stands before group {u}, which feeds it"
            for u, targets in enumerate(succs)
            for v in targets
            if v < u
        )
    if connected:
        ties = [
            nodes
            for column, nodes in units
            if len({owner[v] for v in nodes}) == 1
            and column_of[groups[owner[nodes[0]]].device] == column
        ]
        found.extend(
            f"group {index} is not connected"
            for index, parts in enumerate(component_counts(dag, owner, len(groups), ties))
            if parts > 1
        )
    return found


def check(
    problem: Problem,
    groups: Sequence[Group],
    *,
    connected: bool = False,
    supports: bool = True,
    where: str | None = None,
) -> None:
    """Raise PlanError with the first of ``problems_of`` and the number of the others. O(V + E).

    `supports` tells whether each group's device must support all of it.
    """
    for index, group in enumerate(groups):
        _GROUP(group, f"group {index}")
        checks.text(group.device, f"the device of group {index}")
        if not isinstance(group.nodes, tuple):
            raise checks.refused(f"the nodes of group {index}", group.nodes, "a tuple")
        if set(map(type, group.nodes)) - {int}:
            checks.sequence(_NODE)(group.nodes, f"the nodes of group {index}")
    found = problems_of(
        problem.dag,
        groups,
        problem.devices,
        problem.supported.tolist() if supports else None,
        units=[(kernel.device, kernel.nodes) for kernel in problem.composites],
        connected=connected,
        name=problem.node_names or None,
    )
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise PlanError(f"not a valid partition: {found[0]}{more}", where=where)


def components(dag: Dag, labels: Sequence[int], ties: Iterable[Sequence[int]] = ()) -> list[int]:
    """Split every label into weakly connected parts: a fresh label a node. O(V + E).

    Nodes of one tie count as joined by edges.
    """
    tied = ((nodes[0], node) for nodes in ties for node in nodes)
    return joined(dag.n, ((u, v) for u, v in chain(dag.edges(), tied) if labels[u] == labels[v]))


def component_counts(
    dag: Dag, owner: Sequence[int], count: int, ties: Iterable[Sequence[int]] = ()
) -> list[int]:
    """Return how many weakly connected parts each of `count` groups has. O(V + E)."""
    roots: list[set[int]] = [set() for _ in range(count)]
    for node, root in enumerate(components(dag, owner, ties)):
        roots[owner[node]].add(root)
    return [len(parts) for parts in roots]


def as_groups(
    parts: Iterable[tuple[int, ...]], device_of: Sequence[int], devices: Sequence[str]
) -> tuple[Group, ...]:
    """Name the device of each part by that of its first node."""
    return tuple(Group(devices[device_of[nodes[0]]], nodes) for nodes in parts)
