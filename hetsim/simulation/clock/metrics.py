"""From what the clock saw to a Timeline: events, utilization, energy, the critical path."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hetsim.plans.timeline import Event, Timeline
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.recording import Recording
from hetsim.simulation.clock.templates import PlanTasks, Template


def summarise(
    plan_tasks: PlanTasks,
    recording: Recording,
    weights: Sequence[int],
    peaks: Sequence[int] | None,
    *,
    trace: bool,
) -> Timeline:
    """Build the Timeline.

    Parameters
    ----------
    plan_tasks : PlanTasks
    recording : Recording
    weights : sequence of int
        Bytes by device.
    peaks : sequence of int, or None
        Bytes by device; None where they were not followed.
    trace : bool
        Whether to give events and the critical path; `recording` then has them.

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
    events: tuple[Event, ...] = ()
    path: tuple[int, ...] = ()
    if trace:
        order = event_order(recording)
        owner = request_of(recording)
        events = build_events(plan_tasks, recording, order, owner)
        path = critical_path(plan_tasks, recording, order, owner)
    return Timeline(
        latencies_s=tuple((recording.finish - recording.arrival).tolist()),
        makespan_s=makespan,
        events=events,
        device_busy_s=dict(zip(problem.devices, device_busy, strict=True)),
        link_busy_s=dict(zip(plan_tasks.links, link_busy, strict=True)),
        device_utilization={
            name: _share(busy, makespan * width)
            for name, busy, width in zip(problem.devices, device_busy, problem.streams, strict=True)
        },
        link_utilization={
            name: _share(busy, makespan)
            for name, busy in zip(plan_tasks.links, link_busy, strict=True)
        },
        transfers=sum(times for times, _ in moved),
        transferred_bytes=sum(times * problem.values[t.value].nbytes for times, t in moved),
        transfer_s=sum(times * transfer.seconds for times, transfer in moved),
        peak_memory_bytes=held_by_device(problem, peaks) if peaks else {},
        weight_bytes=held_by_device(problem, weights),
        energy_j=energy(problem, device_busy, makespan),
        critical_path=path,
    )


def held_by_device(problem: Problem, stated: Sequence[int]) -> dict[str, int]:
    """Return, by device, the bytes there of what is counted in the graph's own types."""
    return {
        name: problem.held_bytes(p, nbytes)
        for p, (name, nbytes) in enumerate(zip(problem.devices, stated, strict=True))
    }


def busy_seconds(plan_tasks: PlanTasks, ran: Sequence[int]) -> tuple[list[float], list[float]]:
    """Return busy seconds by device, summed over streams, and by link.

    `ran` says how many requests each template had: the same tasks run in every request of
    one, so no recording is needed.
    """
    device_busy = [0.0] * len(plan_tasks.plan.problem.devices)
    link_busy = [0.0] * len(plan_tasks.links)
    for times, template in zip(ran, plan_tasks.templates, strict=True):
        spent = [0.0] * len(device_busy)
        for device, seconds in zip(template.group_device, template.duration.tolist(), strict=False):
            spent[device] += seconds
        carried = [0.0] * len(link_busy)
        for transfer in template.transfers:
            for link in transfer.resources:
                carried[link] += transfer.seconds
        for device, seconds in enumerate(spent):
            device_busy[device] += times * seconds
        for link, seconds in enumerate(carried):
            link_busy[link] += times * seconds
    return device_busy, link_busy


def energy(problem: Problem, device_busy: Sequence[float], makespan: float) -> float:
    """Return joules: idle power over the makespan, and what busy streams add to it.

    Power between idle and busy is taken to grow linearly with the streams in use.
    """
    total = 0.0
    for idle, full, busy, width in zip(
        problem.idle_w, problem.busy_w, device_busy, problem.streams, strict=False
    ):
        total += idle * makespan + (full - idle) * busy / width
    return total


def event_order(recording: Recording) -> NDArray[np.int64]:
    """Return the recording's entries by (start, request, task)."""
    # A stable sort: among equal starts entries stay in (request, task) order.
    return np.argsort(recording.start, kind="stable").astype(np.int64)


def request_of(recording: Recording) -> list[int]:
    """Return the request of every entry of the recording."""
    tasks = np.diff(recording.entry_at)
    found: list[int] = np.repeat(np.arange(len(tasks)), tasks).tolist()
    return found


def build_events(
    plan_tasks: PlanTasks, recording: Recording, order: NDArray[np.int64], owner: Sequence[int]
) -> tuple[Event, ...]:
    """Name what happened, in the given order; `owner` is ``request_of``."""
    problem = plan_tasks.plan.problem
    of_request = [plan_tasks.templates[index] for index in recording.template.tolist()]
    entry_at = recording.entry_at.tolist()
    starts = recording.start.tolist()
    ends = recording.end.tolist()
    streams = recording.stream.tolist()
    found: list[Event] = []
    for entry in order.tolist():
        request = owner[entry]
        template, task = of_request[request], entry - entry_at[request]
        groups, first = template.groups, template.first_group
        if task < groups:
            device = problem.devices[template.group_device[task]]
            found.append(
                Event(
                    kind="compute",
                    name=f"g{first + task}",
                    request=request,
                    start_s=starts[entry],
                    end_s=ends[entry],
                    tracks=(f"{device}/{streams[entry]}",),
                    device=device,
                    group=first + task,
                )
            )
        else:
            transfer = template.transfers[task - groups]
            value = problem.values[transfer.value]
            found.append(
                Event(
                    kind="transfer",
                    name=value.name,
                    request=request,
                    start_s=starts[entry],
                    end_s=ends[entry],
                    tracks=tuple(template.links[link] for link in transfer.resources),
                    device=problem.devices[transfer.target],
                    source=problem.devices[transfer.source],
                    group=-1 if transfer.group < 0 else first + transfer.group,
                    nbytes=value.nbytes,
                )
            )
    return tuple(found)


def critical_path(
    plan_tasks: PlanTasks, recording: Recording, order: NDArray[np.int64], owner: Sequence[int]
) -> tuple[int, ...]:
    """Return positions in `order` of a chain of events without gaps that ends last.

    Walking back from the event that ends last: to a task that it waited for and that ended
    when it started, else to the one that then gave up the stream or link it needed, until an
    event starts when its request arrives. Times are copied, never recomputed, so that
    comparing them for equality is exact. Complexity: O(E log E) for E events.
    """
    if not order.size:
        return ()
    start = recording.start.tolist()
    end: list[float] = recording.end.tolist()
    sequence = recording.sequence.tolist()
    arrival = recording.arrival.tolist()
    entry_at: list[int] = recording.entry_at.tolist()
    of_request: list[int] = recording.template.tolist()
    holds = [_held(template) for template in plan_tasks.templates]
    before_on_device = [_before_on_device(template) for template in plan_tasks.templates]

    # Ends at each device (-1, -2, ...) and link (0, 1, ...), ascending.
    by_end: list[int] = np.lexsort((recording.sequence, recording.end)).tolist()
    history: dict[int, list[int]] = {}
    for code in by_end:
        request = owner[code]
        for resource in holds[of_request[request]][code - entry_at[request]]:
            history.setdefault(resource, []).append(code)
    end_of = {resource: [end[code] for code in codes] for resource, codes in history.items()}

    def cause(code: int) -> int | None:
        now = start[code]
        row = entry_at[owner[code]]
        task = code - row
        replica = of_request[owner[code]]
        template = plan_tasks.templates[replica]
        while True:
            for predecessor in template.predecessors[task]:
                if end[row + predecessor] == now:
                    return row + predecessor
            # A subgraph starts no sooner than the one before it on its device and request:
            # where that one started now as well, what kept it is the cause of both.
            before = before_on_device[replica].get(task)
            if before is None or start[row + before] != now:
                break
            task = before
        for resource in holds[replica][task]:
            at = bisect_right(end_of[resource], now) - 1
            while at >= 0 and end_of[resource][at] == now:
                other = history[resource][at]
                if sequence[other] < sequence[row + task]:
                    return other
                at -= 1
        return None

    position = {code: at for at, code in enumerate(order.tolist())}
    # Of equal ends the one that started last: it cannot have caused any other.
    current: int | None = by_end[-1]
    path: list[int] = []
    while current is not None:
        path.append(position[current])
        if start[current] == arrival[owner[current]]:
            break
        current = cause(current)
    return tuple(reversed(path))


def _held(template: Template) -> list[tuple[int, ...]]:
    """By task: its device as -1, -2, ..., or its links as 0, 1, ..."""
    devices: list[tuple[int, ...]] = [(-1 - device,) for device in template.group_device]
    return devices + [transfer.resources for transfer in template.transfers]


def _before_on_device(template: Template) -> dict[int, int]:
    """By subgraph: the one before it on its device, where there is one."""
    found: dict[int, int] = {}
    latest: dict[int, int] = {}
    for group, device in enumerate(template.group_device):
        if device in latest:
            found[group] = latest[device]
        latest[device] = group
    return found


def _share(busy: float, whole: float) -> float:
    # Sums in another order than the clock's may exceed the whole by a rounding error.
    return min(busy / whole, 1.0) if whole > 0 else 0.0
