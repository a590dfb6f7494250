"""Memory over time, from the events of a timeline."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from hetsim.problem.plan import Plan
from hetsim.problem.timeline import Timeline
from hetsim.simulation.clock.memory import curves
from hetsim.simulation.clock.metrics import Recording
from hetsim.simulation.clock.templates import tasks_of_plan


def memory_profile(
    plan: Plan, timeline: Timeline
) -> Mapping[str, tuple[NDArray[np.float64], NDArray[np.int64]]]:
    """Return memory over time by device name, from a timeline with its events.

    See ``curves`` for the arrays. A request's arrival is the end of its last event less its
    latency, so a rounding error off where it is not 0.
    """
    plan_tasks = tasks_of_plan(plan, plan.problem.contention)
    requests = len(timeline.latencies_s)
    dealt = plan_tasks.of_requests(requests)
    task_of = [
        {
            (plan.problem.values[transfer.value].name, plan.problem.devices[transfer.target]): task
            for task, transfer in enumerate(template.transfers, start=template.groups)
        }
        for template in plan_tasks.templates
    ]
    tasks = np.array([template.tasks for template in plan_tasks.templates], dtype=np.int64)
    entry_at = np.concatenate(([0], np.cumsum(tasks[dealt])))
    start = np.full(entry_at[-1], np.nan)
    end = np.full(entry_at[-1], np.nan)
    for event in timeline.events:
        if not 0 <= event.request < requests:
            continue
        replica = int(dealt[event.request])
        template = plan_tasks.templates[replica]
        task: int | None = event.group - template.first_group
        if event.kind != "compute":
            task = task_of[replica].get((event.name, event.device))
        if task is not None and 0 <= task < template.tasks:
            start[entry_at[event.request] + task] = event.start_s
            end[entry_at[event.request] + task] = event.end_s
    assert not np.isnan(start).any(), "the timeline has other events than the plan has tasks"
    finish = np.zeros(requests)
    np.maximum.at(finish, np.repeat(np.arange(requests), tasks[dealt]), end)
    arrival = np.maximum(finish - np.array(timeline.latencies_s), 0.0)
    nowhere = np.zeros(len(start), dtype=np.int64)
    recording = Recording(arrival, finish, dealt, entry_at, start, end, nowhere, nowhere)
    return dict(zip(plan.problem.devices, curves(plan_tasks, recording), strict=True))
