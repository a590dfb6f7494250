"""A workload played again with the figures of all devices and links at their bad end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hetsim.hardware.spec import Platform
from hetsim.plans.plan import Plan
from hetsim.service.layout import set_up
from hetsim.service.memory import check_together
from hetsim.service.resolving import Resolved, no_quicker
from hetsim.service.service import Service
from hetsim.service.serving import played
from hetsim.simulation.clock.playing import timeline_of


def at_bad_end(
    service: Service, platform: Platform, *, machine_code: bool | None = None
) -> Service | None:
    """Return what becomes of the same requests, on the same plans, at the bad end.

    There every device and link takes as long as the upper end of its own 80 % interval says, all
    at once. The intervals of `service` are of chance in what comes; this is what the figures of
    the hardware leave open. None where these are exact, or at their bad end already.

    Complexity: that of `service`, but for planning.
    """
    if all(_certain(one) for one in service.resolved):
        return None
    resolved = tuple(_worse(one) for one in service.resolved)
    workload = replace(service.workload, requests=service.requests, duration_s=None)
    setup = set_up(resolved, workload, check_together(resolved, platform))
    return played(workload, resolved, setup, machine_code=machine_code)


def _certain(one: Resolved) -> bool:
    return all(plan.problem.certain for rows in one.plans for row in rows for plan in row)


def _worse(one: Resolved) -> Resolved:
    known: dict[int, tuple[Plan, float]] = {}
    entries = [[_row(row, known) for row in rows] for rows in one.plans]
    return replace(
        one,
        plans=tuple(tuple(tuple(p for p, _ in row) for row in rows) for rows in entries),
        seconds=tuple(tuple(tuple(s for _, s in row) for row in rows) for rows in entries),
    )


def _row(plans: Sequence[Plan], known: dict[int, tuple[Plan, float]]) -> list[tuple[Plan, float]]:
    """By batch size: a batch takes no less than one request, here as well.

    `known` has what became of plans, which several sizes and variants may share.
    """
    found: list[tuple[Plan, float]] = []
    for plan in plans:
        if id(plan) not in known:
            worse = plan.at_bad_end()
            known[id(plan)] = worse, timeline_of(worse, trace=False).latency_s
        worse, took_s = known[id(plan)]
        found.append(no_quicker(worse, took_s, found[0][1]) if found else (worse, took_s))
    return found
