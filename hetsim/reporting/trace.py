"""A timeline as Chrome trace events, the JSON that Perfetto and chrome://tracing open.

Source: "Trace Event Format" (Google, the Chromium project): complete events ``X``, flow
events ``s`` and ``f``, counters ``C``, metadata ``M``. Times are in microseconds, each of them a
whole number of nanoseconds: Perfetto cuts off what is below, and drops a slice that reaches into
the next.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hetsim.base.text import plainly, tally
from hetsim.plans.plan import Plan
from hetsim.plans.timeline import Event, Timeline
from hetsim.reporting.trace_counters import (
    Counter,
    Times,
    counters,
    microseconds,
    nanoseconds,
    under_way,
)
from hetsim.reporting.trace_tracks import Entry, Track, Tracks
from hetsim.reporting.words.provenance import figures_rows

REAL, SIMULATED = "real run, wall clock: ", "simulation, virtual clock: "
"""What names of processes begin with, where a trace has two clocks."""


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
    """Return the trace of `timeline` as JSON text, the same in every process.

    One process a device with a thread a stream, one process for the links with a thread
    a link direction or bus; transfers that hold no link are drawn on lanes of their
    route. Arrows lead from the subgraph that makes a value to its transfer, and on to
    each subgraph that waits for it. One process for the requests, each from its arrival to its
    answer. Counters: requests under way; what waits for a device or a link and could start; memory
    and power of each device, where they are known. O(E log E) in the number of events.

    Parameters
    ----------
    plan : Plan
    timeline : Timeline
    real : sequence of Event
        What a run did: it is drawn above `timeline`, and both are named by their clock.
    arrivals_s : sequence of float, optional
        When the requests of `timeline` came; absent: each is drawn from its first task to its
        last.
    """
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


FIRST_THREAD = 1000
"""Threads have numbers above it, and processes below."""


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
