"""Events and the critical path of a recording, entry by entry: by plain loops."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hetsim.problem.timeline import Event
from hetsim.simulation.clock.metrics import Recording
from hetsim.simulation.clock.templates import PlanTasks, Template


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
