"""Strategy ``single``: the whole model on one device."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from hetsim.errors import Infeasible, UnsupportedNode, UsageError
from hetsim.partitioning.groups import Group
from hetsim.plans import Plan
from hetsim.problem import Problem
from hetsim.simulation.clock import simulate


@dataclass(frozen=True, slots=True)
class Single:
    """One subgraph on one device; the baseline of every comparison.

    Attributes
    ----------
    device : str
        Empty: the device that is fastest alone.
    """

    device: str = ""

    @classmethod
    def parse(cls, argument: str) -> Single:
        """Read ``single`` or ``single:DEVICE``."""
        return cls(argument.strip())

    def solve(self, problem: Problem) -> Plan:
        """Return the plan; O(n P) and one simulation a device.

        Raises
        ------
        UsageError
            For an unknown device.
        UnsupportedNode
            Where the device lacks an op: the ops are listed, and no time is estimated.
        """
        if self.device:
            return self._on(problem, problem.device_index(self.device))
        plans: list[tuple[float, int, Plan]] = []
        failures: list[Infeasible] = []
        for device in range(len(problem.devices)):
            try:
                plan = self._on(problem, device)
                plans.append((simulate(plan).latency_s, device, plan))
            except Infeasible as error:
                failures.append(error)
        if not plans:
            raise UnsupportedNode(
                "no device can run the whole model: " + "; ".join(str(error) for error in failures)
            )
        return min(plans, key=lambda entry: entry[:2])[2]

    @staticmethod
    def _on(problem: Problem, device: int) -> Plan:
        name = problem.devices[device]
        lacking = Counter(
            problem.op_types[node]
            for node in range(problem.n)
            if not problem.runnable[node, device]
        )
        if lacking:
            ops = ", ".join(f"{op} ({count})" for op, count in sorted(lacking.items()))
            raise UnsupportedNode(f"'{name}' does not support: {ops}")
        groups = (Group(name, tuple(range(problem.n))),) if problem.n else ()
        return Plan(problem, f"single:{name}", groups, f"everything on {name}")


def expand(problem: Problem) -> tuple[str, ...]:
    """Return ``single:DEVICE`` for every device."""
    if not problem.devices:
        raise UsageError("the problem has no device")
    return tuple(f"single:{name}" for name in problem.devices)
