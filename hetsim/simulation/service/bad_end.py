"""A workload played again with the figures of all devices and links at their bad end."""

from __future__ import annotations

from dataclasses import replace

from hetsim.hardware.spec import Platform
from hetsim.problem.plan import Plan
from hetsim.simulation.service.keeping import kept_as
from hetsim.simulation.service.layout import set_up
from hetsim.simulation.service.memory import check_together
from hetsim.simulation.service.resolving import Resolved
from hetsim.simulation.service.service import Service
from hetsim.simulation.service.serving import played


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
    resolved = tuple(kept_as(one, Plan.at_bad_end) for one in service.resolved)
    workload = replace(service.workload, requests=service.requests, duration_s=None)
    setup = set_up(resolved, workload, check_together(resolved, platform))
    return played(workload, resolved, setup, machine_code=machine_code)


def _certain(one: Resolved) -> bool:
    return all(plan.problem.certain for rows in one.plans for row in rows for plan in row)
