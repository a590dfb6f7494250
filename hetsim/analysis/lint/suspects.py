"""Suspects of a plan, changes against them, and replanning after each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from hetsim.analysis.what_if import wider_link, with_nodes_on
from hetsim.errors import HetsimError, Infeasible, InvalidInput, UsageError
from hetsim.hardware.spec import standing_for, unnumbered
from hetsim.hardware.what_if import what_if
from hetsim.placement.constraints import NAMES, Constrained
from hetsim.placement.objective import Objective, judge
from hetsim.placement.planning import for_objective, under
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.problem.repriced import repriced
from hetsim.simulation.clock.templates import Template, template_of


@dataclass(frozen=True, slots=True)
class Suspect:
    """Possible cause of lost time.

    - `kind`: kind of finding: the name of its finder.
    - `device`: device or link concerned; ``gpu`` stands for ``gpu.0``, ``gpu.1``.
    - `cost_s`: seconds that it costs in the present plan, by its own accounting; None without a
    plan.
    - `changes`: changes, each of which may remove it.
    """

    kind: str
    device: str
    what: str
    nodes: tuple[int, ...]
    cost_s: float | None
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """Identical devices that are examined as one.

    - `name`: common name of all of them, if there is one: ``gpu`` for ``gpu.0``, ``gpu.1``.
    """

    name: str
    devices: tuple[int, ...]

    @property
    def first(self) -> int:
        """First device, which represents the others."""
        return self.devices[0]


@dataclass(frozen=True, eq=False)
class LintInput:
    """Input of the finders.

    - `plan`: None without one.
    - `targets`: devices whose unsupported nodes are examined.
    - `changed`: problems priced by finders; see ``after``.
    """

    asked: LintQuestion
    plan: Plan | None
    targets: tuple[Target, ...]
    changed: dict[Change, Problem] = field(default_factory=dict, init=False)

    @property
    def problem(self) -> Problem:
        """Problem of the question."""
        return self.asked.problem

    @cached_property
    def templates(self) -> tuple[Template, ...]:
        """Subgraphs and transfers of each replica; empty without a plan."""
        if self.plan is None:
            return ()
        return tuple(template_of(one, self.problem.contention) for one in self.plan.replicas)

    @cached_property
    def shares(self) -> tuple[float, ...]:
        """Share of all requests of each replica."""
        if self.plan is None:
            return ()
        return tuple(share / len(self.plan.period) for share in self.plan.shares)

    def after(self, change: Change) -> Problem | None:
        """Return the problem after `change`, cached; None if it is invalid."""
        if change not in self.changed:
            try:
                self.changed[change] = self.asked.changed(change)
            except HetsimError:
                # A change that cannot be priced does not affect the cost of the present plan.
                return None
        return self.changed[change]


def targets_of(problem: Problem, device: str | None) -> tuple[Target, ...]:
    """Return the devices whose unsupported nodes are examined: the given and identical ones.

    Without one, all except the host, unless it is the only one. Raises UsageError for an unknown
    device.
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
        # If only some of several are included, they keep their own names.
        Target(
            name
            if 1 < len(own) == names.count(name)
            else ", ".join(problem.devices[p] for p in own),
            tuple(own),
        )
        for (name, _), own in alike.items()
    )


@dataclass(frozen=True, slots=True)
class Change:
    """Change to plan, precision or platform; parts without a change are empty.

    - `pins`: node, device: required placements, as in ``--affinity``.
    - `execute`: device, precision: as in ``--execute``.
    - `what_if`: changes of the platform, as in ``--what-if``.
    - `takes`: device, nodes: unsupported nodes that the device is assumed to support, priced by its
    own cost model; ``hetsim.analysis.what_if.with_nodes_on``.
    - `wider`: links of twice the bandwidth, in a problem without a platform.
    """

    say: str = field(compare=False)
    pins: tuple[tuple[str, str], ...] = ()
    execute: tuple[tuple[str, str], ...] = ()
    what_if: tuple[str, ...] = ()
    takes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    wider: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class LintQuestion:
    """Question that is asked again after every change.

    - `options`: options of the strategy, and constraints.
    """

    problem: Problem
    strategy: str
    objective: Objective
    options: Mapping[str, Any]

    def planned(self, problem: Problem, pins: Mapping[str, str] | None = None) -> Plan:
        """Return the plan of `problem` by the strategy, with `pins` added to the given ones.

        Raises as ``hetsim.plan``.
        """
        given = dict(self.options)
        if self.objective != "latency":
            given |= for_objective(self.strategy, self.objective)
        limits = {key: given.pop(key) for key in NAMES if key in given}
        if pins:
            # A pin of the user's overrides an exclusion; a suggested one does not.
            problem = Constrained(**limits).narrow(problem)
            limits["pins"] = {**pins, **limits.get("pins", {})}
        return under(Constrained(**limits), problem, self.strategy, **given)

    def changed(self, change: Change) -> Problem:
        """Return the problem after `change`, without its pins.

        Raises as ``Problem.of`` and ``what_if``.
        """
        problem = self.problem
        if change.what_if or change.execute:
            assert problem.platform is not None
            platform = what_if(problem.platform, *change.what_if)
            problem = repriced(problem, platform, dict(change.execute))
        for name in change.wider:
            problem = wider_link(problem, name)
        for device, nodes in change.takes:
            at = problem.devices.index(device)
            problem = with_nodes_on(problem, at, [v for v in nodes if not problem.runnable[v, at]])
        return problem

    def after(self, change: Change, problem: Problem | None = None) -> float | None:
        """Return the cost of the plan after `change`; None without one.

        `problem`: the result of ``changed``, if known.
        """
        try:
            if problem is None:
                problem = self.changed(change)
            return judge(self.planned(problem, dict(change.pins)), self.objective)
        except (Infeasible, InvalidInput, UsageError):
            return None
