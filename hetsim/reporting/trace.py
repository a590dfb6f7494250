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
from functools import cached_property
from typing import Any

import numpy as np

from hetsim.core.text import plainly, tally
from hetsim.problem.plan import Plan
from hetsim.problem.timeline import Event, Events, Floats, Ints, Timeline
from hetsim.reporting.tables.question import figures_rows
from hetsim.reporting.trace_tracks import (
    Counter,
    Entry,
    Times,
    Tracks,
    all_microseconds,
    all_nanoseconds,
    begins_and_ends,
    counters,
    shown,
    under_way,
)

REAL, SIMULATED = "real run, wall clock: ", "simulation, virtual clock: "
"""Prefixes of process names in a trace with two clocks."""


def trace_json(
    plan: Plan,
    timeline: Timeline,
    real: Sequence[Event] = (),
    arrivals_s: Sequence[float] | None = None,
) -> str:
    """Return the trace of `timeline` as JSON text, the same in every process.

    One process a device with a thread a stream, one process for the links with a thread a link
    direction or bus; transfers that hold no link are drawn on lanes of their route. Arrows lead
    from the subgraph that makes a value to its transfer, and on to each subgraph that waits for it.
    One process for the requests, each from its arrival to its answer, or without `arrivals_s` from
    its first task to its last. Counters: requests under way; what waits for a device or a link and
    could start; memory and power of each device, where they are known. What a run did, `real`, is
    drawn above `timeline`, and both are named by their clock. O(E log E).
    """
    return "".join(trace_pieces(plan, timeline, real, arrivals_s))


def trace_pieces(
    plan: Plan,
    timeline: Timeline,
    real: Sequence[Event] = (),
    arrivals_s: Sequence[float] | None = None,
) -> Iterator[str]:
    """Yield the text of ``trace_json`` piece by piece, so that nobody needs to hold all of it."""
    problem = plan.problem
    stories: list[Story] = []
    # A reader takes a thread with its process's number for the main one: there is none.
    last = (0, FIRST_THREAD)
    if real:
        done = Events.of(real)
        times = _extents(done)
        tracks = Tracks(problem, done, times, REAL, last)
        stories.append(Story(plan, done, tracks, None, times, under_way(times)))
        last = tracks.last
    events = Events.of(timeline.events)
    if arrivals_s is None:
        times = _extents(events)
    else:
        came = zip(arrivals_s, timeline.latencies_s, strict=True)
        times = {at: (came_s, came_s + took_s) for at, (came_s, took_s) in enumerate(came)}
    name = SIMULATED if real else ""
    tracks = Tracks(problem, events, times, name, last)
    lines = counters(plan, timeline, times)
    stories.append(Story(plan, events, tracks, timeline.critical_path, times, lines))
    named = [text_of(entry) for story in stories for entry in story.tracks.metadata()]
    yield '{"traceEvents":[' + ",".join(named)
    begun = bool(named)
    for piece in entries(stories):
        yield f",{piece}" if begun else piece
        begun = True
    rest = {
        "displayTimeUnit": "ms",
        "otherData": {
            "problem": plan.problem.name,
            "strategy": plan.strategy,
            "clock": "wall and virtual" if real else "virtual",
            "latency_s": timeline.latency_s,
            **dict(figures_rows(plan.problem)),
        },
    }
    yield f"],{text_of(rest)[1:]}\n"


FIRST_THREAD = 1000
"""Threads have numbers above it, and processes below."""


def _extents(events: Events) -> Times:
    """First start and last end of each request, ascending."""
    of_one = events.request >= 0
    known, place = np.unique(events.request[of_one], return_inverse=True)
    first, last = np.full(known.size, np.inf), np.full(known.size, -np.inf)
    np.minimum.at(first, place, events.start_s[of_one])
    np.maximum.at(last, place, events.end_s[of_one])
    return dict(zip(known.tolist(), zip(first.tolist(), last.tolist(), strict=True), strict=True))


AT_A_TIME = 16_384
"""Entries that are made text at once."""

SLICE, ARROW_BEGIN, ARROW_END, REQUEST, COUNTER = range(5)


@dataclass(frozen=True, eq=False)
class Story:
    """Events of one clock, with tracks and counters.

    `critical` has indices of events, None where nobody knows which are; `times` from when to when
    each request is drawn.
    """

    plan: Plan
    events: Events
    tracks: Tracks
    critical: Sequence[int] | None
    times: Times
    counters: Sequence[Counter]


def entries(stories: Sequence[Story]) -> Iterator[str]:
    """Yield the texts of all entries by time, many at once, with commas between them.

    At one time, each slice is followed by its own arrow ends: a reader binds an arrow's end to
    the slice that opened last on its track, so a slice without duration must come, with its
    arrows, before the one that starts as it ends. O(E log E) in the number of entries.
    """
    drawn: list[_Drawn] = []
    arrows = 0
    for place, story in enumerate(stories):
        drawn.append(_Drawn(story, place, arrows))
        arrows += drawn[-1].arrows.source.size
    at_ns = np.concatenate([one.at_ns for one in drawn])
    within = np.concatenate([one.within for one in drawn])
    kind = np.concatenate([one.kind for one in drawn])
    of = np.concatenate([one.of for one in drawn])
    story_of = np.repeat(np.arange(len(drawn)), [one.kind.size for one in drawn])
    order = np.lexsort((within, at_ns))
    del at_ns, within
    for first in range(0, order.size, AT_A_TIME):
        block = order[first : first + AT_A_TIME]
        texts = [""] * block.size
        for place, one in enumerate(drawn):
            for which, told in one.told.items():
                own = np.flatnonzero((kind[block] == which) & (story_of[block] == place))
                for at, text in zip(own.tolist(), told(of[block[own]]), strict=True):
                    texts[at] = text
        yield ",".join(texts)


class _Drawn:
    """All entries of a story: their kinds, which of each, and by what they are sorted."""

    def __init__(self, story: Story, place: int, arrows_before: int) -> None:
        self.story, self.arrows_before = story, arrows_before
        events = story.events
        self.start_ns = all_nanoseconds(events.start_s)
        self.length_ns = np.maximum(all_nanoseconds(events.end_s) - self.start_ns, 0)
        self.part_at, self.pid, self.tid = story.tracks.of(events)
        self.arrows = arrows_of(story.plan, events)
        source, target = self.arrows.source, self.arrows.target
        # A time at which a slice, and no neighbour on its track, is open.
        self.inside_ns = self.start_ns[source] + self.length_ns[source] // 2
        self._owner = owner = np.repeat(np.arange(len(events)), np.diff(self.part_at))
        self.request = np.array(list(story.times), dtype=np.int64)
        self.begin_s, self.done_s = begins_and_ends(story.times)
        self.begin_ns = all_nanoseconds(self.begin_s)
        self.span_ns = np.maximum(all_nanoseconds(self.done_s) - self.begin_ns, 0)
        lines = [np.zeros(0, dtype=np.int64), *(one.at_ns for one in story.counters)]
        self.count_ns = np.concatenate(lines)
        nothing = np.zeros_like(self.count_ns)
        rank = ranks_of(self.arrows, self.start_ns, self.length_ns)
        lasts = (self.length_ns > 0).astype(np.int64)
        both = np.stack((source, target), axis=1).ravel()
        ends_ns = np.stack((self.inside_ns, self.start_ns[target]), axis=1).ravel()
        numbers = np.arange(source.size)
        columns = [
            (SLICE, np.arange(owner.size), self.start_ns[owner], lasts[owner], rank[owner], owner),
            (ARROW_BEGIN, np.repeat(numbers, 2), ends_ns, lasts[both], rank[both], both),
            (REQUEST, np.arange(self.request.size), self.begin_ns,
             (self.span_ns > 0).astype(np.int64), np.zeros_like(self.request), self.request),
            (COUNTER, np.arange(self.count_ns.size), self.count_ns, nothing, nothing - 1, nothing),
        ]  # fmt: skip
        kinds = [np.full(one[1].size, one[0], dtype=np.int8) for one in columns]
        kinds[1][1::2] = ARROW_END
        self.kind = np.concatenate(kinds)
        self.of = np.concatenate([one[1] for one in columns])
        self.at_ns = np.concatenate([one[2] for one in columns])
        longs, ranks, numbers = (np.concatenate([one[k] for one in columns]) for k in (3, 4, 5))
        self.within = _in_one(longs, ranks, place, numbers)
        self.told = {
            SLICE: self._slices,
            ARROW_BEGIN: self._begins,
            ARROW_END: self._ends,
            REQUEST: self._requests,
            COUNTER: self._counts,
        }

    @cached_property
    def _bodies(self) -> list[list[tuple[str, str]]]:
        """Text before and after a request's number, by sort and whether it is critical."""
        known = self.story.critical is not None
        return [
            [_halves(_body(self.story.plan, one, critical if known else None))
             for critical in (False, True)]
            for one in self.story.events.sorts
        ]  # fmt: skip

    @cached_property
    def _critical(self) -> Ints:
        found = np.zeros(len(self.story.events), dtype=np.int64)
        found[list(self.story.critical or ())] = 1
        return found

    def _slices(self, parts: Ints) -> list[str]:
        events = self.story.events
        owner = self._owner[parts]
        bodies = self._bodies
        columns = zip(
            events.sort[owner].tolist(), self._critical[owner].tolist(),
            events.request[owner].tolist(), self.pid[parts].tolist(), self.tid[parts].tolist(),
            all_microseconds(self.start_ns[owner]), all_microseconds(self.length_ns[owner]),
            strict=True,
        )  # fmt: skip
        return [
            f'{bodies[sort][critical][0]}{request}{bodies[sort][critical][1]},"pid":{pid},'
            f'"tid":{tid},"ts":{ts!r},"dur":{dur!r}}}'
            for sort, critical, request, pid, tid, ts, dur in columns
        ]

    def _begins(self, arrows: Ints) -> list[str]:
        part = self.part_at[self.arrows.source[arrows] + 1] - 1
        return self._ends_of('{"ph":"s"', arrows, part, self.inside_ns[arrows])

    def _ends(self, arrows: Ints) -> list[str]:
        target = self.arrows.target[arrows]
        start_ns = self.start_ns[target]
        return self._ends_of('{"ph":"f","bp":"e"', arrows, self.part_at[target], start_ns)

    @cached_property
    def _names(self) -> list[str]:
        return [text_of(one.name) for one in self.story.events.sorts]

    def _ends_of(self, head: str, arrows: Ints, part: Ints, at_ns: Ints) -> list[str]:
        names = self._names
        sorts = self.story.events.sort[self.arrows.transfer[arrows]].tolist()
        numbers = (arrows + self.arrows_before + 1).tolist()
        columns = zip(
            sorts, numbers, self.pid[part].tolist(), self.tid[part].tolist(),
            all_microseconds(at_ns), strict=True,
        )  # fmt: skip
        return [
            f'{head},"cat":"transfer","name":{names[sort]},"id":{number},"pid":{pid},'
            f'"tid":{tid},"ts":{ts!r}}}'
            for sort, number, pid, tid, ts in columns
        ]

    def _requests(self, places: Ints) -> list[str]:
        requests = self.request[places].tolist()
        columns = zip(
            requests, (self.done_s - self.begin_s)[places].tolist(),
            [self.story.tracks.of_request(request) for request in requests],
            all_microseconds(self.begin_ns[places]), all_microseconds(self.span_ns[places]),
            strict=True,
        )  # fmt: skip
        return [
            f'{{"ph":"X","name":"request {request}","cat":"request","args":{{"request":{request},'
            f'"seconds":{seconds!r}}},"pid":{pid},"tid":{tid},"ts":{ts!r},"dur":{dur!r}}}'
            for request, seconds, (pid, tid), ts, dur in columns
        ]

    @cached_property
    def _lines(self) -> tuple[list[str], Ints, Floats]:
        """Text of each counter before its values; counter and value of each entry."""
        of = self.story.tracks.pid_of
        heads = [
            f'{{"ph":"C","name":{text_of(one.name)},"pid":{of(one.of)},"args":{{{text_of(one.unit)}:'
            for one in self.story.counters
        ]
        sizes = [one.value.size for one in self.story.counters]
        line = np.repeat(np.arange(len(sizes)), sizes)
        return heads, line, np.concatenate([np.zeros(0), *(c.value for c in self.story.counters)])

    def _counts(self, places: Ints) -> list[str]:
        heads, line, value = self._lines
        columns = zip(
            line[places].tolist(), value[places].tolist(),
            all_microseconds(self.count_ns[places]), strict=True,
        )  # fmt: skip
        return [f'{heads[at]}{shown(now)!r}}},"ts":{ts!r}}}' for at, now, ts in columns]


def text_of(value: Any) -> str:
    """Return a part of a trace as it is written: every text of it plain, and nothing between."""
    return json.dumps(plainly(value), allow_nan=False, separators=(",", ":"))


def _halves(body: Entry) -> tuple[str, str]:
    """A slice's text up to the number of its request, and on from there to its place."""
    name, kind, args = (text_of(body[key]) for key in ("name", "cat", "args"))
    head = f'{{"ph":"X","name":{name},"cat":{kind},"args":{{"request":'
    return head, args.removeprefix('{"request":0')


def _in_one(longs: Ints, ranks: Ints, place: int, numbers: Ints) -> Ints:
    """One number for what comes first at one time: by `longs`, `ranks`, `place`, `numbers`.

    Ranks and numbers are -1 or more; they have 29 and 32 bits, the two others one each.
    """
    return (((longs << 29 | ranks + 1) << 1 | place) << 32) | numbers + 1


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


@dataclass(frozen=True, slots=True, eq=False)
class Arrows:
    """Ends of arrows between events, and the indices of their transfers."""

    source: Ints
    target: Ints
    transfer: Ints


def arrows_of(plan: Plan, events: Events) -> Arrows:
    """Return those from the maker of a value to its transfer, and from that to each reader.

    By their transfers, each the one to it first. O(E log E) for E events.
    """
    computes = np.array([one.kind == "compute" and one.group >= 0 and not one.lost
                         for one in events.sorts], dtype=bool)  # fmt: skip
    group = np.array([one.group for one in events.sorts], dtype=np.int64)
    most = int(group.max(initial=0)) + 2
    computing = np.flatnonzero(computes[events.sort])
    keys = events.request[computing] * most + group[events.sort[computing]]
    by_key = np.argsort(keys, kind="stable")
    keys, computing = keys[by_key], computing[by_key]

    def when_computed(of: Ints, group: int) -> Ints:
        """The last event that computed a group for the requests of events `of`; -1: none did."""
        if group < 0 or group >= most or not keys.size:
            return np.full(of.size, -1, dtype=np.int64)
        wanted = events.request[of] * most + group
        at = np.searchsorted(keys, wanted, side="right") - 1
        return np.where((at >= 0) & (keys[at] == wanted), computing[at], -1)

    found: list[tuple[Ints, Ints, Ints, int]] = []
    for sort, readers, own in _transfers(plan, events):
        one = events.sorts[sort]
        maker = when_computed(own, one.group)
        # What was done again after a failure may have been done after it was sent on.
        some = (maker >= 0) & (events.start_s[maker] <= events.start_s[own])
        found.append((maker[some], own[some], own[some], 0))
        for place, reader in enumerate(readers, start=1):
            # After a failure a subgraph may have been given up for others.
            if reader >= 0 and plan.groups[reader].device == one.device:
                reading = when_computed(own, reader)
                some = (reading >= 0) & (events.start_s[own] <= events.start_s[reading])
                found.append((own[some], reading[some], own[some], place))
    nothing = np.zeros(0, dtype=np.int64)
    source, target, transfer = (
        np.concatenate([nothing, *(one[column] for one in found)]) for column in range(3)
    )
    turn = np.repeat([one[3] for one in found], [one[0].size for one in found])
    order = np.lexsort((turn, transfer))
    return Arrows(source[order], target[order], transfer[order])


def _transfers(plan: Plan, events: Events) -> Iterator[tuple[int, list[int], Ints]]:
    """Yield transfers of one sort and replica: the sort, the groups that read it, the events."""
    problem = plan.problem
    owners: list[list[int]] = []
    for first, one in zip(plan.offsets, plan.replicas, strict=True):
        owner = [-1] * problem.n
        for index, group in enumerate(one.groups, start=first):
            for node in group.nodes:
                owner[node] = index
        owners.append(owner)
    consumers = {value.name: value.consumers for value in problem.values}
    deal = np.array(plan.period, dtype=np.int64)
    moved = np.array([one.kind == "transfer" for one in events.sorts], dtype=bool)
    own = np.flatnonzero(moved[events.sort])
    code = events.sort[own].astype(np.int64) * len(owners) + deal[events.request[own] % deal.size]
    by_code = np.argsort(code, kind="stable")
    codes, first_of = np.unique(code[by_code], return_index=True)
    for which, members in zip(codes.tolist(), np.split(own[by_code], first_of[1:]), strict=False):
        sort, replica = divmod(which, len(owners))
        readers = {owners[replica][node] for node in consumers.get(events.sorts[sort].name, ())}
        yield sort, sorted(readers), members


def ranks_of(arrows: Arrows, start_ns: Ints, length_ns: Ints) -> Ints:
    """Return by event how many before it, without duration, it waited for at its own time.

    An arrow must begin in a trace before it ends, at one time, too.
    """
    rank: dict[int, int] = {}
    after: dict[int, list[int]] = {}
    waits: dict[int, int] = {}
    source, target = arrows.source, arrows.target
    at_once = (length_ns[source] == 0) & (start_ns[source] == start_ns[target])
    for first, then in zip(source[at_once].tolist(), target[at_once].tolist(), strict=True):
        after.setdefault(first, []).append(then)
        waits[then] = waits.get(then, 0) + 1
    ready = [event for event in after if event not in waits]
    while ready:
        event = ready.pop()
        for other in after.get(event, ()):
            rank[other] = max(rank.get(other, 0), rank.get(event, 0) + 1)
            waits[other] -= 1
            if not waits[other]:
                ready.append(other)
    found = np.zeros(length_ns.size, dtype=np.int64)
    found[list(rank)] = list(rank.values())
    return found
