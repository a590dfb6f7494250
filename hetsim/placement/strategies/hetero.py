"""Strategy ``hetero``: a priority list of devices, as OpenVINO's HETERO takes it."""

from __future__ import annotations

from dataclasses import dataclass

from hetsim.errors import UsageError
from hetsim.partitioning.deconflict import default_priority
from hetsim.partitioning.flow import partition
from hetsim.placement.constraints import Constrained
from hetsim.placement.narrowing import only_devices
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem


@dataclass(frozen=True, slots=True)
class Hetero(Constrained):
    """Every node goes to the first device of the list that supports it; costs play no part.

    Attributes
    ----------
    priority : tuple of str
        Device names; empty: all devices of the platform in its order, the host last.
    method : str
        Merge method that makes groups of nodes on one device.

    Source: OpenVINO, HETERO execution (query by priority, then split by affinity).
    """

    priority: tuple[str, ...] = ()
    method: str = "compact"

    @classmethod
    def parse(cls, argument: str) -> Hetero:
        """Read ``hetero`` or ``hetero:DEVICE,DEVICE,...``."""
        names = tuple(name.strip() for name in argument.split(",")) if argument.strip() else ()
        if any(not name for name in names):
            raise UsageError(
                f"empty device name in 'hetero:{argument}'", hint="write hetero:npu,gpu,cpu"
            )
        if len(set(names)) != len(names):
            raise UsageError(
                f"a device appears twice in 'hetero:{argument}'", hint="name each once"
            )
        return cls(priority=names)

    def solve(self, problem: Problem) -> Plan:
        """Return the plan; O(n P) and the merge method.

        Raises
        ------
        UsageError
            For an unknown device.
        UnsupportedNode
            Where no listed device supports a node.
        """
        return self.within(problem, self._solve)

    def open_to(self, problem: Problem) -> Problem:
        """Return the problem on the devices of the list, where there is one."""
        return only_devices(problem, self.priority)

    def _solve(self, problem: Problem) -> Plan:
        order = self.priority or default_priority(problem)
        groups = partition(problem, self.method, priority=order).groups
        name = f"hetero:{','.join(self.priority)}" if self.priority else "hetero"
        return Plan(problem, name, groups, f"first of {' > '.join(order)} that supports each node")
