"""Deployment without some devices, and losses with the same remainder.

Two deployments of one shape are equal to the clock: its rules identify devices and links by index
only, and ties go by requests, tasks and instances (``simulation.clock.rules``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np

from hetsim.errors import Infeasible, UsageError
from hetsim.hardware.spec import Platform
from hetsim.placement.planning import replan
from hetsim.problem.plan import Plan
from hetsim.problem.problem import interchangeable, same_hardware
from hetsim.provisioning.rates.answer import Choice
from hetsim.simulation.clock.templates import template_of
from hetsim.simulation.service.layout import (
    DeploymentMemory,
    EngineArguments,
    check_together,
    set_up,
)
from hetsim.simulation.service.resolution import Resolved, devices_of, kept_as
from hetsim.workload.deployment import Instances
from hetsim.workload.workload import Workload

Shape: TypeAlias = tuple[object, ...]


class Move(NamedTuple):
    """Transfer: the devices at its ends, and the links that it holds."""

    source: int
    target: int
    links: tuple[int, ...]


class PlanShape(NamedTuple):
    """Resources of one plan: devices of subgraphs, and transfers, without names."""

    devices: tuple[int, ...]
    moves: tuple[Move, ...]
    rest: Shape


@lru_cache(maxsize=1 << 12)
def shape_of(plan: Plan) -> PlanShape:
    """Return the resources of a plan. Complexity: O(tasks)."""
    problem = plan.problem
    template = template_of(plan, problem.contention)
    devices = template.group_device
    moves = tuple(Move(one.source, one.target, one.resources) for one in template.transfers)
    rest = (
        tuple(group.nodes for group in plan.groups),
        template.duration.tobytes(),
        template.predecessors,
        tuple(problem.streams[device] for device in devices),
    )
    return PlanShape(devices, moves, rest)


def shapes_of(rows: Sequence[Sequence[Plan]]) -> tuple[PlanShape, ...]:
    """Return the shapes of the plans of an instance, by variant and batch size."""
    return tuple(shape_of(plan) for row in rows for plan in row)


def shape_of_all(resolved: Sequence[Resolved]) -> Shape:
    """Return the shape of a whole deployment. Complexity: O(tasks).

    Devices are numbered by first appearance, and a link is identified by the device pairs that it
    serves. Two of one deployment with equal shapes differ in names only. If models take turns in
    memory, devices keep their numbers, as loading is not a task of a plan.
    """
    devices: dict[int, int] = {}
    carries: dict[int, set[tuple[int, int]]] = {}
    found: list[object] = []
    for one in resolved:
        runs: list[tuple[object, int]] = []
        for entry, rows in zip(one.served.instances, one.plans, strict=True):
            plans = tuple(_named(shape, devices, carries) for shape in shapes_of(rows))
            what = (one.served.in_flight(entry), plans)
            count = entry.count
            if runs and runs[-1][0] == what:
                count += runs.pop()[1]
            runs.append((what, count))
        found.append(tuple(runs))
    turns = any(one.on_demand for one in resolved)
    links = sorted(tuple(sorted(ends)) for ends in carries.values())
    return tuple(found), tuple(links), tuple(devices) if turns else ()


def _named(
    shape: PlanShape, devices: dict[int, int], carries: dict[int, set[tuple[int, int]]]
) -> Shape:
    """Return a shape with devices numbered by first appearance, and links by their transfers."""

    def device(at: int) -> int:
        return devices.setdefault(at, len(devices))

    own = tuple(device(at) for at in shape.devices)
    ends = tuple((device(move.source), device(move.target)) for move in shape.moves)
    for move, between in zip(shape.moves, ends, strict=True):
        for link in move.links:
            carries.setdefault(link, set()).add(between)
    return own, ends, shape.rest


Entry = tuple[int, int, tuple[PlanShape, ...]]
"""Instances of an entry: their number, concurrent batches of each, and plans."""


def alike(resolved: Sequence[Resolved]) -> tuple[tuple[str, ...], ...]:
    """Return all devices by class of identical ones, in the platform's order.

    Failures of any given number of a class leave one shape (``shape_of_all``): the same instances
    in the same order, in tasks, seconds and shared devices and links. If none is left and plans are
    made anew, a plan without the first ones is one for any others with places exchanged, as the
    platform cannot distinguish them.

    Two neighbours of a class can be exchanged: without the one, and with the other in its place,
    all instances are, one by one, those without the other. Further failures remove the same
    instances, by index, from both. Complexity: O(P^3) for P devices, and O(P tasks).
    """
    problem = resolved[0].problem
    exchangeable = same_hardware(problem, links=True)
    problems = {
        id(plan.problem): plan.problem
        for model in resolved
        for rows in model.plans
        for row in rows
        for plan in row
    }
    changes = [(np.any(one.runnable, axis=0), interchangeable(one)) for one in problems.values()]

    def cost_the_same(a: int, b: int) -> bool:
        """Return whether both cost the same in each instance's problem, or one runs all of it."""
        return all(
            change(a, b) if runs[a] == runs[b] else runs.sum() == 1 for runs, change in changes
        )

    entries: list[list[Entry]] = [
        [
            (entry.count, one.served.in_flight(entry), shapes_of(rows))
            for entry, rows in zip(one.served.instances, one.plans, strict=True)
        ]
        for one in resolved
    ]
    classes: list[list[int]] = []
    for device in range(len(problem.devices)):
        for mine in classes:
            last = mine[-1]
            if (
                exchangeable(last, device)
                and cost_the_same(last, device)
                and all(_same_left(model, last, device) for model in entries)
            ):
                mine.append(device)
                break
        else:
            classes.append([device])
    return tuple(tuple(problem.devices[at] for at in mine) for mine in classes)


def _same_left(entries: Sequence[Entry], a: int, b: int) -> bool:
    """Return whether a model's instances without `b` are those without `a` with `a` for `b`."""

    def standing(without: int, renamed: Mapping[int, int]) -> list[tuple[object, ...]]:
        return [
            (
                count,
                under_way,
                [
                    (
                        [renamed.get(at, at) for at in shape.devices],
                        [[renamed.get(end, end) for end in move[:2]] for move in shape.moves],
                        shape.rest,
                    )
                    for shape in plans
                ],
            )
            for count, under_way, plans in entries
            if all(without not in shape.devices for shape in plans)
        ]

    return standing(b, {a: b}) == standing(a, {})


Lost: TypeAlias = frozenset[str]
Chosen: TypeAlias = tuple[int, ...] | Lost
"""Remaining instances of a model, by index; or the lost devices without which all are replanned."""


@dataclass(frozen=True, slots=True, eq=False)
class Remainder:
    """Remaining deployment; empty if a model cannot be served, for the reason `refused`.

    Deployments with the same `shape` behave equally; `used` are the devices that run something,
    `anew` the models that had no instance left and were replanned.
    """

    resolved: tuple[Resolved, ...] = field(repr=False)
    memory: DeploymentMemory | None = field(repr=False)
    shape: Shape = field(repr=False)
    used: Lost
    anew: tuple[str, ...] = ()
    refused: Infeasible | None = None

    def set_up(self, workload: Workload) -> EngineArguments:
        """Return the setup of a workload on the remaining devices, which can serve it."""
        assert self.memory is not None
        return set_up(self.resolved, workload, self.memory)


class LossModel:
    """Deployment from which devices are removed; `classes` as in ``alike``.

    As for device failures under load (``simulation.failures.serving``), an instance is gone if it
    uses a failed device. A model without instances is replanned: each instance that can be, by its
    own strategy, without the failed devices that its plans used; again if the new plan uses another
    failed device. Links and memory of a device stay: values still pass through it, and the host
    still has the inputs.
    """

    def __init__(self, resolved: Sequence[Resolved], platform: Platform) -> None:
        self._resolved, self._platform = tuple(resolved), platform
        self.devices = resolved[0].problem.devices
        self.classes = alike(resolved)
        self._uses = [[devices_of(rows) for rows in one.plans] for one in resolved]
        self._anew: dict[tuple[int, Lost], Resolved | Infeasible] = {}
        self._left: dict[tuple[Chosen, ...], Remainder] = {}

    def without(self, lost: Lost) -> Remainder:
        """Return the deployment without some devices."""
        chosen: list[Chosen] = []
        for at, uses in enumerate(self._uses):
            stands = tuple(k for k, used in enumerate(uses) if not used & lost)
            if stands:
                chosen.append(stands)
                continue
            matter = lost & frozenset().union(*uses)
            while True:
                made = self._planned(at, matter)
                if isinstance(made, Infeasible) or not lost & _of_model(made):
                    break
                matter |= lost & _of_model(made)
            chosen.append(matter)
        key = tuple(chosen)
        if key not in self._left:
            self._left[key] = self._checked(key)
        return self._left[key]

    def _checked(self, key: tuple[Chosen, ...]) -> Remainder:
        found: list[Resolved] = []
        anew: list[str] = []
        for at, (one, stands) in enumerate(zip(self._resolved, key, strict=True)):
            if isinstance(stands, tuple):
                found.append(_chosen(one, stands))
                continue
            made = self._planned(at, stands)
            anew.append(one.served.model)
            if isinstance(made, Infeasible):
                return _refused(anew, made)
            found.append(made)
        try:
            memory = check_together(found, self._platform)
        except Infeasible as error:
            return _refused(anew, error)
        used = frozenset().union(*(_of_model(one) for one in found))
        return Remainder(tuple(found), memory, shape_of_all(found), used, tuple(anew))

    def _planned(self, model: int, lost: Lost) -> Resolved | Infeasible:
        if (model, lost) not in self._anew:
            try:
                self._anew[model, lost] = planned_again(
                    self._resolved[model], [name for name in self.devices if name in lost]
                )
            except Infeasible as error:
                self._anew[model, lost] = error
        return self._anew[model, lost]


def planned_again(one: Resolved, lost: Sequence[str]) -> Resolved:
    """Return a model with those of its instances that can be planned without some devices."""
    known: dict[int, tuple[Plan, ...]] = {}
    place: dict[int, int] = {}
    stands: list[int] = []
    found: list[Resolved] = []
    refused: Infeasible | None = None
    for at, entry in enumerate(one.served.instances):
        turn = place.setdefault(id(entry), 0)
        place[id(entry)] += 1

        def anew(plan: Plan, turn: int = turn) -> Plan:
            if id(plan) not in known:
                known[id(plan)] = replan(plan, lost).replicas
            return known[id(plan)][turn % len(known[id(plan)])]

        try:
            found.append(kept_as(_chosen(one, (at,)), anew))
        except Infeasible as error:
            refused = refused or error
        else:
            stands.append(at)
    if refused is not None and not stands:
        raise refused
    return replace(_chosen(one, stands), plans=tuple(each.plans[0] for each in found))


def _chosen(one: Resolved, stands: Sequence[int]) -> Resolved:
    instances: tuple[Instances, ...] = tuple(one.served.instances[k] for k in stands)
    return replace(
        one,
        served=replace(one.served, instances=instances),
        plans=tuple(one.plans[k] for k in stands),
    )


def _of_model(one: Resolved) -> Lost:
    return frozenset().union(*(devices_of(rows) for rows in one.plans))


def _refused(anew: Sequence[str], error: Infeasible) -> Remainder:
    return Remainder((), None, ("refused", str(error)), frozenset(), tuple(anew), error)


MOST = 2**20
"""Maximum number of states of lost devices to examine."""

Counts: TypeAlias = tuple[int | None, ...]
"""Number of failed devices of each class; None: any, as nothing uses them."""


class LossWay(NamedTuple):
    """Representative loss (`lost`) of all `states`, as `sets`, with the same remainder."""

    lost: tuple[str, ...]
    sets: tuple[Choice, ...]
    left: Remainder
    states: tuple[Counts, ...]


def ways_of(loss_model: LossModel, losses: int) -> list[LossWay]:
    """Return the ways to lose up to that number of devices, first that without losses.

    Raises UsageError if there are too many.
    """
    states = states_of(loss_model, losses)
    states.sort(key=lambda state: (_down(state), [-(count or 0) for count in state]))
    return ways(loss_model, states)


def ways(loss_model: LossModel, states: Sequence[Counts]) -> list[LossWay]:
    """Return states grouped by the shape that they leave, in order of the first of each."""
    rows: dict[object, tuple[Remainder, list[Counts]]] = {}
    for state in states:
        left = loss_model.without(frozenset(names_of(loss_model, state)))
        rows.setdefault(left.shape, (left, []))[1].append(state)
    return [
        LossWay(
            names_of(loss_model, same[0]),
            tuple(
                tuple((n, names) for n, names in zip(state, loss_model.classes, strict=True) if n)
                for state in same
            ),
            left,
            tuple(same),
        )
        for left, same in rows.values()
    ]


def states_of(loss_model: LossModel, losses: int | None = None) -> list[Counts]:
    """Return all states of failed devices, or those of at most `losses` devices.

    Unused classes are not distinguished: a plan on working devices is not changed by other
    failures. So a state is split further if something is replanned and then uses devices whose
    state is open. Raises UsageError for too many.
    """
    most = len(loss_model.devices) if losses is None else losses
    found: list[Counts] = []
    open_: list[Counts] = [(None,) * len(loss_model.classes)]
    while open_:
        state = open_.pop()
        used = loss_model.without(frozenset(names_of(loss_model, state))).used
        rows: list[Counts] = [()]
        for at, (count, names) in enumerate(zip(state, loss_model.classes, strict=True)):
            asked = count is None and bool(used & set(names))
            rows = [
                (*row, n)
                for row in rows
                for n in (range(len(names) + 1) if asked else (count,))
                if _down((*row, n, *state[at + 1 :])) <= most
            ]
            if len(rows) + len(found) + len(open_) > MOST:
                raise UsageError(
                    f"more than {MOST} states of what is up, of {len(loss_model.devices)} devices",
                    hint="ask for fewer losses, or put like devices next to each other under "
                    "instances:, each with as many instances, so that it matters only how many "
                    "are up",
                )
        if rows == [state]:
            found.append(state)
        else:
            open_ += rows
    return found


def _down(state: Counts) -> int:
    return sum(count or 0 for count in state)


def names_of(loss_model: LossModel, counts: Counts) -> tuple[str, ...]:
    """Return the devices that represent a number of each class: the first ones."""
    lost = {
        name
        for count, names in zip(counts, loss_model.classes, strict=True)
        for name in names[: count or 0]
    }
    return tuple(name for name in loss_model.devices if name in lost)
