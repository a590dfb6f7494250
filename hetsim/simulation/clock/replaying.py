"""One plan on the clock many times, its devices and routes a little faster or slower each time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.plans.plan import Plan
from hetsim.simulation.clock.playing import COMPILE_FROM, Structure, laid_out, run
from hetsim.simulation.clock.templates import PlanTasks, Template, tasks_of_plan

Array = NDArray[np.float64]


def latencies(
    plan: Plan, devices: Array, routes: Array, *, machine_code: bool | None = None
) -> Array:
    """Return the latency of the first request, in seconds, for each row of factors.

    It is that of the plan on the problem that ``hetsim.problem.scaled`` gives for the row.

    Parameters
    ----------
    plan : Plan
    devices : float array [N, P]
        By how much what a device does takes longer.
    routes : float array [N, P, P]
        The same of a transfer from p to q.
    machine_code : bool, optional
        Whether numba compiles the clock; absent: where the work is large. The answer is the
        same, bit for bit.

    Raises
    ------
    PlanError, Infeasible
        As ``simulate`` does; memory is not followed.

    Complexity: O(N E log E) for E tasks of the plan.
    """
    tasks = tasks_of_plan(plan, plan.problem.contention)
    template = tasks.templates[int(tasks.of_requests(1)[0])]
    durations = durations_of(template, devices, routes)
    layout = laid_out(PlanTasks(plan, (template,)))
    arrival, first = np.zeros(1), np.zeros(1, dtype=np.int64)
    if machine_code is None:
        machine_code = durations.size >= COMPILE_FROM
    if machine_code:
        # Turned into arrays once, not for every row.
        arrays: list[Any] = [np.array(array, dtype=np.int64) for array in layout.structure]
        layout = replace(layout, structure=Structure(*arrays))
    return np.array(
        [
            run(layout, row, arrival, first, traced=False, machine_code=machine_code).finish[0]
            for row in durations
        ]
    )


def durations_of(template: Template, devices: Array, routes: Array) -> Array:
    """Return the seconds [N, tasks] of a template's tasks, for each row of factors."""
    ran_by = np.array(template.group_device, dtype=np.int64)
    sources = np.array([t.source for t in template.transfers], dtype=np.int64)
    targets = np.array([t.target for t in template.transfers], dtype=np.int64)
    factors = np.concatenate((devices[:, ran_by], routes[:, sources, targets]), axis=1)
    return np.asarray(template.duration * factors)


def bottlenecks(plan: Plan, devices: Array, routes: Array) -> Array:
    """Return the seconds a request of the busiest device or link, for each row of factors.

    As ``hetsim.placement.objective.bottleneck`` says it of one problem. O(N E).
    """
    problem = plan.problem
    tasks = tasks_of_plan(plan, problem.contention)
    device_s = np.zeros((len(devices), len(problem.devices)))
    link_s = np.zeros((len(devices), len(tasks.links)))
    for times, template in zip(plan.shares, tasks.templates, strict=True):
        durations = durations_of(template, devices, routes) * times
        for group, device in enumerate(template.group_device):
            device_s[:, device] += durations[:, group]
        for at, transfer in enumerate(template.transfers, start=template.groups):
            for link in transfer.resources:
                link_s[:, link] += durations[:, at]
    device_s /= np.array(problem.streams, dtype=np.float64)
    return np.asarray(np.concatenate((device_s, link_s), axis=1).max(axis=1) / len(plan.period))
