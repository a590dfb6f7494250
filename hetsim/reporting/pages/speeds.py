"""Latency of a plan on devices of other speeds: one device at a time, the plan as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hetsim.core.text import Record
from hetsim.errors import HetsimError
from hetsim.hardware.changing.platform import what_if
from hetsim.problem.parts import Contention
from hetsim.problem.plan import Plan
from hetsim.problem.repriced import repriced
from hetsim.reporting.pages.commands import without
from hetsim.simulation.simulate import simulate

STOPS = (0.25, 0.5, 0.75, 1.25, 1.5, 2.0, 4.0)
"""Factors on a device's speed."""

KEPT = "kept"
"""Folder that the command leaves the plan in."""


def speeds_picture(
    plan: Plan, command: Sequence[str], verb: str, *, contention: Contention | None = None
) -> Record | None:
    """Latency of one request by device and factor of STOPS on its speed, and the commands for it.

    None for plans of several replicas and of problems from arrays, whose devices have no figures to
    change.

    Complexity: one pricing and one simulation for each device that the plan uses and each factor.
    """
    problem = plan.problem
    platform = problem.platform
    if platform is None or problem.model is None or plan.sizes:
        return None
    devices = [
        {
            "name": name,
            "latency_s": [
                _latency_s(plan, f"device {name}.speed x{factor:g}", contention) for factor in STOPS
            ],
        }
        for name in plan.devices_used
    ]
    return {"stops": list(STOPS), "devices": devices, **_commands(command, verb)}


def _latency_s(plan: Plan, change: str, contention: Contention | None) -> float | None:
    platform = plan.problem.platform
    assert platform is not None
    try:
        problem = repriced(plan.problem, what_if(platform, change))
    except HetsimError:
        return None
    again = replace(plan, problem=problem)
    return simulate(again, contention=contention, trace=False).latency_s


def _commands(command: Sequence[str], verb: str) -> Record:
    """Commands that leave the plan on disk, and that simulate it."""
    words = without(command, verb, ("--draws",))
    if any(word.endswith(".json") for word in words[2:3]):
        return {"leave": None, "play": words}
    return {
        "leave": [*words, "--draws", "0", "--out", KEPT],
        "play": ["hetsim", "simulate", f"{KEPT}/plan.json"],
    }
