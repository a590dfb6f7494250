"""One plan on the clock many times, its devices and routes a little faster or slower each time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hetsim.problem.parts import Contention
from hetsim.problem.plan import Plan
from hetsim.simulation.clock.playing import laid_out
from hetsim.simulation.clock.templates import PlanTasks, Template, tasks_of_plan
from hetsim.simulation.clock.virtual_time import VirtualTime, pays

Array = NDArray[np.float64]


def latencies(
    plan: Plan, devices: Array, routes: Array, *, machine_code: bool | None = None
) -> Array:
    """Return the latency of the first request, in seconds, for each row of factors.

    It is that of the plan on the problem that ``hetsim.problem.scaled`` gives for the row.
    Parameters, errors and complexity are those of ``finishes``.
    """
    return finishes(plan, devices, routes, np.zeros(1), machine_code=machine_code)[:, 0]


def finishes(
    plan: Plan,
    devices: Array,
    routes: Array,
    arrival: Array,
    *,
    contention: Contention | None = None,
    machine_code: bool | None = None,
) -> Array:
    """Return when each request ends [N, requests], in seconds, for each row of factors.

    Parameters
    ----------
    plan : Plan
    devices : float array [N, P]
        By how much what a device does takes longer.
    routes : float array [N, P, P]
        The same of a transfer from p to q.
    arrival : float array [requests]
        When each request comes, ascending.
    contention : "fifo" or "none", optional
        How links behave; absent: as the problem says.
    machine_code : bool, optional
        Whether numba compiles the clock; absent: where the work is large. The answer is the
        same, bit for bit.

    Raises
    ------
    PlanError, Infeasible
        As ``simulate`` does; memory is not followed.

    Complexity: O(N E log E) for E tasks of all requests.
    """
    tasks = tasks_of_plan(plan, contention or plan.problem.contention)
    of_request = tasks.of_requests(len(arrival))
    used, of_request = np.unique(of_request, return_inverse=True)
    tasks = PlanTasks(plan, tuple(tasks.templates[index] for index in used.tolist()))
    durations = np.concatenate(
        [durations_of(template, devices, routes) for template in tasks.templates], axis=1
    )
    layout = laid_out(tasks)
    if machine_code is None:
        events = np.diff(layout.first)[of_request].sum() * len(devices)
        machine_code = pays(events)
    clock = VirtualTime(
        layout.structure,
        layout.links,
        durations[0],
        arrival,
        of_request,
        lines=0,
        arrays=machine_code,
    )
    found = np.empty((len(durations), len(arrival)))
    for at, row in enumerate(durations):
        if at:
            clock.restart(row)
        clock.run_out(plan.strategy)
        found[at] = clock.finish
    return found


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
