"""Shapes of plans and deployments, whatever devices are called; classes of devices that are alike.

Two deployments of one shape are one to the clock: its rules know devices and links as places
alone, and ties go by requests, tasks and instances (``simulation.clock.rules``). What becomes of
requests is the same there, to the last bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import NamedTuple, TypeAlias

import numpy as np

from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem, interchangeable
from hetsim.simulation.clock.templates import template_of
from hetsim.simulation.service.resolving import Resolved

Shape: TypeAlias = tuple[object, ...]


class Move(NamedTuple):
    """A transfer: the devices at its ends, and the links that it holds."""

    source: int
    target: int
    links: tuple[int, ...]


class PlanShape(NamedTuple):
    """What one plan asks.

    Attributes
    ----------
    devices : tuple of int
        Of each subgraph.
    moves : tuple of Move
    rest : tuple
        What names no device or link: nodes, seconds, who waits for whom, streams.
    """

    devices: tuple[int, ...]
    moves: tuple[Move, ...]
    rest: Shape


def shape_of(plan: Plan) -> PlanShape:
    """Return what a plan asks. Complexity: O(tasks)."""
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


class Shapes:
    """Shapes of plans, each made once."""

    def __init__(self) -> None:
        # Each plan is kept beside its shape, so that no other gets its number.
        self._known: dict[int, tuple[Plan, PlanShape]] = {}

    def of_entry(self, rows: Sequence[Sequence[Plan]]) -> tuple[PlanShape, ...]:
        """Return those of the plans of an instance, by variant and batch size."""
        return tuple(self._of(plan) for row in rows for plan in row)

    def of_all(self, resolved: Sequence[Resolved]) -> Shape:
        """Return the shape of all that is served.

        Devices have the numbers in which they are first met, and a link is what it carries: between
        which devices. Two of one deployment with one shape differ in names alone. Where models take
        turns in memory devices keep theirs, for what is loaded is no task of a plan.

        Complexity: O(tasks).
        """
        devices: dict[int, int] = {}
        carries: dict[int, set[tuple[int, int]]] = {}
        found: list[object] = []
        for one in resolved:
            runs: list[tuple[object, int]] = []
            for entry, rows in zip(one.served.instances, one.plans, strict=True):
                plans = tuple(_named(shape, devices, carries) for shape in self.of_entry(rows))
                what = (one.served.in_flight(entry), plans)
                count = entry.count
                if runs and runs[-1][0] == what:
                    count += runs.pop()[1]
                runs.append((what, count))
            found.append(tuple(runs))
        turns = any(one.on_demand for one in resolved)
        links = sorted(tuple(sorted(ends)) for ends in carries.values())
        return tuple(found), tuple(links), tuple(devices) if turns else ()

    def _of(self, plan: Plan) -> PlanShape:
        if id(plan) not in self._known:
            self._known[id(plan)] = plan, shape_of(plan)
        return self._known[id(plan)][1]


def _named(
    shape: PlanShape, devices: dict[int, int], carries: dict[int, set[tuple[int, int]]]
) -> Shape:
    """A shape with devices numbered as they were first met; links are told what they carry."""

    def device(at: int) -> int:
        return devices.setdefault(at, len(devices))

    own = tuple(device(at) for at in shape.devices)
    ends = tuple((device(move.source), device(move.target)) for move in shape.moves)
    for move, between in zip(shape.moves, ends, strict=True):
        for link in move.links:
            carries.setdefault(link, set()).add(between)
    return own, ends, shape.rest


Entry = tuple[int, int, tuple[PlanShape, ...]]
"""Of an instance, or several alike: how many, batches under way each, and its plans."""


def alike(
    resolved: Sequence[Resolved], shapes: Shapes | None = None
) -> tuple[tuple[str, ...], ...]:
    """Return all devices by class, each class and all of them in the platform's order.

    Of a class, any so many that are down leave one shape (``Shapes.of_all``): the same instances
    in the same order, as to tasks, seconds and which of them share devices and links. Where none
    is left and plans are made anew, a plan that leaves out the first so many is one for any
    others of them with their places changed, for the platform has none that it could tell them by.

    Two neighbours of a class change places so: without the one and with the other in its place
    all instances are, one by one, those without the other. What else is down takes the same
    instances, by place, from both; so the two leave one shape whatever else is down, and by such
    changes any so many of a class go to any others.

    Complexity: O(P^3) for P devices, and O(P tasks).
    """
    shapes = Shapes() if shapes is None else shapes
    problem = resolved[0].problem
    problems = {
        id(plan.problem): plan.problem
        for model in resolved
        for rows in model.plans
        for row in rows
        for plan in row
    }
    change = _all_of(_change_places(one) for one in problems.values())
    entries: list[list[Entry]] = [
        [
            (entry.count, one.served.in_flight(entry), shapes.of_entry(rows))
            for entry, rows in zip(one.served.instances, one.plans, strict=True)
        ]
        for one in resolved
    ]
    classes: list[list[int]] = []
    for device in range(len(problem.devices)):
        for mine in classes:
            last = mine[-1]
            if (
                change(last, device)
                and _same_links(problem, last, device)
                and all(_same_left(model, last, device) for model in entries)
            ):
                mine.append(device)
                break
        else:
            classes.append([device])
    return tuple(tuple(problem.devices[at] for at in mine) for mine in classes)


def _change_places(problem: Problem) -> Callable[[int, int], bool]:
    """Return the test whether two devices can change places in an instance's problem.

    One that is narrowed to either of them, and nothing else, is gone with it: it is never planned
    again.
    """
    runs: list[bool] = np.any(problem.runnable, axis=0).tolist()
    changes = interchangeable(problem)

    def test(a: int, b: int) -> bool:
        if runs[a] == runs[b]:
            return changes(a, b)
        return sum(runs) == 1 and _as_hardware(problem, a, b)

    return test


def _as_hardware(problem: Problem, a: int, b: int) -> bool:
    """Whether two devices, no hosts, hold as much and are as near, whatever they run."""
    held = problem.capacity_bytes
    if problem.host in (a, b) or problem.streams[a] != problem.streams[b]:
        return False
    if held is not None and held[a] != held[b]:
        return False
    swap = {a: b, b: a}
    places = range(len(problem.devices))
    ways = [[(way.latency_s, way.bytes_per_s) for way in row] for row in problem.routes]
    return all(
        ways[source][target] == ways[swap.get(source, source)][swap.get(target, target)]
        for source in places
        for target in places
    )


def _all_of(tests: Iterable[Callable[[int, int], bool]]) -> Callable[[int, int], bool]:
    known = list(tests)
    return lambda a, b: all(test(a, b) for test in known)


def _same_links(problem: Problem, a: int, b: int) -> bool:
    """Whether ways share links as they do where `a` and `b` have changed places.

    A link is the ways that it is part of, so each needs one to go to.
    """
    swap = {a: b, b: a}
    ways: dict[int, set[tuple[int, int]]] = {}
    for source, row in enumerate(problem.routes):
        for target, route in enumerate(row):
            for link in route.resources:
                ways.setdefault(link, set()).add((source, target))
    before = Counter(frozenset(one) for one in ways.values())
    after = Counter(
        frozenset((swap.get(source, source), swap.get(target, target)) for source, target in one)
        for one in ways.values()
    )
    return before == after


def _same_left(entries: Sequence[Entry], a: int, b: int) -> bool:
    """Whether a model's instances without `b` are those without `a`, `b` in the place of `a`."""
    without_b = _without(entries, b)
    without_a = _without(entries, a)
    return len(without_a) == len(without_b) and all(
        one[:2] == other[:2]
        and all(
            _renamed(shape, a, b) == (like.devices, _ends(like), like.rest)
            for shape, like in zip(one[2], other[2], strict=True)
        )
        for one, other in zip(without_b, without_a, strict=True)
    )


def _without(entries: Sequence[Entry], device: int) -> list[Entry]:
    return [one for one in entries if all(device not in shape.devices for shape in one[2])]


def _renamed(shape: PlanShape, a: int, b: int) -> tuple[object, object, object]:
    return (
        tuple(b if at == a else at for at in shape.devices),
        tuple(b if at == a else at for at in _ends(shape)),
        shape.rest,
    )


def _ends(shape: PlanShape) -> tuple[int, ...]:
    return tuple(chain.from_iterable((move.source, move.target) for move in shape.moves))
