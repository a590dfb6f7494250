"""A timeline as Chrome trace events, the JSON that Perfetto and chrome://tracing open.

Source: "Trace Event Format" (Google, the Chromium project): complete events ``X``, flow
events ``s`` and ``f``, metadata ``M``. Times are in microseconds, each of them a whole number
of nanoseconds: Perfetto cuts off what is below, and drops a slice that reaches into the next.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hetsim.base.text import tally
from hetsim.plans.plan import Plan
from hetsim.plans.timeline import Event, Timeline
from hetsim.reporting.trace_tracks import Entry, Track, Tracks
from hetsim.reporting.words.provenance import figures_rows


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


def microseconds(nanoseconds: int) -> float:
    """Return the number that a reader which cuts off after nanoseconds takes for these.

    >>> int(1001 / 1000 * 1000), int(microseconds(1001) * 1000)
    (1000, 1001)
    """
    value = nanoseconds / 1000
    while value * 1000 < nanoseconds:
        value = math.nextafter(value, math.inf)
    return value


def trace_json(plan: Plan, timeline: Timeline, real: Sequence[Event] = ()) -> str:
    """Return the trace of `timeline` as JSON text, the same in every process.

    One process a device with a thread a stream, one process for the links with a thread
    a link direction or bus; transfers that hold no link are drawn on lanes of their
    route. Arrows lead from the subgraph that makes a value to its transfer, and on to
    each subgraph that waits for it. O(E log E) in the number of events.

    Parameters
    ----------
    plan : Plan
    timeline : Timeline
    real : sequence of Event
        What a run did: it is drawn above `timeline`, and both are named by their clock.
    """
    stories: list[_Story] = []
    if real:
        tracks = Tracks(plan.problem, real, "real run, wall clock: ", 0)
        stories.append(_Story(plan, real, tracks, None))
    above, name = (stories[0].tracks.last, "simulation, virtual clock: ") if real else (0, "")
    tracks = Tracks(plan.problem, timeline.events, name, above)
    stories.append(_Story(plan, timeline.events, tracks, frozenset(timeline.critical_path)))
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
    return json.dumps(record, allow_nan=False, separators=(",", ":")) + "\n"


_Key = tuple[int, bool, int, int]


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
        for source, target, name in _arrows(story.plan, story.events):
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
                keyed.append(((part.start_ns, part.length_ns > 0, place, index), entry))
            lasts = slices[index][0].length_ns > 0
            keyed.extend(((at_ns, lasts, place, index), entry) for at_ns, entry in ends[index])
    keyed.sort(key=lambda item: item[0])
    return [entry for _, entry in keyed]


def _slices(story: _Story, index: int) -> list[_Slice]:
    event = story.events[index]
    start_ns, end_ns = round(event.start_s * 1e9), round(event.end_s * 1e9)
    return [
        _Slice(track, start_ns, max(start_ns, end_ns)) for track in story.tracks.of(index, event)
    ]


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
