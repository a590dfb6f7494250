"""The one validator that every method's groups, and every plan's, pass."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, repeat
from operator import attrgetter

import numpy as np

from hetsim.base import checks
from hetsim.errors import PartitionError
from hetsim.graph.dag import Dag, Ints, Rows, find_cycle
from hetsim.partitioning import on_arrays
from hetsim.partitioning.groups import Group, component_counts, condense, owners
from hetsim.problem.problem import Problem

_DEVICE_OF, _NODES_OF = attrgetter("device"), attrgetter("nodes")
_GROUP = checks.instance("hetsim.partitioning.groups:Group")
_NODE = checks.whole()


def problems_of(
    dag: Dag,
    groups: Sequence[Group],
    devices: Sequence[str],
    supported: Sequence[Sequence[bool]] | None = None,
    *,
    composites: Sequence[tuple[int, tuple[int, ...]]] = (),
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
    composites : sequence of (device index, nodes)
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
    composite_of = {(column, node): nodes for column, nodes in composites for node in nodes}
    for index, group in enumerate(groups):
        column = column_of.get(group.device)
        if column is None:
            found.append(f"group {index} is on unknown device '{group.device}'")
        if not group.nodes:
            found.append(f"group {index} is empty")
        if any(a >= b for a, b in zip(group.nodes, group.nodes[1:], strict=False)):
            found.append(f"group {index} does not list its nodes in graph order")
        members = set(group.nodes) if composite_of else ()
        for node in group.nodes:
            if not 0 <= node < dag.n:
                found.append(f"group {index} has {called(node)}, which does not exist")
            elif node in seen and seen[node] != index:
                found.append(f"{called(node)} is in groups {seen[node]} and {index}")
            elif supported is not None and column is not None and not supported[node][column]:
                composite = composite_of.get((column, node))
                if composite is None:
                    found.append(
                        f"'{group.device}' does not support {called(node)} (group {index})"
                    )
                else:
                    found.extend(
                        f"'{group.device}' supports {called(node)} only together with "
                        f"{called(other)} (group {index})"
                        for other in composite
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
            for column, nodes in composites
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
    typed: bool = False,
    where: str | None = None,
) -> None:
    """Raise PartitionError with the first of ``problems_of`` and how many others. O(V + E).

    `supports` tells whether each group's device must support all of it, `typed` whether groups
    are known to be records of a text and a tuple of int.
    """
    composites = [(kernel.device, kernel.nodes) for kernel in problem.composites]
    if typed or _plain(groups):
        if problem.n >= on_arrays.LARGE_FROM and on_arrays.is_valid(
            problem.dag,
            Rows.of(list(map(_NODES_OF, groups))),
            _columns(groups, problem.devices),
            problem.supported if supports else None,
            composites,
            connected=connected,
        ):
            return
    else:
        _check_types(groups)
    found = problems_of(
        problem.dag,
        groups,
        problem.devices,
        problem.supported.tolist() if supports else None,
        composites=composites,
        connected=connected,
        name=problem.node_names or None,
    )
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise PartitionError(
            f"not a valid partition: {found[0]}{more}",
            where=where,
            complaints=tuple(found),
            cycle=_cycle(problem.dag, groups),
        )


def _plain(groups: Sequence[Group]) -> bool:
    """Whether all are of the very types that they are to be of; quick, and no error if not."""
    if set(map(type, groups)) - {Group}:
        return False
    nodes = list(map(_NODES_OF, groups))
    return (
        not set(map(type, map(_DEVICE_OF, groups))) - {str}
        and not set(map(type, nodes)) - {tuple}
        and not set(map(type, chain.from_iterable(nodes))) - {int}
    )


def _check_types(groups: Sequence[Group]) -> None:
    for index, group in enumerate(groups):
        _GROUP(group, f"group {index}")
        checks.text(group.device, f"the device of group {index}")
        if not isinstance(group.nodes, tuple):
            raise checks.refused(f"the nodes of group {index}", group.nodes, "a tuple")
        checks.sequence(_NODE)(group.nodes, f"the nodes of group {index}")


def _columns(groups: Sequence[Group], devices: Sequence[str]) -> Ints:
    """The device of each group; one that is unknown is -1."""
    column_of = {device: column for column, device in enumerate(devices)}
    columns = map(column_of.get, map(_DEVICE_OF, groups), repeat(-1))
    return np.fromiter(columns, np.int64, len(groups))


def _cycle(dag: Dag, groups: Sequence[Group]) -> tuple[int, ...]:
    """Groups that wait for each other; empty where nodes are missing or in several. O(V + E)."""
    if sorted(node for group in groups for node in group.nodes) != list(range(dag.n)):
        return ()
    return tuple(find_cycle(condense(dag, owners(dag.n, groups), len(groups))) or ())
