"""A timeline as columns again, and memory over time: from the trace that a verb left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from hetsim.base.text import Record, cut
from hetsim.reporting.pages.packing import packed
from hetsim.reporting.pages.timeline import (
    LABEL_MOST,
    TASKS_MOST,
    subgraph_label,
    timeline_columns,
    whole_requests,
)
from hetsim.reporting.trace import REAL, SIMULATED
from hetsim.reporting.trace_counters import read_nanoseconds

Event = Mapping[str, Any]
Track = tuple[str, str, str]
"""Name, kind (``device`` or ``link``) and device."""

_KINDS = ("compute", "transfer", "failure")
_DEVICE, _LINKS = "device ", "links"


@dataclass(slots=True)
class _Clock:
    """What one clock says in a trace.

    Attributes
    ----------
    devices : dict of int to str
        By process, in their order.
    threads : dict of (int, int) to str
        By process and thread, those of devices and links.
    tasks : list of list of mapping
        Slices, in the trace's order; those of one task, on all that it holds, are together.
    memory : dict of str to list of (int, int)
        By device: from which nanosecond on so many bytes.
    """

    devices: dict[int, str] = field(default_factory=dict)
    threads: dict[tuple[int, int], str] = field(default_factory=dict)
    tasks: list[list[Event]] = field(default_factory=list)
    memory: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def track(self, event: Event) -> Track:
        """Return the row that a slice is on; of a route without contention it is one."""
        thread = self.threads[event["pid"], event["tid"]]
        device = self.devices.get(event["pid"])
        if device is not None:
            return f"{device}/{thread.removeprefix('stream ')}", "device", device
        route = f"{event['args']['from']}>{event['args']['to']}"
        return route if thread.startswith(f"{route} (") else thread, "link", ""


def pictures_of_trace(trace: Record, name: str, timeline: Mapping[str, Any]) -> Record:
    """Return ``timelines`` and ``memories`` of a trace, as ``timeline_picture`` has them.

    Parameters
    ----------
    trace : Record
        As ``trace_json`` writes it.
    name : str
        The plan's.
    timeline : mapping
        Of the record beside it.

    Raises LookupError, TypeError, ValueError or ArithmeticError where the trace is damaged.
    Complexity: O(E log E) for E events.
    """
    both = trace["otherData"]["clock"] != "virtual"
    virtual = _clock(trace["traceEvents"], SIMULATED if both else "")
    named = f"{name}, virtual clock" if both else name
    timelines = [_timeline(virtual, named, timeline, "virtual")] if virtual.tasks else []
    if both:
        wall = _clock(trace["traceEvents"], REAL)
        timelines.append(_timeline(wall, f"{name}, wall clock", timeline, "wall"))
    memory = _memory(virtual, named, timeline)
    return {
        "timelines": timelines,
        "memories": [] if memory is None else [memory],
        "left_out": [],
    }


def _clock(events: Sequence[Event], prefix: str) -> _Clock:
    """Read what is named and drawn of the processes whose names begin so."""
    found, links = _Clock(), set()
    for event in events:
        if event["ph"] == "M" and event["name"] == "process_name":
            name = str(event["args"]["name"])
            if name.startswith(prefix + _DEVICE):
                found.devices[event["pid"]] = name.removeprefix(prefix + _DEVICE)
            elif name == prefix + _LINKS:
                links.add(event["pid"])
    mine = found.devices.keys() | links
    here = [event for event in events if event["pid"] in mine]
    for event in here:
        if event["ph"] == "M" and event["name"] == "thread_name":
            found.threads[event["pid"], event["tid"]] = str(event["args"]["name"])
        elif event["ph"] == "C" and event["name"] == "memory":
            device = found.devices[event["pid"]]
            change = read_nanoseconds(event["ts"]), int(event["args"]["bytes"])
            found.memory.setdefault(device, []).append(change)
    slices = [event for event in here if event["ph"] == "X" and event["cat"] in _KINDS]
    found.tasks = [list(same) for _, same in groupby(slices, key=_same)]
    return found


def _same(event: Event) -> tuple[Any, ...]:
    """What all slices of one task have in common, and no two tasks that follow each other."""
    args = event["args"]
    return event["cat"], event["name"], event["ts"], event["dur"], args["request"], repr(args)


def _timeline(clock: _Clock, name: str, timeline: Mapping[str, Any], which: str) -> Record:
    kept, left_out = whole_requests(
        [task[0]["args"]["request"] for task in clock.tasks], TASKS_MOST
    )
    tasks = [clock.tasks[index] for index in kept]
    devices = list(clock.devices.values())
    ends = {device: place for place, device in enumerate(devices)}
    tracks = _tracks(clock, tasks)
    row_of = {track: place for place, track in enumerate(tracks)}
    labels: dict[str, int] = {}
    rows = []
    for task in tasks:
        first = task[0]
        args = first["args"]
        label = labels.setdefault(_label(first), len(labels))
        device = clock.devices.get(first["pid"], args.get("to", ""))
        values = (
            read_nanoseconds(first["ts"]), read_nanoseconds(first["dur"]),
            int(args["request"]), label,
            ends.get(args.get("from", ""), -1), ends.get(device, -1),
            int(args.get("bytes", 0)), int(bool(args.get("lost"))),
        )  # fmt: skip
        rows.append(([row_of[clock.track(one)] for one in task], values))
    path = sorted(
        (number for number, task in enumerate(tasks) if task[0]["args"].get("critical")),
        key=lambda number: (rows[number][1][0], number),
    )
    return {
        "name": name,
        "strategy": name,
        "clock": which,
        "requests": int(timeline["requests"]),
        "latency_s": timeline["latency_s"],
        "cut": left_out,
        "devices": devices,
        "streams": [max(1, sum(pid == one for one, _ in clock.threads)) for pid in clock.devices],
        "tracks": [{"name": of, "kind": kind, "device": device} for of, kind, device in tracks],
        "labels": list(labels),
        "path": packed(path),
        "tasks": timeline_columns(rows),
    }


def _tracks(clock: _Clock, tasks: Sequence[Sequence[Event]]) -> list[Track]:
    """Every stream and link that something is drawn on, and one stream of each device."""
    used = {(one["pid"], one["tid"]): clock.track(one) for task in tasks for one in task}
    found: list[Track] = []
    for pid, device in clock.devices.items():
        own = [used[key] for key in sorted(used) if key[0] == pid]
        found += own or [(f"{device}/0", "device", device)]
    found += [used[key] for key in sorted(used) if key[0] not in clock.devices]
    return list(dict.fromkeys(found))


def _label(event: Event) -> str:
    """What a task is: a subgraph with its nodes, or a tensor."""
    name, args = str(event["name"]), event["args"]
    if "ops" not in args:
        return cut(name, LABEL_MOST)
    first, last = str(args["first"]), str(args["last"])
    return subgraph_label(name, args["ops"], args["nodes"], first, last)


def _memory(clock: _Clock, name: str, timeline: Mapping[str, Any]) -> Record | None:
    """Return the memory's picture; what each device has is in no trace."""
    if not clock.memory:
        return None
    weights = [
        int(timeline["devices"].get(device, {}).get("weight_bytes") or 0)
        for device in clock.devices.values()
    ]
    steps = [
        clock.memory.get(device) or [(0, held)]
        for device, held in zip(clock.devices.values(), weights, strict=True)
    ]
    return {
        "name": name,
        "cut": "",
        "devices": packed(
            {
                "device": list(clock.devices.values()),
                "capacity_bytes": [None] * len(steps),
                "weight_bytes": weights,
                "time_ns": [[at for at, _ in one] for one in steps],
                "nbytes": [[held for _, held in one] for one in steps],
            },
            ("time_ns", "nbytes"),
        ),
    }
