"""Recording of a simulation: times of requests, and of their tasks with a trace."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.problem.problem import Problem
from hetsim.problem.timeline import Event, Events, Timeline
from hetsim.simulation.clock.templates import PlanTasks, Template


@dataclass(frozen=True, eq=False)
class Recording:
    """Recording of a simulation: times of requests, and of their tasks with a trace.

    `template` is the replica that served each request. With a trace, the tasks of request r are the
    entries from ``entry_at[r]`` to ``entry_at[r + 1]``; otherwise that is zero, and the last four
    are empty. `sequence` is the rank of a start among all starts, `stream` that of a subgraph on
    its device, 0 for transfers.
    """

    arrival: NDArray[np.float64]
    finish: NDArray[np.float64]
    template: NDArray[np.int64]
    entry_at: NDArray[np.int64]
    start: NDArray[np.float64]
    end: NDArray[np.float64]
    sequence: NDArray[np.int64]
    stream: NDArray[np.int64]


def summarise(
    plan_tasks: PlanTasks,
    recording: Recording,
    weights: Sequence[int],
    peaks: Sequence[int] | None,
    *,
    trace: bool,
) -> Timeline:
    """Return the Timeline of a recording.

    Complexity: O(tasks + requests), with a trace O(E log E) for E events.
    """
    problem, templates = plan_tasks.plan.problem, plan_tasks.templates
    ran = np.bincount(recording.template, minlength=len(templates)).tolist()
    makespan = float(recording.finish.max())
    device_busy, link_busy = busy_seconds(plan_tasks, ran)
    moved = [
        (times, transfer)
        for times, template in zip(ran, templates, strict=True)
        for transfer in template.transfers
    ]
    events: Sequence[Event] = ()
    path: tuple[int, ...] = ()
    computing = {
        name: busy
        for name, busy, width in zip(problem.devices, device_busy, problem.streams, strict=True)
        if width == 1
    }
    if trace:
        order = event_order(recording)
        owner = request_of(recording)
        task = tasks_of(plan_tasks, recording, owner)
        events = build_events(plan_tasks, recording, order, owner, task)
        path = critical_path(plan_tasks, recording, order, owner, task)
        device = np.array(
            [p for one in templates for p in (*one.group_device, *(-1 for _ in one.transfers))]
        )[task]
        computing = computing_seconds(problem, device, recording.start, recording.end)
    return timeline(
        plan_tasks,
        (recording.finish - recording.arrival).tolist(),
        makespan,
        (device_busy, link_busy),
        weights,
        events=events,
        device_computing_s=computing,
        transfers=sum(times for times, _ in moved),
        transferred_bytes=sum(times * problem.values[t.value].nbytes for times, t in moved),
        transfer_s=sum(times * transfer.seconds for times, transfer in moved),
        peak_memory_bytes=held_by_device(problem, peaks) if peaks else {},
        critical_path=path,
    )


def timeline(
    plan_tasks: PlanTasks,
    latencies_s: Sequence[float],
    makespan_s: float,
    busy_s: tuple[Sequence[float], Sequence[float]],
    weights: Sequence[int],
    **others: Any,
) -> Timeline:
    """Return the Timeline for the given busy seconds of devices and links.

    `weights` in bytes by device; `others` are its remaining fields.
    """
    problem, links = plan_tasks.plan.problem, plan_tasks.links
    device_busy, link_busy = busy_s
    return Timeline(
        latencies_s=tuple(latencies_s),
        makespan_s=makespan_s,
        device_busy_s=dict(zip(problem.devices, device_busy, strict=True)),
        link_busy_s=dict(zip(links, link_busy, strict=True)),
        device_utilization={
            name: share(busy, makespan_s * width)
            for name, busy, width in zip(problem.devices, device_busy, problem.streams, strict=True)
        },
        link_utilization={
            name: share(busy, makespan_s) for name, busy in zip(links, link_busy, strict=True)
        },
        weight_bytes=held_by_device(problem, weights),
        energy_j=sum(energies(problem, device_busy, makespan_s), 0.0),
        plan=plan_tasks.plan,
        **others,
    )


def held_by_device(problem: Problem, stated: Sequence[int]) -> dict[str, int]:
    """Return by device the actual bytes of amounts counted in the graph's own types."""
    return {
        name: problem.held_bytes(p, nbytes)
        for p, (name, nbytes) in enumerate(zip(problem.devices, stated, strict=True))
    }


def busy_s(template: Template) -> NDArray[np.float64]:
    """Return the seconds that one request keeps each device, then each link, busy."""
    devices = len(template.plan.problem.devices)
    found = [0.0] * (devices + len(template.links))
    for device, seconds in zip(template.group_device, template.duration.tolist(), strict=False):
        found[device] += seconds
    for transfer in template.transfers:
        for link in transfer.resources:
            found[devices + link] += transfer.seconds
    return np.array(found)


def busy_seconds(plan_tasks: PlanTasks, ran: Sequence[int]) -> tuple[list[float], list[float]]:
    """Return busy seconds by device, summed over streams, and by link.

    `ran` is the number of requests by template: every request of a template runs the same tasks, so
    no recording is needed.
    """
    devices = len(plan_tasks.plan.problem.devices)
    found = np.zeros(devices + len(plan_tasks.links))
    for times, template in zip(ran, plan_tasks.templates, strict=True):
        found += times * busy_s(template)
    return found[:devices].tolist(), found[devices:].tolist()


def computing_seconds(
    problem: Problem,
    device: NDArray[np.int64],
    start: NDArray[np.float64],
    end: NDArray[np.float64],
) -> dict[str, float]:
    """Return by device the seconds in which any of its streams computes. O(E log E).

    `device`, `start` and `end` describe events; a negative device means no computation.
    """
    found = {}
    for p, name in enumerate(problem.devices):
        mine = np.flatnonzero(device == p)
        mine = mine[np.argsort(start[mine], kind="stable")]
        until = np.maximum.accumulate(end[mine])
        since = np.maximum(start[mine], np.concatenate(([0.0], until[:-1]))) if len(mine) else until
        found[name] = float(np.maximum(until - since, 0.0).sum())
    return found


def energies(problem: Problem, device_busy: Sequence[float], makespan: float) -> list[float]:
    """Return by device the joules: idle power over the makespan, plus the power of busy streams.

    Power between idle and busy is assumed linear in the number of busy streams.
    """
    each = zip(problem.idle_w, problem.busy_w, device_busy, problem.streams, strict=False)
    return [idle * makespan + (full - idle) * busy / width for idle, full, busy, width in each]


def event_order(recording: Recording) -> NDArray[np.int64]:
    """Return the recording's entries by (start, request, task)."""
    # A stable sort: among equal starts entries stay in (request, task) order.
    return np.argsort(recording.start, kind="stable").astype(np.int64)


def request_of(recording: Recording) -> NDArray[np.int64]:
    """Return the request of every entry of the recording."""
    tasks = np.diff(recording.entry_at)
    return np.repeat(np.arange(len(tasks)), tasks)


def tasks_of(
    plan_tasks: PlanTasks, recording: Recording, owner: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the task of every entry of the recording, numbered over all templates."""
    first = np.cumsum([0] + [template.tasks for template in plan_tasks.templates])[:-1]
    task = np.arange(len(owner)) - recording.entry_at[owner]
    found: NDArray[np.int64] = task + first[recording.template[owner]]
    return found


def build_events(
    plan_tasks: PlanTasks,
    recording: Recording,
    order: NDArray[np.int64],
    owner: NDArray[np.int64],
    task: NDArray[np.int64],
) -> Events:
    """Return the events in the given order; `owner` is ``request_of``, `task` is ``tasks_of``."""
    of_task = [(template, at) for template in plan_tasks.templates for at in range(template.tasks)]
    streams = max(plan_tasks.plan.problem.streams, default=1)
    codes, sort = np.unique(task * streams + recording.stream, return_inverse=True)
    sorts = []
    for code in codes.tolist():
        template, at = of_task[code // streams]
        sorts.append(_sort(plan_tasks, template, at, code % streams))
    return Events(
        sorts,
        sort[order],
        owner[order],
        recording.start[order],
        recording.end[order],
    )


def _sort(plan_tasks: PlanTasks, template: Template, task: int, stream: int) -> Event:
    """Return an event with the fields that all events of a task share."""
    problem = plan_tasks.plan.problem
    groups, first = template.groups, template.first_group
    if task < groups:
        return compute_event(problem.devices[template.group_device[task]], stream, first + task)
    transfer = template.transfers[task - groups]
    group = -1 if transfer.group < 0 else first + transfer.group
    return transfer_event(problem, template.links, transfer, group)


def compute_event(device: str, stream: int, group: int) -> Event:
    """Return the event of a subgraph, without request and times."""
    tracks = (f"{device}/{stream}",)
    return Event("compute", f"g{group}", 0, 0.0, 0.0, tracks, device, group=group)


def transfer_event(problem: Problem, links: Sequence[str], transfer: Any, group: int) -> Event:
    """Return the event of a transfer, without request and times."""
    value = problem.values[transfer.value]
    return Event(
        kind="transfer",
        name=value.name,
        request=0,
        start_s=0.0,
        end_s=0.0,
        tracks=tuple(links[link] for link in transfer.resources),
        device=problem.devices[transfer.target],
        source=problem.devices[transfer.source],
        group=group,
        nbytes=value.nbytes,
    )


def critical_path(
    plan_tasks: PlanTasks,
    recording: Recording,
    order: NDArray[np.int64],
    owner: NDArray[np.int64],
    task_of: NDArray[np.int64],
) -> tuple[int, ...]:
    """Return positions in `order` of a gapless chain of events that ends last.

    Walks back from the last event: to a task that it waited for and that ended when it started,
    else to the event that then freed its stream or link, until an event starts when its request
    arrives. Times are copied, never recomputed, so equality is exact. Complexity: O(E log E) for E
    events.
    """
    if not order.size:
        return ()
    start, end, sequence = recording.start, recording.end, recording.sequence
    holds = [_held(template) for template in plan_tasks.templates]
    before_on_device = [_before_on_device(template) for template in plan_tasks.templates]
    by_end = np.lexsort((sequence, end))

    @functools.cache
    def history(resource: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the past holders of a device (-1, -2, ...) or link (0, 1, ...), and their ends."""
        users = np.array([resource in held for tasks in holds for held in tasks])
        codes = by_end[users[task_of[by_end]]]
        return codes, end[codes]

    def cause(code: int) -> int | None:
        now = start[code]
        row = int(recording.entry_at[owner[code]])
        task = code - row
        replica = int(recording.template[owner[code]])
        template = plan_tasks.templates[replica]
        while True:
            for predecessor in template.predecessors[task]:
                if end[row + predecessor] == now:
                    return row + predecessor
            # A subgraph starts no sooner than the previous one of its device and request: if that
            # one also starts now, both have the same cause.
            before = before_on_device[replica].get(task)
            if before is None or start[row + before] != now:
                break
            task = before
        for resource in holds[replica][task]:
            codes, ends = history(resource)
            at = int(np.searchsorted(ends, now, side="right")) - 1
            while at >= 0 and ends[at] == now:
                other = int(codes[at])
                if sequence[other] < sequence[row + task]:
                    return other
                at -= 1
        return None

    # Of equal ends the one that started last, as it cannot have caused the others.
    current: int | None = int(by_end[-1])
    path: list[int] = []
    while current is not None:
        path.append(current)
        if start[current] == recording.arrival[owner[current]]:
            break
        current = cause(current)
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.arange(len(order))
    return tuple(position[path[::-1]].tolist())


def _held(template: Template) -> list[tuple[int, ...]]:
    """Return by task its device as -1, -2, ..., or its links as 0, 1, ..."""
    devices: list[tuple[int, ...]] = [(-1 - device,) for device in template.group_device]
    return devices + [transfer.resources for transfer in template.transfers]


def _before_on_device(template: Template) -> dict[int, int]:
    """Return by subgraph the previous one on its device, if there is one."""
    found: dict[int, int] = {}
    latest: dict[int, int] = {}
    for group, device in enumerate(template.group_device):
        if device in latest:
            found[group] = latest[device]
        latest[device] = group
    return found


def share(busy: float, whole: float) -> float:
    """Return the busy share of a total; 0 for a total of 0."""
    # Sums in another order than the clock's may exceed the total by rounding.
    return min(busy / whole, 1.0) if whole > 0 else 0.0
