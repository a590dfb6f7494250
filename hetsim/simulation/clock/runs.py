"""Runs of a plan on the virtual clock, once or with scaled times."""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from hetsim.problem.parts import Contention
from hetsim.problem.plan import Plan
from hetsim.problem.timeline import Timeline
from hetsim.simulation.clock.memory import check_capacity, curves, resident_weights
from hetsim.simulation.clock.metrics import Recording, summarise
from hetsim.simulation.clock.rules import MASK, SHIFT
from hetsim.simulation.clock.templates import (
    PlanTasks,
    Template,
    TemplateLayout,
    laid_out,
    tasks_of_plan,
)
from hetsim.simulation.clock.virtual_time import VirtualTime, pays


def timeline_of(
    plan: Plan,
    arrival: NDArray[np.float64] | None = None,
    *,
    contention: Contention | None = None,
    trace: bool,
) -> Timeline:
    """Return the timeline of a simulation without failures.

    Implements ``hetsim.simulate`` for the layers below it. `arrival` [requests] is non-negative and
    ascending; absent: one request, at 0. `contention` absent: that of the problem.

    Raises what ``hetsim.simulate`` raises. Complexity: O(E log A) for E subgraphs and transfers of
    all requests, A in flight. Space O(requests + A tasks), with a trace O(E).
    """
    arrival = np.zeros(1) if arrival is None else arrival
    rule = plan.problem.contention if contention is None else contention
    plan_tasks = tasks_of_plan(plan, rule)
    weights = resident_weights(plan_tasks)
    check_capacity(plan.problem, weights, weights)
    recorded = trace or len(arrival) == 1
    recording = play(plan_tasks, arrival, traced=recorded)
    peaks: list[int] | None = None
    if recorded:
        peaks = peaks_of(plan_tasks, recording)
        check_capacity(plan.problem, peaks, weights)
    return summarise(plan_tasks, recording, weights, peaks, trace=trace)


class SingleRun(NamedTuple):
    """Latency of a single request of a plan, and its bytes by device.

    Peak bytes, the weights among them, and the excess of the peak over the capacity.
    """

    latency_s: float
    peaks: tuple[int, ...]
    weights: tuple[int, ...]
    lacks: tuple[int, ...]

    @property
    def lacking(self) -> int:
        """Sum of the bytes that devices lack; 0 if the plan fits."""
        return sum(self.lacks)


_once: WeakKeyDictionary[Plan, SingleRun] = WeakKeyDictionary()


def once(plan: Plan) -> SingleRun:
    """Return the latency and memory of one request, whatever the capacities; cached.

    For a plan of several replicas, those of the first request.

    Raises as ``simulate``, except OutOfMemory.
    """
    if plan not in _once:
        plan_tasks = tasks_of_plan(plan, plan.problem.contention)
        recording = play(plan_tasks, np.zeros(1), traced=True)
        peaks = tuple(peaks_of(plan_tasks, recording))
        held = plan.problem.capacity_bytes or peaks
        _once[plan] = SingleRun(
            float(recording.finish[0]),
            peaks,
            tuple(resident_weights(plan_tasks)),
            tuple(max(peak - most, 0) for peak, most in zip(peaks, held, strict=True)),
        )
    return _once[plan]


def peaks_of(plan_tasks: PlanTasks, recording: Recording) -> list[int]:
    """Return the peak bytes of each device over a traced recording, weights included."""
    return [int(amounts.max()) for _, amounts in curves(plan_tasks, recording)]


def play(
    plan_tasks: PlanTasks,
    arrival: NDArray[np.float64],
    *,
    rank: NDArray[np.int8] | None = None,
    traced: bool,
    machine_code: bool | None = None,
) -> Recording:
    """Simulate requests on the tasks of a plan, with the plan's distribution over replicas.

    Requests of a lower `rank` go first on devices; absent: all 0. With `traced`, every start and
    end is recorded. `machine_code`: whether numba compiles the clock, with a bitwise identical
    recording; absent: if the work is large. Raises PlanError if some subgraph never starts.
    """
    template = plan_tasks.of_requests(len(arrival))
    layout = laid_out(plan_tasks)
    duration = np.concatenate([one.duration for one in plan_tasks.templates])
    return run(
        layout, duration, arrival, template, rank=rank, traced=traced, machine_code=machine_code
    )


def run(
    layout: TemplateLayout,
    duration: NDArray[np.float64],
    arrival: NDArray[np.float64],
    template: NDArray[np.int64],
    *,
    rank: NDArray[np.int8] | None = None,
    traced: bool,
    machine_code: bool | None = None,
) -> Recording:
    """Simulate requests on a layout whose tasks take `duration` [tasks] seconds; see ``play``."""
    requests = len(arrival)
    ends = np.cumsum(np.diff(layout.first)[template])
    events = int(ends[-1])
    entry_at = np.zeros(requests + 1, dtype=np.int64)
    none, nowhere = np.zeros(0), np.zeros(0, dtype=np.int64)
    if machine_code is None:
        machine_code = pays(events)
    clock = VirtualTime(
        layout.structure,
        layout.links,
        duration,
        arrival,
        template,
        rank,
        lines=events if traced else 0,
        arrays=machine_code,
    )
    clock.run_out(layout.plan.strategy)
    finish = np.asarray(clock.finish)
    if not traced:
        return Recording(arrival, finish, template, entry_at, none, none, nowhere, nowhere)
    entry_at = np.concatenate(([0], ends))
    codes, started, ran_on = clock.log()
    request, task = codes >> SHIFT, codes & MASK
    entry = (entry_at[:-1] - np.array(layout.first)[template])[request] + task
    start, end = np.empty(events), np.empty(events)
    sequence, stream = np.empty((2, events), dtype=np.int64)
    start[entry] = started
    end[entry] = started + duration[task]
    sequence[entry] = np.arange(events)
    stream[entry] = ran_on
    return Recording(arrival, finish, template, entry_at, start, end, sequence, stream)


Array = NDArray[np.float64]


def finishes(
    plan: Plan,
    devices: Array,
    routes: Array,
    arrival: Array,
    *,
    contention: Contention | None = None,
    machine_code: bool | None = None,
) -> Array:
    """Return the end of each request in seconds, [N, requests], for each row of factors.

    `devices` [N, P] are factors on the seconds of each device, `routes` [N, P, P] on those of
    transfers from p to q; `arrival` [requests] ascends. `contention` and `machine_code` as in
    ``timeline_of`` and ``play``.

    Raises PlanError and Infeasible as ``simulate``; memory is not tracked. Complexity: O(N E log E)
    for E tasks of all requests.
    """
    tasks = tasks_of_plan(plan, contention or plan.problem.contention)
    of_request = tasks.of_requests(len(arrival))
    durations = np.concatenate(
        [durations_of(template, devices, routes) for template in tasks.templates], axis=1
    )
    layout = laid_out(tasks)
    if machine_code is None:
        machine_code = pays(np.diff(layout.first)[of_request].sum() * len(devices))
    rows = [
        run(layout, row, arrival, of_request, traced=False, machine_code=machine_code)
        for row in durations
    ]
    return np.array([row.finish for row in rows])


def durations_of(template: Template, devices: Array, routes: Array) -> Array:
    """Return the seconds [N, tasks] of a template's tasks, for each row of factors."""
    ran_by = np.array(template.group_device, dtype=np.int64)
    sources = np.array([t.source for t in template.transfers], dtype=np.int64)
    targets = np.array([t.target for t in template.transfers], dtype=np.int64)
    factors = np.concatenate((devices[:, ran_by], routes[:, sources, targets]), axis=1)
    return np.asarray(template.duration * factors)


def bottlenecks(plan: Plan, devices: Array, routes: Array) -> Array:
    """Return the seconds per request of the busiest device or link, for each row of factors.

    As ``hetsim.placement.objective.bottleneck`` for one problem. O(N E).
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
