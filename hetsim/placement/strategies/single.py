"""Strategy ``single``: the whole model on one device."""

from __future__ import annotations

from dataclasses import dataclass

from hetsim.errors import Infeasible, all_refused
from hetsim.placement.starting.starts import plan_alone
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.playing import timeline_of


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
            return plan_alone(problem, problem.device_index(self.device))
        plans: list[tuple[float, int, Plan]] = []
        failures: list[Infeasible] = []
        for device in range(len(problem.devices)):
            try:
                plan = plan_alone(problem, device)
                plans.append((timeline_of(plan, trace=False).latency_s, device, plan))
            except Infeasible as error:
                failures.append(error)
        if not plans:
            raise all_refused(
                "no device can run the whole model: " + "; ".join(map(str, failures)), failures
            )
        return min(plans, key=lambda entry: entry[:2])[2]
