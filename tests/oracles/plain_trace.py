"""A trace made event by event, entry by entry, and put in order as a whole: by plain loops.

What ``hetsim.reporting.trace`` writes in pieces, out of arrays, is this text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

from hetsim.core.text import plainly, tally
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.problem.timeline import Event, Timeline
from hetsim.reporting.tables.question import figures_rows
from hetsim.reporting.trace import FIRST_THREAD, REAL, SIMULATED
from hetsim.reporting.trace_counters import microseconds, nanoseconds
from hetsim.reporting.trace_tracks import metadata, rows
from hetsim.simulation.clock.memory import AT_ARRIVAL, AT_FINISH, holdings
from hetsim.simulation.clock.templates import PlanTasks, Template, tasks_of_plan

Entry = dict[str, Any]
Track = tuple[int, int]

Times = Mapping[int, tuple[float, float]]
"""By request: when it arrived, and when it was answered."""

Changes = list[tuple[int, float]]
"""Nanoseconds, and by how much a count changes there."""


@dataclass(frozen=True, slots=True)
class Counter:
    """One line of a trace: its name, what it counts, and its value from each time on.

    Attributes
    ----------
    of : str
        The device that it is of; ``""``: all requests; ``links``: all links.
    name, unit : str
    values : tuple of (int, float)
        From which nanosecond on which value; times ascend, and neighbours differ.
    """

    of: str
    name: str
    unit: str
    values: tuple[tuple[int, float], ...]

    def entries(self, pid: int) -> Iterator[tuple[int, Entry]]:
        """Yield the time and the trace event of each value."""
        for at_ns, value in self.values:
            shown = int(value) if value.is_integer() else value
            entry = {"ph": "C", "name": self.name, "pid": pid, "args": {self.unit: shown}}
            yield at_ns, entry | {"ts": microseconds(at_ns)}


def counted(of: str, name: str, unit: str, changes: Changes, base: float = 0.0) -> list[Counter]:
    """Return a counter that starts at `base` and changes so; none where it never changes."""
    values = [(0, float(base))]
    exact = float(base)
    for at_ns, by in sorted(changes):
        exact += by
        if values[-1][0] == at_ns:
            values[-1] = (at_ns, exact)
        else:
            values.append((at_ns, exact))
    told = values[:1] + [now for was, now in pairwise(values) if now[1] != was[1]]
    return [Counter(of, name, unit, tuple(told))] if len(told) > 1 else []


def counters(plan: Plan, timeline: Timeline, times: Times) -> list[Counter]:
    """Return what is known of a simulated plan; of failures only requests and power."""
    found = under_way(times)
    if not timeline.events:
        return found
    laid_out = tasks_of_plan(plan, plan.problem.contention)
    tasks = _tasks(laid_out, timeline.events)
    if tasks is not None:
        found += _waiting(laid_out, timeline.events, tasks, times)
        found += _memory(laid_out, timeline, tasks, times)
    return found + _power(plan, timeline)


def under_way(times: Times) -> list[Counter]:
    """Return how many requests had arrived and were not answered."""
    changes: Changes = []
    for begin_s, end_s in times.values():
        changes += [(nanoseconds(begin_s), 1), (nanoseconds(end_s), -1)]
    return counted("", "requests", "under way", changes)


def _tasks(laid_out: PlanTasks, events: Sequence[Event]) -> dict[tuple[int, int], Event] | None:
    """Events by request and task; None where failures made them others than the plan's."""
    problem = laid_out.plan.problem
    known = [
        {
            (
                problem.values[one.value].name,
                problem.devices[one.source],
                problem.devices[one.target],
            ): at
            for at, one in enumerate(template.transfers, start=template.groups)
        }
        for template in laid_out.templates
    ]
    found: dict[tuple[int, int], Event] = {}
    for event in events:
        if event.kind == "failure" or event.lost or event.request < 0:
            return None
        replica = laid_out.plan.replica_of(event.request)
        template = laid_out.templates[replica]
        if event.kind == "compute":
            task = event.group - template.first_group
            if not 0 <= task < template.groups:
                return None
        else:
            moved = known[replica].get((event.name, event.source, event.device))
            if moved is None:
                return None
            task = moved
        if (event.request, task) in found:
            return None
        found[event.request, task] = event
    return found


def _of(laid_out: PlanTasks, request: int) -> Template:
    return laid_out.templates[laid_out.plan.replica_of(request)]


def _waiting(
    laid_out: PlanTasks,
    events: Sequence[Event],
    tasks: Mapping[tuple[int, int], Event],
    times: Times,
) -> list[Counter]:
    """How many subgraphs wait for each device, and transfers for links, that could start."""
    changes: dict[str, Changes] = {}
    for (request, task), event in tasks.items():
        before = _of(laid_out, request).predecessors[task]
        ends = [tasks[request, one].end_s for one in before if (request, one) in tasks]
        ready_s = max(ends, default=times[request][0])
        if ready_s < event.start_s:
            of = event.device if event.kind == "compute" else "links"
            changes.setdefault(of, []).extend(
                [(nanoseconds(ready_s), 1), (nanoseconds(event.start_s), -1)]
            )
    found = []
    for of in (*laid_out.plan.problem.devices, "links"):
        unit = "transfers" if of == "links" else "subgraphs"
        found += counted(of, "waiting", unit, changes.get(of, []))
    return found


def _memory(
    laid_out: PlanTasks,
    timeline: Timeline,
    tasks: Mapping[tuple[int, int], Event],
    times: Times,
) -> list[Counter]:
    """Weights and live activations of each device."""
    problem = laid_out.plan.problem
    if not timeline.peak_memory_bytes:
        return []
    changes: dict[int, Changes] = {}
    held = [holdings(template) for template in laid_out.templates]
    for request, (begin_s, end_s) in times.items():
        for one in held[laid_out.plan.replica_of(request)]:
            since_s = begin_s if one.since == AT_ARRIVAL else tasks[request, one.since].start_s
            until_s = max(
                end_s if task == AT_FINISH else tasks[request, task].end_s for task in one.until
            )
            changes.setdefault(one.device, []).extend(
                [(nanoseconds(since_s), one.nbytes), (nanoseconds(until_s), -one.nbytes)]
            )
    found = []
    for device, name in enumerate(problem.devices):
        base = timeline.weight_bytes.get(name, 0)
        found += counted(name, "memory", "bytes", changes.get(device, []), base)
    return found


def _power(plan: Plan, timeline: Timeline) -> list[Counter]:
    """Watts of each device whose power is known: idle, and what busy streams add."""
    problem = plan.problem
    changes: dict[str, Changes] = {}
    for event in timeline.events:
        if event.kind == "compute":
            changes.setdefault(event.device, []).extend(
                [(nanoseconds(event.start_s), 1), (nanoseconds(event.end_s), -1)]
            )
    found = []
    for name, width, idle_w, busy_w in zip(
        problem.devices, problem.streams, problem.idle_w, problem.busy_w, strict=False
    ):
        if busy_w > 0:
            for one in counted(name, "power", "W", changes.get(name, [])):
                values = tuple(
                    (at_ns, idle_w + (busy_w - idle_w) * streams / width)
                    for at_ns, streams in one.values
                )
                found.append(Counter(name, "power", "W", values))
    return found


class Tracks:
    """Which row each event is drawn on, and what the rows are called.

    Parameters
    ----------
    problem : Problem
    events : sequence of Event
        By their starts.
    requests : mapping of int to (float, float)
        From when to when each is drawn.
    clock : str
        What the names of processes start with.
    after : Track
        Process and thread numbers up to these are taken.
    """

    def __init__(
        self,
        problem: Problem,
        events: Sequence[Event],
        requests: Mapping[int, tuple[float, float]],
        clock: str,
        after: Track,
    ) -> None:
        self._names: dict[Track, str] = {}
        first = after[0] + 1
        self._first, self._devices = first, problem.devices
        self._tid = after[1]
        self.requests_pid = first + len(problem.devices) + 1
        self._processes = {
            pid: f"{clock}device {name}" for pid, name in enumerate(problem.devices, start=first)
        }
        self._by_name: dict[str, Track] = {}
        self._lane_of: dict[int, Track] = {}
        drawn = {name for event in events for name in event.tracks}
        for pid, (device, streams) in enumerate(
            zip(problem.devices, problem.streams, strict=True), start=first
        ):
            own = [name for name in drawn if name.rpartition("/")[0] == device]
            # What a clock of another machine says may overlap by a little: it gets a row more.
            most = max((int(name.rpartition("/")[2]) + 1 for name in own), default=0)
            for stream in range(max(streams, most)):
                self._by_name[f"{device}/{stream}"] = self._add(pid, f"stream {stream}")
        self._links_pid = first + len(problem.devices)
        names = [name for name in problem.link_names if name in drawn]
        names += sorted(drawn - set(names) - set(self._by_name))
        for name in names:
            self._by_name[name] = self._add(self._links_pid, name)
        self._add_lanes(events)
        if any(pid == self._links_pid for pid, _ in self._names):
            self._processes[self._links_pid] = f"{clock}links"
        self._request_of = self._add_requests(requests)
        if requests:
            self._processes[self.requests_pid] = f"{clock}requests"

    @property
    def last(self) -> Track:
        """The highest process and thread numbers that may be taken."""
        return self.requests_pid, self._tid

    def pid_of(self, name: str) -> int:
        """Return the process of a device, of ``links``, or of requests: ``""``."""
        of = {device: pid for pid, device in enumerate(self._devices, start=self._first)}
        return of.get(name, self._links_pid if name else self.requests_pid)

    def _add(self, pid: int, name: str) -> Track:
        self._tid += 1
        self._names[pid, self._tid] = name
        return pid, self._tid

    def _add_requests(self, requests: Mapping[int, tuple[float, float]]) -> dict[int, Track]:
        order = sorted(requests, key=lambda request: (requests[request], request))
        spans = [requests[request] for request in order]
        own = rows(spans, "requests", partial(self._add, self.requests_pid))
        return dict(zip(order, own, strict=True))

    def of_request(self, request: int) -> Track:
        """Return the row that a request is drawn on."""
        return self._request_of[request]

    def _add_lanes(self, events: Sequence[Event]) -> None:
        on_route: dict[tuple[str, str], list[int]] = {}
        for index, event in enumerate(events):
            if not event.tracks:
                on_route.setdefault((event.source, event.device), []).append(index)
        for (source, target), own in sorted(on_route.items()):
            spans = [(events[index].start_s, events[index].end_s) for index in own]
            made = rows(spans, f"{source}>{target}", partial(self._add, self._links_pid))
            self._lane_of.update(zip(own, made, strict=True))

    def of(self, index: int, event: Event) -> list[Track]:
        """Return the rows that event number `index` is drawn on."""
        if not event.tracks:
            return [self._lane_of[index]]
        return [self._by_name[name] for name in event.tracks]

    def metadata(self) -> Iterator[Entry]:
        """Name and order every process and thread."""
        for pid, name in self._processes.items():
            yield metadata("process_name", pid, None, name=name)
            # Requests stand above the devices that they run on.
            place = self._first - 1 if pid == self.requests_pid else pid
            yield metadata("process_sort_index", pid, None, sort_index=place)
        for (pid, tid), name in sorted(self._names.items()):
            yield metadata("thread_name", pid, tid, name=name)
            yield metadata("thread_sort_index", pid, tid, sort_index=tid)


@dataclass(frozen=True, slots=True)
class _Slice:
    """One drawn rectangle; start and end are each rounded to nanoseconds, the length is not."""

    track: Track
    start_ns: int
    end_ns: int

    @property
    def length_ns(self) -> int:
        return self.end_ns - self.start_ns

    @property
    def inside_ns(self) -> int:
        """A time at which this slice, and no neighbour on its track, is open."""
        return self.start_ns + self.length_ns // 2


@dataclass(frozen=True, slots=True)
class _Story:
    """Events of one clock."""

    plan: Plan
    events: Sequence[Event]
    tracks: Tracks
    critical: frozenset[int] | None
    times: Times
    counters: Sequence[Counter]


def trace_json(
    plan: Plan,
    timeline: Timeline,
    real: Sequence[Event] = (),
    arrivals_s: Sequence[float] | None = None,
) -> str:
    """Return what ``hetsim.reporting.trace.trace_json`` does."""
    problem = plan.problem
    stories: list[_Story] = []
    # A reader takes a thread with its process's number for the main one: there is none.
    last = (0, FIRST_THREAD)
    if real:
        times = _extents(real)
        tracks = Tracks(problem, real, times, REAL, last)
        stories.append(_Story(plan, real, tracks, None, times, under_way(times)))
        last = tracks.last
    if arrivals_s is None:
        times = _extents(timeline.events)
    else:
        came = zip(arrivals_s, timeline.latencies_s, strict=True)
        times = {at: (came_s, came_s + took_s) for at, (came_s, took_s) in enumerate(came)}
    name = SIMULATED if real else ""
    tracks = Tracks(problem, timeline.events, times, name, last)
    critical = frozenset(timeline.critical_path)
    lines = counters(plan, timeline, times)
    stories.append(_Story(plan, timeline.events, tracks, critical, times, lines))
    entries = [entry for story in stories for entry in story.tracks.metadata()]
    record = {
        "traceEvents": entries + _in_order(stories),
        "displayTimeUnit": "ms",
        "otherData": {
            "problem": plan.problem.name,
            "strategy": plan.strategy,
            "clock": "wall and virtual" if real else "virtual",
            "latency_s": timeline.latency_s,
            **dict(figures_rows(plan.problem)),
        },
    }
    return json.dumps(plainly(record), allow_nan=False, separators=(",", ":")) + "\n"


def _extents(events: Sequence[Event]) -> dict[int, tuple[float, float]]:
    """From the first to the last that was done for each request."""
    found: dict[int, tuple[float, float]] = {}
    for event in events:
        if event.request >= 0:
            begin_s, end_s = found.get(event.request, (event.start_s, event.end_s))
            found[event.request] = min(begin_s, event.start_s), max(end_s, event.end_s)
    return dict(sorted(found.items()))


_Key = tuple[int, bool, int, int, int]


def _in_order(stories: Sequence[_Story]) -> list[Entry]:
    """Slices and arrows by time; at one time, each slice is followed by its own arrow ends.

    A reader binds an arrow's end to the slice that opened last on its track, so a slice
    without duration must come, with its arrows, before the one that starts as it ends.
    """
    keyed: list[tuple[_Key, Entry]] = []
    arrows = 0
    for place, story in enumerate(stories):
        slices = [_slices(story, index) for index in range(len(story.events))]
        ends: list[list[tuple[int, Entry]]] = [[] for _ in slices]
        drawn = list(_arrows(story.plan, story.events))
        rank = _ranks(slices, drawn)
        for source, target, name in drawn:
            arrows += 1
            tail, head = slices[source][-1], slices[target][0]
            common = {"cat": "transfer", "name": name, "id": arrows}
            begin = {"ph": "s", **common, **_at(tail, tail.inside_ns)}
            ends[source].append((tail.inside_ns, begin))
            finish = {"ph": "f", "bp": "e", **common, **_at(head, head.start_ns)}
            ends[target].append((head.start_ns, finish))
        for index, event in enumerate(story.events):
            critical = None if story.critical is None else index in story.critical
            body = _body(story.plan, event, critical)
            for part in slices[index]:
                entry = {"ph": "X", **body, **_at(part, part.start_ns)}
                entry["dur"] = microseconds(part.length_ns)
                keyed.append(
                    ((part.start_ns, part.length_ns > 0, rank[index], place, index), entry)
                )
            lasts = slices[index][0].length_ns > 0
            keyed.extend(
                ((at_ns, lasts, rank[index], place, index), entry) for at_ns, entry in ends[index]
            )
        for request, span in story.times.items():
            part = _span(story.tracks.of_request(request), *span)
            entry = {"ph": "X", **_request(request, span), **_at(part, part.start_ns)}
            entry["dur"] = microseconds(part.length_ns)
            keyed.append(((part.start_ns, part.length_ns > 0, 0, place, request), entry))
        for line in story.counters:
            for at_ns, entry in line.entries(story.tracks.pid_of(line.of)):
                keyed.append(((at_ns, False, -1, place, 0), entry))
    keyed.sort(key=lambda item: item[0])
    return [entry for _, entry in keyed]


def _ranks(slices: Sequence[Sequence[_Slice]], arrows: Sequence[tuple[int, int, str]]) -> list[int]:
    """Return by event how many before it, without duration, it waited for at its own time.

    An arrow must begin in a trace before it ends, at one time, too.
    """
    rank = [0] * len(slices)
    after: dict[int, list[int]] = {}
    waits = [0] * len(slices)
    for source, target, _ in arrows:
        if (
            slices[source][-1].end_ns == slices[target][0].start_ns
            and not slices[source][-1].length_ns
        ):
            after.setdefault(source, []).append(target)
            waits[target] += 1
    ready = [event for event in after if not waits[event]]
    while ready:
        event = ready.pop()
        for other in after.get(event, ()):
            rank[other] = max(rank[other], rank[event] + 1)
            waits[other] -= 1
            if not waits[other]:
                ready.append(other)
    return rank


def _slices(story: _Story, index: int) -> list[_Slice]:
    event = story.events[index]
    return [_span(track, event.start_s, event.end_s) for track in story.tracks.of(index, event)]


def _span(track: Track, start_s: float, end_s: float) -> _Slice:
    start_ns = nanoseconds(start_s)
    return _Slice(track, start_ns, max(start_ns, nanoseconds(end_s)))


def _request(request: int, span: tuple[float, float]) -> Entry:
    begin_s, end_s = span
    args = {"request": request, "seconds": end_s - begin_s}
    return {"name": f"request {request}", "cat": "request", "args": args}


def _at(part: _Slice, at_ns: int) -> Entry:
    pid, tid = part.track
    return {"pid": pid, "tid": tid, "ts": microseconds(at_ns)}


def _body(plan: Plan, event: Event, critical: bool | None) -> Entry:
    args: Entry = {"request": event.request, "group": event.group}
    if critical is not None:
        args["critical"] = critical
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


def _arrows(plan: Plan, events: Sequence[Event]) -> Iterator[tuple[int, int, str]]:
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
        for index, event in enumerate(events)
        if event.kind == "compute" and event.group >= 0 and not event.lost
    }
    consumers = {value.name: value.consumers for value in problem.values}
    for index, event in enumerate(events):
        if event.kind != "transfer":
            continue
        maker = computing.get((event.request, event.group))
        # What was done again after a failure may have been done after it was sent on.
        if maker is not None and events[maker].start_s <= event.start_s:
            yield maker, index, event.name
        owner = owners[plan.replica_of(event.request)]
        readers = dict.fromkeys(owner[node] for node in consumers.get(event.name, ()))
        for reader in sorted(readers):
            reading = computing.get((event.request, reader))
            # After a failure a subgraph may have been given up for others.
            here = reading is not None and plan.groups[reader].device == event.device
            if reading is not None and here and event.start_s <= events[reading].start_s:
                yield index, reading, event.name
