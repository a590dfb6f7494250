"""Verb ``plan``; replanning under constraints and on the remaining devices."""

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
        Objective of the plan; by default latency, if the strategy supports it.
    affinity : Affinity, optional
        Pins and exclusions that apply as if they were given as options.
    **options
        Options of the strategy, as ``strategies()`` lists them: its own, and for all but ``single``
        ``pins``, ``exclude``, ``max_devices`` and ``capacity_bytes``.

    Raises
    ------
    UsageError
        For an unknown strategy, option or device, or an objective the strategy does not support.
    UnsupportedNode
        If the strategy finds no device for a node.
    Infeasible
        If it finds no plan of its kind.
    OutOfMemory
        If its plan does not fit a device in the simulation of one request (one per replica), with
        weights and live activations at every instant.
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
    """Return the option that sets a strategy's objective; empty if it has no such option."""
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
    """Replan `problem` as `made` was planned, with `changes`; raises as ``plan`` does."""
    if not made.options:
        return plan(problem, made.strategy, **changes)
    return plan(problem, made.strategy, **read_options(made.strategy, made.options) | changes)


def under(limits: Constrained, problem: Problem, strategy: str, **options: Any) -> Plan:
    """Plan `problem` under `limits`, even with a strategy that has no such options."""
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
"""Strategy used if a plan's own cannot do without the lost devices."""


def without(problem: Problem, lost: Sequence[str]) -> Problem:
    """Return `problem` without compute on lost devices; raises as ``without_devices``."""
    gone = sorted({problem.devices.index(name) for name in lost})
    return without_devices(problem, gone, "the device was lost")


def replan(planned: Plan, lost: Sequence[str]) -> Plan:
    """Return a valid plan of the same model on the remaining devices.

    Replicas that use none of the lost devices continue, with a new distribution of requests.
    Otherwise the plan's own strategy and options apply, except pins to a lost device; or
    ``FALLBACK`` if the strategy is unknown or needs a lost device.

    Raises
    ------
    Infeasible
        If the remaining devices cannot run the model or have too little memory.
    """
    left = without(planned.problem, lost)
    if planned.sizes:
        spared = [one for one in planned.replicas if not set(one.devices_used) & set(lost)]
        if spared:
            from hetsim.placement.replicas import distributed

            spared = [replace(one, problem=left) for one in spared]
            named = ", ".join(f"'{name}'" for name in lost)
            reason = f"the replicas without {named} continue"
            made = distributed(spared, strategy=planned.strategy, reason=reason)
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
