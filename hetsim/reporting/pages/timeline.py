"""Plans over time, as in their traces: timeline, utilization of devices and links, memory."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from hetsim.core.text import Record, cut, plain
from hetsim.core.units import format_bytes, format_seconds
from hetsim.problem.plan import Plan
from hetsim.problem.timeline import Event as PlayedEvent
from hetsim.problem.timeline import Events, Timeline
from hetsim.reporting.formatting import listed, percent
from hetsim.reporting.pages.figures import STACKED_MOST, Area, colour, label, stacked
from hetsim.reporting.pages.page import PageTable, Section, packed, table, told, unpacked
from hetsim.reporting.trace import REAL, SIMULATED, trace_pieces
from hetsim.reporting.trace_tracks import read_nanoseconds

if TYPE_CHECKING:
    from hetsim.analysis.comparison import Comparison

NOTE_MOST = 2000
"""Maximum number of characters of the note under a timeline."""

LABEL_MOST = 200
"""Maximum number of characters of a task's label in a page."""

TASKS_MOST = 60_000
"""Maximum number of tasks of one timeline in a page: those of the first requests, whole."""

STEPS_MOST = 2000
"""Maximum number of drawn steps of one device's memory; of more, the highest per interval."""

BINS = 160
"""Intervals of time for which utilization is given."""

IDLE_DRAWN = 3
"""Maximum number of idle rows that are shown."""

TASKS_TOLD = 100
"""Maximum number of tasks in the table of a timeline."""

NEAR = 3
"""Maximum ratio to a device's peak memory up to which its capacity is drawn."""

Event = Mapping[str, Any]

_KINDS = ("compute", "transfer", "failure")
_DEVICE, _LINKS = "device ", "links"


@dataclass(frozen=True, slots=True)
class Track:
    """Row of a timeline: a stream of a device, or a link, whose ``device`` is -1."""

    name: str
    device: int = -1


@dataclass(frozen=True, slots=True)
class TrackTask:
    """Task on one or several tracks: `text` names it and its place.

    ``request`` is -1 if it belongs to none.
    """

    tracks: tuple[Track, ...]
    start_ns: int
    duration_ns: int
    request: int
    text: tuple[str, str]
    critical: bool


def _whole_requests(tasks: list[list[Event]], most: int) -> tuple[list[list[Event]], str]:
    """Tasks of as many first requests, whole, as `most` allows, and a note on the others."""
    if len(tasks) <= most:
        return tasks, ""
    last, kept = 0, 0
    counts = Counter(slices[0]["args"]["request"] for slices in tasks)
    for request in sorted(counts):
        kept += counts[request]
        if kept > most:
            break
        last = request
    shown = [slices for slices in tasks if slices[0]["args"]["request"] <= last]
    return shown, (
        f"{len(shown)} of {len(tasks)} tasks are shown, those of the first {last + 1} "
        "requests; the page has no room for more."
    )


def _timeline(name: str, tracks: Sequence[Track], tasks: Sequence[TrackTask], note: str) -> Record:
    """Timeline: rows, and tasks as packed columns.

    ``tasks`` has one entry per task and track: ``track``, ``start_ns``, ``duration_ns``,
    ``request``, ``text`` (into ``texts``), ``critical``. Of many `tracks` the idle ones are named
    in the note.
    """
    used = {track for task in tasks for track in task.tracks}
    idle = [track.name for track in tracks if track not in used]
    rows = [track for track in tracks if track in used] if len(idle) > IDLE_DRAWN else tracks
    place_of = {track: place for place, track in enumerate(rows)}
    several = Counter(track.device for track in rows)
    names = ("track", "start_ns", "duration_ns", "request", "text", "critical")
    columns: dict[str, list[int]] = {column: [] for column in names}
    texts: dict[tuple[str, str], int] = {}
    for task in tasks:
        values = (task.start_ns, task.duration_ns, task.request,
                  texts.setdefault(task.text, len(texts)), int(task.critical))  # fmt: skip
        for track in task.tracks:
            for column, value in zip(names, (place_of[track], *values), strict=True):
                columns[column].append(value)
    end_ns = max((task.start_ns + task.duration_ns for task in tasks), default=1)
    if len(idle) > IDLE_DRAWN:
        note = f"Always idle: {', '.join(idle)}. {note}"
    return {
        "name": told(name),
        "note": cut(plain(note), NOTE_MOST),
        "alt": told(f"Timeline of {name}: {len(tasks)} tasks on {len(rows)} rows"),
        "end_s": max(end_ns, 1) / 1e9,
        "tracks": [
            {
                "name": told(track.name),
                "label": label(_short(track, several), 40),
                "colour": colour(track.device),
            }
            for track in rows
        ],
        "texts": [list(text) for text in texts],
        "tasks": packed(columns, ("start_ns", "request")),
    }


def _short(track: Track, several: Mapping[int, int]) -> str:
    """Name of a row, without the stream if it is its device's only one."""
    one = track.device >= 0 and several[track.device] == 1
    return track.name.removesuffix("/0") if one else track.name


def timeline_section(pictures: Mapping[str, Any]) -> list[Section]:
    """Return the timelines with a table of the first tasks."""
    drawn = pictures.get("timeline")
    if not drawn:
        return []
    caption = "Tasks of each device and link over time, simulated or measured."
    return [Section("timeline", "Timeline", caption, (_tasks_table(drawn[0]),), order=30)]


def _tasks_table(picture: Record) -> PageTable:
    columns = unpacked(picture["tasks"])
    count = len(columns["start_ns"])
    order = sorted(range(count), key=lambda k: (columns["start_ns"][k], columns["track"][k]))
    rows = [
        (
            format_seconds(columns["start_ns"][k] / 1e9),
            picture["tracks"][columns["track"][k]]["name"],
            "".join(picture["texts"][columns["text"][k]]),
            format_seconds(columns["duration_ns"][k] / 1e9),
            "" if columns["request"][k] < 0 else str(columns["request"][k] + 1),
            "yes" if columns["critical"][k] else "",
        )
        for k in order[:TASKS_TOLD]
    ]
    more = f", the first {TASKS_TOLD} of {count}" if count > TASKS_TOLD else ""
    heads = ("#start", "row", "task", "#takes", "#request", "critical path")
    return table(f"Tasks of {picture['name']}{more}", heads, rows)


def _utilization(
    name: str, tracks: Sequence[Track], tasks: Iterable[TrackTask], streams: Mapping[int, int]
) -> Record:
    """Utilization of devices and links over time, of the busiest rows.

    For a device it is the share of its streams that compute; `streams` has their number, by device
    index, if it exceeds the number of its tracks.
    """
    spans: dict[str, list[tuple[int, int]]] = {}
    count: Counter[str] = Counter()
    device_of: dict[str, int] = {}
    for track in tracks:
        key = track.name.rpartition("/")[0] if track.device >= 0 else track.name
        count[key] += 1
        device_of[key] = track.device
        spans.setdefault(key, [])
    end_ns = 1
    for task in tasks:
        end_ns = max(end_ns, task.start_ns + task.duration_ns)
        for track in task.tracks if task.request >= 0 else ():
            key = track.name.rpartition("/")[0] if track.device >= 0 else track.name
            spans[key].append((task.start_ns, task.start_ns + task.duration_ns))
    edges = np.linspace(0, end_ns, BINS + 1)
    shares = {}
    for key, own in spans.items():
        width = max(count[key], streams.get(device_of[key], 1)) if device_of[key] >= 0 else 1
        shares[key] = np.minimum(_covered(own, edges) / (edges[1] * width), 1.0)
    busy = sorted((key for key in shares if shares[key].any()), key=lambda key: -shares[key].mean())
    shown = [key for key in spans if key in busy[:STACKED_MOST]]
    idle = [key for key in spans if key not in busy]
    note = f"Always idle: {', '.join(idle)}." if idle else ""
    if len(busy) > len(shown):
        note += f" The {len(shown)} busiest of {len(busy)} rows are shown."
    rows = [
        Area(
            key,
            f"{told(key)[:24]}  {percent(float(shares[key].mean()))}",
            (edges / 1e9).tolist(),
            shares[key].tolist(),
            device_of[key],
            1.02,
            {"tickvals": [0, 1], "ticktext": ["0", "100 %"]},
            [percent(one) for one in shares[key].tolist()],
        )
        for key in shown
    ]
    alt = f"Share of the time by device and link, of {name}: "
    alt += ", ".join(f"{key} {percent(float(shares[key].mean()))}" for key in shown)
    return stacked(rows, name=name, alt=alt, note=note.strip())


def _covered(spans: Sequence[tuple[int, int]], edges: np.ndarray[Any, Any]) -> Any:
    """Covered time of each bin, overlapping spans added. O(n log n + bins)."""
    if not spans:
        return np.zeros(len(edges) - 1)
    found = np.zeros(len(edges))
    for ends, sign in zip(np.array(spans, dtype=float).T, (1, -1), strict=True):
        at = np.sort(ends)
        before = np.concatenate(([0.0], np.cumsum(at)))
        number = np.searchsorted(at, edges, side="right")
        # Time up to each edge since the ends before it.
        found += sign * (number * edges - before[number])
    return np.diff(found)


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Memory use of a device: bytes from each time to the next; capacity None: unknown."""

    device: str
    times_s: Sequence[float]
    nbytes: Sequence[int]
    weight_bytes: int
    capacity_bytes: int | None

    @property
    def peak(self) -> int:
        """Peak memory use in bytes."""
        return max(self.nbytes, default=0)


def _memory(
    clock: _Clock, name: str, weights: Mapping[str, int], capacity: Mapping[str, int]
) -> list[Record]:
    """Figures of memory use over time; empty if none was counted or used."""
    held = []
    for pid, device in clock.devices.items() if clock.memory else ():
        own = int(weights.get(device) or 0)
        steps = [one for one in clock.memory if one["pid"] == pid]
        times_s = [read_nanoseconds(one["ts"]) / 1e9 for one in steps] or [0.0]
        nbytes = [int(one["args"]["bytes"]) for one in steps] or [own]
        held.append(DeviceMemory(device, times_s, nbytes, own, capacity.get(device)))
    places = {one.device: place for place, one in enumerate(held)}
    end_s = max((one.times_s[-1] for one in held), default=0.0)
    kept = sorted((one for one in held if one.peak), key=lambda one: -one.peak)
    shown = sorted(kept[:STACKED_MOST], key=lambda one: places[one.device])
    if not shown:
        return []
    idle = [one.device for one in held if not one.peak]
    note = f"Always empty: {', '.join(idle)}." if idle else ""
    if any(len(one.times_s) > STEPS_MOST for one in shown):
        note += f" The peaks of {STEPS_MOST} spans are shown."
    if len(kept) > len(shown):
        note += f" The {len(shown)} fullest of {len(kept)} are shown."
    rows = [_held_area(one, places[one.device], end_s) for one in shown]
    alt = f"Memory of {name}, at most: "
    alt += ", ".join(f"{one.device} {format_bytes(one.peak)}" for one in shown)
    return [stacked(rows, name=name, alt=alt, note=note.strip())]


def _held_area(one: DeviceMemory, place: int, end_s: float) -> Area:
    times, nbytes = np.array(one.times_s), np.array(one.nbytes)
    if len(times) > STEPS_MOST:
        starts = np.linspace(0, len(times), STEPS_MOST, endpoint=False).astype(np.int64)
        times, nbytes = times[starts], np.maximum.reduceat(nbytes, starts)
    peak, capacity = int(nbytes.max()), one.capacity_bytes
    near = capacity is not None and capacity <= NEAR * peak
    exponent = min(max(peak.bit_length() - 1, 0) // 10, 3)
    step, unit = 2 ** (10 * exponent), ("B", "KiB", "MiB", "GiB")[exponent]
    has = "" if capacity is None else f" of {format_bytes(capacity)}"
    said = f"{told(one.device)[:24]}  at most {format_bytes(peak)}{has}, weights "
    return Area(
        one.device,
        f"{said}{format_bytes(one.weight_bytes)}",
        [round(float(at), 9) for at in (*times, end_s)],
        (nbytes / step).tolist(),
        place,
        (max(capacity, peak) if near and capacity is not None else peak) / step * 1.08,
        {"nticks": 4, "ticksuffix": f" {unit}"},
        [format_bytes(int(each)) for each in nbytes],
        line=capacity / step if near and capacity is not None else None,
        base=one.weight_bytes / step,
    )


@dataclass(frozen=True, slots=True)
class _Clock:
    """Clock of a trace: names by process and thread, slices, counters of memory.

    ``streams`` are the rows of devices by process and thread.
    """

    processes: Mapping[int, str]
    devices: Mapping[int, str]
    threads: Mapping[tuple[int, int], str]
    streams: Mapping[tuple[int, int], Track]
    slices: Sequence[Event]
    memory: Sequence[Event]

    def tasks(self) -> list[list[Event]]:
        """Return the slices of devices and links; those of one task on several tracks together."""
        mine = self.devices.keys() | {pid for pid, name in self.processes.items() if name == _LINKS}
        drawn = [one for one in self.slices if one["pid"] in mine and one["cat"] in _KINDS]
        return [list(same) for _, same in groupby(drawn, key=_same)]

    def track(self, event: Event) -> Track:
        """Return the row of a slice; slices of a route without contention share one."""
        key = event["pid"], event["tid"]
        if key in self.streams:
            return self.streams[key]
        thread = self.threads[key]
        route = f"{event['args']['from']}>{event['args']['to']}"
        return Track(route if thread.startswith(f"{route} (") else thread)


def _read(events: Sequence[Event], prefix: str) -> _Clock:
    """Clock of the processes whose names begin with `prefix`."""
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

    All plans together get `most` tasks; the first gets as many as it has, up to that. `real` is the
    first plan's run on the wall clock.
    """
    found: Record = {"timeline": [], "utilization": [], "memory": []}
    left_out: list[str] = []
    for name, plan, timeline in played:
        if found["timeline"] and len(timeline.events) > most:
            left_out.append(name)
            continue
        trace = json.loads("".join(trace_pieces(plan, timeline, real, _arrivals_s(timeline))))
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
    """Arrival of each request, its end less its latency; None if some were never answered."""
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
    """Return the pictures of a plan's trace that ``trace_pieces`` gave; `name` is the plan's.

    `weights` and `capacity`, if known, are bytes by device. Raises LookupError, TypeError,
    ValueError or ArithmeticError if the trace is damaged. O(E log E).
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
    drawn, left_out = _whole_requests(made, most)
    tracks = _tracks(clock, drawn)
    labels: dict[str, str] = {}
    tasks = [_task(clock, slices, labels) for slices in drawn]
    found["timeline"].append(_timeline(name, tracks, tasks, left_out))
    streams = {
        place: sum(pid == one for one, _ in clock.threads)
        for place, pid in enumerate(clock.devices)
    }
    found["utilization"].append(_utilization(name, tracks, tasks, streams))


def _task(clock: _Clock, slices: Sequence[Event], labels: dict[str, str]) -> TrackTask:
    first = slices[0]
    args = first["args"]
    target = clock.devices.get(first["pid"], args.get("to", ""))
    if first["name"] not in labels:
        labels[first["name"]] = told(_label(first))
    source, nbytes = args.get("from", ""), int(args.get("bytes", 0))
    ends = f"from {source or 'caller'} to {target or 'caller'}"
    moved = f"{format_bytes(nbytes)} {ends}" if source or nbytes else ""
    lost = "lost by a failure" if args.get("lost") else ""
    tracks = tuple(map(clock.track, slices))
    on = f" on {' + '.join(track.name for track in tracks)}"
    return TrackTask(
        tracks,
        read_nanoseconds(first["ts"]),
        read_nanoseconds(first["dur"]),
        int(args["request"]),
        (labels[first["name"]], told(", ".join(filter(None, (on, moved, lost))))),
        bool(args.get("critical")),
    )


def _tracks(clock: _Clock, tasks: Sequence[Sequence[Event]]) -> list[Track]:
    """Streams and links with tasks, and one stream of each other device."""
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
    between = first if args["nodes"] == 1 else f"{first} to {last}"
    return cut(f"{name}: {listed(args['ops'], limit=3)} ({between})", LABEL_MOST)
