"""Strategy ``multi``: the whole model on each of several devices, requests dealt out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hetsim.errors import Infeasible, OutOfMemory, UnsupportedNode
from hetsim.partitioning.deconflict import device_order, parse_priority
from hetsim.placement.constraints import Constrained
from hetsim.placement.deal import dealt_out
from hetsim.placement.objective import check_room, measure
from hetsim.placement.single import Single
from hetsim.plans import Plan
from hetsim.problem import Problem


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


def whole_models(problem: Problem, devices: Sequence[int]) -> tuple[list[Plan], list[Infeasible]]:
    """Return the plans of one device each that are feasible, and why the others are not."""
    found: list[Plan] = []
    refused: list[Infeasible] = []
    for device in devices:
        try:
            plan = Single(problem.devices[device]).solve(problem)
            measure(plan, "throughput")
            found.append(plan)
        except Infeasible as error:
            refused.append(error)
    return found, refused


def fitting(replicas: Sequence[Plan], *, strategy: str, what: str) -> Plan:
    """Deal requests out to as many of `replicas`, each feasible alone, as memory has room for.

    Where a device cannot hold what is on it at once, the replica with the fewest requests of
    those on it goes, and the rest is dealt anew; on others, the host, any replica.
    """
    left = list(replicas)
    while True:
        plan = dealt_out(left, strategy=strategy, reason="")
        kept = plan.replicas
        try:
            check_room(plan)
        except OutOfMemory as error:
            if len(kept) == 1:
                raise
            full = None if error.device is None else plan.problem.devices[error.device]
            on_it = [i for i, one in enumerate(kept) if full in one.devices_used]
            among = on_it if len(on_it) > 1 else range(len(kept))
            out = min(among, key=lambda index: (plan.shares[index], -index))
            left = [one for index, one in enumerate(kept) if index != out]
            continue
        return Plan.dealt(kept, plan.deal, strategy=strategy, reason=f"{what} {shares(plan)}")


def shares(plan: Plan) -> str:
    """Say which devices each replica runs on, and its share: ``gpu.0 (3), npu + cpu (1) of 4``."""
    named = [
        f"{' + '.join(replica.devices_used)} ({share})"
        for replica, share in zip(plan.replicas, plan.shares, strict=True)
    ]
    if len(named) == 1:
        return " + ".join(plan.devices_used)
    if len(set(plan.shares)) == 1:
        alike = [" + ".join(replica.devices_used) for replica in plan.replicas]
        return f"{', '.join(alike)}; requests in turn"
    return f"{', '.join(named)} of every {len(plan.deal)} requests"
