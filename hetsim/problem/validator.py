"""Validator of groups, for all methods and plans."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, repeat
from operator import attrgetter, itemgetter

import numpy as np
from numpy.typing import NDArray

from hetsim.core import checks
from hetsim.errors import PartitionError
from hetsim.graph.dag import Dag, Ints, NodeRows, find_cycle
from hetsim.problem.groups import Group, component_counts, condense, owners
from hetsim.problem.problem import Problem

_DEVICE_OF, _NODES_OF = attrgetter("device"), attrgetter("nodes")
_GROUP = checks.instance("hetsim.problem.groups:Group")
_NODE = checks.whole()


def problems_of(
    dag: Dag,
    groups: Sequence[Group],
    devices: Sequence[str],
    supported: Sequence[Sequence[bool]] | NDArray[np.bool_] | None = None,
    *,
    composites: Sequence[tuple[int, tuple[int, ...]]] = (),
    connected: bool = False,
    name: Sequence[str] | None = None,
) -> list[str]:
    """Return everything that is wrong with a partition; empty for a valid one.

    - `groups`: groups in execution order.
    - `supported`: [n][P] of bool, optional. Whether device p can run node v individually; absent:
    everything is supported.
    - `composites`: nodes that a device supports only as a whole, in a group that has all of them.
    - `connected`: whether each group must be weakly connected; nodes of a composite count as
    connected.
    - `name`: node names for the messages; absent: ``node 7``.

    Complexity: O((V + E) log (V + E)).
    """

    def called(node: int) -> str:
        return f"'{name[node]}'" if name is not None and 0 <= node < len(name) else f"node {node}"

    rows = _rows(dag, groups)
    node, group_of = rows.node, rows.owner
    column = _columns(groups, devices)
    exists = (node >= 0) & (node < dag.n)
    complaints = [
        (at, -2, f"group {at} is on unknown device '{groups[at].device}'")
        for at in np.flatnonzero(column < 0).tolist()
    ]
    complaints += [
        (at, -1, f"group {at} is empty") for at in np.flatnonzero(np.diff(rows.at) == 0).tolist()
    ]
    back = (node[1:] <= node[:-1]) & (group_of[1:] == group_of[:-1])
    complaints += [
        (at, -1, f"group {at} does not list its nodes in graph order")
        for at in sorted(set(group_of[1:][back].tolist()))
    ]
    owner = np.full(dag.n, -1, dtype=np.int64)
    owner[node[exists]] = group_of[exists]
    missing = np.flatnonzero(owner < 0)
    before = np.full(node.size, -1)
    if missing.size or node.size > dag.n:
        before = _groups_before(node, group_of)
    twice = exists & (before >= 0)
    wrong = ~exists | twice
    if supported is not None:
        able = np.asarray(supported, dtype=bool).reshape(dag.n, len(devices))
        known = ~wrong & (column[group_of] >= 0)
        known[known] = ~able[node[known], column[group_of[known]]]
        wrong |= known
    composite_of = {(one, v): nodes for one, nodes in composites for v in nodes}
    members: dict[int, set[int]] = {}
    for k in np.flatnonzero(wrong).tolist():
        index = int(group_of[k])
        group = groups[index]
        number = group.nodes[k - int(rows.at[index])]
        if not exists[k]:
            told = [f"group {index} has {called(number)}, which does not exist"]
        elif twice[k]:
            told = [f"{called(number)} is in groups {before[k]} and {index}"]
        elif (composite := composite_of.get((int(column[index]), number))) is None:
            told = [f"'{group.device}' does not support {called(number)} (group {index})"]
        else:
            inside = members.setdefault(index, set(group.nodes))
            told = [
                f"'{group.device}' supports {called(number)} only together with {called(other)} "
                f"(group {index})"
                for other in composite
                if other not in inside
            ]
        complaints += [(index, k, text) for text in told]
    found = [text for *_, text in sorted(complaints, key=itemgetter(0, 1))]
    found += [f"{called(v)} is in no group" for v in missing.tolist()]
    if found:
        return found
    if (owner[dag.succ_rows.owner] > owner[dag.succ_rows.node]).any():
        succs = condense(dag, owner.tolist(), len(groups))
        cycle = find_cycle(succs)
        if cycle:
            loop = [f"group {index} ({groups[index].device})" for index in [*cycle, cycle[0]]]
            found.append(f"the graph of groups has a cycle: {' > '.join(loop)}")
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
            for one, nodes in composites
            if column[owner[nodes[0]]] == one and (owner[list(nodes)] == owner[nodes[0]]).all()
        ]
        counts = component_counts(dag, owner, len(groups), ties)
        found.extend(
            f"group {index} is not connected" for index, parts in enumerate(counts) if parts > 1
        )
    return found


def _rows(dag: Dag, groups: Sequence[Group]) -> NodeRows:
    """Return the nodes of each group; ids beyond an array's range are clipped next to valid ids."""
    nodes = list(map(_NODES_OF, groups))
    try:
        return NodeRows.of(nodes)
    except OverflowError:
        return NodeRows.of([[min(max(node, -1), dag.n) for node in one] for one in nodes])


def _groups_before(node: Ints, group_of: Ints) -> Ints:
    """Return the previous different group of each entry's node; -1 if it was in none."""
    before = np.full(node.size, -1, dtype=np.int64)
    order = np.argsort(node, kind="stable")
    again = node[order][1:] == node[order][:-1]
    if again.any():
        last, now = group_of[order[:-1][again]], group_of[order[1:][again]]
        before[order[1:][again]] = np.where(last != now, last, -1)
    return before


def check(
    problem: Problem,
    groups: Sequence[Group],
    *,
    connected: bool = False,
    supports: bool = True,
    typed: bool = False,
    where: str | None = None,
) -> None:
    """Raise PartitionError with the first of ``problems_of`` and the number of others.

    `supports`: whether each group's device must support all its nodes; `typed`: whether groups are
    known to be records of a text and a tuple of int.
    """
    composites = [(kernel.device, kernel.nodes) for kernel in problem.composites]
    if not typed and not _plain(groups):
        _check_types(groups)
    found = problems_of(
        problem.dag,
        groups,
        problem.devices,
        problem.supported if supports else None,
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
    """Return whether all fields have exactly the expected types, fast and without errors."""
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
    """Return the device of each group; -1 for an unknown one."""
    column_of = {device: column for column, device in enumerate(devices)}
    columns = map(column_of.get, map(_DEVICE_OF, groups), repeat(-1))
    return np.fromiter(columns, np.int64, len(groups))


def _cycle(dag: Dag, groups: Sequence[Group]) -> tuple[int, ...]:
    """Return groups that wait for each other; empty if nodes are missing or repeated. O(V + E)."""
    if sorted(node for group in groups for node in group.nodes) != list(range(dag.n)):
        return ()
    return tuple(find_cycle(condense(dag, owners(dag.n, groups), len(groups))) or ())
