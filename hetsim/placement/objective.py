"""What a plan is judged by: the latency of one request, or the seconds a request in a stream."""

from __future__ import annotations

from typing import Literal

import numpy as np

from hetsim.errors import UsageError, nearest
from hetsim.plans import Plan
from hetsim.problem import Problem
from hetsim.simulation.clock import play, simulate
from hetsim.simulation.lowering import lower
from hetsim.timeline import Timeline

Objective = Literal["latency", "throughput"]
OBJECTIVES: tuple[Objective, ...] = ("latency", "throughput")


def check_objective(name: str) -> Objective:
    """Return the objective called `name`. Raises UsageError with the nearest."""
    for objective in OBJECTIVES:
        if name == objective:
            return objective
    raise UsageError(f"no objective '{name}'", hint=nearest(name, OBJECTIVES))


def measure(plan: Plan, objective: Objective) -> float:
    """Return what the clock says `plan` costs, in seconds; less is better.

    ``latency``: end to end, of one request alone. ``throughput``: see ``bottleneck``.
    Raises what ``simulate`` raises.
    """
    if objective == "latency":
        return latency_of(plan)
    return bottleneck(plan, simulate(plan, trace=False))


def latency_of(plan: Plan) -> float:
    """Return the latency of one request by the clock, in seconds.

    Memory is followed only where it could run out: it cannot where a device holds all
    weights and all tensors at once. Raises what ``simulate`` raises.
    """
    problem = plan.problem
    if problem.capacity_bytes is not None and _everything(problem) > min(
        problem.capacity_bytes, default=0
    ):
        return simulate(plan, trace=False).latency_s
    recording = play(lower(plan, problem.contention), np.zeros(1), traced=False)
    return float(recording.finish[0])


def _everything(problem: Problem) -> int:
    """Bytes of all weights and tensors."""
    weights = sum(constant.nbytes for constant in problem.constants)
    return weights + sum(value.nbytes for value in problem.values)


def bottleneck(plan: Plan, timeline: Timeline) -> float:
    """Return the seconds a request of the busiest device or link, of one request's `timeline`.

    With enough requests in flight, no fewer seconds pass from one end to the next. A device
    of several streams shares its work over them; links count under contention only.
    """
    streams = dict(zip(plan.problem.devices, plan.problem.streams, strict=True))
    devices = (busy / streams[name] for name, busy in timeline.device_busy_s.items())
    return max((*devices, *timeline.link_busy_s.values()), default=0.0)
