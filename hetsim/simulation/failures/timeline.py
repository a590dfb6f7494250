"""From what happened on a clock with failures to a Timeline."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hetsim.plans.timeline import Event, Timeline
from hetsim.simulation.clock.metrics import computing_seconds, energy, held_by_device
from hetsim.simulation.clock.templates import flat
from hetsim.simulation.failures.clock import FailingClock


def failed_timeline(
    played: FailingClock, arrival: Sequence[float], weights: Sequence[int], *, trace: bool
) -> Timeline:
    """Build the Timeline of a clock that has been played; `weights` in bytes by device.

    What a request had no more use for may go on after its end: time is counted to the end.
    """
    problem = played.versions[0].plan.problem
    links = played.versions[0].plan_tasks.links
    makespan = max(played.finish)
    started = played.started
    counted = started.start <= makespan
    task = started.task[counted]
    start, end = started.start[counted], started.end[counted]
    spent = np.minimum(end, makespan) - start
    device = np.array([one.device for one in started.tasks], dtype=np.int64)[task]
    computes = device >= 0
    busy = np.bincount(device[computes], spent[computes], minlength=len(problem.devices))
    held_at, held = (
        np.array(part, np.int64) for part in flat([t.resources for t in started.tasks])
    )
    many = np.diff(held_at)[task]
    entry = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many - held_at[task], many)
    carried = np.bincount(held[entry], np.repeat(spent, many), minlength=len(links))
    moves = ~computes
    sizes = [problem.values[one.value].nbytes if one.device < 0 else 0 for one in started.tasks]
    times = np.bincount(task[moves], minlength=len(sizes)).tolist()
    device_busy, link_busy = busy.tolist(), carried.tolist()
    whole = [makespan * width for width in problem.streams]
    return Timeline(
        latencies_s=tuple(end - came for came, end in zip(arrival, played.finish, strict=True)),
        makespan_s=makespan,
        events=_events(played, np.flatnonzero(counted).tolist(), makespan) if trace else (),
        device_busy_s=dict(zip(problem.devices, device_busy, strict=True)),
        device_computing_s=computing_seconds(problem, device, start, np.minimum(end, makespan)),
        link_busy_s=dict(zip(links, link_busy, strict=True)),
        device_utilization={
            name: min(busy / most, 1.0) if most > 0 else 0.0
            for name, busy, most in zip(problem.devices, device_busy, whole, strict=True)
        },
        link_utilization={
            name: min(busy / makespan, 1.0) if makespan > 0 else 0.0
            for name, busy in zip(links, link_busy, strict=True)
        },
        transfers=int(moves.sum()),
        transferred_bytes=sum(size * count for size, count in zip(sizes, times, strict=True)),
        transfer_s=math.fsum((end - start)[moves].tolist()),
        peak_memory_bytes={},
        weight_bytes=held_by_device(problem, weights),
        energy_j=energy(problem, device_busy, makespan),
        critical_path=(),
    )


def _events(played: FailingClock, lines: Sequence[int], makespan: float) -> tuple[Event, ...]:
    """Failures and tasks by (start, request, version of the plan, plan order)."""
    problem = played.versions[0].plan.problem
    found: list[tuple[tuple[float, int, int, int], Event]] = []
    for at, failure in enumerate(played.happened):
        device = problem.devices.index(failure.device)
        until = failure.back_s if math.isfinite(failure.back_s) else max(makespan, failure.at_s)
        tracks = tuple(f"{failure.device}/{stream}" for stream in range(problem.streams[device]))
        event = Event("failure", failure.kind, -1, failure.at_s, until, tracks, failure.device)
        found.append(((failure.at_s, -1, 0, at), event))
    for line in lines:
        task = played.started.tasks[played.started.task[line]]
        event = _event(played, line)
        found.append(((event.start_s, event.request, task.version, task.index), event))
    found.sort(key=lambda entry: entry[0])
    return tuple(event for _, event in found)


def _event(played: FailingClock, line: int) -> Event:
    started = played.started
    task = started.tasks[started.task[line]]
    request = int(started.request[line])
    start_s, end_s = float(started.start[line]), float(started.end[line])
    lost = bool(started.lost[line])
    version = played.versions[task.version]
    problem = version.plan.problem
    ours = task.version == 0
    if task.device >= 0:
        name = problem.devices[task.device]
        return Event(
            kind="compute",
            name=f"g{task.group}" if ours else f"g{task.group} of plan {task.version + 1}",
            request=request,
            start_s=start_s,
            end_s=end_s,
            tracks=(f"{name}/{started.stream[line]}",),
            device=name,
            group=task.group if ours else -1,
            lost=lost,
        )
    value = problem.values[task.value]
    return Event(
        kind="transfer",
        name=value.name,
        request=request,
        start_s=start_s,
        end_s=end_s,
        tracks=tuple(version.plan_tasks.links[link] for link in task.resources),
        device=problem.devices[task.target],
        source=problem.devices[task.source],
        group=task.group if ours else -1,
        nbytes=value.nbytes,
        lost=lost,
    )
