"""Copies of the whole model, and as many replicas as memory has room for."""

from __future__ import annotations

from collections.abc import Sequence

from hetsim.errors import Infeasible, OutOfMemory
from hetsim.placement.objective import check_room, measure
from hetsim.placement.replicas.deal import dealt_out
from hetsim.placement.starting.alone import plan_alone
from hetsim.plans.plan import Plan
from hetsim.problem.problem import Problem


def whole_models(problem: Problem, devices: Sequence[int]) -> tuple[list[Plan], list[Infeasible]]:
    """Return the plans of one device each that are feasible, and why the others are not."""
    found: list[Plan] = []
    refused: list[Infeasible] = []
    for device in devices:
        try:
            plan = plan_alone(problem, device)
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
            on_it = [i for i, one in enumerate(kept) if error.device in one.devices_used]
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
