"""What plans ask of devices and links, and what is served as a whole, whatever these are called.

Two deployments of one shape are one to the clock: its rules know devices and links as places
alone, and ties go by requests, tasks and instances (``simulation.clock.rules``). What becomes of
requests is the same there, to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from hetsim.plans.plan import Plan
from hetsim.service.resolving import Resolved
from hetsim.simulation.clock.templates import template_of

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
