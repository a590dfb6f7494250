"""One plan, kept, on devices of other speeds, for a page: what its tasks take at each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from hetsim.base.text import Record
from hetsim.errors import HetsimError
from hetsim.hardware.changing.platform import what_if
from hetsim.plans.plan import Plan
from hetsim.problem.parts import Contention
from hetsim.problem.repriced import repriced
from hetsim.reporting.pages.answers.commands import without
from hetsim.reporting.pages.answers.structure import structure_data
from hetsim.simulation.clock.playing import laid_out
from hetsim.simulation.clock.templates import tasks_of_plan

STOPS = (0.25, 0.5, 0.75, 1.25, 1.5, 2.0, 3.0, 4.0, 8.0)
"""Times as fast, that a page has; each is priced, for all but powers of two are rounded."""

MOST_TASKS = 20_000
"""That a page plays whenever a slider moves."""

LEAVES = "kept"
"""The folder in which a command leaves the plan for the next one."""


def speeds_picture(
    plan: Plan, command: Sequence[str], verb: str, *, contention: Contention | None = None
) -> Record | None:
    """Return what a page plays of one request of a plan, with devices of other speeds.

    None where there is nothing to play so: plans of several replicas, of arrays, or too large.
    Only what changes is listed: what a device's own subgraphs take.

    Complexity: a pricing for each device that the plan uses and each of STOPS.
    """
    problem = plan.problem
    platform = problem.platform
    if platform is None or problem.model is None or plan.sizes:
        return None
    tasks = tasks_of_plan(plan, contention or problem.contention)
    layout = laid_out(tasks)
    [template] = tasks.templates
    seconds = template.duration
    if len(seconds) > MOST_TASKS:
        return None
    devices = []
    for at, name in enumerate(problem.devices):
        mine = [k for k, device in enumerate(template.group_device) if device == at]
        if not mine:
            continue
        rows = []
        for factor in STOPS:
            change = f"device {name}.speed x{factor:g}"
            try:
                then = repriced(problem, what_if(platform, change))
            except HetsimError:
                break
            kept = tasks_of_plan(replace(plan, problem=then), contention or problem.contention)
            again = kept.templates[0].duration
            others = np.ones(len(seconds), dtype=np.bool_)
            others[mine] = False
            if not np.array_equal(again[others], seconds[others]):
                # A page changes what the device's own tasks take, and nothing else.
                break
            rows.append([float(again[k]) for k in mine])
        else:
            devices.append({"name": name, "tasks": mine, "seconds": rows})
    if not devices:
        return None
    return {
        "strategy": plan.strategy,
        "stops": list(STOPS),
        "seconds": seconds.tolist(),
        "devices": devices,
        "structure": structure_data(layout),
        **_commands(command, verb),
    }  # fmt: skip


def with_speeds(pictures: Record, speeds: Mapping[str, object] | None) -> Record:
    """Return the pictures with ``speeds``, where there are some."""
    return pictures if speeds is None else {**pictures, "speeds": speeds}


def _commands(command: Sequence[str], verb: str) -> Record:
    """What leaves the plan on disk, and what plays it."""
    words = without(command, verb, ("--draws",))
    saved = next((word for word in words[2:3] if word.endswith(".json")), None)
    if saved is not None:
        return {"leave": None, "play": words}
    return {
        "leave": [*words, "--draws", "0", "--out", LEAVES],
        "play": ["hetsim", "simulate", f"{LEAVES}/plan.json"],
    }
