"""Requests of all streams in order of arrival, and counts by stream."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hetsim.workload.arrivals import Closed, Numbers, Open, Replay, Seconds
from hetsim.workload.workload import Stream, Workload, variant_of

AT_ONCE = 2**20
"""Maximum requests of all streams that are merged at a time."""

Whole = np.ndarray[Any, np.dtype[np.int64]]

SHARED = ""
"""Name of the random numbers of shared arrivals, which no stream has."""


@dataclass(frozen=True, slots=True, eq=False)
class Requests:
    """Block of requests, ascending within and across blocks.

    `stream` is the index of each request's stream in the workload, `variant` that of its variant
    among its stream's ``variants``.
    """

    arrival_s: Seconds
    stream: Whole
    variant: Whole

    def __len__(self) -> int:
        return len(self.arrival_s)


def requests_of(workload: Workload) -> Iterator[Requests]:
    """Yield the requests of open-loop streams, in order, until the workload ends.

    Simultaneous requests are in the order of streams, shared ones last. Closed loops are not
    included: their arrivals depend on answers, and ``requests`` counts them in the simulation.

    Complexity: linear in the requests; memory for one block per stream, except traces.
    """
    left = workload.requests
    for block in _merged(_sources(workload)):
        count = len(block)
        if workload.duration_s is not None:
            count = int(np.searchsorted(block.arrival_s, workload.duration_s))
        if left is not None:
            count = min(count, left)
            left -= count
        ended = count < len(block) or left == 0
        if count:
            yield block if count == len(block) else _part(block, 0, count)
        if ended:
            return


def _sources(workload: Workload) -> list[Iterator[Requests]]:
    sources = [
        _alone(at, stream, stream.arrivals, stream.numbers(workload.seed))
        for at, stream in enumerate(workload.streams)
        if stream.arrivals is not None and not isinstance(stream.arrivals, Closed)
    ]
    if workload.arrivals is not None:
        sources.append(_shared(workload, workload.arrivals))
    return sources


def _alone(at: int, stream: Stream, arrivals: Open, numbers: Numbers) -> Iterator[Requests]:
    following = None
    if isinstance(arrivals, Replay) and len(stream.variants) > 1:
        following = variant_of(stream.dims, arrivals.trace())
    first = 0
    for times in arrivals.blocks(numbers):
        count = len(times)
        if following is None:
            variant = np.broadcast_to(np.int64(0), count)
        else:
            variant = following[first : first + count]
        first += count
        # The same number repeated, which takes no memory.
        yield Requests(times, np.broadcast_to(np.int64(at), count), variant)


def _shared(workload: Workload, arrivals: Open) -> Iterator[Requests]:
    """Distribute requests to the streams with a share, by one random number each."""
    numbers = Numbers(workload.seed, SHARED)
    draw = numbers.generator("shares")
    places = np.asarray([at for at, one in enumerate(workload.streams) if one.share is not None])
    shares = np.asarray([one.share for one in workload.streams if one.share is not None])
    ends = np.cumsum(shares)
    last = int(np.flatnonzero(shares)[-1])
    for times in arrivals.blocks(numbers):
        which = np.searchsorted(ends, draw.random(len(times)), side="right")
        yield Requests(times, places[np.minimum(which, last)], np.zeros(len(times), dtype=np.int64))


def _merged(sources: list[Iterator[Requests]]) -> Iterator[Requests]:
    """Merge by time, then by source."""
    if len(sources) == 1:
        for one in sources[0]:
            stream, variant = map(np.ascontiguousarray, (one.stream, one.variant))
            yield Requests(one.arrival_s, stream, variant)
        return
    nowhere = np.zeros(0, dtype=np.int64)
    nothing = Requests(np.zeros(0), nowhere, nowhere)
    rest = [nothing for _ in sources]
    open_ = dict(enumerate(sources))
    most = max(AT_ONCE // max(len(sources), 1), 1)
    until = -math.inf
    while until < math.inf:
        for at, source in list(open_.items()):
            if not len(rest[at]) or rest[at].arrival_s[-1] <= until:
                following = next(source, None)
                if following is None:
                    del open_[at]
                else:
                    rest[at] = _joined([rest[at], following])
        until = min((_some(rest[at].arrival_s, most) for at in open_), default=math.inf)
        before = [int(np.searchsorted(block.arrival_s, until)) for block in rest]
        parts = [_part(block, 0, count) for block, count in zip(rest, before, strict=True)]
        rest = [_part(block, count, len(block)) for block, count in zip(rest, before, strict=True)]
        joined = _joined([nothing, *parts])
        if len(joined):
            order = np.argsort(joined.arrival_s, kind="stable")
            yield Requests(joined.arrival_s[order], joined.stream[order], joined.variant[order])


def _some(arrival_s: Seconds, most: int) -> float:
    """Return the time up to which `most` arrive, including ties; or the last time."""
    if len(arrival_s) <= most:
        return float(arrival_s[-1])
    after = int(np.searchsorted(arrival_s, arrival_s[most - 1], side="right"))
    return float(arrival_s[min(after, len(arrival_s) - 1)])


def _joined(blocks: list[Requests]) -> Requests:
    return Requests(
        np.concatenate([block.arrival_s for block in blocks]),
        np.concatenate([block.stream for block in blocks]),
        np.concatenate([block.variant for block in blocks]),
    )


def _part(block: Requests, first: int, end: int) -> Requests:
    return Requests(block.arrival_s[first:end], block.stream[first:end], block.variant[first:end])


MOST = 10_000_000
"""Maximum number of requests generated for a summary."""


@dataclass(frozen=True, slots=True)
class StreamSummary:
    """Requests of one stream.

    `last_s` is the arrival of the last one, `rate_per_s` that until the end of the workload: both 0
    without any. `gap_cv` is the coefficient of variation of the gaps, NaN for fewer than two, or if
    all arrived at once. `by_variant` has the number of requests of each of the stream's
    ``variants``.
    """

    stream: Stream
    requests: int
    last_s: float
    rate_per_s: float
    gap_cv: float
    by_variant: tuple[int, ...]


@dataclass(slots=True)
class _Sums:
    variants: np.ndarray
    requests: int = 0
    first_s: float = 0.0
    last_s: float = 0.0
    squares: float = 0.0

    def add(self, times: np.ndarray, variant: np.ndarray) -> None:
        if not times.size:
            return
        gaps = np.diff(times, prepend=self.last_s if self.requests else times[0])
        if not self.requests:
            self.first_s = float(times[0])
        self.squares += float(gaps @ gaps)
        self.requests += times.size
        self.last_s = float(times[-1])
        self.variants += np.bincount(variant, minlength=self.variants.size)

    @property
    def gap_cv(self) -> float:
        gaps = self.requests - 1
        mean = (self.last_s - self.first_s) / gaps if gaps > 1 else 0.0
        return math.sqrt(max(self.squares / gaps / mean**2 - 1, 0)) if mean else math.nan


def summary(workload: Workload) -> tuple[tuple[StreamSummary, ...], bool]:
    """Return the open-loop requests by stream, and whether the workload ended before MOST.

    Complexity: linear in the requests, memory for one block per stream.
    """
    sums = [_Sums(np.zeros(len(stream.variants), dtype=np.int64)) for stream in workload.streams]
    drawn, ended = 0, True
    for block in requests_of(workload):
        for at, one in enumerate(sums):
            mine = block.stream == at
            one.add(block.arrival_s[mine], block.variant[mine])
        drawn += len(block)
        if drawn >= MOST:
            ended = False
            break
    until = max((one.last_s for one in sums), default=0.0)
    if ended and workload.duration_s is not None and workload.requests is None:
        until = workload.duration_s
    came = tuple(
        StreamSummary(
            stream,
            one.requests,
            one.last_s,
            one.requests / until if until else 0.0,
            one.gap_cv,
            tuple(int(count) for count in one.variants),
        )
        for stream, one in zip(workload.streams, sums, strict=True)
    )
    return came, ended
