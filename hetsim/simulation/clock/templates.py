"""Conversion of a Plan to clock tasks: subgraphs and transfers as a template."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetsim.errors import NoRoute, UnsupportedNode
from hetsim.problem.groups import owners
from hetsim.problem.parts import GRAPH_INPUT, Contention
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.problem.validator import check
from hetsim.simulation.clock.rules import Structure


class Transfer(NamedTuple):
    """Transfer of one value, an index into ``problem.values``, to one device.

    The subgraph `group` sends it, -1 for a model input. `receivers` are the subgraphs on `target`
    that read it, ascending, empty for a pure output; `resources` the links held, ascending, empty
    without contention.
    """

    value: int
    source: int
    target: int
    group: int
    receivers: tuple[int, ...]
    seconds: float
    resources: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Template:
    """Tasks of one request: subgraphs 0 .. G - 1 in plan order, then transfers.

    Transfers are in the order of (sending subgraph, value, destination), inputs first.

    `plan` is that of one replica, whose first subgraph is `first_group` among those of all
    replicas. `owner` is the subgraph of each node; `predecessors` are the tasks that must end
    before each task, ascending; `links` names the links that transfers hold, empty without
    contention.
    """

    plan: Plan
    group_device: tuple[int, ...]
    transfers: tuple[Transfer, ...]
    owner: tuple[int, ...]
    duration: NDArray[np.float64]
    predecessors: tuple[tuple[int, ...], ...]
    links: tuple[str, ...]
    first_group: int = 0

    @property
    def groups(self) -> int:
        """Number of subgraphs."""
        return len(self.group_device)

    @property
    def tasks(self) -> int:
        """Number of subgraphs and transfers."""
        return len(self.group_device) + len(self.transfers)


@dataclass(frozen=True, eq=False)
class PlanTasks:
    """Templates of requests: one per replica, and the replica of each request."""

    plan: Plan
    templates: tuple[Template, ...]

    @property
    def links(self) -> tuple[str, ...]:
        """Names of the links that transfers hold; empty without contention."""
        return self.templates[0].links

    @property
    def widest(self) -> int:
        """Maximum number of tasks of a request."""
        return max(template.tasks for template in self.templates)

    def of_requests(self, requests: int) -> NDArray[np.int64]:
        """Return the template of each of `requests` requests, in the plan's distribution."""
        if not self.plan.deal:
            return np.zeros(requests, dtype=np.int64)
        return np.resize(np.array(self.plan.deal, dtype=np.int64), requests)


def tasks_of_plan(plan: Plan, contention: Contention) -> PlanTasks:
    """Return the tasks of every replica of `plan`; see ``template_of``."""
    plan.check_deal(f"plan '{plan.strategy}'")
    found = tuple(
        replace(template_of(replica, contention), first_group=first)
        for replica, first in zip(plan.replicas, plan.offsets, strict=True)
    )
    return PlanTasks(plan, found)


def template_of(plan: Plan, contention: Contention) -> Template:
    """Check `plan`, which has one replica, and return its tasks as a template. O(V + E).

    Raises
    ------
    PlanError
        If the plan is not a valid partition in executable order.
    UnsupportedNode
        If a device cannot run one of its nodes.
    Infeasible
        If a value must move between devices without a route.
    """
    problem = plan.problem
    check(problem, plan.groups, supports=False, where=f"plan '{plan.strategy}'")
    index_of = {name: index for index, name in enumerate(problem.devices)}
    group_device = tuple(index_of[group.device] for group in plan.groups)
    seconds = [
        problem.group_seconds(device, group.nodes)
        for device, group in zip(group_device, plan.groups, strict=True)
    ]
    for index, time in enumerate(seconds):
        if not math.isfinite(time):
            _refuse(problem, group_device[index], plan.groups[index].nodes)
    owner = owners(problem.n, plan.groups)
    transfers = _transfers(problem, owner, group_device, contention)
    seconds.extend(transfer.seconds for transfer in transfers)
    return Template(
        plan=plan,
        group_device=group_device,
        transfers=transfers,
        owner=tuple(owner),
        duration=np.array(seconds, dtype=np.float64),
        predecessors=_predecessors(problem, owner, group_device, transfers),
        links=problem.link_names if contention == "fifo" else (),
    )


def flat(rows: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """Return (offsets, entries) of concatenated rows."""
    return list(accumulate(map(len, rows), initial=0)), list(chain.from_iterable(rows))


def _refuse(problem: Problem, device: int, nodes: Sequence[int]) -> None:
    for node in problem.unsupported(device, nodes):
        reasons = problem.refusals[device] if problem.refusals else {}
        name = problem.node_names[node] if problem.node_names else str(node)
        able = [d for p, d in enumerate(problem.devices) if problem.supported[node, p]]
        raise UnsupportedNode(
            f"device '{problem.devices[device]}' does not support it: "
            f"{reasons.get(node, 'no reason given')}",
            where=f"node '{name}'",
            hint=f"assign it to {', '.join(able)}" if able else "no device supports it",
            nodes=(name,),
            ops=(problem.op_types[node],) if problem.op_types else (),
            devices=(problem.devices[device],),
        )


def _transfers(
    problem: Problem, owner: Sequence[int], group_device: Sequence[int], contention: Contention
) -> tuple[Transfer, ...]:
    found: list[Transfer] = []
    for index, value in enumerate(problem.values):
        if value.producer == GRAPH_INPUT:
            if problem.host is None:
                continue
            source, group = problem.host, -1
        else:
            group = owner[value.producer]
            source = group_device[group]
        receivers: dict[int, set[int]] = {}
        for node in value.consumers:
            receivers.setdefault(group_device[owner[node]], set()).add(owner[node])
        if value.is_output and problem.host is not None:
            receivers.setdefault(problem.host, set())
        receivers.pop(source, None)
        for target in sorted(receivers):
            route = problem.routes[source][target]
            seconds = route.seconds(value.nbytes)
            if not math.isfinite(seconds):
                raise NoRoute(
                    f"no route takes it from '{problem.devices[source]}' "
                    f"to '{problem.devices[target]}'",
                    where=f"value '{value.name}'",
                    hint="add a link between the devices, or assign its subgraphs to one device",
                    source=problem.devices[source],
                    target=problem.devices[target],
                )
            found.append(
                Transfer(
                    value=index,
                    source=source,
                    target=target,
                    group=group,
                    receivers=tuple(sorted(receivers[target])),
                    seconds=seconds,
                    resources=route.resources if contention == "fifo" else (),
                )
            )
    return tuple(sorted(found, key=lambda transfer: (transfer.group, transfer.value)))


def _predecessors(
    problem: Problem,
    owner: Sequence[int],
    group_device: Sequence[int],
    transfers: Sequence[Transfer],
) -> tuple[tuple[int, ...], ...]:
    groups = len(group_device)
    before: list[set[int]] = [set() for _ in range(groups + len(transfers))]
    for value in problem.values:
        if value.producer == GRAPH_INPUT:
            continue
        group = owner[value.producer]
        for node in value.consumers:
            reader = owner[node]
            if reader != group and group_device[reader] == group_device[group]:
                before[reader].add(group)
    for task, transfer in enumerate(transfers, start=groups):
        if transfer.group >= 0:
            before[task].add(transfer.group)
        for reader in transfer.receivers:
            before[reader].add(task)
    return tuple(tuple(sorted(tasks)) for tasks in before)


class TemplatePart(NamedTuple):
    """Part of a structure: one template.

    By task: its `device`, for a transfer -1 minus its target; the tasks that must end `before`; the
    links `held`. Tasks `under_way` already run when the request arrives, without dependencies.
    """

    device: Sequence[int]
    before: Sequence[Sequence[int]]
    held: Sequence[tuple[int, ...]]
    under_way: Sequence[int] = ()


def structure_of(parts: Iterable[TemplatePart], streams: Sequence[int]) -> Structure:
    """Return the concatenation of templates. O(tasks and dependencies)."""
    devices = len(streams)
    first = [0]
    waits: list[int] = []
    device_of: list[int] = []
    followers: list[list[int]] = []
    turn_at, turn = [0], list[int]()
    held: list[tuple[int, ...]] = []
    roots: list[list[int]] = []
    for device, before, holds, under_way in parts:
        base = first[-1]
        first.append(base + len(device))
        needs = [len(tasks) for tasks in before]
        for task in under_way:
            # A dependency that never ends, so the task is not started again.
            needs[task] = 1
        waits += needs
        device_of += device
        followers += [[] for _ in device]
        for task, earlier in enumerate(before, start=base):
            for predecessor in earlier:
                followers[base + predecessor].append(task)
        mine: dict[int, list[int]] = {}
        free: list[int] = []
        for task, place in enumerate(device, start=base):
            if place >= 0:
                mine.setdefault(place, []).append(task)
            elif not needs[task - base]:
                free.append(task)
        for task in under_way:
            if device[task] >= 0:
                mine[device[task]].remove(base + task)
        for place in range(devices):
            turn += mine.get(place, ())
            turn_at.append(len(turn))
        roots.append(free)
        held += holds
    return Structure(
        first, waits, *flat(followers), device_of, turn_at, turn, streams, *flat(held), *flat(roots)
    )


@dataclass(frozen=True, slots=True)
class TemplateLayout:
    """Templates of a plan as input of the rules, without the tasks' durations."""

    plan: Plan
    links: int
    structure: Structure

    @property
    def first(self) -> Sequence[int]:
        """Offsets of each template's first task, and their total."""
        return self.structure.first


def laid_out(plan_tasks: PlanTasks) -> TemplateLayout:
    """Return the layout of a plan's templates. O(tasks and dependencies)."""
    parts = [
        TemplatePart(
            [*one.group_device, *[-1 - transfer.target for transfer in one.transfers]],
            one.predecessors,
            [()] * one.groups + [transfer.resources for transfer in one.transfers],
        )
        for one in plan_tasks.templates
    ]
    structure = structure_of(parts, plan_tasks.plan.problem.streams)
    return TemplateLayout(plan_tasks.plan, len(plan_tasks.links), structure)
