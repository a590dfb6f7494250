"""The rows of a trace: a process a device with a thread a stream, one for links, one for requests.

No two threads have one number, as some readers look for a thread by its number alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from heapq import heappop, heappush
from typing import Any

import numpy as np

from hetsim.problem.events import Events, Ints
from hetsim.problem.problem import Problem

Entry = dict[str, Any]
Track = tuple[int, int]
"""(pid, tid) of one row of the picture."""


class Tracks:
    """Which row each event is drawn on, and what the rows are called.

    Parameters
    ----------
    problem : Problem
    events : Events
        By their starts.
    requests : mapping of int to (float, float)
        From when to when each is drawn.
    clock : str
        What the names of processes start with.
    after : Track
        Process and thread numbers up to these are taken.
    """

    def __init__(
        self,
        problem: Problem,
        events: Events,
        requests: Mapping[int, tuple[float, float]],
        clock: str,
        after: Track,
    ) -> None:
        self._names: dict[Track, str] = {}
        first = after[0] + 1
        self._first, self._devices = first, problem.devices
        self._tid = after[1]
        self.requests_pid = first + len(problem.devices) + 1
        self._processes = {
            pid: f"{clock}device {name}" for pid, name in enumerate(problem.devices, start=first)
        }
        self._by_name: dict[str, Track] = {}
        self._lane_of = np.zeros(len(events), dtype=np.int64)
        drawn = {name for one in events.sorts for name in one.tracks}
        for pid, (device, streams) in enumerate(
            zip(problem.devices, problem.streams, strict=True), start=first
        ):
            own = [name for name in drawn if name.rpartition("/")[0] == device]
            # What a clock of another machine says may overlap by a little: it gets a row more.
            most = max((int(name.rpartition("/")[2]) + 1 for name in own), default=0)
            for stream in range(max(streams, most)):
                self._by_name[f"{device}/{stream}"] = self._add(pid, f"stream {stream}")
        self._links_pid = first + len(problem.devices)
        names = [name for name in problem.link_names if name in drawn]
        names += sorted(drawn - set(names) - set(self._by_name))
        for name in names:
            self._by_name[name] = self._add(self._links_pid, name)
        self._add_lanes(events)
        if any(pid == self._links_pid for pid, _ in self._names):
            self._processes[self._links_pid] = f"{clock}links"
        self._request_of = self._add_requests(requests)
        if requests:
            self._processes[self.requests_pid] = f"{clock}requests"

    @property
    def last(self) -> Track:
        """The highest process and thread numbers that may be taken."""
        return self.requests_pid, self._tid

    def pid_of(self, name: str) -> int:
        """Return the process of a device, of ``links``, or of requests: ``""``."""
        of = {device: pid for pid, device in enumerate(self._devices, start=self._first)}
        return of.get(name, self._links_pid if name else self.requests_pid)

    def _add(self, pid: int, name: str) -> Track:
        self._tid += 1
        self._names[pid, self._tid] = name
        return pid, self._tid

    def _add_requests(self, requests: Mapping[int, tuple[float, float]]) -> dict[int, Track]:
        order = sorted(requests, key=lambda request: (requests[request], request))
        spans = [requests[request] for request in order]
        own = rows(spans, "requests", partial(self._add, self.requests_pid))
        return dict(zip(order, own, strict=True))

    def of_request(self, request: int) -> Track:
        """Return the row that a request is drawn on."""
        return self._request_of[request]

    def _add_lanes(self, events: Events) -> None:
        on_route: dict[tuple[str, str], list[int]] = {}
        for sort, one in enumerate(events.sorts):
            if not one.tracks:
                on_route.setdefault((one.source, one.device), []).append(sort)
        for (source, target), sorts in sorted(on_route.items()):
            own = np.flatnonzero(np.isin(events.sort, sorts))
            spans = zip(events.start_s[own].tolist(), events.end_s[own].tolist(), strict=True)
            made = rows(spans, f"{source}>{target}", partial(self._add, self._links_pid))
            self._lane_of[own] = [tid for _, tid in made]

    def of(self, events: Events) -> tuple[Ints, Ints, Ints]:
        """Return the rows that events are drawn on.

        By event where its own begin, and at the end how many there are; the process and the
        thread of each.
        """
        tracks = [
            [self._by_name[name] for name in one.tracks] or [(self._links_pid, -1)]
            for one in events.sorts
        ]
        count = np.array([len(own) for own in tracks], dtype=np.int64)
        first = np.cumsum(count) - count
        flat = np.array([track for own in tracks for track in own], dtype=np.int64).reshape(-1, 2)
        at = np.concatenate(([0], np.cumsum(count[events.sort])))
        owner = np.repeat(np.arange(len(events)), np.diff(at))
        place = first[events.sort[owner]] + np.arange(len(owner)) - at[owner]
        tid = flat[place, 1]
        return at, flat[place, 0], np.where(tid < 0, self._lane_of[owner], tid)

    def metadata(self) -> Iterator[Entry]:
        """Name and order every process and thread."""
        for pid, name in self._processes.items():
            yield metadata("process_name", pid, None, name=name)
            # Requests stand above the devices that they run on.
            place = self._first - 1 if pid == self.requests_pid else pid
            yield metadata("process_sort_index", pid, None, sort_index=place)
        for (pid, tid), name in sorted(self._names.items()):
            yield metadata("thread_name", pid, tid, name=name)
            yield metadata("thread_sort_index", pid, tid, sort_index=tid)


def rows(
    spans: Iterable[tuple[float, float]], name: str, add: Callable[[str], Track]
) -> list[Track]:
    """Return for each span, by their starts, the first row that is free there. O(n log n).

    `add` makes a row of a name: ``name (1)``, ``name (2)``, as many as are needed.
    """
    lane_of = _lanes(spans)
    made = [add(f"{name} ({lane + 1})") for lane in range(max(lane_of, default=-1) + 1)]
    return [made[lane] for lane in lane_of]


def _lanes(spans: Iterable[tuple[float, float]]) -> list[int]:
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    chosen = []
    for start, end in spans:
        while busy and busy[0][0] <= start:
            heappush(free, heappop(busy)[1])
        lane = heappop(free) if free else len(busy)
        heappush(busy, (end, lane))
        chosen.append(lane)
    return chosen


def metadata(kind: str, pid: int, tid: int | None, **args: object) -> Entry:
    """Return an entry that names or orders a process, or with `tid` a thread."""
    thread = {} if tid is None else {"tid": tid}
    return {"ph": "M", "name": kind, "pid": pid, **thread, "args": args}
