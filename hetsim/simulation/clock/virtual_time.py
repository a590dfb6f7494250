"""Requests on the clock: its rules on virtual time, as they stand or as machine code."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import make_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.base.machine_code import machine_code
from hetsim.simulation.clock import driver, events_of_arrays, heaps, rules
from hetsim.simulation.clock.driver import CROWDED, OVER, Log, Requests
from hetsim.simulation.clock.events_of_arrays import Events
from hetsim.simulation.clock.rules import OLDEST, Structure
from hetsim.simulation.clock.state import new_state, widened

INLINED = (
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
    driver.launch,
)
"""What ``driver.advance`` calls on arrays, each after what it calls itself."""


@functools.cache
def compiled() -> Callable[..., int]:
    """Return ``driver.advance`` as machine code, for int64 and float64 arrays.

    The first call in a process loads numba.
    """
    return machine_code(driver.advance, *INLINED, inline=True)


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
        window = 1 if count == 1 else 16
        self._arrays = arrays
        self._state = new_state(structure, links, window=window, arrays=arrays)
        if lines:
            lines += len(self._state.starting)
        # mypy knows arrays as no sequences.
        shape: Any = structure
        if arrays:
            shape = Structure._make(np.asarray(part, np.int64) for part in shape)
            self._structure: Any = shape
            self._duration: Any = duration
            self.finish: Any = np.full(count, np.nan)
            ranks: Any = np.zeros(count, np.int8) if rank is None else rank
            coming: Any = (arrival, template, ranks, self.finish)
            self._requests: Any = Requests(*coming)
            # Each stream and link runs one task at most; transfers without links, all there are.
            bare = (shape.device < 0) & (shape.held_at[1:] == shape.held_at[:-1])
            before = np.concatenate(([0], np.cumsum(bare)))[shape.first]
            self._bare = int(np.diff(before).max(initial=0))
            self._fixed = sum(structure.streams) + links + 1
            self._events: Any = self._with_room(None)
            self._now: Any = np.full(1, -np.inf)
            written: Any = (
                np.zeros(lines, np.int64),
                np.zeros(lines),
                np.zeros(lines, np.int32),
                np.zeros(1, np.int64),
            )
            self._log: Any = Log(*written)
        else:
            self._structure = in_slots(structure)
            self._duration = duration.tolist()
            self.finish = [math.nan] * count
            ranks = [0] * count if rank is None else rank.tolist()
            self._requests = in_slots(
                Requests(arrival.tolist(), template.tolist(), ranks, self.finish)
            )
            self._events = []
            self._now = [-math.inf]
            self._log = in_slots(Log([0] * lines, [0.0] * lines, [0] * lines, [0]))

    def run(self, until_s: float = math.inf) -> bool:
        """Go on until `until_s`; return whether anything may happen after it.

        What ends and comes at `until_s` has, and nothing has started on devices since.
        """
        advance = compiled() if self._arrays else driver.advance
        while True:
            state = self._state if self._arrays else in_slots(self._state)
            why = advance(
                self._structure,
                state,
                self._duration,
                self._requests,
                self._events,
                self._now,
                until_s,
                self._log,
            )
            if why != CROWDED:
                return why != OVER
            self._state = widened(self._state)
            if self._arrays:
                self._events = self._with_room(self._events)

    def _with_room(self, events: Events | None) -> Events:
        """The heap of events with room for all that can run at once."""
        room = self._fixed + self._state.window * self._bare
        times, codes, size = np.zeros(room), np.zeros(room, np.int64), np.zeros(1, np.int64)
        if events is not None:
            many = size[0] = events.size[0]
            times[:many], codes[:many] = events.times[:many], events.codes[:many]
        return Events(times, codes, size)  # type: ignore[arg-type]

    @property
    def over(self) -> int:
        """How many requests have ended, before the first that has not."""
        return int(self._state.counts[OLDEST])

    def log(self) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
        """Return codes, seconds and streams of what started, in that order."""
        log, size = self._log, self._log.size[0]
        return (
            np.asarray(log.code[:size], np.int64),
            np.asarray(log.start[:size], np.float64),
            np.asarray(log.stream[:size], np.int64),
        )


def in_slots(record: Any) -> Any:
    """Return a named tuple's fields as attributes that plain Python reads many times as fast."""
    kind: Any = type(record)
    return _slotted(kind)(*record)


@functools.cache
def _slotted(record: Any) -> Any:
    return make_dataclass(record.__name__, record._fields, slots=True)
