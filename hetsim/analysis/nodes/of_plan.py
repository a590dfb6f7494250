"""What the time of a plan is made of: subgraphs, kernels, shares of nodes, transfers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hetsim.analysis.nodes.facts import GroupFacts, KernelFacts, Moved
from hetsim.plans.plan import Plan
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.templates import Template, template_of


@dataclass(slots=True)
class Shares:
    """Of the nodes of one replica: device, subgraph, kernel and share of its time."""

    device: list[int]
    group: list[int]
    kernel: list[int]
    seconds: list[float]


@dataclass(frozen=True, slots=True)
class Made:
    """What one replica is made of."""

    shares: Shares
    groups: tuple[GroupFacts, ...]
    kernels: tuple[KernelFacts, ...]
    template: Template


def made_of(plan: Plan, replica: int, first_group: int, first_kernel: int) -> Made:
    """Return what a plan of one replica is made of; subgraphs and kernels are numbered on.

    Raises as ``template_of``. O(V + E).
    """
    problem = plan.problem
    template = template_of(plan, problem.contention)
    patterns = {(one.device, one.nodes): one.pattern for one in problem.fused}
    count = problem.n
    shares = Shares([0] * count, [0] * count, [0] * count, [0.0] * count)
    groups: list[GroupFacts] = []
    kernels: list[KernelFacts] = []
    for at, (device, group) in enumerate(zip(template.group_device, plan.groups, strict=True)):
        for members, seconds in problem.kernels(device, group.nodes):
            parts = _shared(problem, device, members, seconds)
            for node, part in zip(members, parts, strict=True):
                shares.device[node] = device
                shares.group[node] = first_group + at
                shares.kernel[node] = first_kernel + len(kernels)
                shares.seconds[node] = part
            pattern = patterns.get((device, members), "") if len(members) > 1 else ""
            kernels.append(KernelFacts(first_group + at, members, seconds, pattern))
        groups.append(
            GroupFacts(
                replica,
                group.device,
                group.nodes,
                problem.dispatch_s[device],
                problem.staged_seconds(device, group.nodes),
                float(template.duration[at]),
            )
        )
    return Made(shares, tuple(groups), tuple(kernels), template)


def _shared(problem: Problem, device: int, members: Sequence[int], seconds: float) -> list[float]:
    """Return each member's share, as ``Problem.shared_seconds`` has them."""
    if len(members) == 1:
        return [seconds]
    return [float(problem.shared_seconds[node, device]) for node in members]


def moved_by(
    template: Template, replica: int, falls_back: Callable[[int], bool]
) -> tuple[Moved, ...]:
    """Return the transfers of one replica, in the clock's order, and whom each is charged to."""
    problem, owner = template.plan.problem, template.owner
    found: list[Moved] = []
    for one in template.transfers:
        value = problem.values[one.value]
        ends = [] if value.producer == GRAPH_INPUT else [value.producer]
        ends += [
            node for node in value.consumers if template.group_device[owner[node]] == one.target
        ]
        found.append(
            Moved(
                replica,
                value.name,
                problem.devices[one.source],
                problem.devices[one.target],
                value.nbytes,
                one.seconds,
                tuple(node for node in ends if falls_back(node)),
            )
        )
    return tuple(found)


def charges(moved: Sequence[Moved], count: int) -> tuple[list[float], list[float]]:
    """Return by node the seconds and the bytes that are charged to it. O(transfers)."""
    seconds, nbytes = [0.0] * count, [0.0] * count
    for one in moved:
        for node in one.charged:
            seconds[node] += one.seconds / len(one.charged)
            nbytes[node] += one.nbytes / len(one.charged)
    assert all(map(math.isfinite, seconds))
    return seconds, nbytes
