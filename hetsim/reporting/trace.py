"""A timeline as Chrome trace events, the JSON that Perfetto and chrome://tracing open.

Source: "Trace Event Format" (Google, the Chromium project): complete events ``X``, flow
events ``s`` and ``f``, counters ``C``, metadata ``M``. Times are in microseconds, each of them a
whole number of nanoseconds: Perfetto cuts off what is below, and drops a slice that reaches into
the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from hetsim.problem.events import Events
from hetsim.problem.plan import Plan
from hetsim.problem.timeline import Event, Timeline
from hetsim.reporting.tables.question import figures_rows
from hetsim.reporting.trace_counters import Times, counters, under_way
from hetsim.reporting.trace_entries import Story, entries, text_of
from hetsim.reporting.trace_tracks import Tracks

REAL, SIMULATED = "real run, wall clock: ", "simulation, virtual clock: "
"""What names of processes begin with, where a trace has two clocks."""


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
    """From the first to the last that was done for each request, ascending."""
    of_one = events.request >= 0
    known, place = np.unique(events.request[of_one], return_inverse=True)
    first, last = np.full(known.size, np.inf), np.full(known.size, -np.inf)
    np.minimum.at(first, place, events.start_s[of_one])
    np.maximum.at(last, place, events.end_s[of_one])
    return dict(zip(known.tolist(), zip(first.tolist(), last.tolist(), strict=True), strict=True))
