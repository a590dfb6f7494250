"""From what the engine saw to a Timeline: events, utilization, energy, the critical path."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hetsim.simulation.lowering import Template
from hetsim.timeline import Event, Timeline


class Recorded(Protocol):
    """What is read of ``hetsim.simulation.clock.Recording``."""

    @property
    def arrival(self) -> NDArray[np.float64]: ...
    @property
    def finish(self) -> NDArray[np.float64]: ...
    @property
    def start(self) -> NDArray[np.float64]: ...
    @property
    def end(self) -> NDArray[np.float64]: ...
    @property
    def sequence(self) -> NDArray[np.int64]: ...
    @property
    def stream(self) -> NDArray[np.int64]: ...


def summarise(
    template: Template,
    recording: Recorded,
    weights: Sequence[int],
    peaks: Sequence[int] | None,
    *,
    trace: bool,
) -> Timeline:
    """Build the Timeline.

    Parameters
    ----------
    template : Template
    recording : Recorded
    weights : sequence of int
        Bytes by device.
    peaks : sequence of int, or None
        Bytes by device; None where they were not followed.
    trace : bool
        Whether to give events and the critical path; `recording` then has them.

    Complexity: O(tasks + requests), with a trace O(E log E) for E events.
    """
    problem = template.plan.problem
    requests = len(recording.arrival)
    makespan = float(recording.finish.max())
    device_busy, link_busy = busy_seconds(template, requests)
    events: tuple[Event, ...] = ()
    path: tuple[int, ...] = ()
    if trace:
        order = event_order(recording)
        events = build_events(template, recording, order)
        path = critical_path(template, recording, order)
    return Timeline(
        latencies_s=tuple((recording.finish - recording.arrival).tolist()),
        makespan_s=makespan,
        events=events,
        device_busy_s=dict(zip(problem.devices, device_busy, strict=True)),
        link_busy_s=dict(zip(template.links, link_busy, strict=True)),
        device_utilization={
            name: _share(busy, makespan * width)
            for name, busy, width in zip(problem.devices, device_busy, problem.streams, strict=True)
        },
        link_utilization={
            name: _share(busy, makespan)
            for name, busy in zip(template.links, link_busy, strict=True)
        },
        transfers=requests * len(template.transfers),
        transferred_bytes=requests
        * sum(problem.values[transfer.value].nbytes for transfer in template.transfers),
        transfer_s=requests * sum(transfer.seconds for transfer in template.transfers),
        peak_memory_bytes=dict(zip(problem.devices, peaks, strict=True)) if peaks else {},
        weight_bytes=dict(zip(problem.devices, weights, strict=True)),
        energy_j=energy(template, device_busy, makespan),
        critical_path=path,
    )


def busy_seconds(template: Template, requests: int) -> tuple[list[float], list[float]]:
    """Return busy seconds by device, summed over streams, and by link.

    The same tasks run in every request, so no recording is needed.
    """
    device_busy = [0.0] * len(template.plan.problem.devices)
    for device, seconds in zip(template.group_device, template.duration.tolist(), strict=False):
        device_busy[device] += seconds
    link_busy = [0.0] * len(template.links)
    for transfer in template.transfers:
        for link in transfer.resources:
            link_busy[link] += transfer.seconds
    return [requests * busy for busy in device_busy], [requests * busy for busy in link_busy]


def energy(template: Template, device_busy: Sequence[float], makespan: float) -> float:
    """Return joules: idle power over the makespan, and what busy streams add to it.

    Power between idle and busy is taken to grow linearly with the streams in use.
    """
    problem = template.plan.problem
    total = 0.0
    for idle, full, busy, width in zip(
        problem.idle_w, problem.busy_w, device_busy, problem.streams, strict=False
    ):
        total += idle * makespan + (full - idle) * busy / width
    return total


def event_order(recording: Recorded) -> NDArray[np.int64]:
    """Return request * tasks + task by (start, request, task)."""
    # A stable sort: among equal starts the codes stay in (request, task) order.
    return np.argsort(recording.start.ravel(), kind="stable").astype(np.int64)


def build_events(
    template: Template, recording: Recorded, order: NDArray[np.int64]
) -> tuple[Event, ...]:
    """Name what happened, in the given order."""
    problem = template.plan.problem
    tasks, groups = template.tasks, template.groups
    starts = recording.start.ravel().tolist()
    ends = recording.end.ravel().tolist()
    streams = recording.stream.ravel().tolist()
    found: list[Event] = []
    for code in order.tolist():
        request, task = divmod(code, tasks)
        if task < groups:
            device = problem.devices[template.group_device[task]]
            found.append(
                Event(
                    kind="compute",
                    name=f"g{task}",
                    request=request,
                    start_s=starts[code],
                    end_s=ends[code],
                    tracks=(f"{device}/{streams[code]}",),
                    device=device,
                    group=task,
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
                    start_s=starts[code],
                    end_s=ends[code],
                    tracks=tuple(template.links[link] for link in transfer.resources),
                    device=problem.devices[transfer.target],
                    source=problem.devices[transfer.source],
                    group=transfer.group,
                    nbytes=value.nbytes,
                )
            )
    return tuple(found)


def critical_path(
    template: Template, recording: Recorded, order: NDArray[np.int64]
) -> tuple[int, ...]:
    """Return positions in `order` of a chain of events without gaps that ends last.

    Walking back from the event that ends last: to a task that it waited for and that ended
    when it started, else to the one that then gave up the stream or link it needed, until an
    event starts when its request arrives. Times are copied, never recomputed, so that
    comparing them for equality is exact. Complexity: O(E log E) for E events.
    """
    if not order.size:
        return ()
    tasks, groups = template.tasks, template.groups
    start = recording.start.ravel().tolist()
    end = recording.end.ravel().tolist()
    sequence = recording.sequence.ravel().tolist()
    arrival = recording.arrival.tolist()

    def holds(task: int) -> tuple[int, ...]:
        if task < groups:
            return (-1 - template.group_device[task],)
        return template.transfers[task - groups].resources

    # Ends at each device (-1, -2, ...) and link (0, 1, ...), ascending.
    by_end = np.lexsort((recording.sequence.ravel(), recording.end.ravel())).tolist()
    history: dict[int, list[int]] = {}
    for code in by_end:
        for resource in holds(code % tasks):
            history.setdefault(resource, []).append(code)
    end_of = {resource: [end[code] for code in codes] for resource, codes in history.items()}

    before_on_device: dict[int, int] = {}
    latest: dict[int, int] = {}
    for group, device in enumerate(template.group_device):
        if device in latest:
            before_on_device[group] = latest[device]
        latest[device] = group

    def cause(code: int) -> int | None:
        now = start[code]
        task = code % tasks
        row = code - task
        while True:
            for predecessor in template.predecessors[task]:
                if end[row + predecessor] == now:
                    return row + predecessor
            # A subgraph starts no sooner than the one before it on its device and request:
            # where that one started now as well, what kept it is the cause of both.
            before = before_on_device.get(task)
            if before is None or start[row + before] != now:
                break
            task = before
        for resource in holds(task):
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
        if start[current] == arrival[current // tasks]:
            break
        current = cause(current)
    return tuple(reversed(path))


def _share(busy: float, whole: float) -> float:
    # Sums in another order than the clock's may exceed the whole by a rounding error.
    return min(busy / whole, 1.0) if whole > 0 else 0.0
