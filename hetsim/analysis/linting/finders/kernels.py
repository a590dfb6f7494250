"""What the kernels of a plan take on some devices, at these prices or others."""

from __future__ import annotations

import math
from collections.abc import Collection

from hetsim.plans.plan import Plan
from hetsim.problem.problem import Problem


def seconds_on(plan: Plan, devices: Collection[int], prices: Problem) -> float:
    """Return the seconds of kernels on `devices` in a request, by the prices of `prices`.

    What cannot run there any more counts as it does in the plan's own problem. O(V).
    """
    total = 0.0
    for share, replica in zip(plan.shares, plan.replicas, strict=True):
        for group in replica.groups:
            device = plan.problem.devices.index(group.device)
            if device in devices:
                taken = sum(s for _, s in prices.kernels(device, group.nodes))
                if not math.isfinite(taken):
                    taken = sum(s for _, s in plan.problem.kernels(device, group.nodes))
                total += share * taken
    return total / len(plan.period)
