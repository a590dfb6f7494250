"""Verb ``plan``; planning again, within limits, and on the remaining devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hetsim.core import checks
from hetsim.errors import HetsimError, Infeasible, UsageError
from hetsim.partitioning.affinity import Affinity
from hetsim.placement.constraints import Constrained, with_affinity, without_devices
from hetsim.placement.objective import OBJECTIVES, Objective, check_objective, check_room, measure
from hetsim.placement.registry import (
    check_options,
    option_texts,
    option_types,
    promises_of,
    read_options,
    resolve,
    solved,
    strategies,
)
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem


@checks.takes(
    problem=checks.instance("hetsim.problem.problem:Problem"),
    strategy=checks.text,
    objective=checks.text,
    affinity=checks.instance("hetsim.partitioning.affinity:Affinity"),
)
def plan(
    problem: Problem,
    strategy: str = "heft",
    *,
    objective: Objective | None = None,
    affinity: Affinity | None = None,
    **options: Any,
) -> Plan:
    """Assign, group and order the nodes of `problem`.

    Parameters
    ----------
    problem : Problem
    strategy : str
        One of ``strategies()``, with its argument after a colon: ``"single:npu"``,
        ``"hetero:npu,gpu,cpu"``.
    objective : "latency" or "throughput", optional
        What the plan is for. Absent: latency, where the strategy plans for that.
    affinity : Affinity, optional
        Whose pins and exclusions hold, as if they were given as options.
    **options
        Of the strategy, as ``strategies()`` lists them: ``pins``, ``exclude``, ``max_devices``
        and ``capacity_bytes`` of all but ``single``, and its own.

    Raises
    ------
    UsageError
        For an unknown strategy, option or device, or an objective that the strategy does not
        plan for.
    UnsupportedNode
        Where the strategy finds no device for a node.
    Infeasible
        Where it finds no plan of its kind.
    OutOfMemory
        Where its plan does not fit a device, by the clock's count of one request (of replicas,
        of one each): weights, and live activations at every instant.
    """
    if affinity is not None:
        options = with_affinity(options, affinity, problem)
    if objective is not None:
        options |= for_objective(strategy, objective)
    if options:
        options = check_options(strategy, options)
    made = solved(strategy, resolve(strategy, options), problem)
    made.validate()
    check_room(made)
    if problem.unpriced and made.reason:
        nodes = "1 node is" if len(problem.unpriced) == 1 else f"{len(problem.unpriced)} nodes are"
        made = replace(made, reason=f"{made.reason}; for priced nodes only: {nodes} not priced")
    if options:
        made = replace(made, options=option_texts(strategy, options))
    return made


def for_objective(strategy: str, objective: Objective) -> dict[str, Objective]:
    """Return the option by which a strategy plans for `objective`; empty without a choice."""
    check_objective(objective)
    if "objective" in option_types(strategy):
        return {"objective": objective}
    promises = promises_of(strategy)
    others = [other for other in OBJECTIVES if other in promises]
    if others and objective not in others:
        able = [entry.name for entry in strategies() if objective in entry.promises]
        raise UsageError(
            f"strategy '{strategy}' plans for {others[0]}, not for {objective}",
            hint=f"use one of: {', '.join(able)}",
        )
    return {}


def again(made: Plan, problem: Problem, **changes: Any) -> Plan:
    """Plan `problem` as `made` was planned, with `changes`; raises as ``plan`` does."""
    if not made.options:
        return plan(problem, made.strategy, **changes)
    return plan(problem, made.strategy, **read_options(made.strategy, made.options) | changes)


def under(limits: Constrained, problem: Problem, strategy: str, **options: Any) -> Plan:
    """Plan `problem` within `limits`, even by a strategy without such options."""
    given = options | limits.given()
    takes = option_types(strategy)
    taken = {key: value for key, value in given.items() if key in takes}
    if limits.given().keys() <= taken.keys():
        return plan(problem, strategy, **taken)
    made = plan(limits.narrow(problem), strategy, **taken)
    if limits.max_devices is not None and len(made.devices_used) > limits.max_devices:
        raise Infeasible(
            f"strategy '{strategy}' does not support max_devices {limits.max_devices}, and uses "
            f"{', '.join(made.devices_used)}",
            where=problem.name,
        )
    if limits.capacity_bytes:
        measure(made, "latency")
    return replace(made, problem=problem)


FALLBACK = "heft"
"""The strategy where a plan's own does not go without the lost devices."""


def without(problem: Problem, lost: Sequence[str]) -> Problem:
    """Return `problem` without compute on lost devices; raises as ``without_devices``."""
    gone = sorted({problem.devices.index(name) for name in lost})
    return without_devices(problem, gone, "the device was lost")


def replan(planned: Plan, lost: Sequence[str]) -> Plan:
    """Return a valid plan of the same model on the remaining devices.

    Replicas that ran on none of them carry on, with a deal of their own. Elsewhere by the
    plan's own strategy and options, but for pins to a lost device, which no plan can keep; or
    by ``FALLBACK`` where the strategy is not known or needs a lost device.

    Raises
    ------
    Infeasible
        Where the devices that are left cannot run the model, or have too little memory.
    """
    left = without(planned.problem, lost)
    if planned.sizes:
        spared = [one for one in planned.replicas if not set(one.devices_used) & set(lost)]
        if spared:
            from hetsim.placement.replicas import dealt_out

            spared = [replace(one, problem=left) for one in spared]
            named = ", ".join(f"'{name}'" for name in lost)
            reason = f"the replicas without {named} continue"
            made = dealt_out(spared, strategy=planned.strategy, reason=reason)
            return replace(made, options=planned.options)
    limits = Constrained()
    try:
        limits = Constrained.of(planned)
        kept = {node: device for node, device in limits.pins.items() if device not in lost}
        limits = replace(limits, pins=kept)
        return again(planned, left, **({"pins": kept} if "pins" in planned.options else {}))
    except HetsimError:
        pass
    try:
        return plan(left, FALLBACK, **limits.given())
    except Infeasible:
        raise
    except HetsimError as error:
        raise Infeasible(
            f"no plan for the remaining devices: {error.what}", where=error.where
        ) from error
