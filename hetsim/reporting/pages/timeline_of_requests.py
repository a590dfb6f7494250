"""Requests under load as a timeline: which batch of which instance served each, and who waited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hetsim.base.text import Record, cut
from hetsim.reporting.pages.packing import packed
from hetsim.reporting.pages.timeline import LABEL_MOST, timeline_columns
from hetsim.reporting.trace import REAL, SIMULATED
from hetsim.reporting.trace_counters import read_nanoseconds
from hetsim.reporting.trace_tracks import Track, rows

Event = Mapping[str, Any]

REQUESTS_MOST = 2000
"""Requests that a page draws: the first ones."""

WAITING_MOST = 8
"""Rows of requests of one stream that wait at one time."""

_MODEL, _STREAM, _DOWN = "model ", "requests of ", "devices that were down"


@dataclass(frozen=True, slots=True)
class _Task:
    """One entry of the picture: on which row, when, and what it is.

    ``request`` is -1 where it is none's; ``device`` the model of an instance, else empty.
    """

    row: str
    device: str
    start_ns: int
    length_ns: int
    request: int
    label: str


@dataclass(frozen=True, slots=True)
class _Clock:
    """What one clock of a trace says: names of processes and threads, and slices in their order."""

    processes: Mapping[int, str]
    threads: Mapping[Track, str]
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
        A timeline a clock, as ``timeline_picture`` has them, with ``of``: ``"requests"``. Its
        devices are the models; a row is an instance, with an entry for each request of a batch;
        below are rows of requests that wait, and of devices that were down.

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
    threads: dict[Track, str] = {}
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
        for pid, model in models.items()
        for task in _batches(clock, pid, model, most, several=len(models) > 1)
    ]
    beyond = 0
    for pid, name in clock.processes.items():
        if name.startswith(_STREAM):
            waits, more = _waiting(clock.of(pid), name.removeprefix(_STREAM), most)
            tasks += waits
            beyond += more
        elif name == _DOWN:
            tasks += _downs(clock, pid)
    row_of: dict[tuple[str, str], int] = {}
    labels: dict[str, int] = {}
    entries = []
    for task in tasks:
        row = row_of.setdefault((task.row, task.device), len(row_of))
        label = labels.setdefault(task.label, len(labels))
        values = (task.start_ns, task.length_ns, task.request, label, -1, -1, 0, 0)
        entries.append(((row,), values))
    entries.sort(key=lambda entry: entry[1][:3])
    names = list(models.values())
    return {
        "name": f"requests, {which} clock",
        "of": "requests",
        "strategy": "",
        "clock": which,
        "requests": requests,
        "latency_s": None,
        "cut": _cut(requests, most, beyond),
        "devices": names,
        "streams": [max(1, sum(device == name for _, device in row_of)) for name in names],
        "tracks": [
            {"name": name, "kind": "device" if device else "link", "device": device}
            for name, device in row_of
        ],
        "labels": list(labels),
        "path": packed([]),
        "tasks": timeline_columns(entries),
    }


def _batches(clock: _Clock, pid: int, model: str, most: int, *, several: bool) -> list[_Task]:
    """The requests of each batch, by instance: rows in the order of instances."""
    found = []
    of_thread: dict[Track, list[Event]] = {}
    for event in clock.of(pid):
        of_thread.setdefault((pid, event["tid"]), []).append(event)
    for thread in sorted(of_thread):
        name = clock.threads[thread].removesuffix(" (1)")
        row = f"{name}, {model}" if several else name
        for event in of_thread[thread]:
            batch = [int(one) for one in event["args"]["requests"]]
            label = f"batch of {len(batch)}" if len(batch) > 1 else "served"
            at = read_nanoseconds(event["ts"]), read_nanoseconds(event["dur"])
            found += [_Task(row, model, *at, one, label) for one in batch if one < most]
    return found


def _waiting(events: Sequence[Event], stream: str, most: int) -> tuple[list[_Task], int]:
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

    def row(_: str) -> Track:
        made.append(f"waiting: {stream}" + (f" ({len(made) + 1})" if made else ""))
        return 0, len(made) - 1

    on = rows([(start, start + length) for start, length, *_ in spans], "", row)
    found = [
        _Task(made[place], "", start, length, request, label)
        for (_, place), (start, length, request, label) in zip(on, spans, strict=True)
        if place < WAITING_MOST
    ]
    found.sort(key=lambda task: (made.index(task.row), task.start_ns))
    return found, len(spans) - len(found)


def _downs(clock: _Clock, pid: int) -> list[_Task]:
    return [
        _Task(
            f"down: {clock.threads[pid, event['tid']]}", "", read_nanoseconds(event["ts"]),
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
    return text[:1].upper() + text[1:]
