"""What a trace counts over time: requests under way, what waits, memory, and power.

What follows from the events of a plan alone: when a task could have started (all that it waits for
was there), what each holds in memory from when to when, and what busy streams draw.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from hetsim.plans.plan import Plan
from hetsim.plans.timeline import Event, Timeline
from hetsim.reporting.trace_tracks import Entry
from hetsim.simulation.clock.memory import AT_ARRIVAL, AT_FINISH, holdings
from hetsim.simulation.clock.templates import PlanTasks, Template, tasks_of_plan

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
