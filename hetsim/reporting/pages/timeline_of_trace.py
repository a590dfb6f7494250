"""Timelines of traces: of plans, and of requests under load."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from hetsim.core.text import Record, cut
from hetsim.problem.plan import Plan
from hetsim.problem.timeline import Event as PlayedEvent
from hetsim.problem.timeline import Events, Timeline
from hetsim.reporting.pages.page import told
from hetsim.reporting.pages.timeline import (
    LABEL_MOST,
    TASKS_MOST,
    Held,
    Task,
    Track,
    memory_figure,
    subgraph_label,
    timeline_picture,
    utilization_figure,
    way_of,
    whole_requests,
)
from hetsim.reporting.trace import REAL, SIMULATED, trace_json
from hetsim.reporting.trace_tracks import read_nanoseconds, rows

if TYPE_CHECKING:
    from hetsim.analysis.comparison import Comparison

Event = Mapping[str, Any]

REQUESTS_MOST = 2000
"""Requests that a page draws: the first ones."""

WAITING_MOST = 8
"""Rows of requests of one stream that wait at one time."""

_KINDS = ("compute", "transfer", "failure")
_DEVICE, _LINKS = "device ", "links"
_MODEL, _STREAM, _DOWN = "model ", "requests of ", "devices that were down"


@dataclass(frozen=True, slots=True)
class _Clock:
    """One clock of a trace: names by process and thread, slices, counters of memory.

    ``streams`` are the rows of devices by process and thread.
    """

    processes: Mapping[int, str]
    devices: Mapping[int, str]
    threads: Mapping[tuple[int, int], str]
    streams: Mapping[tuple[int, int], Track]
    slices: Sequence[Event]
    memory: Sequence[Event]

    def of(self, pid: int) -> list[Event]:
        """Return the slices of a process."""
        return [event for event in self.slices if event["pid"] == pid]

    def tasks(self) -> list[list[Event]]:
        """Return the slices of devices and links; those of one task, on all it holds, together."""
        mine = self.devices.keys() | {pid for pid, name in self.processes.items() if name == _LINKS}
        drawn = [one for one in self.slices if one["pid"] in mine and one["cat"] in _KINDS]
        return [list(same) for _, same in groupby(drawn, key=_same)]

    def track(self, event: Event) -> Track:
        """Return the row that a slice is on; of a route without contention it is one."""
        key = event["pid"], event["tid"]
        if key in self.streams:
            return self.streams[key]
        thread = self.threads[key]
        route = f"{event['args']['from']}>{event['args']['to']}"
        return Track(route if thread.startswith(f"{route} (") else thread)


def _read(events: Sequence[Event], prefix: str) -> _Clock:
    """Read the processes whose names begin so."""
    processes: dict[int, str] = {}
    threads: dict[tuple[int, int], str] = {}
    for event in events:
        if event["ph"] == "M" and event["name"] == "process_name":
            name = str(event["args"]["name"])
            if name.startswith(prefix):
                processes[event["pid"]] = name.removeprefix(prefix)
        elif event["ph"] == "M" and event["name"] == "thread_name":
            threads[event["pid"], event["tid"]] = str(event["args"]["name"])
    devices = {pid: name.removeprefix(_DEVICE) for pid, name in processes.items()
               if name.startswith(_DEVICE)}  # fmt: skip
    places = {pid: place for place, pid in enumerate(devices)}
    streams = {
        (pid, tid): Track(f"{devices[pid]}/{name.removeprefix('stream ')}", places[pid])
        for (pid, tid), name in threads.items()
        if pid in devices
    }
    slices = [one for one in events if one["ph"] == "X" and one["pid"] in processes]
    counted = [one for one in events if one["ph"] == "C" and one["pid"] in devices]
    memory = [one for one in counted if one["name"] == "memory"]
    return _Clock(processes, devices, threads, streams, slices, memory)


def _same(event: Event) -> tuple[Any, ...]:
    """Key of the slices of one task, which differs between consecutive tasks."""
    args = event["args"]
    own = (args.get(key) for key in ("group", "from", "to", "bytes", "device", "lost"))
    return event["cat"], event["name"], event["ts"], event["dur"], args["request"], *own


Played = tuple[str, Plan, Timeline]
"""Name, plan and timeline."""


def played_of(comparison: Comparison) -> list[Played]:
    """Return the plans of a comparison, the best first; strategies without one are left out."""
    return [
        (row.strategy, row.plan, row.timeline)
        for row in comparison.rows
        if row.plan is not None and row.timeline is not None
    ]


def pictures_of(
    played: Sequence[Played], real: Sequence[PlayedEvent] = (), most: int = TASKS_MOST
) -> Record:
    """Return the pictures of simulated plans, in their order, as in their traces.

    All plans together get `most` tasks; the first gets as many as it has, up to that. `real` is
    what a run of the first did on the wall clock.
    """
    found: Record = {"timeline": [], "utilization": [], "memory": []}
    left_out: list[str] = []
    for name, plan, timeline in played:
        if found["timeline"] and len(timeline.events) > most:
            left_out.append(name)
            continue
        trace = json.loads(trace_json(plan, timeline, real, _arrivals_s(timeline)))
        capacity = plan.problem.capacity_bytes or ()
        has = {
            device: plan.problem.held_bytes(p, nbytes)
            for p, (device, nbytes) in enumerate(zip(plan.problem.devices, capacity, strict=False))
        }
        made = pictures_of_trace(trace, name, timeline.weight_bytes, has, most)
        for view, pictures in made.items():
            found[view] += pictures
        most -= min(len(timeline.events), most)
    if left_out:
        first = found["timeline"][0]
        missing = ", ".join(told(name) for name in left_out)
        first["note"] += f" The page has no room for the timelines of {missing}."
    return found


def _arrivals_s(timeline: Timeline) -> list[float] | None:
    """When each request came: its end less its latency; None where some were never answered."""
    events = Events.of(timeline.events)
    own = events.request >= 0
    ends_s = np.full(len(timeline.latencies_s), -np.inf)
    np.maximum.at(ends_s, events.request[own], events.end_s[own])
    arrivals_s = ends_s - np.array(timeline.latencies_s)
    found: list[float] = arrivals_s.tolist()
    return found if np.isfinite(arrivals_s).all() else None


def pictures_of_trace(
    trace: Record,
    name: str,
    weights: Mapping[str, int],
    capacity: Mapping[str, int] = MappingProxyType({}),
    most: int = TASKS_MOST,
) -> Record:
    """Return the pictures of a plan's trace that ``trace_json`` wrote; `name` is the plan's.

    `weights` and, where it is known, `capacity` are bytes by device. Raises LookupError, TypeError,
    ValueError or ArithmeticError where the trace is damaged. O(E log E).
    """
    both = trace["otherData"]["clock"] != "virtual"
    clocks = {SIMULATED: f"{name}, virtual clock", REAL: f"{name}, wall clock"}
    found: Record = {"timeline": [], "utilization": [], "memory": []}
    for prefix, named in clocks.items() if both else [("", name)]:
        clock = _read(trace["traceEvents"], prefix)
        _add(found, clock, named, most)
        if prefix != REAL:
            found["memory"] += _memory(clock, named, weights, capacity)
    return found


def _add(found: Record, clock: _Clock, name: str, most: int) -> None:
    made = clock.tasks()
    if not made:
        return
    requests = [slices[0]["args"]["request"] for slices in made]
    kept, left_out = whole_requests(requests, most)
    drawn = [made[index] for index in kept]
    tracks = _tracks(clock, drawn)
    labels: dict[str, str] = {}
    tasks = [_task(clock, slices, labels) for slices in drawn]
    found["timeline"].append(timeline_picture(name, tracks, tasks, note=left_out))
    streams = {
        place: sum(pid == one for one, _ in clock.threads)
        for place, pid in enumerate(clock.devices)
    }
    found["utilization"].append(utilization_figure(name, tracks, tasks, streams))


def _task(clock: _Clock, slices: Sequence[Event], labels: dict[str, str]) -> Task:
    first = slices[0]
    args = first["args"]
    target = clock.devices.get(first["pid"], args.get("to", ""))
    if first["name"] not in labels:
        labels[first["name"]] = _label(first)
    moved = way_of(args.get("from", ""), target, int(args.get("bytes", 0)), bool(args.get("lost")))
    return Task(
        tuple(map(clock.track, slices)),
        read_nanoseconds(first["ts"]),
        read_nanoseconds(first["dur"]),
        int(args["request"]),
        labels[first["name"]],
        moved,
        bool(args.get("critical")),
    )


def _tracks(clock: _Clock, tasks: Sequence[Sequence[Event]]) -> list[Track]:
    """Every stream and link that something is drawn on, and one stream of each device."""
    used = {(one["pid"], one["tid"]): clock.track(one) for task in tasks for one in task}
    found: list[Track] = []
    for place, (pid, device) in enumerate(clock.devices.items()):
        own = [used[key] for key in sorted(used) if key[0] == pid]
        found += own or [Track(f"{device}/0", place)]
    found += [used[key] for key in sorted(used) if key[0] not in clock.devices]
    return list(dict.fromkeys(found))


def _label(event: Event) -> str:
    """Label of a task: a subgraph with its nodes, or a tensor."""
    name, args = str(event["name"]), event["args"]
    if "ops" not in args:
        return cut(name, LABEL_MOST)
    first, last = str(args["first"]), str(args["last"])
    return subgraph_label(name, args["ops"], args["nodes"], first, last)


def _memory(
    clock: _Clock, name: str, weights: Mapping[str, int], capacity: Mapping[str, int]
) -> list[Record]:
    """The memory's figure; none where nothing of it was counted."""
    if not clock.memory:
        return []
    held = []
    for pid, device in clock.devices.items():
        own = int(weights.get(device) or 0)
        steps = [one for one in clock.memory if one["pid"] == pid]
        times_s = [read_nanoseconds(one["ts"]) / 1e9 for one in steps] or [0.0]
        nbytes = [int(one["args"]["bytes"]) for one in steps] or [own]
        held.append(Held(device, times_s, nbytes, own, capacity.get(device)))
    return memory_figure(name, held)


def timelines_of_requests(trace: Record, *, most: int = REQUESTS_MOST) -> list[Record]:
    """Return the timelines of a trace of requests under load, one a clock.

    A row is an instance, in the colour of its model, with an entry for each request of a batch;
    below are rows of requests that wait, and of devices that were down. `most` requests are drawn.
    Raises LookupError, TypeError, ValueError or ArithmeticError where the trace is damaged. O(E log
    E).
    """
    about = trace["otherData"]
    clocks = {REAL: "wall", SIMULATED: "virtual"}
    if about["clock"] == "virtual":
        clocks = {"": "virtual"}
    return [
        _requests(_read(trace["traceEvents"], prefix), clock, int(about["requests"]), most)
        for prefix, clock in clocks.items()
    ]


def _requests(clock: _Clock, which: str, requests: int, most: int) -> Record:
    models = {
        pid: name.removeprefix(_MODEL)
        for pid, name in clock.processes.items()
        if name.startswith(_MODEL)
    }
    tasks = [
        task
        for place, (pid, model) in enumerate(models.items())
        for task in _batches(clock, pid, (model, place), most, several=len(models) > 1)
    ]
    beyond = 0
    for pid, name in clock.processes.items():
        if name.startswith(_STREAM):
            waits, more = _waiting(clock.of(pid), name.removeprefix(_STREAM), most)
            tasks += waits
            beyond += more
        elif name == _DOWN:
            tasks += _downs(clock, pid)
    tracks = list(dict.fromkeys(track for task in tasks for track in task.tracks))
    tasks.sort(key=lambda task: (task.start_ns, task.duration_ns, task.request))
    told = _cut(requests, most, beyond)
    return timeline_picture(f"requests, {which} clock", tracks, tasks, note=told, of="requests")


def _batches(
    clock: _Clock, pid: int, of: tuple[str, int], most: int, *, several: bool
) -> list[Task]:
    """The requests of each batch, by instance: rows in the order of instances."""
    found = []
    model, place = of
    of_thread: dict[tuple[int, int], list[Event]] = {}
    for event in clock.of(pid):
        of_thread.setdefault((pid, event["tid"]), []).append(event)
    for thread in sorted(of_thread):
        name = clock.threads[thread].removesuffix(" (1)")
        row = Track(f"{name}, {model}" if several else name, place)
        for event in of_thread[thread]:
            batch = [int(one) for one in event["args"]["requests"]]
            label = f"batch of {len(batch)}" if len(batch) > 1 else "served"
            at = read_nanoseconds(event["ts"]), read_nanoseconds(event["dur"])
            found += [Task((row,), *at, one, label) for one in batch if one < most]
    return found


def _waiting(events: Sequence[Event], stream: str, most: int) -> tuple[list[Task], int]:
    """Waiting requests on as few rows as possible, and how many found no row."""
    spans: list[tuple[int, int, int, str]] = []
    # On a row of the trace a request stands before what it is made of.
    last: dict[int, int] = {}
    for event in events:
        args = event.get("args") or {}
        start_ns, length_ns = read_nanoseconds(event["ts"]), read_nanoseconds(event["dur"])
        if "request" in args:
            last[event["tid"]] = int(args["request"])
        request = last[event["tid"]]
        label = (
            "waiting" if event["name"] == "waiting" else cut(str(args.get("why", "")), LABEL_MOST)
        )
        if request < most and label:
            spans.append((start_ns, length_ns, request, label))
    made: list[str] = []

    def row(_: str) -> tuple[int, int]:
        made.append(f"waiting: {stream}" + (f" ({len(made) + 1})" if made else ""))
        return 0, len(made) - 1

    on = rows([(start, start + length) for start, length, *_ in spans], "", row)
    found = [
        Task((Track(made[place]),), start, length, request, label)
        for (_, place), (start, length, request, label) in zip(on, spans, strict=True)
        if place < WAITING_MOST
    ]
    found.sort(key=lambda task: (made.index(task.tracks[0].name), task.start_ns))
    return found, len(spans) - len(found)


def _downs(clock: _Clock, pid: int) -> list[Task]:
    return [
        Task(
            (Track(f"down: {clock.threads[pid, event['tid']]}"),), read_nanoseconds(event["ts"]),
            read_nanoseconds(event["dur"]), -1, cut(str(event["name"]), LABEL_MOST),
        )
        for event in clock.of(pid)
    ]  # fmt: skip


def _cut(requests: int, most: int, beyond: int) -> str:
    said = []
    if requests > most:
        said.append(f"the first {most} of {requests} requests are shown")
    if beyond:
        said.append(
            f"the waiting time of {beyond} requests beyond {WAITING_MOST} at a time in a stream "
            "is not shown"
        )
    text = "; ".join(said)
    return f"{text[:1].upper()}{text[1:]}." if said else ""
