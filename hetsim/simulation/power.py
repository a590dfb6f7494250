"""Power limit: slowdown of concurrently busy devices to keep within their platform's power."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from hetsim.problem.parts import scaled
from hetsim.problem.plan import Plan
from hetsim.problem.timeline import Timeline


def slowdown(plan: Plan, timeline: Timeline) -> float:
    """Return the slowdown factor of devices that together exceed their platform's power.

    `timeline` is the plan with the times of each device on its own. Its power is the mean over the
    makespan, as sustained limits apply to means; no device alone exceeds the platform's power. All
    clocks are reduced alike until the sum meets the limit: switching power grows with the frequency
    and the square of the voltage, and the voltage with the frequency, so time grows with the cube
    root of power. 1 if the platform states no power. O(P).

    Source: the cube-root rule of dynamic voltage and frequency scaling, as in D. Brooks et al.,
    "Power-aware microarchitecture", IEEE Micro 20(6), 2000. Leakage and voltage floors are ignored:
    at low clocks devices slow down more than that.
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
    """Return the plan with devices slowed by ``slowdown``; links keep their speed.

    Returns the plan itself if no slowdown is needed. O(n P + P^2).
    """
    factor = slowdown(plan, timeline)
    if factor == 1.0:
        return plan
    count = len(plan.problem.devices)
    slower = scaled(plan.problem, np.full(count, factor), np.ones((count, count)))
    return replace(plan, problem=slower)
