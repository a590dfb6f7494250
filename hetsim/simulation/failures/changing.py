"""What changes under a driver of the clock's rules: devices stop and come back, templates become
others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetsim.simulation.clock import driver, rules
from hetsim.simulation.clock.events_of_arrays import Events
from hetsim.simulation.clock.rules import (
    ADMITTED,
    ENDED,
    KEPT,
    MASK,
    OLDEST,
    RUNS,
    SHIFT,
    State,
    Structure,
)
from hetsim.simulation.clock.state import new_state
from hetsim.simulation.clock.virtual_time import compiled, in_slots, longer

WAITS, HAS_ENDED, IS_RUNNING = 0, 1, 2

Ints = NDArray[np.int64]


class InFlight(NamedTuple):
    """Requests that are not over.

    Attributes
    ----------
    request, template : int array [requests]
    progress : int8 array [requests, tasks of the widest template]
        WAITS, HAS_ENDED or IS_RUNNING.
    stream : int array [requests, tasks of the widest template]
        On which a task runs.
    """

    request: Ints
    template: Ints
    progress: NDArray[np.int8]
    stream: Ints

    def some(self, which: NDArray[np.bool_]) -> InFlight:
        """Return some of them."""
        parts = self.request[which], self.template[which], self.progress[which], self.stream[which]
        return InFlight(*parts)


class Changing(ABC):
    """A driver of the clock's rules whose templates, and devices, may be others from a moment on.

    For classes that have what is named here: a driver's state, its events, and its log.
    """

    _arrays: bool
    _links: int
    _state: State
    _structure: Any
    _duration: Any
    _events: Any
    _now: Any
    _log: Any

    @abstractmethod
    def _lay_out(self, structure: Structure, duration: NDArray[np.float64]) -> None:
        """Take other templates; the state is to be made for them."""

    @property
    def admitted(self) -> int:
        """How many requests have come."""
        return int(self._state.counts[ADMITTED])

    @property
    def ends(self) -> list[tuple[float, int]]:
        """When what runs ends, with its code; what a stopped device runs has no end."""
        if self._arrays:
            size = self._events.size[0]
            times, codes = self._events.times[:size], self._events.codes[:size]
            return list(zip(times.tolist(), codes.tolist(), strict=True))
        return list(self._events)

    @ends.setter
    def ends(self, ends: Iterable[tuple[float, int]]) -> None:
        found = sorted(ends)
        if not self._arrays:
            self._events = found
            return
        times, codes, _ = self._events
        times[: len(found)] = [time for time, _ in found]
        codes[: len(found)] = [code for _, code in found]
        made: Any = (times, codes, np.array([len(found)], dtype=np.int64))
        self._events = Events(*made)

    def devices_of(self, codes: Ints) -> Ints:
        """Return where subgraphs run; a number below 0 for transfers."""
        found: Ints = np.asarray(self._structure.device, np.int64)[codes & MASK]
        return found

    def in_flight(self) -> InFlight:
        """Return requests that are not over, and how far they are. O(their tasks)."""
        state = self._state
        request = np.arange(state.counts[OLDEST], state.counts[ADMITTED])
        slot = request & (state.window - 1)
        open_ = np.asarray(state.left)[slot] > 0
        request, slot = request[open_], slot[open_]
        template = np.asarray(state.template, np.int64)[slot]
        tasks = np.diff(self._structure.first)[template]
        pending = np.asarray(state.pending).reshape(state.window, state.width)[slot]
        # Beyond its own tasks a slot holds what is left of those before.
        pending = np.where(np.arange(state.width) < tasks[:, None], pending, WAITS)
        progress = np.where(pending == ENDED, HAS_ENDED, WAITS).astype(np.int8)
        progress[pending <= RUNS] = IS_RUNNING
        return InFlight(request, template, progress, RUNS - pending)

    def stop(self, device: int) -> None:
        """Let a device start nothing any more."""
        self._state.free[device] = 0

    def end_never(self, codes: Ints) -> None:
        """Let what runs on a device that has stopped have no end any more."""
        gone = set(codes.tolist())
        self.ends = [end for end in self.ends if end[1] not in gone]

    def start(self, device: int) -> None:
        """Let a device that has stopped start again, with nothing on it; what is kept back goes."""
        state: Any = self._state if self._arrays else in_slots(self._state)
        streams = self._structure.streams[device]
        state.free[device] = streams
        most = len(state.occupied) // len(self._structure.streams)
        for stream in range(device * most, (device + 1) * most):
            state.occupied[stream] = 0
        if not state.listed[device]:
            rules.note(state, device)
        state.shut[device] = 0
        kept = np.array(state.kept[: state.counts[KEPT]], dtype=np.int64)
        there = np.asarray(self._structure.device)[kept & MASK] == -1 - device
        rest = kept[~there].tolist()
        state.kept[: len(rest)] = rest if not self._arrays else kept[~there]
        state.counts[KEPT] = len(rest)
        none = np.zeros(0, dtype=np.int64)
        self._again(none, none, none, kept[there])

    def change(
        self,
        structure: Structure,
        duration: NDArray[np.float64],
        requests: Ints,
        templates: Ints,
        running: Sequence[tuple[int, int]],
        ends: Iterable[tuple[float, int]],
        *,
        stopped: Sequence[bool],
        shut: Sequence[bool],
    ) -> None:
        """Go on with other templates.

        Parameters
        ----------
        structure, duration
            As before.
        requests, templates : int array [requests]
            Those that are not over, ascending, and what they run from now on, from its start but
            for what is under way. Queues of links form anew in this order.
        running : of (int, int)
            What runs: codes by the new templates, and streams.
        ends : of (float, int)
            When, of what does not run on a device that has stopped.
        stopped, shut : of bool
            Devices that start nothing, and those to which no transfer starts.
        """
        old = self._state
        admitted = old.counts[ADMITTED]
        ranks = np.asarray(old.rank, np.int64)[requests & (old.window - 1)]
        state = new_state(
            structure, self._links, window=old.window, arrays=self._arrays, keeps=True
        )
        self._state = state
        # More may have been under way than can be from now on: the heap's room is for that.
        self.ends = ()
        self._lay_out(structure, duration)
        state.counts[OLDEST] = int(requests[0]) if len(requests) else admitted
        state.counts[ADMITTED] = admitted
        for device, closed in enumerate(shut):
            state.shut[device] = int(closed)
        template_of = dict(zip(requests.tolist(), templates.tolist(), strict=True))
        for code, _ in running:
            # It stands first at its links, before anyone joins them.
            request, task = code >> SHIFT, code & MASK
            begin = structure.held_at[structure.first[template_of[request]]]
            holds = (request & (state.window - 1)) * state.holds - begin
            for at in range(structure.held_at[task], structure.held_at[task + 1]):
                state.next_up[holds + at] = -1
                state.tail[structure.held[at]] = holds + at
        self.ends = ends
        self._again(requests, templates, ranks, np.zeros(0, dtype=np.int64))
        state.counts[ADMITTED] = admitted
        most = len(state.occupied) // len(structure.streams)
        for code, stream in running:
            request, task = code >> SHIFT, code & MASK
            state.pending[state.base[request & (state.window - 1)] + task] = RUNS - stream
            device = structure.device[task]
            if device >= 0:
                state.free[device] -= 1
                state.occupied[device * most + stream] = 1
        for device, halted in enumerate(stopped):
            if halted:
                state.free[device] = 0

    def _again(self, requests: Ints, templates: Ints, ranks: Ints, kept: Ints) -> None:
        """Admit requests once more, and queue what was kept back."""
        log = self._log
        lines = len(log.code) - log.size[0]
        needed = len(kept) + len(requests) * self._state.width
        if lines < needed:
            self._log = log = longer(log, needed - lines + len(self._state.starting), self._arrays)
        again: Any = compiled(driver.again) if self._arrays else driver.again
        shown: Any = (requests, templates, ranks, kept)
        if not self._arrays:
            shown = tuple(part.tolist() for part in shown)
        again(
            self._structure,
            self._state if self._arrays else in_slots(self._state),
            self._duration,
            *shown,
            self._events,
            self._now[0],
            log,
        )
