"""How much less sure the time of a part of a model is on a device than that of the whole."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hetsim.plans.plan import Plan
from hetsim.problem.problem import Problem

LEAST_SHARE = 0.1
"""Share of a device's time below which parts are as unsure as one of that share: the smallest that
were measured in some number."""


def part_sd(plan: Plan) -> NDArray[np.float64]:
    """Return what the parts that a plan gives to devices are off by beyond the whole, [P].

    The standard deviation of a further factor, one a device and independent of all others. With
    kernels that are off by a share b of the variance each for itself, and alike in number by
    time, a part of share w of the whole's time has 1 + b (1/w - 1) times its variance: the whole,
    which is what was measured, keeps its own. The whole is all that the device takes of the model.
    Of several replicas the mean by the time that they take. O(nodes).
    """
    problem = plan.problem
    found = np.zeros(len(problem.devices))
    for p, one in enumerate(problem.evidence):
        if one.by_kernel <= 0 or one.sd <= 0 or one.name not in plan.devices_used:
            continue
        whole_s = _kernels_s(problem, p, np.flatnonzero(problem.runnable[:, p]).tolist())
        spent_s = wider_s = 0.0
        for replica, times in zip(plan.replicas, plan.shares, strict=True):
            nodes = [v for g in replica.groups if g.device == one.name for v in g.nodes]
            part_s = _kernels_s(problem, p, sorted(nodes))
            if part_s > 0 and whole_s > 0:
                share = min(max(part_s / whole_s, LEAST_SHARE), 1.0)
                spent_s += times * part_s
                wider_s += times * part_s * (1.0 / share - 1.0)
        if spent_s > 0:
            found[p] = one.sd * np.sqrt(one.by_kernel * wider_s / spent_s)
    return found


def _kernels_s(problem: Problem, device: int, nodes: list[int]) -> float:
    return sum(s for _, s in problem.kernels(device, nodes))
