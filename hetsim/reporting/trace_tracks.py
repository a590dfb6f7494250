"""The rows of a trace: a process a device with a thread a stream, and one for the links."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hetsim.plans.timeline import Event
from hetsim.problem.problem import Problem

Entry = dict[str, Any]
Track = tuple[int, int]
"""(pid, tid) of one row of the picture."""


class Tracks:
    """Which row each event is drawn on, and what the rows are called.

    Parameters
    ----------
    problem : Problem
    events : sequence of Event
    clock : str
        What the names of processes start with.
    after : int
        Process numbers up to this one are taken.
    """

    def __init__(self, problem: Problem, events: Sequence[Event], clock: str, after: int) -> None:
        self._names: dict[Track, str] = {}
        first = after + 1
        self._processes = {
            pid: f"{clock}device {name}" for pid, name in enumerate(problem.devices, start=first)
        }
        self._by_name: dict[str, Track] = {}
        self._lane_of: dict[int, Track] = {}
        drawn = {name for event in events for name in event.tracks}
        for pid, (device, streams) in enumerate(
            zip(problem.devices, problem.streams, strict=True), start=first
        ):
            own = [name for name in drawn if name.rpartition("/")[0] == device]
            # What a clock of another machine says may overlap by a little: it gets a row more.
            most = max((int(name.rpartition("/")[2]) + 1 for name in own), default=0)
            for stream in range(max(streams, most)):
                self._add(pid, stream + 1, f"{device}/{stream}", f"stream {stream}")
        self._links_pid = first + len(problem.devices)
        names = [name for name in problem.link_names if name in drawn]
        names += sorted(drawn - set(names) - set(self._by_name))
        for tid, name in enumerate(names, start=1):
            self._add(self._links_pid, tid, name, name)
        self._add_lanes(events, len(names) + 1)
        if any(pid == self._links_pid for pid, _ in self._names):
            self._processes[self._links_pid] = f"{clock}links"

    @property
    def last(self) -> int:
        """The highest process number that may be taken."""
        return self._links_pid

    def _add(self, pid: int, tid: int, key: str, name: str) -> None:
        self._names[pid, tid] = name
        self._by_name[key] = (pid, tid)

    def _add_lanes(self, events: Sequence[Event], tid: int) -> None:
        free_at: dict[tuple[str, str], list[float]] = {}
        chosen: dict[int, tuple[tuple[str, str], int]] = {}
        for index, event in enumerate(events):
            if event.tracks:
                continue
            ends = free_at.setdefault((event.source, event.device), [])
            lane = next((i for i, end in enumerate(ends) if end <= event.start_s), len(ends))
            if lane == len(ends):
                ends.append(event.end_s)
            ends[lane] = event.end_s
            chosen[index] = ((event.source, event.device), lane)
        first: dict[tuple[str, str], int] = {}
        for (source, target), ends in sorted(free_at.items()):
            first[source, target] = tid
            for lane in range(len(ends)):
                self._names[self._links_pid, tid] = f"{source}>{target} ({lane + 1})"
                tid += 1
        for index, (route, lane) in chosen.items():
            self._lane_of[index] = (self._links_pid, first[route] + lane)

    def of(self, index: int, event: Event) -> list[Track]:
        """Return the rows that event number `index` is drawn on."""
        if not event.tracks:
            return [self._lane_of[index]]
        return [self._by_name[name] for name in event.tracks]

    def metadata(self) -> Iterator[Entry]:
        """Name and order every process and thread."""
        for pid, name in self._processes.items():
            yield _metadata("process_name", pid, 0, name=name)
            yield _metadata("process_sort_index", pid, 0, sort_index=pid)
        for (pid, tid), name in sorted(self._names.items()):
            yield _metadata("thread_name", pid, tid, name=name)
            yield _metadata("thread_sort_index", pid, tid, sort_index=tid)


def _metadata(kind: str, pid: int, tid: int, **args: object) -> Entry:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": args}
