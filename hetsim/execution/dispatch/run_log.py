"""Log of a session: events of its devices and transfers, with real times."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hetsim.execution.dispatch.dispatcher import Call
from hetsim.execution.program import Step, Timing
from hetsim.problem.timeline import Event

CALLER = "caller"
"""Name of the process that asked for a run, the source of inputs and target of outputs."""

_SAME_CLOCK_S = 1e-3


@dataclass(slots=True)
class _Given:
    """Call between its dispatch and its return, by the local clock."""

    call: Call
    step: Step
    sources: Mapping[str, str]
    given_s: float
    ended_s: float = 0.0
    timing: Timing | None = None

    def spans(self) -> list[tuple[float, float]]:
        """Return the interval of each subgraph; one for all if unknown."""
        if self.timing is None:
            return [(self.given_s, self.ended_s)]
        ahead_s = _ahead_s(self.given_s, self.timing, self.ended_s)
        return [(start - ahead_s, end - ahead_s) for start, end in self.timing.parts]


class RunLog:
    """Log of events, on the single thread of a session's loop."""

    def __init__(self, keep: bool) -> None:
        self._keep = keep
        self.busy_s: defaultdict[str, float] = defaultdict(float)
        self.calls: Counter[str] = Counter()
        self._zero_s: float | None = None
        self._open: dict[Call, _Given] = {}
        self._calls: list[_Given] = []
        self._fetching: dict[int, tuple[float, Mapping[str, str]]] = {}
        self._fetched: list[tuple[int, float, float, Mapping[str, str]]] = []

    def submitted(self) -> None:
        """Record a request; the first is at time 0."""
        if self._zero_s is None:
            self._zero_s = time.monotonic()

    def given_out(self, call: Call, step: Step, made_on: Mapping[str, str]) -> None:
        """Record that a device got a step, and that the step's inputs are being transferred."""
        if self._keep:
            sources = {name: made_on.get(name, CALLER) for name in step.receives}
            self._open[call] = _Given(call, step, sources, time.monotonic())

    def ended(self, call: Call, timing: Timing | None) -> None:
        """Record the end of a call; failed without a timing."""
        if timing is not None:
            for begin_s, end_s in timing.parts:
                self.busy_s[call.device] += end_s - begin_s
            self.calls[call.device] += 1
        given = self._open.pop(call, None)
        if given is not None:
            given.ended_s, given.timing = time.monotonic(), timing
            self._calls.append(given)

    def lost(self, device: str) -> None:
        """Record the loss of a device with its running calls."""
        for call in [call for call in self._open if call.device == device]:
            self.ended(call, None)

    def fetching(self, request: int, made_on: Mapping[str, str]) -> None:
        """Record that the outputs of a request, by producing device, are being transferred back."""
        if self._keep:
            self._fetching[request] = time.monotonic(), made_on

    def fetched(self, request: int) -> None:
        """Record their arrival."""
        if request in self._fetching:
            began_s, made_on = self._fetching.pop(request)
            self._fetched.append((request, began_s, time.monotonic(), made_on))

    def events(self, about: Callable[[int, str], tuple[int, int]]) -> tuple[Event, ...]:
        """Return the events, in seconds since the first request."""
        zero_s = self._zero_s or 0.0
        found: list[Event] = []

        def moved(name: str, request: int, span: tuple[float, float], way: tuple[str, str]) -> None:
            group, nbytes = about(request, name)
            start_s, end_s = span[0] - zero_s, max(span) - zero_s
            source, device = way
            found.append(
                Event("transfer", name, request, start_s, end_s, (), device, source, group, nbytes)
            )

        timed = sorted(((given.spans(), given) for given in self._calls), key=lambda pair: pair[0])
        streams: dict[str, list[float]] = {}
        for spans, given in timed:
            call, timing = given.call, given.timing
            if timing is not None:
                arrived_s = timing.arrived_s - _ahead_s(given.given_s, timing, given.ended_s)
                for name, source in given.sources.items():
                    moved(name, call.request, (given.given_s, arrived_s), (source, call.device))
            lane = _free_lane(streams.setdefault(call.device, []), spans[0][0], spans[-1][1])
            for part, (start_s, end_s) in zip(given.step.parts, spans, strict=timing is not None):
                found.append(
                    Event(
                        "compute",
                        f"g{part}" if not call.version else f"g{part} of plan {call.version + 1}",
                        call.request,
                        start_s - zero_s,
                        end_s - zero_s,
                        (f"{call.device}/{lane}",),
                        call.device,
                        group=-1 if call.version else part,
                        lost=timing is None,
                    )
                )
        for request, began_s, ended_s, made_on in self._fetched:
            for name, source in made_on.items():
                moved(name, request, (began_s, ended_s), (source, CALLER))
        found.sort(key=lambda event: (event.start_s, event.request, event.kind, event.name))
        return tuple(found)


def _free_lane(ends: list[float], start_s: float, end_s: float) -> int:
    """Return the first stream that is free at `start_s`, or a new one."""
    lane = next((i for i, end in enumerate(ends) if end <= start_s), len(ends))
    if lane == len(ends):
        ends.append(end_s)
    ends[lane] = end_s
    return lane


def _ahead_s(given_s: float, timing: Timing, ended_s: float) -> float:
    """Return the seconds by which a device machine's clock is ahead of the local one.

    0 on one machine. Otherwise both directions are assumed to take equally long (D. L. Mills,
    "Internet time synchronization", 1991), with an error of at most half the difference.
    """
    early = given_s - timing.arrived_s
    late = timing.end_s - ended_s
    if max(early, late) <= _SAME_CLOCK_S:
        return 0.0
    return (timing.arrived_s + timing.end_s - given_s - ended_s) / 2
