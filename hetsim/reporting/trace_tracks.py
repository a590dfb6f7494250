"""Rows of a trace, and its counters: open requests, waiting tasks, memory, and power."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from typing import Any

import numpy as np

from hetsim.core.text import grouped
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.problem.timeline import Events, Floats, Ints, Timeline
from hetsim.simulation.clock.memory import AT_ARRIVAL, AT_FINISH, holdings
from hetsim.simulation.clock.templates import PlanTasks, Template, tasks_of_plan

Entry = dict[str, Any]
Track = tuple[int, int]
"""(pid, tid) of one row of the picture."""


class Tracks:
    """Rows of events, and names of the rows.

    `requests` are the start and end of each drawn request, by number; `clock` begins the names of
    processes; process and thread numbers up to `after` are taken.
    """

    def __init__(
        self,
        problem: Problem,
        events: Events,
        requests: Mapping[int, tuple[float, float]],
        clock: str,
        after: Track,
    ) -> None:
        self._names: dict[Track, str] = {}
        first = after[0] + 1
        self._first = first
        self._pid_of = {name: pid for pid, name in enumerate(problem.devices, start=first)}
        self._tid = after[1]
        self.requests_pid = first + len(problem.devices) + 1
        self._processes = {
            pid: f"{clock}device {name}" for pid, name in enumerate(problem.devices, start=first)
        }
        self._by_name: dict[str, Track] = {}
        self._lane_of = np.zeros(len(events), dtype=np.int64)
        drawn = {name for one in events.sorts for name in one.tracks}
        for pid, (device, streams) in enumerate(
            zip(problem.devices, problem.streams, strict=True), start=first
        ):
            own = [name for name in drawn if name.rpartition("/")[0] == device]
            # Times of another machine's clock may overlap slightly: the event gets a further row.
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
        self.request_of = self._add_requests(requests)
        if requests:
            self._processes[self.requests_pid] = f"{clock}requests"

    @property
    def last(self) -> Track:
        """Highest process and thread numbers in use."""
        return self.requests_pid, self._tid

    def pid_of(self, name: str) -> int:
        """Return the process of a device, of ``links``, or of requests: ``""``."""
        return self._pid_of.get(name, self._links_pid if name else self.requests_pid)

    def _add(self, pid: int, name: str) -> Track:
        self._tid += 1
        self._names[pid, self._tid] = name
        return pid, self._tid

    def _add_requests(self, requests: Mapping[int, tuple[float, float]]) -> dict[int, Track]:
        order = sorted(requests, key=lambda request: (requests[request], request))
        spans = [requests[request] for request in order]
        own = rows(spans, "requests", partial(self._add, self.requests_pid))
        return dict(zip(order, own, strict=True))

    def _add_lanes(self, events: Events) -> None:
        sorts_of = enumerate(events.sorts)
        on_route = grouped(((one.source, one.device), k) for k, one in sorts_of if not one.tracks)
        for (source, target), sorts in sorted(on_route.items()):
            own = np.flatnonzero(np.isin(events.sort, sorts))
            spans = zip(events.start_s[own].tolist(), events.end_s[own].tolist(), strict=True)
            made = rows(spans, f"{source}>{target}", partial(self._add, self._links_pid))
            self._lane_of[own] = [tid for _, tid in made]

    def of(self, events: Events) -> tuple[Ints, Ints, Ints]:
        """Return the rows of events.

        These are the index of each event's first row, followed by their total; the process and the
        thread of each.
        """
        tracks = [
            [self._by_name[name] for name in one.tracks] or [(self._links_pid, -1)]
            for one in events.sorts
        ]
        count = np.array([len(own) for own in tracks], dtype=np.int64)
        first = np.cumsum(count) - count
        flat = np.array([track for own in tracks for track in own], dtype=np.int64).reshape(-1, 2)
        at = np.concatenate(([0], np.cumsum(count[events.sort])))
        owner = np.repeat(np.arange(len(events)), np.diff(at))
        place = first[events.sort[owner]] + np.arange(len(owner)) - at[owner]
        tid = flat[place, 1]
        return at, flat[place, 0], np.where(tid < 0, self._lane_of[owner], tid)

    def metadata(self) -> Iterator[Entry]:
        """Yield entries that name and order every process and thread."""
        for pid, name in self._processes.items():
            yield metadata("process_name", pid, None, name=name)
            # Requests stand above the devices that they run on.
            place = self._first - 1 if pid == self.requests_pid else pid
            yield metadata("process_sort_index", pid, None, sort_index=place)
        for (pid, tid), name in sorted(self._names.items()):
            yield metadata("thread_name", pid, tid, name=name)
            yield metadata("thread_sort_index", pid, tid, sort_index=tid)


def rows(
    spans: Iterable[tuple[float, float]], name: str, add: Callable[[str], Track]
) -> list[Track]:
    """Return the first free row for each span, in order of their starts. O(n log n).

    `add` makes a row of a name: ``name (1)``, ``name (2)``, as many as are needed.
    """
    lane_of = _lanes(spans)
    made = [add(f"{name} ({lane + 1})") for lane in range(max(lane_of, default=-1) + 1)]
    return [made[lane] for lane in lane_of]


def _lanes(spans: Iterable[tuple[float, float]]) -> list[int]:
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    chosen = []
    for start, end in spans:
        while busy and busy[0][0] <= start:
            heappush(free, heappop(busy)[1])
        lane = heappop(free) if free else len(busy)
        heappush(busy, (end, lane))
        chosen.append(lane)
    return chosen


def metadata(kind: str, pid: int, tid: int | None, **args: object) -> Entry:
    """Return an entry that names or orders a process, or with `tid` a thread."""
    thread = {} if tid is None else {"tid": tid}
    return {"ph": "M", "name": kind, "pid": pid, **thread, "args": args}


Times = Mapping[int, tuple[float, float]]
"""Arrival and answer of each request."""


@dataclass(frozen=True, slots=True, eq=False)
class Counter:
    """Line of a trace: its name, its unit, and its value from each time on.

    `of` is its device; ``""``: all requests; ``links``: all links. Times are nanoseconds and
    ascend; neighbouring values differ.
    """

    of: str
    name: str
    unit: str
    at_ns: Ints
    value: Floats

    def entry(self, pid: int, place: int) -> Entry:
        """Return the trace event of a value."""
        args = {self.unit: shown(float(self.value[place]))}
        at = microseconds(int(self.at_ns[place]))
        return {"ph": "C", "name": self.name, "pid": pid, "args": args, "ts": at}


def shown(value: float) -> float:
    """Return a number for JSON, a whole one as an integer."""
    return int(value) if value.is_integer() else value


def nanoseconds(seconds: float) -> int:
    """Return a time in nanoseconds, as traces store it."""
    return round(seconds * 1e9)


def microseconds(nanoseconds: int) -> float:
    """Return the microseconds that readers truncate to exactly these nanoseconds.

    >>> int(1001 / 1000 * 1000), int(microseconds(1001) * 1000)
    (1000, 1001)
    """
    value = nanoseconds / 1000
    while value * 1000 < nanoseconds:
        value = math.nextafter(value, math.inf)
    return value


def read_nanoseconds(microseconds: float) -> int:
    """Return the nanoseconds of a time in a trace, truncated as readers do."""
    return int(microseconds * 1000)


def all_nanoseconds(seconds: Floats) -> Ints:
    """Return ``nanoseconds`` of many times."""
    found: Ints = np.rint(seconds * 1e9).astype(np.int64)
    return found


def all_microseconds(nanoseconds: Ints) -> list[float]:
    """Return ``microseconds`` of many times."""
    return list(map(microseconds, nanoseconds.tolist()))


def counted(
    of: str, name: str, unit: str, at_ns: Ints, by: Floats, base: float = 0.0
) -> list[Counter]:
    """Return a counter that starts at `base` and changes by `by`; empty if it never changes."""
    order = np.lexsort((by, at_ns))
    at_ns = np.concatenate(([0], at_ns[order]))
    value = np.cumsum(np.concatenate(([base], by[order])))
    last = np.concatenate((at_ns[1:] != at_ns[:-1], [True]))
    at_ns, value = at_ns[last], value[last]
    told = np.concatenate(([True], value[1:] != value[:-1]))
    return [Counter(of, name, unit, at_ns[told], value[told])] if told.sum() > 1 else []


def spanned(start_s: Floats, end_s: Floats, by: float = 1.0) -> tuple[Ints, Floats]:
    """Return the changes of a count that grows by `by` at each start and falls at each end."""
    at_ns = np.concatenate((all_nanoseconds(start_s), all_nanoseconds(end_s)))
    return at_ns, np.repeat([by, -by], start_s.size)


def counters(plan: Plan, timeline: Timeline, times: Times) -> list[Counter]:
    """Return the counters of a simulated plan; with failures only requests and power."""
    found = under_way(times)
    if not timeline.events:
        return found
    events = Events.of(timeline.events)
    laid_out = tasks_of_plan(plan, plan.problem.contention)
    tasks = _tasks(laid_out, events, times)
    if tasks is not None:
        found += _waiting(laid_out, tasks)
        found += _memory(laid_out, timeline, tasks)
    return found + _power(plan, events)


def under_way(times: Times) -> list[Counter]:
    """Return the number of open requests over time."""
    return counted("", "requests", "under way", *spanned(*begins_and_ends(times)))


def begins_and_ends(times: Times) -> tuple[Floats, Floats]:
    """Return the arrival and the answer of each request, in the order of `times`."""
    spans = np.array(list(times.values()), dtype=float).reshape(-1, 2)
    return spans[:, 0], spans[:, 1]


@dataclass(frozen=True, slots=True, eq=False)
class _TaskTimes:
    """Execution times of each task, one row per request; NaN if there is no such task."""

    replica: Ints
    begin_s: Floats
    done_s: Floats
    start_s: Floats
    end_s: Floats


def _tasks(laid_out: PlanTasks, events: Events, times: Times) -> _TaskTimes | None:
    """Times by request and task; None if failures made them differ from the plan's."""
    if (events.request < 0).any() or any(one.kind == "failure" or one.lost for one in events.sorts):
        return None
    deal = np.array(laid_out.plan.period, dtype=np.int64)
    task_of = np.array(
        [_tasks_of_sorts(laid_out, template, events) for template in laid_out.templates]
    )
    task = task_of[deal[events.request % deal.size], events.sort]
    if (task < 0).any():
        return None
    requests = np.array(list(times), dtype=np.int64)
    by_number = np.argsort(requests)
    row = by_number[np.searchsorted(requests[by_number], events.request)]
    most = laid_out.widest
    place = row * most + task
    if np.unique(place).size < place.size:
        return None
    start_s, end_s = np.full((2, requests.size * most), np.nan)
    start_s[place], end_s[place] = events.start_s, events.end_s
    return _TaskTimes(
        deal[requests % deal.size],
        *begins_and_ends(times),
        start_s.reshape(-1, most),
        end_s.reshape(-1, most),
    )


def _tasks_of_sorts(laid_out: PlanTasks, template: Template, events: Events) -> list[int]:
    """Task of a template for each sort of event; -1 if there is none."""
    problem = laid_out.plan.problem
    known = {
        (problem.values[one.value].name, problem.devices[one.source], problem.devices[one.target]):
        at for at, one in enumerate(template.transfers, start=template.groups)
    }  # fmt: skip
    found: list[int] = []
    for one in events.sorts:
        if one.kind == "compute":
            task = one.group - template.first_group
            found.append(task if 0 <= task < template.groups else -1)
        else:
            found.append(known.get((one.name, one.source, one.device), -1))
    return found


def _waiting(laid_out: PlanTasks, tasks: _TaskTimes) -> list[Counter]:
    """Counters of ready subgraphs that wait for each device, and transfers that wait for links."""
    devices = laid_out.plan.problem.devices
    changes: dict[str, list[tuple[Ints, Floats]]] = {}
    for replica, template in enumerate(laid_out.templates):
        own = np.flatnonzero(tasks.replica == replica)
        for task in range(template.tasks):
            ready_s = np.full(own.size, np.nan)
            for before in template.predecessors[task]:
                ready_s = np.fmax(ready_s, tasks.end_s[own, before])
            ready_s = np.where(np.isnan(ready_s), tasks.begin_s[own], ready_s)
            start_s = tasks.start_s[own, task]
            late = ready_s < start_s
            if late.any():
                computes = task < template.groups
                of = devices[template.group_device[task]] if computes else "links"
                changes.setdefault(of, []).append(spanned(ready_s[late], start_s[late]))
    found: list[Counter] = []
    for of in (*devices, "links"):
        unit = "transfers" if of == "links" else "subgraphs"
        found += counted(of, "waiting", unit, *_joined(changes.get(of, [])))
    return found


def _joined(changes: Sequence[tuple[Ints, Floats]]) -> tuple[Ints, Floats]:
    at_ns = [np.zeros(0, dtype=np.int64), *(at for at, _ in changes)]
    return np.concatenate(at_ns), np.concatenate([np.zeros(0), *(by for _, by in changes)])


def _memory(laid_out: PlanTasks, timeline: Timeline, tasks: _TaskTimes) -> list[Counter]:
    """Counters of weights and live activations of each device."""
    problem = laid_out.plan.problem
    if not timeline.peak_memory_bytes:
        return []
    changes: dict[int, list[tuple[Ints, Floats]]] = {}
    for replica, template in enumerate(laid_out.templates):
        own = np.flatnonzero(tasks.replica == replica)
        for one in holdings(template):
            since_s = tasks.begin_s if one.since == AT_ARRIVAL else tasks.start_s[:, one.since]
            until_s = np.max(
                [tasks.done_s if task == AT_FINISH else tasks.end_s[:, task] for task in one.until],
                axis=0,
            )
            held = spanned(since_s[own], until_s[own], float(one.nbytes))
            changes.setdefault(one.device, []).append(held)
    found = []
    for device, name in enumerate(problem.devices):
        base = float(timeline.weight_bytes.get(name, 0))
        found += counted(name, "memory", "bytes", *_joined(changes.get(device, [])), base)
    return found


def _power(plan: Plan, events: Events) -> list[Counter]:
    """Counters of watts of each device whose power is known: idle, plus busy streams."""
    problem = plan.problem
    found = []
    for name, width, idle_w, busy_w in zip(
        problem.devices, problem.streams, problem.idle_w, problem.busy_w, strict=False
    ):
        if busy_w > 0:
            sorts = [one.kind == "compute" and one.device == name for one in events.sorts]
            own = np.array(sorts, dtype=bool)[events.sort]
            spans = spanned(events.start_s[own], events.end_s[own])
            for one in counted(name, "power", "W", *spans):
                watts = idle_w + (busy_w - idle_w) * one.value / width
                found.append(Counter(name, "power", "W", one.at_ns, watts))
    return found
