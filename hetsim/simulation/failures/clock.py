"""Virtual clock with failures: requests continue with templates of their remaining tasks.

Events of one instant follow the order of ``hetsim.simulation.clock.rules``; devices fail and return
after the ends and arrivals of that instant, and before any device starts a subgraph.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetsim.problem.parts import Contention
from hetsim.problem.plan import Plan
from hetsim.problem.timeline import Event, Timeline
from hetsim.simulation.clock import rules, virtual_time
from hetsim.simulation.clock.metrics import (
    compute_event,
    computing_seconds,
    timeline,
    transfer_event,
)
from hetsim.simulation.clock.rules import (
    ADMITTED,
    ENDED,
    KEPT,
    MASK,
    OLDEST,
    RUNS,
    SHIFT,
    Structure,
    new_state,
)
from hetsim.simulation.clock.templates import flat
from hetsim.simulation.clock.virtual_time import (
    Driver,
    Lines,
    VirtualTime,
    compiled,
    in_slots,
    longer,
    pays,
)
from hetsim.simulation.failures.recovery import (
    HAS_ENDED,
    IS_RUNNING,
    WAITS,
    Continuation,
    InFlight,
    InstanceStates,
    Ints,
    RecoveryTask,
    Replan,
    Rest,
    Rests,
    TaskLayout,
    continuations,
)
from hetsim.workload.failure import Failure, What, moments


class FailingDriver(Driver, ABC):
    """Driver of the clock's rules whose templates and devices may change over time.

    Subclasses provide a log, rests as templates, and the states of instances. `happened` lists the
    failures before the end of the last request.
    """

    _rests: Rests
    _host: int | None
    _states: InstanceStates
    happened: list[Failure]
    _log: Any

    @abstractmethod
    def _cut(self, flight: InFlight, gone: Running) -> None:
        """Record tasks that are cut off, while they still have an end."""

    @abstractmethod
    def _lose(self, device: int, failure: Failure) -> None:
        """Remove from requests what they had on a device whose stop is now known."""

    def _change(self, device: int, what: What, failure: Failure) -> None:
        """Stop a device, make its loss known, or bring it back."""
        if what == "stop":
            self.happened.append(failure)
            self._states.stopped[device] = True
            self._state.free[device] = 0
            flight, running = self._under_way()
            gone = running.some(self.devices_of(running.code) == device)
            self._cut(flight, gone)
            # It no longer has an end; other work held there is lost when the failure is known.
            codes = set(gone.code.tolist())
            self.ends = [end for end in self.ends if end[1] not in codes]
        elif what == "known":
            self._states.down[device] = True
            self._lose(device, failure)
        else:
            self._come_back(device)

    def _come_back(self, device: int) -> None:
        """Return a device to service, with empty memory."""
        self._states.stopped[device] = self._states.down[device] = False
        self.start(device)

    def _under_way(self) -> tuple[InFlight, Running]:
        """Return open requests, and their running tasks. O(tasks in flight)."""
        flight = self.in_flight()
        return flight, running_of(flight, self._rests)

    @property
    def ends(self) -> list[tuple[float, int]]:
        """Return the ends of running tasks with their codes, without those of a stopped device."""
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
        times, codes, size = self._events
        times[: len(found)] = [time for time, _ in found]
        codes[: len(found)] = [code for _, code in found]
        size[0] = len(found)

    def devices_of(self, codes: Ints) -> Ints:
        """Return the devices of subgraphs; a negative number for transfers."""
        found: Ints = np.asarray(self._structure.device, np.int64)[codes & MASK]
        return found

    def in_flight(self) -> InFlight:
        """Return open requests and their progress. O(tasks in flight)."""
        state = self._state
        request = np.arange(state.counts[OLDEST], state.counts[ADMITTED])
        slot = request & (state.window - 1)
        open_ = np.asarray(state.left)[slot] > 0
        request, slot = request[open_], slot[open_]
        template = np.asarray(state.template, np.int64)[slot]
        tasks = np.diff(self._structure.first)[template]
        pending = np.asarray(state.pending).reshape(state.window, state.width)[slot]
        # Beyond its own tasks, a slot holds leftovers of earlier ones.
        pending = np.where(np.arange(state.width) < tasks[:, None], pending, WAITS)
        progress = np.where(pending == ENDED, HAS_ENDED, WAITS).astype(np.int8)
        progress[pending <= RUNS] = IS_RUNNING
        return InFlight(request, template, progress, RUNS - pending)

    def start(self, device: int) -> None:
        """Restart a stopped device with empty memory, and release withheld transfers."""
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

    def _continue(
        self,
        flight: InFlight,
        running: Running,
        ways: Sequence[Continuation],
        way: Ints,
        expected: Ints,
    ) -> TaskOutcomes:
        """Replace each request in flight by its continuation, and go on.

        `expected`: further rests to lay out, for later arrivals.
        """
        after = np.array([found.rest for found in ways], dtype=np.int64)[way]
        left = after >= 0
        structure, duration = self._rests.lay_out(
            np.unique(np.concatenate((after[left], expected)))
        )
        template = np.searchsorted(self._rests.used, after)
        moves: dict[int, tuple[int, int, int]] = {}
        lost: list[int] = []
        for row, place, code in zip(*(part.tolist() for part in running), strict=True):
            there = ways[way[row]].places.get(place)
            if there is None:
                lost.append(code)
                continue
            task = int(self._rests.first[template[row]]) + there
            moves[code] = (code >> SHIFT << SHIFT) + task, int(after[row]), there
        stream = dict(zip(running.code.tolist(), flight.stream[running[:2]].tolist(), strict=True))
        self._take(
            structure,
            duration,
            flight.request[left],
            template[left],
            [(new, stream[code]) for code, (new, _, _) in moves.items()],
            [(time, moves[code][0]) for time, code in self.ends if code in moves],
        )
        return TaskOutcomes(moves, lost)

    def _take(
        self,
        structure: Structure,
        duration: NDArray[np.float64],
        requests: Ints,
        templates: Ints,
        running: Sequence[tuple[int, int]],
        ends: Iterable[tuple[float, int]],
    ) -> None:
        """Switch to other templates.

        Open requests start them anew, except for `running`, given as codes in the new templates
        with streams; `ends` are those of tasks on working devices. No transfer starts to a device
        that is down, except the caller's. Link queues are rebuilt in order of requests.
        """
        old = self._state
        admitted = old.counts[ADMITTED]
        ranks = np.asarray(old.rank, np.int64)[requests & (old.window - 1)]
        state = new_state(
            structure, self._links, window=old.window, arrays=self._arrays, keeps=True
        )
        self._state = state
        # More tasks may have been running than can from now on, so the heap keeps its capacity.
        self.ends = ()
        self._lay_out(structure, duration)
        state.counts[OLDEST] = int(requests[0]) if len(requests) else admitted
        state.counts[ADMITTED] = admitted
        for device, down in enumerate(self._states.down):
            state.shut[device] = int(down and device != self._host)
        template_of = dict(zip(requests.tolist(), templates.tolist(), strict=True))
        for code, _ in running:
            # It is first at its links before others join.
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
        for device, halted in enumerate(self._states.stopped):
            if halted:
                state.free[device] = 0

    def _again(self, requests: Ints, templates: Ints, ranks: Ints, kept: Ints) -> None:
        """Readmit requests and queue withheld transfers."""
        log = self._log
        lines = len(log.code) - log.size[0]
        needed = len(kept) + len(requests) * self._state.width
        if lines < needed:
            self._log = log = longer(log, needed - lines + len(self._state.starting), self._arrays)
        again: Any = compiled(virtual_time.again) if self._arrays else virtual_time.again
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


class Running(NamedTuple):
    """Running tasks: row in flight and position in the template, with codes."""

    row: Ints
    place: Ints
    code: Ints

    def some(self, which: NDArray[np.bool_]) -> Running:
        """Return a selection of them."""
        return Running(self.row[which], self.place[which], self.code[which])


class TaskOutcomes(NamedTuple):
    """Outcomes of running tasks.

    `moves` by code: the new code, the rest, and the index in it. `lost` are the codes of those cut
    off.
    """

    moves: dict[int, tuple[int, int, int]]
    lost: list[int]


def running_of(flight: InFlight, rests: Rests) -> Running:
    """Return the running tasks of requests in flight. O(their tasks)."""
    row, place = np.nonzero(flight.progress == IS_RUNNING)
    task = rests.first[flight.template[row]] + place
    return Running(row, place, (flight.request[row] << SHIFT) + task)


@dataclass(frozen=True, eq=False)
class StartLog:
    """Log of starts, in order.

    `task` is an index into `tasks`, which are those of all rests. `end` of a task that was `lost`,
    cut off, is the time of the cut. `counts`: whether the task's request was still open.
    """

    tasks: Sequence[RecoveryTask]
    request: NDArray[np.int64]
    task: NDArray[np.int64]
    stream: NDArray[np.int64]
    start: NDArray[np.float64]
    end: NDArray[np.float64]
    lost: NDArray[np.bool_]
    counts: NDArray[np.bool_]


class Ledger:
    """Log lines with the mapping from running tasks to lines."""

    def __init__(self, rests: Rests) -> None:
        self._rests = rests
        self._count = 0
        self._chunks: list[tuple[NDArray[np.int64], ...]] = []
        self._starts: list[NDArray[np.float64]] = []
        self._line_of: dict[int, int] = {}
        self._moved: dict[int, tuple[int, int]] = {}
        self._lost_s: dict[int, float] = {}

    def write(self, lines: Lines, running: NDArray[np.int64]) -> None:
        """Append the starts under the current templates; `running` are the running codes."""
        codes, starts, streams = lines
        task = codes & MASK
        template = np.searchsorted(self._rests.first, task, side="right") - 1
        place = task - self._rests.first[template]
        self._chunks.append((codes >> SHIFT, self._rests.used[template], place, streams))
        self._starts.append(starts)
        here = np.flatnonzero(np.isin(codes, running))
        self._line_of.update(zip(codes[here].tolist(), (self._count + here).tolist(), strict=True))
        self._count += len(codes)

    def lose(self, codes: Iterable[int], now: float) -> None:
        """Mark running tasks as cut off, unless they already are."""
        for code in codes:
            self._lost_s.setdefault(self._line_of[code], now)

    def move(self, moves: Mapping[int, tuple[int, int, int]]) -> None:
        """Renumber running tasks for other templates: by code the new code, rest and index."""
        lines = {new: self._line_of[code] for code, (new, _, _) in moves.items()}
        for new, rest, place in moves.values():
            self._moved[lines[new]] = rest, place
        self._line_of = lines

    def closed(self) -> StartLog:
        """Return all lines. O(lines + tasks of all rests)."""
        request, rest, place, stream = (
            np.concatenate([chunk[part] for chunk in self._chunks]) for part in range(4)
        )
        if self._moved:
            lines = np.array(list(self._moved), dtype=np.int64)
            rest[lines], place[lines] = np.array(list(self._moved.values()), dtype=np.int64).T
        known = self._rests.known
        first = np.cumsum([0, *(len(one.tasks) for one in known)])
        tasks = [task for one in known for task in one.tasks]
        task_of = first[rest] + place
        seconds = np.array([task.seconds for task in tasks], dtype=np.float64)
        counts = np.array([counted for one in known for counted in one.counts], dtype=np.bool_)
        start = np.concatenate(self._starts)
        end = start + seconds[task_of]
        lost = np.zeros(len(start), dtype=np.bool_)
        for line, at_s in self._lost_s.items():
            lost[line], end[line] = True, at_s
        return StartLog(tasks, request, task_of, stream, start, end, lost, counts[task_of])


class FailingClock(VirtualTime, FailingDriver):
    """Simulation of a plan with device failures.

    `arrival` ascends, `failures` are by time and of existing devices. `replan` returns a plan that
    avoids the given devices. `machine_code`: whether numba compiles the clock, with a bitwise
    identical result; absent: if the work is large.

    Afterwards `finish` has the end of each request, `started` the log of all tasks that ran, and
    `versions` the plan and its successors.
    """

    def __init__(
        self,
        plan: Plan,
        arrival: Sequence[float],
        failures: Sequence[Failure],
        contention: Contention,
        replan: Replan,
        *,
        machine_code: bool | None = None,
    ) -> None:
        self._plan = plan
        self._arrival = np.array(arrival, dtype=np.float64)
        self._host = plan.problem.host
        # All replicas together: if one permanently loses a device, the whole plan is replaced.
        self._states = InstanceStates([plan], [[[0]]], contention, replan)
        self.versions = [*self._states.versions]
        self._moments = moments(failures)
        self.happened = []
        self._over_s: dict[int, float] = {}
        self._rests = Rests(plan.problem.streams)
        self._ledger = Ledger(self._rests)
        fresh = self._fresh()
        structure, duration = self._rests.lay_out(np.unique(fresh))
        first = self.versions[0].plan_tasks
        expected = first.widest * len(arrival)
        if machine_code is None:
            machine_code = pays(expected * (1 + len(failures)))
        super().__init__(
            structure,
            len(first.links),
            duration,
            self._arrival,
            self._expected(0, fresh),
            lines=expected,
            arrays=machine_code,
        )

    def play(self) -> None:
        """Run until all requests have ended.

        Raises
        ------
        Infeasible
            If no device remains that can do the rest.
        PlanError
            If some subgraph never starts.
        """
        count = len(self._arrival)
        for at_s, _, what, failure in self._moments:
            self.run(at_s)
            # Failures at the end of the last request are still processed.
            if self.over == count and at_s > self._latest():
                break
            self._change(self._plan.problem.devices.index(failure.device), what, failure)
        self.run_out(self._plan.strategy)
        self._ledger.write(self._take_log(), np.zeros(0, dtype=np.int64))
        self.started = started = self._ledger.closed()
        finish = self._arrival.copy()
        last = started.counts & ~started.lost
        np.maximum.at(finish, started.request[last], started.end[last])
        for request, at_s in self._over_s.items():
            finish[request] = max(finish[request], at_s)
        self.finish = finish.tolist()

    def _latest(self) -> float:
        """Return the end of the last request, including work that it no longer needed."""
        ended = np.array([*self.finish, *self._over_s.values()])
        return float(np.fmax.reduce(ended))

    def _under_way(self) -> tuple[InFlight, Running]:
        flight, running = super()._under_way()
        self._ledger.write(self._take_log(), running.code)
        return flight, running

    def _take_log(self) -> Lines:
        """Return the starts since the last call."""
        codes, starts, streams = self.log()
        self._log.size[0] = 0
        return codes.copy(), starts.copy(), streams.copy()

    def _cut(self, flight: InFlight, gone: Running) -> None:
        self._ledger.lose(gone.code.tolist(), float(self._now[0]))

    def _lose(self, device: int, failure: Failure) -> None:
        if math.isinf(failure.back_s):
            self.versions += [self._states.versions[at] for at in self._states.lose(device)]
        version, now = self.versions[-1], float(self._now[0])

        def layout_for(rest: Rest, replica: int) -> TaskLayout:
            return version.layout_of(rest.groups, replica)

        flight, running = self._under_way()
        dealt = self._dealt(flight.request)
        ways, way = continuations(flight, self._rests, layout_for, dealt, device)
        over = np.array([found.over for found in ways], dtype=np.bool_)[way]
        self._over_s.update(dict.fromkeys(flight.request[over].tolist(), now))
        fresh = self._fresh()
        moved = self._continue(flight, running, ways, way, fresh)
        self._ledger.lose(moved.lost, now)
        self._ledger.move(moved.moves)
        admitted = int(self._state.counts[ADMITTED])
        coming = self._expected(admitted, fresh)
        self._requests.template[admitted:] = coming if self._arrays else coming.tolist()

    def _fresh(self) -> NDArray[np.int64]:
        """Return the rests of requests yet to arrive, by replica."""
        version = self.versions[-1]
        return np.array(
            [
                self._rests.number(("fresh", version.plan_tasks, replica), layout.fresh)
                for replica, layout in enumerate(version.layouts)
            ],
            dtype=np.int64,
        )

    def _dealt(self, requests: NDArray[np.int64]) -> NDArray[np.int64]:
        period = np.array(self.versions[-1].plan.period, dtype=np.int64)
        return period[requests % len(period)]

    def _expected(self, since: int, fresh: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the templates of requests yet to arrive."""
        dealt = self._dealt(np.arange(since, len(self._arrival)))
        return np.searchsorted(self._rests.used, fresh[dealt])


def failed_timeline(
    played: FailingClock, arrival: Sequence[float], weights: Sequence[int], *, trace: bool
) -> Timeline:
    """Return the Timeline of a finished clock; `weights` in bytes by device.

    Work that a request no longer needs may continue after its end; the makespan includes it.
    """
    problem = played.versions[0].plan.problem
    links = played.versions[0].plan_tasks.links
    makespan = max(played.finish)
    started = played.started
    counted = started.start <= makespan
    task = started.task[counted]
    start, end = started.start[counted], started.end[counted]
    spent = np.minimum(end, makespan) - start
    device = np.array([one.device for one in started.tasks], dtype=np.int64)[task]
    computes = device >= 0
    busy = np.bincount(device[computes], spent[computes], minlength=len(problem.devices))
    held_at, held = (
        np.array(part, np.int64) for part in flat([t.resources for t in started.tasks])
    )
    many = np.diff(held_at)[task]
    entry = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many - held_at[task], many)
    carried = np.bincount(held[entry], np.repeat(spent, many), minlength=len(links))
    moves = ~computes
    sizes = [problem.values[one.value].nbytes if one.device < 0 else 0 for one in started.tasks]
    times = np.bincount(task[moves], minlength=len(sizes)).tolist()
    return timeline(
        played.versions[0].plan_tasks,
        [end - came for came, end in zip(arrival, played.finish, strict=True)],
        makespan,
        (busy.tolist(), carried.tolist()),
        weights,
        events=_events(played, np.flatnonzero(counted).tolist(), makespan) if trace else (),
        device_computing_s=computing_seconds(problem, device, start, np.minimum(end, makespan)),
        transfers=int(moves.sum()),
        transferred_bytes=sum(size * count for size, count in zip(sizes, times, strict=True)),
        transfer_s=math.fsum((end - start)[moves].tolist()),
        peak_memory_bytes={},
        critical_path=(),
    )


def _events(played: FailingClock, lines: Sequence[int], makespan: float) -> tuple[Event, ...]:
    """Return failures and tasks by (start, request, version of the plan, plan order)."""
    problem = played.versions[0].plan.problem
    found: list[tuple[tuple[float, int, int, int], Event]] = []
    for at, failure in enumerate(played.happened):
        device = problem.devices.index(failure.device)
        until = failure.back_s if math.isfinite(failure.back_s) else max(makespan, failure.at_s)
        tracks = tuple(f"{failure.device}/{stream}" for stream in range(problem.streams[device]))
        event = Event("failure", failure.kind, -1, failure.at_s, until, tracks, failure.device)
        found.append(((failure.at_s, -1, 0, at), event))
    for line in lines:
        task = played.started.tasks[played.started.task[line]]
        event = _event(played, line)
        found.append(((event.start_s, event.request, task.version, task.index), event))
    found.sort(key=lambda entry: entry[0])
    return tuple(event for _, event in found)


def _event(played: FailingClock, line: int) -> Event:
    started = played.started
    task = started.tasks[started.task[line]]
    version = played.versions[task.version]
    problem, ours = version.plan.problem, task.version == 0
    if task.device < 0:
        event = transfer_event(problem, version.plan_tasks.links, task, task.group if ours else -1)
    else:
        event = compute_event(problem.devices[task.device], int(started.stream[line]), task.group)
        if not ours:
            event = replace(event, name=f"{event.name} of plan {task.version + 1}", group=-1)
    return replace(
        event,
        request=int(started.request[line]),
        start_s=float(started.start[line]),
        end_s=float(started.end[line]),
        lost=bool(started.lost[line]),
    )
