"""Requests on the clock: its rules on virtual time, as they stand or as machine code."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import make_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.core import left_to_python
from hetsim.core.machine_code import machine_code
from hetsim.simulation.clock import driver, events_of_arrays, heaps, rules
from hetsim.simulation.clock.driver import CROWDED, LOGGED, Log, Requests
from hetsim.simulation.clock.events_of_arrays import with_room
from hetsim.simulation.clock.rules import ADMITTED, OLDEST, Structure
from hetsim.simulation.clock.state import most_running, new_state, widened
from hetsim.simulation.stuck import never_start

PARTS = (
    heaps.push_event,
    heaps.pop_event,
    heaps.push_key,
    heaps.pop_key,
    events_of_arrays.earliest,
    events_of_arrays.put,
    events_of_arrays.take,
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
"""What every driver of the rules calls on arrays, each after what it calls itself."""

INLINED = (*PARTS, driver.launch)
"""What this one calls."""

COMPILE_FROM, LEAST = 400_000, 300
"""Task events that take plain Python a second, of all that a process plays; of one play, those that
outweigh handing over its arrays."""

Lines = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]
"""What started, in that order: codes, seconds, streams."""


@functools.cache
def compiled(function: Callable[..., Any] = driver.advance) -> Callable[..., Any]:
    """Return a function of the driver as machine code, for int64 and float64 arrays.

    The first call in a process loads it, or has numba make it.
    """
    return machine_code(function, *INLINED, inline=True)


def pays(events: float) -> bool:
    """Whether so many task events are for machine code; see ``left_to_python.pays``."""
    return left_to_python.pays(compiled, driver.advance, events, LEAST, COMPILE_FROM)


class VirtualTime:
    """Requests that come at their times and run templates.

    Parameters
    ----------
    structure : Structure
        Of lists or int arrays.
    links : int
    duration : float array [tasks]
        Seconds.
    arrival : float array [requests]
        Ascending.
    template : int array [requests]
    rank : int array [requests], optional
        Absent: 0 for all.
    lines : int
        How many starts are expected to be logged; 0: none is.
    arrays : bool
        Whether as machine code.

    Attributes
    ----------
    finish : sequence of float [requests]
        When each ended; NaN before.
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
        self._events: Any = None
        self._duration: Any = None
        self._lay_out(structure, duration)
        if arrays:
            self.finish: Any = np.full(count, np.nan)
            ranks: Any = np.zeros(count, np.int8) if rank is None else rank
            coming: Any = (arrival, template, ranks, self.finish)
            self._requests: Any = Requests(*coming)
            self._now: Any = np.full(1, -np.inf)
        else:
            self.finish = [math.nan] * count
            ranks = [0] * count if rank is None else rank.tolist()
            self._requests = in_slots(
                Requests(arrival.tolist(), template.tolist(), ranks, self.finish)
            )
            self._now = [-math.inf]
        self._log: Any = empty_log(lines, arrays)

    def run(self, until_s: float = math.inf) -> None:
        """Go on until `until_s`: what ends and comes then has, and no device has started since."""
        advance = compiled() if self._arrays else driver.advance
        while True:
            why = advance(
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
                self._make_room()
            elif why == LOGGED:
                more = len(self._log.code) + len(self._state.starting)
                self._log = longer(self._log, more, self._arrays)
            else:
                return

    def run_out(self, strategy: str) -> None:
        """Go on until all have ended. Raises PlanError, naming the plan, where some never do."""
        self.run()
        if self.over < len(self.finish):
            raise never_start(strategy)

    def restart(self, duration: NDArray[np.float64]) -> None:
        """Let the same requests come again, after all have ended, with other seconds a task."""
        nothing = [math.nan] * len(self.finish)
        self.finish[:] = nothing
        self._duration = np.ascontiguousarray(duration) if self._arrays else duration.tolist()
        # Streams, links and turns are as they were before the first came.
        self._state.counts[OLDEST] = self._state.counts[ADMITTED] = 0
        self._now[0] = -math.inf
        self._log.size[0] = 0

    @property
    def over(self) -> int:
        """How many requests have ended, before the first that has not."""
        return int(self._state.counts[OLDEST])

    def log(self) -> Lines:
        """Return what has started."""
        log, size = self._log, self._log.size[0]
        return (
            np.asarray(log.code[:size], np.int64),
            np.asarray(log.start[:size], np.float64),
            np.asarray(log.stream[:size], np.int64),
        )

    def _lay_out(self, structure: Structure, duration: NDArray[np.float64]) -> None:
        """Take other templates; the state is to be made for them."""
        if not self._arrays:
            self._structure: Any = in_slots(structure)
            self._duration = duration.tolist()
            self._events = self._events or []
            return
        # mypy knows arrays as no sequences.
        shape: Any = structure
        shape = Structure._make(np.asarray(part, np.int64) for part in shape)
        self._structure = shape
        self._duration = np.ascontiguousarray(duration)
        self._make_room()

    def _make_room(self) -> None:
        """Give the heap of events room for all that can run at once."""
        if not self._arrays:
            return
        room = most_running(self._structure, self._links, self._state.window)
        self._events = with_room(self._events, room)


def longer(log: Any, more: int, arrays: bool) -> Any:
    """Return a log with room for more lines."""
    if not arrays:
        log.code += [0] * more
        log.start += [0.0] * more
        log.stream += [0] * more
        return log
    made: Any = empty_log(len(log.code) + more, arrays)
    for old, new in zip(log, made, strict=True):
        new[: len(old)] = old
    return made


def in_slots(record: Any) -> Any:
    """Return a named tuple's fields as attributes that plain Python reads many times as fast."""
    kind: Any = type(record)
    return _slotted(kind)(*record)


@functools.cache
def _slotted(record: Any) -> Any:
    return make_dataclass(record.__name__, record._fields, slots=True)


def empty_log(lines: int, arrays: bool) -> Any:
    """Return a log with room for so many lines."""
    if not arrays:
        return in_slots(Log([0] * lines, [0.0] * lines, [0] * lines, [0]))
    made: Any = (
        np.zeros(lines, np.int64),
        np.zeros(lines),
        np.zeros(lines, np.int32),
        np.zeros(1, np.int64),
    )
    return Log(*made)
