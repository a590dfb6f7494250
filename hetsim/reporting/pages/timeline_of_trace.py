"""A timeline as columns again, and memory over time: from the trace that a verb left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from hetsim.base.text import Record, cut
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
from hetsim.reporting.trace import REAL, SIMULATED
from hetsim.reporting.trace_counters import read_nanoseconds

Event = Mapping[str, Any]
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
            place = list(self.devices).index(event["pid"])
            return Track(f"{device}/{thread.removeprefix('stream ')}", place)
        route = f"{event['args']['from']}>{event['args']['to']}"
        return Track(route if thread.startswith(f"{route} (") else thread)


def pictures_of_trace(trace: Record, name: str, timeline: Mapping[str, Any]) -> Record:
    """Return the pictures of a trace, as ``pictures_of`` has them of a plan.

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
    clocks = {SIMULATED: f"{name}, virtual clock", REAL: f"{name}, wall clock"}
    found: Record = {"timeline": [], "utilization": [], "memory": []}
    for prefix, named in clocks.items() if both else [("", name)]:
        clock = _clock(trace["traceEvents"], prefix)
        if clock.tasks:
            _add(found, clock, named)
        if prefix != REAL:
            found["memory"] += _memory(clock, named, timeline)
    return found


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


def _add(found: Record, clock: _Clock, name: str) -> None:
    kept, left_out = whole_requests(
        [task[0]["args"]["request"] for task in clock.tasks], TASKS_MOST
    )
    drawn = [clock.tasks[index] for index in kept]
    tracks = _tracks(clock, drawn)
    tasks = [_task(clock, slices) for slices in drawn]
    found["timeline"].append(timeline_picture(name, tracks, tasks, note=left_out))
    streams = {
        place: sum(pid == one for one, _ in clock.threads)
        for place, pid in enumerate(clock.devices)
    }
    found["utilization"].append(utilization_figure(name, tracks, tasks, streams))


def _task(clock: _Clock, slices: Sequence[Event]) -> Task:
    first = slices[0]
    args = first["args"]
    target = clock.devices.get(first["pid"], args.get("to", ""))
    moved = way_of(args.get("from", ""), target, int(args.get("bytes", 0)), bool(args.get("lost")))
    return Task(
        tuple(map(clock.track, slices)),
        read_nanoseconds(first["ts"]),
        read_nanoseconds(first["dur"]),
        int(args["request"]),
        _label(first),
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
    """What a task is: a subgraph with its nodes, or a tensor."""
    name, args = str(event["name"]), event["args"]
    if "ops" not in args:
        return cut(name, LABEL_MOST)
    first, last = str(args["first"]), str(args["last"])
    return subgraph_label(name, args["ops"], args["nodes"], first, last)


def _memory(clock: _Clock, name: str, timeline: Mapping[str, Any]) -> list[Record]:
    """The memory's figure; what each device has is in no trace."""
    if not clock.memory:
        return []
    rows = []
    for device in clock.devices.values():
        weights = int(timeline["devices"].get(device, {}).get("weight_bytes") or 0)
        steps = clock.memory.get(device) or [(0, weights)]
        times_s, held = [at / 1e9 for at, _ in steps], [nbytes for _, nbytes in steps]
        rows.append(Held(device, times_s, held, weights))
    return memory_figure(name, rows)
