"""A plan for the devices that are left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hetsim.errors import HetsimError, Infeasible, UnsupportedNode
from hetsim.placement.constraints import Constrained
from hetsim.placement.narrowing import narrowed
from hetsim.placement.planning import again, plan
from hetsim.placement.replicas.deal import dealt_out
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem

FALLBACK = "heft"
"""The strategy where a plan's own does not go without the lost devices."""


def without(problem: Problem, lost: Sequence[str]) -> Problem:
    """Return `problem` with devices that run nothing any more; their links and memory stay.

    Raises
    ------
    UnsupportedNode
        Where a node is left that no other device runs.
    """
    gone = sorted({problem.devices.index(name) for name in lost})
    open_to = np.ones(problem.seconds.shape, dtype=np.bool_)
    open_to[:, gone] = False
    reasons = problem.refusals or tuple({} for _ in problem.devices)
    left = replace(
        narrowed(problem, open_to),
        refusals=tuple(
            dict.fromkeys(range(problem.n), "the device was lost") if device in gone else known
            for device, known in enumerate(reasons)
        ),
    )
    orphans = np.flatnonzero(~left.runnable.any(axis=1))
    if len(orphans):
        node = int(orphans[0])
        name = problem.node_names[node] if problem.node_names else str(node)
        named = ", ".join(f"'{problem.devices[device]}'" for device in gone)
        raise UnsupportedNode(
            f"no device is left that can run it, {named} being lost",
            where=f"node '{name}'",
            hint="add a device that supports it",
            nodes=tuple(problem.node_names[v] for v in orphans.tolist()),
            ops=tuple(dict.fromkeys(problem.op_types[v] for v in orphans.tolist())),
            devices=tuple(problem.devices[device] for device in gone),
        )
    return left


def replan(planned: Plan, lost: Sequence[str]) -> Plan:
    """Return a valid plan of the same model on the devices that are not lost.

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
            spared = [replace(one, problem=left) for one in spared]
            named = ", ".join(f"'{name}'" for name in lost)
            reason = f"the replicas without {named} carry on"
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
            f"no plan for the devices that are left: {error.what}", where=error.where
        ) from error
