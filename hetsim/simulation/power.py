"""Power limit: devices that are busy at once, within their platform's power."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from hetsim.problem.parts import scaled
from hetsim.problem.plan import Plan
from hetsim.problem.timeline import Timeline


def slowdown(plan: Plan, timeline: Timeline) -> float:
    """Return the slowdown of devices that together exceed their platform's power.

    `timeline` is the plan at the times that each device has alone. What it draws then is the mean
    over the makespan, as a limit for long is one of the mean; a device never draws more than
    the platform may, for it had its times within it. Clocks fall for all alike until the sum is
    within the limit: power is that of switching, which grows as the frequency and the square of
    the voltage, and the voltage as the frequency, so time grows as the third root. 1 where the
    platform states no power. O(P).

    Source: the cube-root rule of dynamic voltage and frequency scaling, as in D. Brooks et al.,
    "Power-aware microarchitecture", IEEE Micro 20(6), 2000. Leakage and voltages that fall no more
    are left out: at low clocks devices slow down more than that.
    """
    platform = plan.problem.platform
    if platform is None or platform.power_w is None:
        return 1.0
    most = platform.power_w
    drawn = 0.0
    for name, spec in platform.devices.items():
        idle, busy = min(spec.idle_w, most), min(spec.busy_w, most)
        drawn += idle + (busy - idle) * timeline.device_utilization[name]
    return max(1.0, math.cbrt(drawn / most))


def within_power(plan: Plan, timeline: Timeline) -> Plan:
    """Return the plan with devices as slow as ``slowdown`` says; links keep their speed.

    The plan itself where they need not slow down. O(n P + P^2).
    """
    factor = slowdown(plan, timeline)
    if factor == 1.0:
        return plan
    count = len(plan.problem.devices)
    slower = scaled(plan.problem, np.full(count, factor), np.ones((count, count)))
    return replace(plan, problem=slower)
