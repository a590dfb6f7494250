"""Many events in a few arrays: each is made when it is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import overload

import numpy as np
from numpy.typing import NDArray

from hetsim.problem.timeline import Event

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

AT_A_TIME = 4096
"""Events that an iteration makes numbers of at once."""


class Events(Sequence[Event]):
    """A sequence of events that equals the tuple of them.

    Attributes
    ----------
    sorts : tuple of Event
        Events without request and times: what the others have else is one of these.
    sort : int array [E]
        By event the index of its sort.
    request : int array [E]
    start_s, end_s : float array [E]

    None of them is to be written to. Space: O(E), 28 bytes an event.
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
        """Put events into arrays; those that are in some are returned. O(E)."""
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
