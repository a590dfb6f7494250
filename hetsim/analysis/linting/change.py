"""A change of the model, the platform or the plan, and the same question asked after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hetsim.analysis.what_if import taking, wider_link
from hetsim.errors import Infeasible, InvalidInput, UsageError
from hetsim.hardware.changing.platform import what_if
from hetsim.placement.constraints import NAMES, Constrained
from hetsim.placement.objective import Objective, judge
from hetsim.placement.planning import for_objective, under
from hetsim.plans.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.problem.repriced import repriced


@dataclass(frozen=True, slots=True)
class Change:
    """What is changed; every part is empty where it stays as it is.

    Attributes
    ----------
    say : str
        In words.
    pins : tuple of (str, str)
        Node, device: where nodes must run, as ``--affinity`` takes them.
    execute : tuple of (str, str)
        Device, precision: as ``--execute`` takes them.
    what_if : tuple of str
        Of the platform, as ``--what-if`` takes them.
    takes : tuple of (str, tuple of int)
        Device, nodes: which refused nodes a device is supposed to take, at the price that its
        own cost model gives; ``hetsim.analysis.what_if.taking``.
    wider : tuple of str
        Links of twice the bandwidth, of a problem without a platform.
    """

    say: str = field(compare=False)
    pins: tuple[tuple[str, str], ...] = ()
    execute: tuple[tuple[str, str], ...] = ()
    what_if: tuple[str, ...] = ()
    takes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    wider: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Asked:
    """The question that is asked again after every change.

    Attributes
    ----------
    problem : Problem
    strategy : str
    objective : "latency" or "throughput"
    options : mapping
        Of the strategy, and constraints.
    """

    problem: Problem
    strategy: str
    objective: Objective
    options: Mapping[str, Any]

    def planned(self, problem: Problem, pins: Mapping[str, str] | None = None) -> Plan:
        """Return the plan of `problem` by the strategy, with `pins` beside those that are given.

        Raises as ``hetsim.plan``.
        """
        given = dict(self.options)
        if self.objective != "latency":
            given |= for_objective(self.strategy, self.objective)
        limits = {key: given.pop(key) for key in NAMES if key in given}
        if pins:
            limits["pins"] = {**pins, **limits.get("pins", {})}
        return under(Constrained(**limits), problem, self.strategy, **given)

    def costs(self, plan: Plan) -> float:
        """Return what the clock says of a plan."""
        return judge(plan, self.objective)

    def changed(self, change: Change) -> Problem:
        """Return the problem after `change`; pins are none of it.

        Raises what ``Problem.of`` and ``what_if`` raise.
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
            problem = taking(problem, at, [v for v in nodes if not problem.runnable[v, at]])
        return problem

    def after(self, change: Change, problem: Problem | None = None) -> float | None:
        """Return what the plan costs after `change`; None where there is none.

        `problem`: what ``changed`` gives, where that is known.
        """
        try:
            if problem is None:
                problem = self.changed(change)
            return self.costs(self.planned(problem, dict(change.pins)))
        except (Infeasible, InvalidInput, UsageError):
            return None
