"""What a plan is judged by: the latency of one request, or the seconds a request in a stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from hetsim.errors import UsageError, nearest
from hetsim.partitioning.groups import Group
from hetsim.partitioning.validator import check
from hetsim.plans.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.metrics import busy_seconds
from hetsim.simulation.clock.one_request import one_request
from hetsim.simulation.clock.playing import play, timeline_of
from hetsim.simulation.clock.templates import tasks_of_plan

Objective = Literal["latency", "throughput"]
OBJECTIVES: tuple[Objective, ...] = ("latency", "throughput")


def check_objective(name: str) -> Objective:
    """Return the objective called `name`. Raises UsageError with the nearest."""
    for objective in OBJECTIVES:
        if name == objective:
            return objective
    raise UsageError(f"no objective '{name}'", hint=nearest(name, OBJECTIVES))


def measure(plan: Plan, objective: Objective) -> float:
    """Return what the clock says `plan` costs, in seconds; less is better.

    ``latency``: end to end, of the first request alone. ``throughput``: see ``bottleneck``.
    Raises what ``simulate`` raises. Memory must hold one request of each replica at once.
    """
    if plan.sizes:
        check_room(plan)
    elif objective == "throughput":
        timeline_of(plan, trace=False)
    return latency_of(plan) if objective == "latency" else bottleneck(plan)


def check_room(plan: Plan) -> None:
    """Raise OutOfMemory where a device cannot hold one request of each replica at once."""
    if not plan.sizes:
        if memory_binds(plan.problem):
            timeline_of(plan, trace=False)
        return
    timeline_of(plan.each_once, np.zeros(len(plan.replicas)), trace=True)


def latency_of(plan: Plan) -> float:
    """Return the latency of one request by the clock, in seconds.

    Memory is followed only where it could run out: it cannot where a device holds all
    weights and all tensors at once. Raises what ``simulate`` raises.
    """
    if not plan.sizes:
        check(plan.problem, plan.groups, supports=False, where=f"plan '{plan.strategy}'")
        return latency_of_groups(plan.problem, plan.groups, plan.strategy)
    if memory_binds(plan.problem):
        return timeline_of(plan, trace=False).latency_s
    return _played(plan)


def latency_of_groups(problem: Problem, groups: Sequence[Group], name: str) -> float:
    """Return ``latency_of`` a plan of `groups`, a partition in executable order, unchecked.

    For the many that a strategy tries; `name` is what errors call it.
    """
    if memory_binds(problem):
        return timeline_of(Plan(problem, name, tuple(groups)), trace=False).latency_s
    latency_s = one_request(problem).latency_s(problem, groups, name)
    # Of what cannot run, or finds no route, the clock's own layout tells why.
    return _played(Plan(problem, name, tuple(groups))) if latency_s is None else latency_s


def _played(plan: Plan) -> float:
    recording = play(tasks_of_plan(plan, plan.problem.contention), np.zeros(1), traced=False)
    return float(recording.finish[0])


def memory_binds(problem: Problem) -> bool:
    """Whether some device could not hold all weights and all tensors at once. O(V + weights)."""
    if problem.capacity_bytes is None:
        return False
    weights = sum(constant.nbytes for constant in problem.constants)
    total = weights + sum(value.nbytes for value in problem.values)
    return total > min(problem.capacity_bytes, default=0)


def bottleneck(plan: Plan) -> float:
    """Return the seconds a request of the busiest device or link, over one period of the deal.

    With enough requests in flight, no fewer seconds pass from one end to the next. A device
    of several streams shares its work over them; links count under contention only.
    """
    device_s, link_s = seconds_a_request(plan)
    return max((*device_s, *link_s), default=0.0)


def seconds_a_request(plan: Plan) -> tuple[list[float], list[float]]:
    """Return seconds a request by device, over its streams, and by link.

    Of the requests of one period of the deal, on average. O(V + E) a replica.
    """
    problem = plan.problem
    device_s, link_s = busy_seconds(tasks_of_plan(plan, problem.contention), plan.shares)
    requests = len(plan.period)
    return [
        busy / width / requests for busy, width in zip(device_s, problem.streams, strict=True)
    ], [busy / requests for busy in link_s]
