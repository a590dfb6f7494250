"""Objectives of plans: latency, seconds per request under load, bottleneck."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from hetsim.core import checks
from hetsim.errors import Infeasible, UsageError, nearest
from hetsim.problem.columns import cached
from hetsim.problem.groups import Group
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.problem.validator import check
from hetsim.simulation.clock.metrics import busy_seconds
from hetsim.simulation.clock.one_request import one_request
from hetsim.simulation.clock.runs import play, timeline_of
from hetsim.simulation.clock.templates import tasks_of_plan
from hetsim.simulation.clock.virtual_time import COMPILE_FROM, pays

Objective = Literal["latency", "throughput"]
OBJECTIVES: tuple[Objective, ...] = ("latency", "throughput")

PLAYED = 10_000
"""Minimum number of tasks to simulate for the rate that a plan sustains."""

SHORTEST, FEWEST = 16, 64
"""Minimum number of periods of the distribution, and of requests, to simulate."""

MOST_ROUND = 240
"""Number of requests until all streams are used equally, above which streams are ignored."""


def check_objective(name: str) -> Objective:
    """Return the objective with the given name. Raises UsageError with the nearest name."""
    for objective in OBJECTIVES:
        if name == objective:
            return objective
    raise UsageError(f"no objective '{name}'", hint=nearest(name, OBJECTIVES))


def judge(plan: Plan, objective: Objective) -> float:
    """Return the figure by which plans are compared and reported, in seconds; lower is better."""
    measured_s = measure(plan, objective)
    return measured_s if objective == "latency" else kept_s(plan)


def measure(plan: Plan, objective: Objective) -> float:
    """Return the figure that guides a search, in seconds: latency, or ``bottleneck``."""
    if plan.sizes:
        check_room(plan)
    elif objective == "throughput":
        timeline_of(plan, trace=False)
    return latency_of(plan) if objective == "latency" else bottleneck(plan)


def check_room(plan: Plan) -> None:
    """Raise OutOfMemory if a device cannot hold one request of every replica at once."""
    if not plan.sizes:
        if memory_binds(plan.problem):
            timeline_of(plan, trace=False)
        return
    timeline_of(plan.each_once, np.zeros(len(plan.replicas)), trace=True)


def latency_of(plan: Plan) -> float:
    """Return the simulated latency of one request in seconds."""
    if not plan.sizes:
        check(plan.problem, plan.groups, supports=False, where=f"plan '{plan.strategy}'")
        return latency_of_groups(plan.problem, plan.groups, plan.strategy)
    if memory_binds(plan.problem):
        return timeline_of(plan, trace=False).latency_s
    return _played(plan)


def fits(plan: Plan) -> bool:
    """Return whether one request fits in memory and all its tensors have routes."""
    try:
        latency_of(plan)
    except Infeasible:
        return False
    return True


def latency_of_groups(problem: Problem, groups: Sequence[Group], name: str) -> float:
    """Return ``latency_of`` for unchecked `groups`, a partition in executable order."""
    if memory_binds(problem):
        return timeline_of(Plan(problem, name, tuple(groups)), trace=False).latency_s
    latency_s = one_request(problem).latency_s(problem, groups, name)
    # If it cannot run or has no route, the layout of the clock raises the reason.
    return _played(Plan(problem, name, tuple(groups))) if latency_s is None else latency_s


def _played(plan: Plan) -> float:
    recording = play(tasks_of_plan(plan, plan.problem.contention), np.zeros(1), traced=False)
    return float(recording.finish[0])


def memory_binds(problem: Problem) -> bool:
    """Return whether some device cannot hold all weights and tensors at once. O(V + weights)."""
    if problem.capacity_bytes is None:
        return False
    return _total_bytes(problem) > min(problem.capacity_bytes, default=0)


@cached
def _total_bytes(problem: Problem) -> int:
    """Total bytes of weights and tensors, cached for the many plans tried."""
    weights = sum(constant.nbytes for constant in problem.constants)
    return weights + sum(value.nbytes for value in problem.values)


def kept_s(plan: Plan) -> float:
    """Return the seconds per request of `plan` with an unlimited backlog of requests.

    Simulates a number of requests and twice that number, and divides the difference of the ends. At
    least ``bottleneck``, and above it if links serve requests in an order that leaves the busiest
    device or link idle. O(PLAYED tasks), or SHORTEST periods, or FEWEST requests.
    """
    plan_tasks = tasks_of_plan(plan, plan.problem.contention)
    device_s, link_s = seconds_a_request(plan)
    period = len(plan.period)
    pairs = zip(plan.shares, plan_tasks.templates, strict=True)
    tasks = max(sum(share * template.tasks for share, template in pairs), 1)
    periods = max(SHORTEST, FEWEST // period, PLAYED // tasks)
    # Requests that leave some streams idle at the end would count as slower.
    used = [one for one, busy_s in zip(plan.problem.streams, device_s, strict=True) if busy_s]
    whole = math.lcm(period, *used)
    whole = whole if whole <= MOST_ROUND else period
    half = -(-periods // 2 * period // whole) * whole
    events = 3 * half * tasks // period
    machine_code = True if events < COMPILE_FROM and pays(events) else None
    early_s, late_s = (
        float(
            play(plan_tasks, np.zeros(count), traced=False, machine_code=machine_code).finish.max()
        )
        for count in (half, 2 * half)
    )
    return max((late_s - early_s) / half, *device_s, *link_s)


def bottleneck(plan: Plan) -> float:
    """Return seconds per request of the busiest device or link, over one period of distribution."""
    device_s, link_s = seconds_a_request(plan)
    return max((*device_s, *link_s), default=0.0)


def seconds_a_request(plan: Plan) -> tuple[list[float], list[float]]:
    """Return the seconds per request of each device, divided by its streams, and of each link."""
    problem = plan.problem
    plan_tasks = tasks_of_plan(plan, problem.contention)
    device_s, link_s = busy_seconds(plan_tasks, plan.shares)
    requests = len(plan.period)
    return [
        busy / width / requests for busy, width in zip(device_s, problem.streams, strict=True)
    ], [busy / requests for busy in link_s]


@checks.takes(
    problem=checks.instance("hetsim.problem.problem:Problem"),
    assignment=checks.sequence(checks.whole()),
)
def max_load(problem: Problem, assignment: Sequence[int]) -> float:
    """Return the bottleneck of an assignment, in seconds per request; inf if unsupported.

    The nodes of a device count as one subgraph, contiguous or not: one dispatch, whole composites,
    and a tensor moved or staged once per device. No plan with this assignment has a lower
    bottleneck. O(V + E).

    Raises
    ------
    UsageError
        If the assignment does not give every node a device.
    """
    device_s, link_s = loads(problem, assignment)
    return max((*device_s, *link_s), default=0.0)


def loads(problem: Problem, assignment: Sequence[int]) -> tuple[list[float], list[float]]:
    """Return the seconds per request of each device and each link, counted as in ``max_load``."""
    count = len(problem.devices)
    if len(assignment) != problem.n or any(not 0 <= device < count for device in assignment):
        raise UsageError(
            f"the assignment has {len(assignment)} entries for {problem.n} nodes on {count} "
            "devices",
            hint="use one device index per node",
        )
    nodes: list[list[int]] = [[] for _ in problem.devices]
    for node, device in enumerate(assignment):
        nodes[device].append(node)
    device_s = [
        problem.group_seconds(device, members) / problem.streams[device] if members else 0.0
        for device, members in enumerate(nodes)
    ]
    if problem.contention == "none":
        return device_s, []
    link_s = [0.0] * len(problem.link_names)
    for value in problem.values:
        source = problem.host if value.producer == GRAPH_INPUT else assignment[value.producer]
        if source is None:
            continue
        targets = {assignment[node] for node in value.consumers}
        if value.is_output and problem.host is not None:
            targets.add(problem.host)
        for target in sorted(targets - {source}):
            route = problem.routes[source][target]
            for link in route.resources:
                link_s[link] += route.seconds(value.nbytes)
    return device_s, link_s
