"""Lower bounds: what no plan can beat, however clever."""

from __future__ import annotations

import numpy as np

from hetsim.base import checks
from hetsim.placement.bounds.area import balanced, crowded
from hetsim.placement.bounds.paths import Floats, Setting, heads, tails
from hetsim.placement.objective import Objective, check_objective
from hetsim.problem.problem import Problem

STEPS = 8
"""Limits that are tried above the simple bounds."""

STRIDE = 1.25
"""The first limit tried, over the larger simple bound; then its square and so on."""

LARGE = 300
"""Nodes from which fewer steps are taken."""


@checks.takes(problem=checks.instance("hetsim.problem.problem:Problem"), objective=checks.text)
def lower_bound(problem: Problem, objective: Objective = "latency") -> float:
    """Return seconds that no plan can go below; inf where a node runs nowhere.

    0, which claims nothing, where ``problem.unpriced`` names nodes.

    For ``latency``: no plan's end-to-end latency. For ``throughput``: no plan's seconds a
    request at its most loaded device, and so no rate of requests above its inverse. Both hold
    without contention, and so with it, and are less the largest rounding error that the sums
    can have, so that a plan which meets the bound is not reported below it.

    Latency is the larger of the area bound and the device-indexed critical path with the join
    rule (``paths.heads``), raised by halving: a limit is refuted where, once no node is
    offered to a device on which it would end too late, some node has no device left or the
    windows of ``area.crowded`` are too small for the work. Throughput is the area bound
    alone, which lets a node run here for one request and there for another: no deal among
    replicas is below it.

    Raises
    ------
    UsageError
        For an unknown objective.

    Complexity: O(STEPS (E P^2 + P n^2)) and about ten linear programs over n P variables a step.
    """
    check_objective(objective)
    if problem.n == 0:
        return 0.0
    if not problem.runnable.any(axis=1).all():
        return float("inf")
    if problem.unpriced:
        return 0.0
    terms = 4 * (problem.n + len(problem.values) + len(problem.devices))
    rounding = terms * float(np.finfo(np.float64).eps)
    found = area_bound(problem) if objective == "throughput" else _latency(problem)
    return found * (1.0 - rounding)


def stated_bound(problem: Problem, objective: Objective = "latency") -> float | None:
    """Return ``lower_bound``, or None where a node that is not priced leaves nothing to state."""
    found = lower_bound(problem, objective)
    return None if problem.unpriced and np.isfinite(found) else found


def critical_path_bound(problem: Problem) -> float:
    """Return the longest path when every node takes the device that suits it best, in seconds.

    With the join rule; see ``paths.heads``. O(E (P^2 + d P)) for d neighbours a node.
    """
    setting = Setting.of(problem)
    through = heads(setting, setting.shares) + setting.shares + tails(setting, setting.shares)
    return float(through.min(axis=1).max(initial=0.0))


def area_bound(problem: Problem) -> float:
    """Return the least time in which all streams together can do the work, in seconds."""
    setting = Setting.of(problem)
    return balanced(setting.shares, setting.streams)


def _latency(problem: Problem) -> float:
    setting = Setting.of(problem)
    head, tail = heads(setting, setting.shares), tails(setting, setting.shares)
    through = head + setting.shares + tail
    low = max(float(through.min(axis=1).max()), balanced(setting.shares, setting.streams))
    high = float("inf")
    for _ in range(STEPS if problem.n <= LARGE else STEPS - 3):
        middle = STRIDE * low if high == float("inf") else 0.5 * (low + high)
        if low <= 0.0 or middle <= low * 1.001:
            break
        if refuted(setting, head, tail, middle):
            low = middle
        else:
            high = middle
    return low


def refuted(setting: Setting, head: Floats, tail: Floats, limit_s: float) -> bool:
    """Say whether it is proven that no plan takes at most `limit_s`.

    `head` and `tail` are those of the whole setting; devices on which a node would end too late
    are ruled out, which may raise those of others, until nothing changes.
    """
    shares = setting.shares
    slack = limit_s * (1.0 + 1e-12)
    while True:
        late = head + shares + tail > slack
        kept: Floats = np.where(late, np.inf, shares)
        if not np.isfinite(kept).any(axis=1).all():
            return True
        if np.array_equal(np.isfinite(kept), np.isfinite(shares)):
            return crowded(setting, head, tail, shares, slack)
        shares = kept
        head, tail = heads(setting, shares), tails(setting, shares)
