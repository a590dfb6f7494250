"""Clock rules driven by a heap of events: virtual time.

One implementation runs interpreted on lists, which is fastest for one request, or compiled by numba
on arrays, which is fastest for many. Both do the same float additions and comparisons in the same
order, so their results are bitwise equal.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import make_dataclass
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetsim.core import compile_threshold, heaps
from hetsim.core.heaps import Floats, Ints, with_room
from hetsim.core.machine_code import Compiled, machine_code
from hetsim.errors import PlanError
from hetsim.simulation.clock import rules
from hetsim.simulation.clock.rules import (
    ABLE,
    ADMITTED,
    MASK,
    OLDEST,
    RUNS,
    SHIFT,
    STARTING,
    State,
    Structure,
    admit,
    end,
    most_running,
    new_state,
    queue,
    starts,
    widened,
)

OVER, MOMENT, CROWDED, LOGGED = 0, 1, 2, 3
"""Reasons why ``advance`` returns: no more events; `until_s` reached; no free slot; log full."""


class ArrivingRequests(NamedTuple):
    """Arriving requests, in ascending order of arrival, in seconds.

    `finish` is output: the end of a request's last task; unchanged if it never ends.
    """

    arrival: Sequence[float]
    template: Sequence[int]
    rank: Sequence[int]
    finish: Floats


class Log(NamedTuple):
    """Log of starts in order: code, time and stream.

    `size` [1] lines are used; without lines, nothing is logged.
    """

    code: Ints
    start: Floats
    stream: Ints
    size: Ints


def advance(
    structure: Structure,
    state: State,
    duration: Sequence[float],
    requests: ArrivingRequests,
    events: Any,
    now_s: Floats,
    until_s: float,
    log: Log,
) -> int:
    """Advance the simulation from ``now_s[0]``, and update it.

    Must be called again unless it returns OVER: at MOMENT, all ends and arrivals up to `until_s`
    have been processed, without device starts since; CROWDED needs a slot for one more request,
    LOGGED more lines for starts. O(log (running tasks + requests in flight)) per task.
    """
    count, slots = state.counts, state.window - 1
    arrival, finish = requests.arrival, requests.finish
    total = len(arrival)
    lines = len(log.code)
    now = now_s[0]
    ending = earliest(events)
    coming = arrival[count[ADMITTED]] if count[ADMITTED] < total else math.inf
    while True:
        while True:
            if lines > 0 and lines - log.size[0] < len(state.starting):
                return LOGGED
            if ending == now:
                code = take(events)
                if end(structure, state, code >> SHIFT, code & MASK):
                    finish[code >> SHIFT] = now
            elif coming == now:
                request = count[ADMITTED]
                if request - count[OLDEST] > slots:
                    return CROWDED
                over = admit(
                    structure, state, request, requests.template[request], requests.rank[request]
                )
                if over:
                    finish[request] = now
                coming = arrival[request + 1] if request + 1 < total else math.inf
            elif now == until_s:
                return MOMENT
            elif count[ABLE] > 0:
                starts(structure, state)
            else:
                break
            if count[STARTING] > 0:
                launch(state, duration, events, now, log)
            ending = earliest(events)
        now = ending
        if coming < now:
            now = coming
        if until_s < now:
            now = until_s
        if now == math.inf:
            return OVER
        now_s[0] = now


def again(
    structure: Structure,
    state: State,
    duration: Sequence[float],
    requests: Sequence[int],
    templates: Sequence[int],
    ranks: Sequence[int],
    kept: Sequence[int],
    events: Any,
    now: float,
    log: Log,
) -> None:
    """Readmit requests, each with its template, and queue withheld transfers."""
    for k in range(len(requests)):
        admit(structure, state, requests[k], templates[k], ranks[k])
        launch(state, duration, events, now, log)
    for k in range(len(kept)):
        request = kept[k] >> SHIFT
        queue(structure, state, request & (state.window - 1), request, kept[k] & MASK)
        launch(state, duration, events, now, log)


def launch(state: State, duration: Sequence[float], events: Any, now: float, log: Log) -> None:
    """Push the ends of the tasks that start now. O(log events) each."""
    count, starting = state.counts, state.starting
    for k in range(count[STARTING]):
        code = starting[k]
        put(events, now + duration[code & MASK], code)
        if len(log.code) > 0:
            line = log.size[0]
            place = state.base[(code >> SHIFT) & (state.window - 1)] + (code & MASK)
            log.code[line] = code
            log.start[line] = now
            log.stream[line] = RUNS - state.pending[place]
            log.size[0] = line + 1
    count[STARTING] = 0


Events = list[tuple[float, int]]


def earliest(events: Events) -> float:
    """Return the time of the next event, or infinity without one."""
    return events[0][0] if events else math.inf


def put(events: Events, time: float, code: int) -> None:
    """Add an event. O(log events)."""
    heappush(events, (time, code))


def take(events: Events) -> int:
    """Remove the next event; return its code. O(log events)."""
    return heappop(events)[1]


def never_start(strategy: str) -> PlanError:
    """Return the error of a strategy's plan in which some subgraph never starts."""
    return PlanError(
        "its subgraphs wait for each other and never start",
        where=f"plan '{strategy}'",
        hint="order every group after the groups that feed it",
    )


PARTS = (
    heaps.push_event,
    heaps.pop_event,
    heaps.push_key,
    heaps.pop_key,
    heaps.earliest,
    heaps.put,
    heaps.take,
    rules.begin,
    rules.note,
    rules.offer,
    rules.queue,
    rules.release,
    rules.close,
    rules.admit,
    rules.end,
    rules.starts,
)
"""Functions that every driver of the rules calls on arrays, callees first."""

COMPILE_FROM, LEAST = 400_000, 300
"""Task events of a process from which machine code pays off (interpreted in about one second), and
of one play, whose arrays take time to hand over."""

Lines = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]
"""Starts in order: codes, seconds, streams."""


@functools.cache
def compiled(function: Callable[..., Any] = advance) -> Compiled:
    """Return a driver function as machine code, for int64 and float64 arrays.

    The first call in a process loads it, or compiles it with numba.
    """
    return machine_code(function, *PARTS, launch, inline=True)


def pays(events: float) -> bool:
    """Return whether these task events justify machine code; see ``compile_threshold.pays``."""
    return compile_threshold.pays(compiled(), events, LEAST, COMPILE_FROM)


class Driver:
    """Base of drivers with the state, templates and events, as lists or as arrays."""

    _arrays: bool
    _links: int
    _state: State
    _structure: Any
    _duration: Any
    _events: Any = None
    _now: Any

    def _lay_out(self, structure: Structure, duration: NDArray[np.float64]) -> None:
        """Set the templates; the state is created afterwards."""
        if not self._arrays:
            self._structure, self._duration = in_slots(structure), duration.tolist()
            self._events = self._events or []
            return
        # mypy does not accept arrays as sequences.
        shape: Any = structure
        self._structure = Structure._make(np.asarray(part, np.int64) for part in shape)
        self._duration = np.ascontiguousarray(duration, np.float64)
        self._widen_heap()

    def _widen_heap(self) -> None:
        """Resize the heap of events to the maximum number of running tasks."""
        if self._arrays:
            room = most_running(self._structure, self._links, self._state.window)
            self._events = with_room(self._events, room)


class VirtualTime(Driver):
    """Requests with given arrivals that run templates in virtual time.

    `structure` is made of lists or int arrays, `duration` [tasks] in seconds; `arrival` [requests]
    ascends, and `rank` absent is all 0. `lines` are the expected number of logged starts, 0: no
    log. `arrays`: whether to use machine code. `finish` is the end of each request; NaN before it.
    """

    def __init__(
        self,
        structure: Structure,
        links: int,
        duration: NDArray[np.float64],
        arrival: NDArray[np.float64],
        template: NDArray[np.int64],
        rank: NDArray[np.int8] | None = None,
        *,
        lines: int,
        arrays: bool,
    ) -> None:
        count = len(arrival)
        self._arrays = arrays
        self._links = links
        self._state = new_state(structure, links, window=1 if count == 1 else 16, arrays=arrays)
        if lines:
            lines += len(self._state.starting)
        self._lay_out(structure, duration)
        if arrays:
            self.finish: Any = np.full(count, np.nan)
            ranks: Any = np.zeros(count, np.int8) if rank is None else rank
            coming: Any = (arrival, template, ranks, self.finish)
            self._requests: Any = ArrivingRequests(*coming)
            self._now = np.full(1, -np.inf)
        else:
            self.finish = [math.nan] * count
            ranks = [0] * count if rank is None else rank.tolist()
            self._requests = in_slots(
                ArrivingRequests(arrival.tolist(), template.tolist(), ranks, self.finish)
            )
            self._now = [-math.inf]
        self._log: Any = empty_log(lines, arrays)

    def run(self, until_s: float = math.inf) -> None:
        """Advance to `until_s`; process ends and arrivals up to then, but no device starts."""
        go_on = compiled() if self._arrays else advance
        while True:
            why = go_on(
                self._structure,
                self._state if self._arrays else in_slots(self._state),
                self._duration,
                self._requests,
                self._events,
                self._now,
                until_s,
                self._log,
            )
            if why == CROWDED:
                self._state = widened(self._state)
                self._widen_heap()
            elif why == LOGGED:
                more = len(self._log.code) + len(self._state.starting)
                self._log = longer(self._log, more, self._arrays)
            else:
                return

    def run_out(self, strategy: str) -> None:
        """Run until all requests end. Raises PlanError with the plan's name if some never end."""
        self.run()
        if self.over < len(self.finish):
            raise never_start(strategy)

    @property
    def over(self) -> int:
        """Number of ended requests before the first open one."""
        return int(self._state.counts[OLDEST])

    def log(self) -> Lines:
        """Return the log of starts."""
        log, size = self._log, self._log.size[0]
        return (
            np.asarray(log.code[:size], np.int64),
            np.asarray(log.start[:size], np.float64),
            np.asarray(log.stream[:size], np.int64),
        )


def longer(log: Any, more: int, arrays: bool) -> Any:
    """Return a log with room for `more` lines."""
    made = empty_log(len(log.code) + more, arrays)
    for name in Log._fields:
        old = getattr(log, name)
        getattr(made, name)[: len(old)] = old
    return made


def in_slots(record: Any) -> Any:
    """Return the named tuple's fields as slots, which interpreted code reads much faster."""
    kind: Any = type(record)
    return _slotted(kind)(*record)


@functools.cache
def _slotted(record: Any) -> Any:
    return make_dataclass(record.__name__, record._fields, slots=True)


def empty_log(lines: int, arrays: bool) -> Any:
    """Return a log with room for this number of lines."""
    if not arrays:
        return in_slots(Log([0] * lines, [0.0] * lines, [0] * lines, [0]))
    made: Any = (
        np.zeros(lines, np.int64),
        np.zeros(lines),
        np.zeros(lines, np.int32),
        np.zeros(1, np.int64),
    )
    return Log(*made)
