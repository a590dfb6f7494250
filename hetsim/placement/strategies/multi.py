"""Strategy ``multi``: the whole model on each of several devices, requests dealt out."""

from __future__ import annotations

from dataclasses import dataclass

from hetsim.errors import UnsupportedNode
from hetsim.partitioning.deconflict import device_order, parse_priority
from hetsim.placement.constraints import Constrained
from hetsim.placement.replicas.deal import fitting, whole_models
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem


@dataclass(frozen=True, slots=True)
class Multi(Constrained):
    """A copy of the whole model on each device; the busiest takes the least a request.

    Shares are those of ``deal.best_counts``: with unlike devices the faster one gets more, and
    one that is too slow to help gets none. With one request in flight the copies do nothing
    for latency.

    Attributes
    ----------
    devices : tuple of str
        Device names; ``gpu`` stands for all of ``gpu.0``, ``gpu.1``. Empty: all devices that
        can run the whole model.

    Source: OpenVINO, the MULTI device plugin, which deals by whoever is idle; here the deal is
    part of the plan.
    """

    devices: tuple[str, ...] = ()

    # What ``within`` closes devices by; ``compare`` has nothing to set.
    objective = "throughput"

    @classmethod
    def parse(cls, argument: str) -> Multi:
        """Read ``multi`` or ``multi:DEVICE,DEVICE,...``."""
        return cls(devices=parse_priority(argument) if argument.strip() else ())

    def solve(self, problem: Problem) -> Plan:
        """Return the plan; O(n P), a simulation a device, and the deal.

        Raises
        ------
        UsageError
            For an unknown device.
        UnsupportedNode, OutOfMemory
            Where a named device cannot run the whole model, or none can.
        """
        return self.within(problem, self._solve)

    def _solve(self, problem: Problem) -> Plan:
        order = device_order(problem, self.devices) if self.devices else range(len(problem.devices))
        copies, refused = whole_models(problem, order)
        if refused and (self.devices or not copies):
            raise refused[0]
        if not copies:
            raise UnsupportedNode("there is no device", where=problem.name)
        name = f"multi:{','.join(self.devices)}" if self.devices else "multi"
        return fitting(copies, strategy=name, what="a copy of the whole model on each of")
