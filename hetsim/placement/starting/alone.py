"""The whole model on one device: the baselines that searches start from, and copies to deal to."""

from __future__ import annotations

from collections import Counter

from hetsim.errors import UnsupportedNode, UsageError
from hetsim.partitioning.groups import Group
from hetsim.plans.plan import Plan
from hetsim.problem.problem import Problem


def plan_alone(problem: Problem, device: int) -> Plan:
    """Return the whole model as one subgraph on a device. O(n).

    Raises UnsupportedNode where the device lacks an op: the ops are listed.
    """
    name = problem.devices[device]
    lacking = Counter(
        problem.op_types[node] for node in range(problem.n) if not problem.runnable[node, device]
    )
    if lacking:
        ops = ", ".join(f"{op} ({count})" for op, count in sorted(lacking.items()))
        raise UnsupportedNode(
            f"'{name}' does not support: {ops}",
            nodes=tuple(
                node
                for node, able in zip(problem.node_names, problem.runnable, strict=True)
                if not able[device]
            ),
            ops=tuple(sorted(lacking)),
            devices=(name,),
        )
    groups = (Group(name, tuple(range(problem.n))),) if problem.n else ()
    return Plan(problem, f"single:{name}", groups, f"everything on {name}")


def expand(problem: Problem) -> tuple[str, ...]:
    """Return ``single:DEVICE`` for every device."""
    if not problem.devices:
        raise UsageError("the problem has no device")
    return tuple(f"single:{name}" for name in problem.devices)
