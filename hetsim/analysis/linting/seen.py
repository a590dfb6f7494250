"""What finders look at: the plan as it is, what it is made of, and whom they look at it for."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from hetsim.analysis.linting.change import Asked, Change
from hetsim.analysis.nodes.nodes import Nodes, nodes
from hetsim.errors import HetsimError
from hetsim.hardware.spec import standing_for, unnumbered
from hetsim.plans.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.templates import Template, template_of


@dataclass(frozen=True, slots=True)
class Suspect:
    """What may cost time.

    Attributes
    ----------
    kind : str
        What sort of finding it is: the name of its finder.
    device : str
        The device, or link, that it is about; ``gpu`` stands for ``gpu.0``, ``gpu.1``.
    what : str
        In words.
    nodes : tuple of int
    cost_s : float or None
        What it costs in the plan as it is, by its own account; None where there is no plan.
    changes : tuple of Change
        Each of which may take it away.
    """

    kind: str
    device: str
    what: str
    nodes: tuple[int, ...]
    cost_s: float | None
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """Devices that are looked at as one: alike but for their number.

    Attributes
    ----------
    name : str
        That stands for all of them, where there is one: ``gpu`` for ``gpu.0``, ``gpu.1``.
    devices : tuple of int
    """

    name: str
    devices: tuple[int, ...]

    @property
    def first(self) -> int:
        """The one that is asked."""
        return self.devices[0]


@dataclass(frozen=True, eq=False)
class Seen:
    """What finders look at.

    Attributes
    ----------
    asked : Asked
    plan : Plan or None
        None where there is no plan.
    targets : tuple of Target
        Whose refusals are looked at.
    changed : dict of Change to Problem
        What finders had to price for themselves; see ``after``.
    """

    asked: Asked
    plan: Plan | None
    targets: tuple[Target, ...]
    changed: dict[Change, Problem] = field(default_factory=dict, init=False)

    @property
    def problem(self) -> Problem:
        """What is asked."""
        return self.asked.problem

    @cached_property
    def templates(self) -> tuple[Template, ...]:
        """Subgraphs and transfers of each replica; empty without a plan."""
        if self.plan is None:
            return ()
        return tuple(template_of(one, self.problem.contention) for one in self.plan.replicas)

    @cached_property
    def shares(self) -> tuple[float, ...]:
        """The part of all requests that each replica has."""
        if self.plan is None:
            return ()
        return tuple(share / len(self.plan.period) for share in self.plan.shares)

    def after(self, change: Change) -> Problem | None:
        """Return the problem after `change`, and keep it; None where there is none."""
        if change not in self.changed:
            try:
                self.changed[change] = self.asked.changed(change)
            except HetsimError:
                # A change that cannot be priced says nothing of what the plan costs as it is.
                return None
        return self.changed[change]

    def wanted_on(self, target: Target) -> Nodes | None:
        """Return what is told of each node, wanted on a target; None without a plan."""
        if self.plan is None:
            return None
        return nodes(self.plan, device=self.problem.devices[target.first])


def targets_of(problem: Problem, device: str | None) -> tuple[Target, ...]:
    """Return the devices whose refusals are looked at: the one asked for, and those alike.

    Else all but the host, unless there is no other. Raises UsageError for an unknown device.
    """
    if device is not None:
        found = standing_for(device, problem.devices, f" in {problem.name}")
        return (Target(device, tuple(map(problem.devices.index, found))),)
    others = [p for p in range(len(problem.devices)) if p != problem.host]
    alike: dict[tuple[str, bytes], list[int]] = {}
    for p in others or range(len(problem.devices)):
        key = (unnumbered(problem.devices[p]), problem.runnable[:, p].tobytes())
        alike.setdefault(key, []).append(p)
    names = [unnumbered(name) for name in problem.devices]
    return tuple(
        # Some of several of one name go by their own names.
        Target(
            name
            if 1 < len(own) == names.count(name)
            else ", ".join(problem.devices[p] for p in own),
            tuple(own),
        )
        for (name, _), own in alike.items()
    )
