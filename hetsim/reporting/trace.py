"""A timeline as Chrome trace events, the JSON that Perfetto and chrome://tracing open.

Source: "Trace Event Format" (Google, the Chromium project): complete events ``X``, flow
events ``s`` and ``f``, metadata ``M``. Times are in microseconds of the virtual clock.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hetsim.plans import Plan
from hetsim.text import tally
from hetsim.timeline import Event, Timeline

Entry = dict[str, Any]
Track = tuple[int, int]
"""(pid, tid) of one row of the picture."""


@dataclass(frozen=True, slots=True)
class _Slice:
    """One drawn rectangle; `start_us` and `end_us` are both rounded once from seconds."""

    event: int
    track: Track
    start_us: float
    end_us: float

    @property
    def ts(self) -> float:
        return self.start_us

    @property
    def dur(self) -> float:
        return duration(self.start_us, self.end_us)

    @property
    def inside(self) -> float:
        """A time at which this slice, and no neighbour on its track, is open."""
        return self.start_us + self.dur / 2


def duration(start: float, end: float) -> float:
    """Return the longest duration whose end, as a reader adds it up, does not pass `end`.

    >>> start, end = 1.5, 2.0**52 + 5
    >>> start + (end - start) > end
    True
    >>> start + duration(start, end) <= end
    True
    """
    length = max(end - start, 0.0)
    while length > 0 and start + length > end:
        length = math.nextafter(length, 0.0)
    return length


def trace_json(plan: Plan, timeline: Timeline) -> str:
    """Return the trace of `timeline` as JSON text, the same in every process.

    One process a device with a thread a stream, one process for the links with a thread
    a link direction or bus; transfers that hold no link are drawn on lanes of their
    route. Arrows lead from the subgraph that makes a value to its transfer, and on to
    each subgraph that waits for it. O(E log E) in the number of events.
    """
    tracks = _Tracks(plan, timeline)
    slices = [_slices(index, event, tracks) for index, event in enumerate(timeline.events)]
    entries = list(tracks.metadata())
    entries += _in_order(plan, timeline, slices)
    record = {
        "traceEvents": entries,
        "displayTimeUnit": "ms",
        "otherData": {
            "problem": plan.problem.name,
            "strategy": plan.strategy,
            "clock": "virtual",
            "latency_s": timeline.latency_s,
        },
    }
    return json.dumps(record, allow_nan=False, separators=(",", ":")) + "\n"


class _Tracks:
    """Which row each event is drawn on, and what the rows are called."""

    def __init__(self, plan: Plan, timeline: Timeline) -> None:
        problem = plan.problem
        self._names: dict[Track, str] = {}
        self._processes = {
            pid: f"device {name}" for pid, name in enumerate(problem.devices, start=1)
        }
        self._by_name: dict[str, Track] = {}
        self._lane_of: dict[int, Track] = {}
        for pid, (device, streams) in enumerate(
            zip(problem.devices, problem.streams, strict=True), start=1
        ):
            for stream in range(streams):
                self._add(pid, stream + 1, f"{device}/{stream}", f"stream {stream}")
        self._links_pid = len(problem.devices) + 1
        drawn = {name for event in timeline.events for name in event.tracks}
        names = [name for name in problem.link_names if name in drawn]
        names += sorted(drawn - set(names) - set(self._by_name))
        for tid, name in enumerate(names, start=1):
            self._add(self._links_pid, tid, name, name)
        self._add_lanes(timeline, len(names) + 1)
        if any(pid == self._links_pid for pid, _ in self._names):
            self._processes[self._links_pid] = "links"

    def _add(self, pid: int, tid: int, key: str, name: str) -> None:
        self._names[pid, tid] = name
        self._by_name[key] = (pid, tid)

    def _add_lanes(self, timeline: Timeline, tid: int) -> None:
        free_at: dict[tuple[str, str], list[float]] = {}
        chosen: dict[int, tuple[tuple[str, str], int]] = {}
        for index, event in enumerate(timeline.events):
            if event.tracks:
                continue
            ends = free_at.setdefault((event.source, event.device), [])
            lane = next((i for i, end in enumerate(ends) if end <= event.start_s), len(ends))
            if lane == len(ends):
                ends.append(event.end_s)
            ends[lane] = event.end_s
            chosen[index] = ((event.source, event.device), lane)
        first: dict[tuple[str, str], int] = {}
        for (source, target), ends in sorted(free_at.items()):
            first[source, target] = tid
            for lane in range(len(ends)):
                self._names[self._links_pid, tid] = f"{source}>{target} ({lane + 1})"
                tid += 1
        for index, (route, lane) in chosen.items():
            self._lane_of[index] = (self._links_pid, first[route] + lane)

    def of(self, index: int, event: Event) -> list[Track]:
        """Return the rows that event number `index` is drawn on."""
        if not event.tracks:
            return [self._lane_of[index]]
        return [self._by_name[name] for name in event.tracks]

    def metadata(self) -> Iterator[Entry]:
        """Name and order every process and thread."""
        for pid, name in self._processes.items():
            yield _metadata("process_name", pid, 0, name=name)
            yield _metadata("process_sort_index", pid, 0, sort_index=pid)
        for (pid, tid), name in sorted(self._names.items()):
            yield _metadata("thread_name", pid, tid, name=name)
            yield _metadata("thread_sort_index", pid, tid, sort_index=tid)


def _metadata(kind: str, pid: int, tid: int, **args: object) -> Entry:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": args}


def _slices(index: int, event: Event, tracks: _Tracks) -> list[_Slice]:
    return [
        _Slice(index, track, event.start_s * 1e6, event.end_s * 1e6)
        for track in tracks.of(index, event)
    ]


def _in_order(plan: Plan, timeline: Timeline, slices: list[list[_Slice]]) -> list[Entry]:
    """Slices and arrows by time; at one time, each slice is followed by its own arrow ends.

    A reader binds an arrow's end to the slice that opened last on its track, so a slice
    without duration must come, with its arrows, before the one that starts as it ends.
    """
    arrows: list[list[tuple[float, Entry]]] = [[] for _ in slices]
    for number, (source, target, name) in enumerate(_arrows(plan, timeline), start=1):
        tail, head = slices[source][-1], slices[target][0]
        common = {"cat": "transfer", "name": name, "id": number}
        arrows[source].append((tail.inside, {"ph": "s", **common, **_at(tail, tail.inside)}))
        arrows[target].append((head.ts, {"ph": "f", "bp": "e", **common, **_at(head, head.ts)}))
    critical = set(timeline.critical_path)
    keyed: list[tuple[tuple[float, bool, int], Entry]] = []
    for index, event in enumerate(timeline.events):
        body = _body(plan, event, index in critical)
        for part in slices[index]:
            lasts = part.dur > 0
            entry = {"ph": "X", **body, **_at(part, part.ts), "dur": part.dur}
            keyed.append(((part.ts, lasts, index), entry))
        lasts = slices[index][0].dur > 0
        keyed.extend(((ts, lasts, index), entry) for ts, entry in arrows[index])
    keyed.sort(key=lambda item: item[0])
    return [entry for _, entry in keyed]


def _at(part: _Slice, ts: float) -> Entry:
    pid, tid = part.track
    return {"pid": pid, "tid": tid, "ts": ts}


def _body(plan: Plan, event: Event, critical: bool) -> Entry:
    args: Entry = {"request": event.request, "group": event.group, "critical": critical}
    if event.lost:
        args["lost"] = True
    if event.kind == "failure":
        args |= {"device": event.device}
    elif event.kind == "compute" and event.group >= 0:
        nodes = plan.groups[event.group].nodes
        problem = plan.problem
        args["nodes"] = len(nodes)
        args["ops"] = tally(problem.op_types[node] for node in nodes)
        args["first"] = problem.node_names[nodes[0]]
        args["last"] = problem.node_names[nodes[-1]]
    elif event.kind == "transfer":
        args |= {"bytes": event.nbytes, "from": event.source, "to": event.device}
    return {"name": event.name, "cat": event.kind, "args": args}


def _arrows(plan: Plan, timeline: Timeline) -> Iterator[tuple[int, int, str]]:
    """Yield (event, event, value name): the maker to its transfer, the transfer to each reader."""
    problem = plan.problem
    owners = []
    for first, replica in zip(plan.offsets, plan.replicas, strict=True):
        owner = [-1] * problem.n
        for index, group in enumerate(replica.groups, start=first):
            for node in group.nodes:
                owner[node] = index
        owners.append(owner)
    computing = {
        (event.request, event.group): index
        for index, event in enumerate(timeline.events)
        if event.kind == "compute" and event.group >= 0 and not event.lost
    }
    consumers = {value.name: value.consumers for value in problem.values}
    for index, event in enumerate(timeline.events):
        if event.kind != "transfer":
            continue
        maker = computing.get((event.request, event.group))
        if maker is not None:
            yield maker, index, event.name
        owner = owners[plan.replica_of(event.request)]
        readers = dict.fromkeys(owner[node] for node in consumers.get(event.name, ()))
        for reader in sorted(readers):
            reading = computing.get((event.request, reader))
            # After a failure a subgraph may have been given up for others.
            if reading is not None and plan.groups[reader].device == event.device:
                yield index, reading, event.name
