"""What a trace counts over time: requests under way, what waits, memory, and power.

What follows from the events of a plan alone: when a task could have started (all that it waits for
was there), what each holds in memory from when to when, and what busy streams draw.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hetsim.problem.events import Events, Floats, Ints
from hetsim.problem.plan import Plan
from hetsim.problem.timeline import Timeline
from hetsim.reporting.trace_tracks import Entry
from hetsim.simulation.clock.memory import AT_ARRIVAL, AT_FINISH, holdings
from hetsim.simulation.clock.templates import PlanTasks, Template, tasks_of_plan

Times = Mapping[int, tuple[float, float]]
"""By request: when it arrived, and when it was answered."""

Changes = list[tuple[int, float]]
"""Nanoseconds, and by how much a count changes there."""


@dataclass(frozen=True, slots=True, eq=False)
class Counter:
    """One line of a trace: its name, what it counts, and its value from each time on.

    Attributes
    ----------
    of : str
        The device that it is of; ``""``: all requests; ``links``: all links.
    name, unit : str
    at_ns : int array
        Nanoseconds, ascending.
    value : float array
        From each of these times on; neighbours differ.
    """

    of: str
    name: str
    unit: str
    at_ns: Ints
    value: Floats

    def entries(self, pid: int) -> Iterator[tuple[int, Entry]]:
        """Yield the time and the trace event of each value."""
        for at_ns, value in zip(self.at_ns.tolist(), self.value.tolist(), strict=True):
            entry = {"ph": "C", "name": self.name, "pid": pid, "args": {self.unit: shown(value)}}
            yield at_ns, entry | {"ts": microseconds(at_ns)}


def shown(value: float) -> float:
    """Return a number as it is told: whole ones without a point."""
    return int(value) if value.is_integer() else value


def nanoseconds(seconds: float) -> int:
    """Return a time as traces have it."""
    return round(seconds * 1e9)


def microseconds(nanoseconds: int) -> float:
    """Return the number that a reader which cuts off after nanoseconds takes for these.

    >>> int(1001 / 1000 * 1000), int(microseconds(1001) * 1000)
    (1000, 1001)
    """
    value = nanoseconds / 1000
    while value * 1000 < nanoseconds:
        value = math.nextafter(value, math.inf)
    return value


def read_nanoseconds(microseconds: float) -> int:
    """Return a time of a trace, which is cut off below nanoseconds when it is read."""
    return int(microseconds * 1000)


def all_nanoseconds(seconds: Floats) -> Ints:
    """Return what ``nanoseconds`` does, of many times."""
    found: Ints = np.rint(seconds * 1e9).astype(np.int64)
    return found


def all_microseconds(nanoseconds: Ints) -> list[float]:
    """Return what ``microseconds`` does, of many times."""
    if nanoseconds.size and int(nanoseconds.max()) >= 2**53:
        return [microseconds(one) for one in nanoseconds.tolist()]
    value = nanoseconds / 1000
    while (low := value * 1000 < nanoseconds).any():
        value[low] = np.nextafter(value[low], np.inf)
    found: list[float] = value.tolist()
    return found


def counted(of: str, name: str, unit: str, changes: Changes, base: float = 0.0) -> list[Counter]:
    """Return a counter that starts at `base` and changes so; none where it never changes."""
    at_ns = np.array([at for at, _ in changes], dtype=np.int64)
    return _counted(of, name, unit, at_ns, np.array([by for _, by in changes], dtype=float), base)


def _counted(
    of: str, name: str, unit: str, at_ns: Ints, by: Floats, base: float = 0.0
) -> list[Counter]:
    order = np.lexsort((by, at_ns))
    at_ns = np.concatenate(([0], at_ns[order]))
    value = np.cumsum(np.concatenate(([base], by[order])))
    last = np.concatenate((at_ns[1:] != at_ns[:-1], [True]))
    at_ns, value = at_ns[last], value[last]
    told = np.concatenate(([True], value[1:] != value[:-1]))
    return [Counter(of, name, unit, at_ns[told], value[told])] if told.sum() > 1 else []


def _spanned(start_s: Floats, end_s: Floats, by: float = 1.0) -> tuple[Ints, Floats]:
    """The changes of a count that goes up by so much at each start, and down at each end."""
    at_ns = np.concatenate((all_nanoseconds(start_s), all_nanoseconds(end_s)))
    return at_ns, np.repeat([by, -by], start_s.size)


def counters(plan: Plan, timeline: Timeline, times: Times) -> list[Counter]:
    """Return what is known of a simulated plan; of failures only requests and power."""
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
    """Return how many requests had arrived and were not answered."""
    return _counted("", "requests", "under way", *_spanned(*begins_and_ends(times)))


def begins_and_ends(times: Times) -> tuple[Floats, Floats]:
    """Return when each request arrived, and when it was answered, in the order of `times`."""
    spans = np.array(list(times.values()), dtype=float).reshape(-1, 2)
    return spans[:, 0], spans[:, 1]


@dataclass(frozen=True, slots=True, eq=False)
class _Tasks:
    """When each task of each request ran; a row a request.

    Attributes
    ----------
    replica : int array [requests]
    begin_s, done_s : float array [requests]
        When each arrived and was answered.
    start_s, end_s : float array [requests, most tasks]
        NaN where there is no such task.
    """

    replica: Ints
    begin_s: Floats
    done_s: Floats
    start_s: Floats
    end_s: Floats


def _tasks(laid_out: PlanTasks, events: Events, times: Times) -> _Tasks | None:
    """Times by request and task; None where failures made them others than the plan's."""
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
    return _Tasks(
        deal[requests % deal.size],
        *begins_and_ends(times),
        start_s.reshape(-1, most),
        end_s.reshape(-1, most),
    )


def _tasks_of_sorts(laid_out: PlanTasks, template: Template, events: Events) -> list[int]:
    """The task of a template that each sort of event is; -1 where it is none."""
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


def _waiting(laid_out: PlanTasks, tasks: _Tasks) -> list[Counter]:
    """How many subgraphs wait for each device, and transfers for links, that could start."""
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
                changes.setdefault(of, []).append(_spanned(ready_s[late], start_s[late]))
    found: list[Counter] = []
    for of in (*devices, "links"):
        unit = "transfers" if of == "links" else "subgraphs"
        found += _counted(of, "waiting", unit, *_joined(changes.get(of, [])))
    return found


def _joined(changes: Sequence[tuple[Ints, Floats]]) -> tuple[Ints, Floats]:
    at_ns = [np.zeros(0, dtype=np.int64), *(at for at, _ in changes)]
    return np.concatenate(at_ns), np.concatenate([np.zeros(0), *(by for _, by in changes)])


def _memory(laid_out: PlanTasks, timeline: Timeline, tasks: _Tasks) -> list[Counter]:
    """Weights and live activations of each device."""
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
            held = _spanned(since_s[own], until_s[own], float(one.nbytes))
            changes.setdefault(one.device, []).append(held)
    found = []
    for device, name in enumerate(problem.devices):
        base = float(timeline.weight_bytes.get(name, 0))
        found += _counted(name, "memory", "bytes", *_joined(changes.get(device, [])), base)
    return found


def _power(plan: Plan, events: Events) -> list[Counter]:
    """Watts of each device whose power is known: idle, and what busy streams add."""
    problem = plan.problem
    found = []
    for name, width, idle_w, busy_w in zip(
        problem.devices, problem.streams, problem.idle_w, problem.busy_w, strict=False
    ):
        if busy_w > 0:
            sorts = [one.kind == "compute" and one.device == name for one in events.sorts]
            own = np.array(sorts, dtype=bool)[events.sort]
            spans = _spanned(events.start_s[own], events.end_s[own])
            for one in _counted(name, "power", "W", *spans):
                watts = idle_w + (busy_w - idle_w) * one.value / width
                found.append(Counter(name, "power", "W", one.at_ns, watts))
    return found
