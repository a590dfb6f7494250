"""Memory over time as columns, device by device."""

from __future__ import annotations

import numpy as np

from hetsim.base.text import Record
from hetsim.errors import InvalidInput
from hetsim.plans.plan import Plan
from hetsim.plans.timeline import Timeline
from hetsim.reporting.pages.packing import packed
from hetsim.simulation.clock.memory import memory_profile

STEPS_MOST = 4000
"""Steps of one device that are drawn; of more the highest of each of as many spans."""


def memory_picture(plan: Plan, timeline: Timeline, name: str) -> Record | None:
    """Return what the memory's view draws: ``{name, cut, devices: packed columns}``.

    Columns are ``device``, ``capacity_bytes`` (null: without end), ``weight_bytes``, ``time_ns``
    and ``nbytes``, the last two a list a device: so many bytes from one instant to the next. None
    where the timeline's events do not cover the plan, as after a failure.
    """
    try:
        profile = memory_profile(plan, timeline)
    except InvalidInput:
        return None
    problem = plan.problem
    capacity = problem.capacity_bytes or (None,) * len(problem.devices)
    cut = ""
    times: list[list[int]] = []
    held: list[list[int]] = []
    for p, device in enumerate(problem.devices):
        instants, amounts = profile[device]
        if len(instants) > STEPS_MOST:
            cut = f"of each of {STEPS_MOST} spans the highest is drawn"
            starts = np.linspace(0, len(instants), STEPS_MOST, endpoint=False).astype(np.int64)
            amounts = np.maximum.reduceat(amounts, starts)
            instants = instants[starts]
        times.append([round(float(at) * 1e9) for at in instants])
        held.append([problem.held_bytes(p, int(nbytes)) for nbytes in amounts])
    return {
        "name": name,
        "cut": cut,
        "devices": packed(
            {
                "device": list(problem.devices),
                "capacity_bytes": [
                    None if of is None else problem.held_bytes(p, of)
                    for p, of in enumerate(capacity)
                ],
                "weight_bytes": [
                    timeline.weight_bytes.get(device, 0) for device in problem.devices
                ],
                "time_ns": times,
                "nbytes": held,
            },
            ("time_ns", "nbytes"),
        ),
    }
