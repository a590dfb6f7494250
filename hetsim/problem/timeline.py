"""Timeline: activity of every stream and link over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Literal, overload

import numpy as np
from numpy.typing import NDArray

from hetsim.core.result import Result

if TYPE_CHECKING:
    from hetsim.problem.plan import Plan

EventKind = Literal["compute", "transfer", "failure"]


@dataclass(frozen=True, slots=True)
class Event:
    """Event with its times in seconds, virtual or of a real run.

    - `name`: subgraph (``g3``) or tensor name; for a failure ``kill`` or ``hang``.
    - `request`: -1 for a failure, which lasts from the stop of the device to its return, or to the
    end.
    - `tracks`: tracks to draw it on: one device stream (``gpu/0``), or the link directions and
    buses held (``cpu>gpu``). Empty for a transfer without contention.
    - `device`: device that computes; destination of a transfer. ``caller`` at either end of a
    transfer is the process that started a real run.
    - `source`: source device of a transfer; ``""`` for compute.
    - `group`: index into ``plan.groups`` for compute; sending group of a transfer, or -1 for a
    model input. Also -1 for work of another plan, made after a failure.
    - `nbytes`: bytes of a transfer; 0 for compute.
    - `lost`: whether a failure cut it off, so that its work is repeated.
    """

    kind: EventKind
    name: str
    request: int
    start_s: float
    end_s: float
    tracks: tuple[str, ...]
    device: str
    source: str = ""
    group: int = -1
    nbytes: int = 0
    lost: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class Timeline(Result):
    """Times and costs of a plan, from a simulation or a run.

    Attributes
    ----------
    latencies_s : tuple of float
        End-to-end latency of each request: from its arrival to its last output on the host.
    makespan_s : float
        End of the last request, from time 0.
    events : sequence of Event
        Events by (start, request, plan order), each created on access; empty without a trace.
    device_busy_s, link_busy_s : mapping of str to float
        Seconds of occupation, summed over a device's streams; links by direction or bus.
    device_computing_s : mapping of str to float
        Seconds in which any stream of a device computes. Without a trace, devices with several
        streams are omitted.
    device_utilization, link_utilization : mapping of str to float
        Busy seconds over makespan (and over streams), in [0, 1].
    transfers : int
        Number of transfers, inputs and outputs included.
    transferred_bytes : int
    transfer_s : float
        Sum of the transfers' durations.
    peak_memory_bytes : mapping of str to int
        Weights and live activations, by device; empty if memory is not modelled.
    weight_bytes : mapping of str to int
        Resident weights alone, by device.
    energy_j : float
        Idle power over the makespan plus the additional power of busy streams.
    critical_path : tuple of int
        Indices into `events`, first to last: each starts when the one before it ends. Empty without
        a trace, and if a device failed.
    plan : Plan or None
        Plan of this timeline.
    """

    latencies_s: tuple[float, ...]
    makespan_s: float
    events: Sequence[Event]
    device_busy_s: Mapping[str, float]
    device_computing_s: Mapping[str, float]
    link_busy_s: Mapping[str, float]
    device_utilization: Mapping[str, float]
    link_utilization: Mapping[str, float]
    transfers: int
    transferred_bytes: int
    transfer_s: float
    peak_memory_bytes: Mapping[str, int]
    weight_bytes: Mapping[str, int]
    energy_j: float
    critical_path: tuple[int, ...]
    plan: Plan | None = field(default=None, compare=False)

    @property
    def device_busy_share(self) -> dict[str, float]:
        """Share of the makespan in which each device computes; see `device_computing_s`."""
        return {
            name: min(seconds / self.makespan_s, 1.0) if self.makespan_s > 0 else 0.0
            for name, seconds in self.device_computing_s.items()
        }

    @property
    def latency_s(self) -> float:
        """End-to-end latency of the first request."""
        return self.latencies_s[0]


Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

AT_A_TIME = 4096
"""Number of events that an iteration converts at once."""


class Events(Sequence[Event]):
    """Sequence of events, equal to the tuple of them.

    - `sorts`: distinct events without request and times; every event is one of these.
    - `sort`: int array [E]. Index of its sort by event.
    - `request`: int array [E].
    - `start_s`, `end_s`: float array [E].

    All are read-only. Space: O(E), 28 bytes per event.
    """

    __slots__ = ("end_s", "request", "sort", "sorts", "start_s")

    def __init__(
        self,
        sorts: Sequence[Event],
        sort: Ints,
        request: Ints,
        start_s: Floats,
        end_s: Floats,
    ) -> None:
        self.sorts = tuple(sorts)
        self.sort = sort.astype(np.int32)
        self.request, self.start_s, self.end_s = request, start_s, end_s

    @classmethod
    def of(cls, events: Sequence[Event]) -> Events:
        """Return events as arrays; events already in arrays are returned unchanged. O(E)."""
        if isinstance(events, Events):
            return events
        places: dict[Event, int] = {}
        sort = [
            places.setdefault(replace(event, request=0, start_s=0.0, end_s=0.0), len(places))
            for event in events
        ]
        return cls(
            tuple(places),
            np.array(sort, dtype=np.int64),
            np.array([event.request for event in events], dtype=np.int64),
            np.array([event.start_s for event in events], dtype=np.float64),
            np.array([event.end_s for event in events], dtype=np.float64),
        )

    def __len__(self) -> int:
        return len(self.sort)

    @overload
    def __getitem__(self, at: int) -> Event: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Event, ...]: ...
    def __getitem__(self, at: int | slice) -> Event | tuple[Event, ...]:
        if isinstance(at, slice):
            return tuple(self._made(at))
        if not -len(self) <= at < len(self):
            raise IndexError(f"event {at} of {len(self)}")
        at %= len(self)
        return next(self._made(slice(at, at + 1)))

    def __iter__(self) -> Iterator[Event]:
        blocks = range(0, len(self), AT_A_TIME)
        return chain.from_iterable(self._made(slice(at, at + AT_A_TIME)) for at in blocks)

    def _made(self, of: slice) -> Iterator[Event]:
        columns = (self.sort, self.request, self.start_s, self.end_s)
        for sort, request, start_s, end_s in zip(
            *(column[of].tolist() for column in columns), strict=True
        ):
            one = self.sorts[sort]
            yield Event(
                one.kind, one.name, request, start_s, end_s, one.tracks, one.device, one.source,
                one.group, one.nbytes, one.lost,
            )  # fmt: skip

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Events) and self.sorts == other.sorts:
            return all(
                np.array_equal(getattr(self, name), getattr(other, name))
                for name in ("sort", "request", "start_s", "end_s")
            )
        if not isinstance(other, Events | tuple):
            return NotImplemented
        return len(self) == len(other) and all(
            mine == theirs for mine, theirs in zip(self, other, strict=True)
        )

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))
