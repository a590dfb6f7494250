"""Requests under load as a timeline: which batch of which instance served each, and who waited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hetsim.base.text import Record, cut
from hetsim.reporting.pages.timeline import LABEL_MOST, Task, Track, timeline_picture
from hetsim.reporting.trace import REAL, SIMULATED
from hetsim.reporting.trace_counters import read_nanoseconds
from hetsim.reporting.trace_tracks import rows

Event = Mapping[str, Any]

REQUESTS_MOST = 2000
"""Requests that a page draws: the first ones."""

WAITING_MOST = 8
"""Rows of requests of one stream that wait at one time."""

_MODEL, _STREAM, _DOWN = "model ", "requests of ", "devices that were down"


@dataclass(frozen=True, slots=True)
class _Clock:
    """What one clock of a trace says: names of processes and threads, and slices in their order."""

    processes: Mapping[int, str]
    threads: Mapping[tuple[int, int], str]
    slices: Sequence[Event]

    def of(self, pid: int) -> list[Event]:
        """Return the slices of a process."""
        return [event for event in self.slices if event["pid"] == pid]


def timelines_of_requests(trace: Record, *, most: int = REQUESTS_MOST) -> list[Record]:
    """Return what the timeline's view draws of a trace of requests under load.

    Parameters
    ----------
    trace : Record
        As ``service_trace_json`` writes it.
    most : int
        Requests that are drawn, the first ones.

    Returns
    -------
    list of Record
        A timeline a clock, as ``timeline_picture`` has them. A row is an instance, in the colour of
        its model, with an entry for each request of a batch; below are rows of requests that wait,
        and of devices that were down.

    Raises LookupError, TypeError, ValueError or ArithmeticError where the trace is damaged.
    Complexity: O(E log E) for E events.
    """
    about = trace["otherData"]
    clocks = {REAL: "wall", SIMULATED: "virtual"}
    if about["clock"] == "virtual":
        clocks = {"": "virtual"}
    return [
        _timeline(_read(trace["traceEvents"], prefix), clock, int(about["requests"]), most)
        for prefix, clock in clocks.items()
    ]


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
    slices = [event for event in events if event["ph"] == "X" and event["pid"] in processes]
    return _Clock(processes, threads, slices)


def _timeline(clock: _Clock, which: str, requests: int, most: int) -> Record:
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
    """Who waits, on as few rows as there are at a time, and how many found no row."""
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
        said.append(f"the first {most} of {requests} requests are drawn")
    if beyond:
        said.append(
            f"{beyond} that waited beside {WAITING_MOST} others of their stream are not drawn "
            "waiting"
        )
    text = "; ".join(said)
    return f"{text[:1].upper()}{text[1:]}." if said else ""
