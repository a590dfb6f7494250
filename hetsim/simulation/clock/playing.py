"""A plan played on the virtual clock without failures, and the Timeline of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetsim.problem.parts import Contention
from hetsim.problem.plan import Plan
from hetsim.problem.timeline import Timeline
from hetsim.simulation.clock.memory import check_capacity, curves, peaks_of_one, resident_weights
from hetsim.simulation.clock.metrics import summarise
from hetsim.simulation.clock.recording import Recording
from hetsim.simulation.clock.rules import MASK, SHIFT, Structure
from hetsim.simulation.clock.structure import Part, structure_of
from hetsim.simulation.clock.templates import PlanTasks, tasks_of_plan
from hetsim.simulation.clock.virtual_time import VirtualTime, pays


def timeline_of(
    plan: Plan,
    arrival: NDArray[np.float64] | None = None,
    *,
    contention: Contention | None = None,
    trace: bool,
) -> Timeline:
    """Return what happens on the virtual clock where nothing fails, and what it costs.

    What ``hetsim.simulate`` gives, for those who stand below it.

    Parameters
    ----------
    plan : Plan
    arrival : float array [requests], optional
        When each request arrives, from 0 on, ascending; absent: one, at 0.
    contention : "fifo" or "none", optional
        How links behave; absent: as the problem says.
    trace : bool
        Whether to give events and their critical path; see ``hetsim.simulate``.

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


def peak_memory(plan: Plan) -> tuple[float, list[int]]:
    """Return one request's latency and the most bytes each device holds, whatever it has.

    Of a plan of several replicas, the first request's.

    Raises what ``simulate`` raises, but for OutOfMemory.
    """
    plan_tasks = tasks_of_plan(plan, plan.problem.contention)
    recording = play(plan_tasks, np.zeros(1), traced=True)
    return float(recording.finish[0]), peaks_of(plan_tasks, recording)


def peaks_of(plan_tasks: PlanTasks, recording: Recording) -> list[int]:
    """Return the most bytes that each device holds over a traced recording, weights included."""
    if len(recording.arrival) == 1:
        return peaks_of_one(plan_tasks, recording)
    return [int(amounts.max()) for _, amounts in curves(plan_tasks, recording)]


def play(
    plan_tasks: PlanTasks,
    arrival: NDArray[np.float64],
    template: NDArray[np.int64] | None = None,
    *,
    rank: NDArray[np.int8] | None = None,
    traced: bool,
    machine_code: bool | None = None,
) -> Recording:
    """Let requests run the tasks of a plan.

    Parameters
    ----------
    plan_tasks : PlanTasks
    arrival : float array [requests]
    template : int array [requests], optional
        Which template each request runs; absent: as the plan deals them out.
    rank : int array [requests], optional
        On devices requests of lower rank go first; absent: all are of rank 0.
    traced : bool
        Whether to record every start and end.
    machine_code : bool, optional
        Whether numba compiles the clock; absent: where the work is large. The recording is the
        same, bit for bit.

    Raises
    ------
    PlanError
        Where some subgraph never starts.
    """
    if template is None:
        template = plan_tasks.of_requests(len(arrival))
    layout = laid_out(plan_tasks)
    duration = np.concatenate([one.duration for one in plan_tasks.templates])
    return run(
        layout, duration, arrival, template, rank=rank, traced=traced, machine_code=machine_code
    )


@dataclass(frozen=True, slots=True)
class Layout:
    """The templates of a plan as the rules take them, but for how long each task takes.

    Attributes
    ----------
    plan : Plan
    links : int
    structure : Structure
    """

    plan: Plan
    links: int
    structure: Structure

    @property
    def first(self) -> Sequence[int]:
        """Where each template's tasks begin among those of all, and their end."""
        return self.structure.first


def laid_out(plan_tasks: PlanTasks) -> Layout:
    """Put the templates of a plan one after another. O(tasks and dependencies)."""
    parts = [
        Part(
            [*one.group_device, *[-1 - transfer.target for transfer in one.transfers]],
            one.predecessors,
            [()] * one.groups + [transfer.resources for transfer in one.transfers],
        )
        for one in plan_tasks.templates
    ]
    structure = structure_of(parts, plan_tasks.plan.problem.streams)
    return Layout(plan_tasks.plan, len(plan_tasks.links), structure)


def run(
    layout: Layout,
    duration: NDArray[np.float64],
    arrival: NDArray[np.float64],
    template: NDArray[np.int64],
    *,
    rank: NDArray[np.int8] | None = None,
    traced: bool,
    machine_code: bool | None = None,
) -> Recording:
    """Let requests run tasks laid out, which take `duration` [tasks] seconds; see ``play``."""
    requests = len(arrival)
    if len(layout.first) == 2:
        ends = layout.first[1] * np.arange(1, requests + 1)
    else:
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
