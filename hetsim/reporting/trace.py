"""Timeline as Chrome trace events, the JSON that Perfetto and chrome://tracing open.

Source: "Trace Event Format" (Google, the Chromium project): complete events ``X``, flow events
``s`` and ``f``, counters ``C``, metadata ``M``. Times are in microseconds, each of them a whole
number of nanoseconds: Perfetto cuts off smaller parts, and drops a slice that reaches into the
next.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from graphlib import TopologicalSorter
from typing import Any

import numpy as np

from hetsim.core.text import grouped, plain, plainly, tally
from hetsim.problem.plan import Plan
from hetsim.problem.timeline import Event, Events, Ints, Timeline
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
    under_way,
)

REAL, SIMULATED = "real run, wall clock: ", "simulation, virtual clock: "
"""Prefixes of process names in a trace with two clocks."""


def trace_pieces(
    plan: Plan,
    timeline: Timeline,
    real: Sequence[Event] = (),
    arrivals_s: Sequence[float] | None = None,
) -> Iterator[str]:
    """Yield the trace of `timeline` as JSON text piece by piece, the same in every process.

    Each device is a process with one thread per stream; the links are one process with one thread
    per link direction or bus; transfers that hold no link are drawn on lanes of their route. Arrows
    lead from the subgraph that produces a value to its transfer, and on to each subgraph that waits
    for it. One process has the requests, each from its arrival to its answer, or without
    `arrivals_s` from its first task to its last. Counters: open requests; ready tasks that wait for
    a device or a link; memory and power of each device, if known. A real run, `real`, is drawn
    above `timeline`, and both are named by their clock. O(E log E).
    """
    drawn: list[Drawn] = []
    # A reader takes a thread with its process's number for the main one: no thread has it.
    last = (0, FIRST_THREAD)
    if real:
        done = Events.of(real)
        times = _extents(done)
        tracks = Tracks(plan.problem, done, times, REAL, last)
        drawn.append(Drawn(plan, done, tracks, None, times, under_way(times)))
        last = tracks.last
    events = Events.of(timeline.events)
    times = _extents(events)
    if arrivals_s is not None:
        came = zip(arrivals_s, timeline.latencies_s, strict=True)
        times = {at: (came_s, came_s + took_s) for at, (came_s, took_s) in enumerate(came)}
    tracks = Tracks(plan.problem, events, times, SIMULATED if real else "", last)
    lines = counters(plan, timeline, times)
    drawn.append(Drawn(plan, events, tracks, timeline.critical_path, times, lines, drawn))
    named = [text_of(entry) for one in drawn for entry in one.tracks.metadata()]
    yield '{"traceEvents":[' + ",".join(named)
    begun = bool(named)
    for piece in entries(drawn):
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
"""Number above which threads are numbered, and below which processes are."""


def _extents(events: Events) -> Times:
    """First start and last end of each request, ascending."""
    of_one = events.request >= 0
    known, place = np.unique(events.request[of_one], return_inverse=True)
    first, last = np.full(known.size, np.inf), np.full(known.size, -np.inf)
    np.minimum.at(first, place, events.start_s[of_one])
    np.maximum.at(last, place, events.end_s[of_one])
    return dict(zip(known.tolist(), zip(first.tolist(), last.tolist(), strict=True), strict=True))


AT_A_TIME = 16_384
"""Entries that are formatted at once."""

Block = tuple[Callable[[int], Entry], tuple[Ints, Ints, Ints, Ints]]
"""Entries of one sort by their indices, and their sort keys: nanoseconds, whether they have a
duration, rank, and number of their event."""


def entries(drawn: Sequence[Drawn]) -> Iterator[str]:
    """Yield the texts of all entries by time, in batches, with commas between them.

    At one time, each slice is followed by its own arrow ends: a reader binds an arrow's end to the
    slice that opened last on its track, so a slice without duration must precede, with its arrows,
    the one that starts as it ends. O(E log E) in the number of entries.
    """
    blocks = [(story, *block) for story, one in enumerate(drawn) for block in one.blocks]
    sizes = [keys[0].size for _, _, keys in blocks]
    at_ns, lasts, ranks, numbers = (
        np.concatenate([keys[column] for _, _, keys in blocks]) for column in range(4)
    )
    story_of = np.repeat([story for story, _, _ in blocks], sizes)
    order = np.lexsort((numbers, story_of, ranks, lasts, at_ns))
    del at_ns, lasts, ranks, numbers, story_of
    block_of = np.repeat(np.arange(len(blocks)), sizes)
    place = np.concatenate([np.arange(size) for size in sizes])
    for first in range(0, order.size, AT_A_TIME):
        now = order[first : first + AT_A_TIME]
        each = zip(block_of[now].tolist(), place[now].tolist(), strict=True)
        told = [blocks[which][1](at) for which, at in each]
        yield json.dumps(told, allow_nan=False, separators=(",", ":"))[1:-1]


class Drawn:
    """All entries of the events of one clock, in blocks.

    `critical` has indices of events, None if unknown; `times` has start and end of each drawn
    request; `above` is drawn above it, with lower arrow numbers.
    """

    def __init__(
        self,
        plan: Plan,
        events: Events,
        tracks: Tracks,
        critical: Sequence[int] | None,
        times: Times,
        counters: Sequence[Counter],
        above: Sequence[Drawn] = (),
    ) -> None:
        self.tracks = tracks
        self._arrows_before = sum(one.arrows.source.size for one in above)
        start_ns = all_nanoseconds(events.start_s)
        length_ns = np.maximum(all_nanoseconds(events.end_s) - start_ns, 0)
        part_at, pid, tid = tracks.of(events)
        self._track = list(zip(pid.tolist(), tid.tolist(), strict=True))
        self._times = list(
            zip(all_microseconds(start_ns), all_microseconds(length_ns), strict=True)
        )
        self._sort, self._request_of = events.sort.tolist(), events.request.tolist()
        self.arrows: Arrows = arrows_of(plan, events)
        source, target = self.arrows.source, self.arrows.target
        owner = np.repeat(np.arange(len(events)), np.diff(part_at))
        self._owner = owner.tolist()
        # Time at which a slice, and no neighbour on its track, is open.
        inside_ns = start_ns[source] + length_ns[source] // 2
        # Begin of each arrow, then its end.
        both, parts, ends_ns = (
            np.stack(ends, axis=1).ravel()
            for ends in (
                (source, target),
                (part_at[source + 1] - 1, part_at[target]),
                (inside_ns, start_ns[target]),
            )
        )
        names = np.repeat(events.sort[self.arrows.transfer], 2).tolist()
        self._ends = list(zip(names, parts.tolist(), all_microseconds(ends_ns), strict=True))
        request = np.array(list(times), dtype=np.int64)
        begin_s, done_s = begins_and_ends(times)
        begin_ns = all_nanoseconds(begin_s)
        span_ns = np.maximum(all_nanoseconds(done_s) - begin_ns, 0)
        begin_us, span_us = all_microseconds(begin_ns), all_microseconds(span_ns)
        self._requests = list(
            zip(times, (done_s - begin_s).tolist(), begin_us, span_us, strict=True)
        )
        rank = ranks_of(self.arrows, start_ns, length_ns)
        lasts, spans = ((of > 0).astype(np.int64) for of in (length_ns, span_ns))
        self.blocks: list[Block] = [
            (self._slice, (start_ns[owner], lasts[owner], rank[owner], owner)),
            (self._arrow_end, (ends_ns, lasts[both], rank[both], both)),
            (self._request, (begin_ns, spans, np.zeros_like(request), request)),
        ]
        for one in counters:
            nothing = np.zeros_like(one.at_ns)
            entry = partial(one.entry, tracks.pid_of(one.of))
            self.blocks.append((entry, (one.at_ns, nothing, nothing - 1, nothing)))
        self._critical = None if critical is None else frozenset(critical)
        self._bodies = [_body(plan, one) for one in events.sorts]

    def _slice(self, part: int) -> Entry:
        event = self._owner[part]
        name, kind, group, more = self._bodies[self._sort[event]]
        args = {"request": self._request_of[event], "group": group}
        if self._critical is not None:
            args["critical"] = event in self._critical
        return _complete(name, kind, args | more, self._track[part], *self._times[event])

    def _arrow_end(self, place: int) -> Entry:
        sort, part, ts = self._ends[place]
        pid, tid = self._track[part]
        number, name = place // 2 + self._arrows_before + 1, self._bodies[sort][0]
        phase: Entry = {"ph": "f", "bp": "e"} if place % 2 else {"ph": "s"}
        return {**phase, "cat": "transfer", "name": name, "id": number, "pid": pid, "tid": tid,
                "ts": ts}  # fmt: skip

    def _request(self, place: int) -> Entry:
        request, seconds, ts, dur = self._requests[place]
        args = {"request": request, "seconds": seconds}
        track = self.tracks.request_of[request]
        return _complete(f"request {request}", "request", args, track, ts, dur)


def _complete(
    name: str, kind: str, args: Entry, track: tuple[int, int], ts: float, dur: float
) -> Entry:
    pid, tid = track
    return {"ph": "X", "name": name, "cat": kind, "args": args, "pid": pid, "tid": tid, "ts": ts,
            "dur": dur}  # fmt: skip


def text_of(value: Any) -> str:
    """Return a part of a trace as compact JSON, with every text of it plain."""
    return json.dumps(plainly(value), allow_nan=False, separators=(",", ":"))


def _body(plan: Plan, event: Event) -> tuple[str, str, int, Entry]:
    """Name, kind, group and further arguments of a sort of events, in plain text."""
    args: Entry = {"lost": True} if event.lost else {}
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
    return plain(event.name), event.kind, event.group, plainly(args)


@dataclass(frozen=True, slots=True, eq=False)
class Arrows:
    """Ends of arrows between events, and the indices of their transfers."""

    source: Ints
    target: Ints
    transfer: Ints


def arrows_of(plan: Plan, events: Events) -> Arrows:
    """Return the arrows from the producer of a value to its transfer, and from that to each reader.

    Grouped by transfer, each with the one into it first. O(E log E) for E events.
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
        """Return the last event to compute a group for the requests of `events`; -1: none did."""
        if group < 0 or group >= most or not keys.size:
            return np.full(of.size, -1, dtype=np.int64)
        wanted = events.request[of] * most + group
        at = np.searchsorted(keys, wanted, side="right") - 1
        return np.where((at >= 0) & (keys[at] == wanted), computing[at], -1)

    found: list[tuple[Ints, Ints, Ints, int]] = []
    for sort, readers, own in _transfers(plan, events):
        one = events.sorts[sort]
        maker = when_computed(own, one.group)
        # A computation repeated after a failure may be later than the transfer of its value.
        some = (maker >= 0) & (events.start_s[maker] <= events.start_s[own])
        found.append((maker[some], own[some], own[some], 0))
        for place, reader in enumerate(readers, start=1):
            # After a failure a subgraph may have been replaced by others.
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
    """Transfers of one sort and replica: the sort, the groups that read it, the events."""
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
    """Return by event the length of its chain of zero-duration predecessors at its own time.

    An arrow must begin in a trace before it ends, even at equal times.
    """
    source, target = arrows.source, arrows.target
    at_once = (length_ns[source] == 0) & (start_ns[source] == start_ns[target])
    before = grouped(zip(target[at_once].tolist(), source[at_once].tolist(), strict=True))
    rank: dict[int, int] = {}
    for event in TopologicalSorter(before).static_order():
        rank[event] = max((rank[one] + 1 for one in before.get(event, ())), default=0)
    found = np.zeros(length_ns.size, dtype=np.int64)
    found[list(rank)] = list(rank.values())
    return found
