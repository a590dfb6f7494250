"""Merge methods by name, and the verb ``partition``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module

from hetsim.errors import UnsupportedNode, UsageError, nearest
from hetsim.graph.dag import Dag
from hetsim.partitioning.partition import Partition, as_groups, order_groups, validate
from hetsim.partitioning.sizes import SizeRules, apply
from hetsim.problem import Problem

Merge = Callable[[Dag, Sequence[int]], list[int]]
"""A merge method: the DAG and each node's device in, a group label a node out."""

MergeWithNotes = Callable[[Dag, Sequence[int]], tuple[list[int], tuple[str, ...]]]
"""The same with notes for the user; a module's ``merge_with_notes`` is preferred if it exists."""


@dataclass(frozen=True, slots=True)
class MethodInfo:
    """A merge method's name, one-line summary, and where it lives."""

    name: str
    summary: str
    module: str
    connected: bool


_METHODS: Mapping[str, MethodInfo] = {
    info.name: info
    for info in (
        MethodInfo(
            "boundary",
            "OpenVINO's method of today: boundaries between devices, more where data comes back",
            "hetsim.partitioning.boundary",
            connected=True,
        ),
        MethodInfo(
            "compact",
            "fewest connected groups, by contraction on a maintained topological order",
            "hetsim.partitioning.compact",
            connected=True,
        ),
        MethodInfo(
            "convex",
            "the node-partitioning patent's walk from the sources, kept acyclic",
            "hetsim.partitioning.convex",
            connected=True,
        ),
        MethodInfo(
            "greedy",
            "OpenVINO's published method: grown from every root, the largest first, repaired",
            "hetsim.partitioning.greedy",
            connected=True,
        ),
        MethodInfo(
            "stage",
            "typed-fusion levels; groups need not be connected",
            "hetsim.partitioning.stage",
            connected=False,
        ),
    )
}


def methods() -> tuple[MethodInfo, ...]:
    """List the merge methods, by name."""
    return tuple(_METHODS[name] for name in sorted(_METHODS))


def partition(
    problem: Problem,
    method: str = "compact",
    *,
    assignment: Sequence[int] | None = None,
    priority: Sequence[str] | None = None,
    rank: Sequence[float] | None = None,
    sizes: SizeRules | None = None,
) -> Partition:
    """Cut the graph into groups that a device can run whole.

    Parameters
    ----------
    problem : Problem
    method : str
        One of ``methods()``.
    assignment : sequence of int, optional
        Device index by node. Absent: by `priority`.
    priority : sequence of str, optional
        Device names; a node goes to the first that supports it. Absent: all devices, the
        host last.
    rank : sequence of float, optional
        Priority by node among groups that could run next, smaller first.
    sizes : SizeRules, optional
        Groups that break a rule are dropped and offered to the next device of `priority`;
        they do not go with an `assignment`.

    Raises
    ------
    UsageError
        For an unknown method or device, or size rules with an assignment.
    UnsupportedNode
        Where a node's device does not support it, or no device does.
    """
    info = _METHODS.get(method)
    if info is None:
        raise UsageError(f"no merge method '{method}'", hint=nearest(method, _METHODS))
    left: dict[int, str] = {}
    if assignment is not None:
        if sizes is not None:
            raise UsageError("size rules need a priority of devices, not an assignment")
        labels, notes = _labels(info, problem.dag, assignment)
    else:
        assignment = by_priority(problem, priority)
        order = [problem.device_index(name) for name in priority or default_priority(problem)]
        dropped: dict[int, str] = {}
        if sizes is None:
            labels, notes = _labels(info, problem.dag, assignment)
        else:
            labels, notes, assignment, dropped = apply(
                problem,
                order,
                sizes,
                lambda devices: _labels(info, problem.dag, devices),
                connected=info.connected,
            )
        left = _left(problem, order, assignment, dropped)
    parts = order_groups(problem.dag, labels, rank)
    if parts is None:
        raise AssertionError(f"method '{method}' returned a cyclic partition")
    groups = as_groups(parts, assignment, problem.devices)
    validate(
        problem.dag,
        groups,
        problem.devices,
        problem.supported.tolist(),
        connected=info.connected,
        name=problem.node_names,
        where=f"method '{method}'",
    )
    return Partition(groups, method, notes, left)


def _labels(
    info: MethodInfo, dag: Dag, assignment: Sequence[int]
) -> tuple[list[int], tuple[str, ...]]:
    module = import_module(info.module)
    with_notes: MergeWithNotes | None = getattr(module, "merge_with_notes", None)
    if with_notes is not None:
        return with_notes(dag, assignment)
    merge: Merge = module.merge
    return merge(dag, assignment), ()


def _left(
    problem: Problem, order: Sequence[int], assignment: Sequence[int], dropped: Mapping[int, str]
) -> dict[int, str]:
    """Why each node on the last device of `order` is on none before it."""
    if len(order) < 2:
        return {}
    return {
        node: "; ".join(
            [refusal(problem, node, d) for d in order[:-1] if not problem.supported[node, d]]
            + ([dropped[node]] if node in dropped else [])
        )
        for node in range(problem.n)
        if assignment[node] == order[-1]
    }


def default_priority(problem: Problem) -> tuple[str, ...]:
    """All devices in the platform's order, the host last."""
    names = list(problem.devices)
    if problem.host is not None:
        names.append(names.pop(problem.host))
    return tuple(names)


def by_priority(problem: Problem, priority: Sequence[str] | None = None) -> list[int]:
    """Give every node to the first device of `priority` that supports it. O(n P).

    Raises
    ------
    UsageError
        For an unknown device.
    UnsupportedNode
        Naming the first node that none of them supports, with each device's reason.
    """
    order = [problem.device_index(name) for name in priority or default_priority(problem)]
    assigned: list[int] = []
    for node in range(problem.n):
        for device in order:
            if problem.supported[node, device]:
                assigned.append(device)
                break
        else:
            raise UnsupportedNode(
                f"no device of {', '.join(problem.devices[d] for d in order)} supports it: "
                + "; ".join(refusal(problem, node, device) for device in order),
                where=f"node '{problem.node_names[node]}' ({problem.op_types[node]})",
                hint="add a device that does, such as the host, to the priority list",
            )
    return assigned


def refusal(problem: Problem, node: int, device: int) -> str:
    """Say why `device` does not support `node`."""
    reason = (
        problem.refusals[device].get(node, "not supported") if problem.refusals else "not supported"
    )
    return f"{problem.devices[device]}: {reason}"
