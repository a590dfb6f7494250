"""The recursion's kernel: requests one after another, and of each task after task, on arrays.

In the subset of Python that numba compiles; called as it stands on lists it does the same. What
tasks are, and why the clock's times come out, stands in ``orders.Order``. Sums are the clock's:
of two times the later, then one addition.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, MutableSequence, Sequence
from typing import NamedTuple

from hetsim.base.machine_code import machine_code

Ints = MutableSequence[int]
Floats = MutableSequence[float]

ALONE, FREE, LINKS, DEVICE = 0, 1, 2, 3
"""A task that holds one unwatched resource of one stream; none; links; a device."""

GIVEN, SHORTEST_QUEUE, LEAST_FINISH = 0, 1, 2
"""How a request gets its template: as told; where fewest are; where it ends first."""


class Tasks(NamedTuple):
    """What does not change.

    Attributes
    ----------
    first, waits_at, waits, held_at, held, previous, strict, watched
        As ``orders.Order`` has them.
    duration : [tasks]
        Seconds.
    kind : [tasks]
        ALONE, FREE, LINKS or DEVICE.
    slot : [tasks]
        Of one that is ALONE its stream, an index into ``Streams.free``.
    stream_at : [resources + 1]
        Where a resource's streams begin there.
    instant : int
        Not 0 where a task may take no time.
    """

    first: Sequence[int]
    duration: Sequence[float]
    kind: Sequence[int]
    slot: Sequence[int]
    waits_at: Sequence[int]
    waits: Sequence[int]
    held_at: Sequence[int]
    held: Sequence[int]
    previous: Sequence[int]
    strict: Sequence[int]
    stream_at: Sequence[int]
    watched: Sequence[int]
    instant: int


class Streams(NamedTuple):
    """What requests leave behind, and room for one of them.

    Attributes
    ----------
    free : [streams of all resources]
        When each is free; of a resource a ring that ascends from its `head`.
    head, mark : [resources]
        No task may be ready on a watched resource before its `mark`.
    started, ended : [tasks]
        Of the request that is played; `started` of what holds a device.
    """

    free: Floats
    head: Ints
    mark: Floats
    started: Floats
    ended: Floats


class Kept(NamedTuple):
    """Room for what ``Streams`` had before a request was tried.

    Attributes
    ----------
    free, head, mark
        As there.
    touched_at, touched : [templates + 1], [...]
        Resources that a template uses.
    """

    free: Floats
    head: Ints
    mark: Floats
    touched_at: Sequence[int]
    touched: Sequence[int]


class Queues(NamedTuple):
    """Requests that had not ended when the latest came, by template.

    Attributes
    ----------
    ends : [templates * room]
        When they end; rings of `room`, a power of two that holds these and a block.
    head, size : [templates]
    next_end : [templates]
        The first of each ring, infinite where there is none.
    room : int
    """

    ends: Floats
    head: Ints
    size: Ints
    next_end: Floats
    room: int


def play(tasks: Tasks, streams: Streams, t: int, came: float) -> tuple[bool, float, float]:
    """Play a request of template `t` that comes now.

    Return whether nothing later could overtake it, when its first task started, infinite where
    there is none, and when its last ended. O(tasks, what they wait for and hold), and streams
    where tasks of a device overtake each other in their ends.
    """
    free, head, mark = streams.free, streams.head, streams.mark
    started, ended = streams.started, streams.ended
    opened = math.inf
    last = came
    for i in range(tasks.first[t], tasks.first[t + 1]):
        ready = came
        for k in range(tasks.waits_at[i], tasks.waits_at[i + 1]):
            end = ended[tasks.waits[k]]
            ready = end if end > ready else ready
        kind = tasks.kind[i]
        if kind == ALONE:
            s = tasks.slot[i]
            clear = free[s]
            start = clear if clear > ready else ready
            end = start + tasks.duration[i]
            free[s] = end
        elif kind == FREE:
            start = ready
            end = start + tasks.duration[i]
        elif kind == LINKS:
            start = ready
            for k in range(tasks.held_at[i], tasks.held_at[i + 1]):
                resource = tasks.held[k]
                clear = free[tasks.stream_at[resource]]
                start = clear if clear > start else start
                if tasks.watched[resource]:
                    before = mark[resource]
                    if ready < before or (
                        ready == before and (tasks.instant > 0 or tasks.strict[i] > 0)
                    ):
                        return False, opened, last
                    mark[resource] = ready
            end = start + tasks.duration[i]
            for k in range(tasks.held_at[i], tasks.held_at[i + 1]):
                free[tasks.stream_at[tasks.held[k]]] = end
        else:
            resource = tasks.held[tasks.held_at[i]]
            s = tasks.stream_at[resource]
            many = tasks.stream_at[resource + 1] - s
            hole = head[resource]
            clear = free[s + hole]
            if tasks.previous[i] >= 0:
                # The turn of a subgraph comes when the one before it has started.
                turn = started[tasks.previous[i]]
                ready = turn if turn > ready else ready
            if tasks.watched[resource]:
                before = mark[resource]
                if ready < before or (ready == before and tasks.instant > 0):
                    return False, opened, last
                if ready > clear or (ready == clear and tasks.instant > 0):
                    mark[resource] = ready
            start = clear if clear > ready else ready
            end = start + tasks.duration[i]
            # The stream that was free first is now free at `end`: up to its place.
            head[resource] = hole + 1 if hole + 1 < many else 0
            for _ in range(many - 1):
                below = hole - 1 if hole > 0 else many - 1
                if free[s + below] <= end:
                    break
                free[s + hole] = free[s + below]
                hole = below
            free[s + hole] = end
            started[i] = start
        ended[i] = end
        last = end if end > last else last
        opened = start if start < opened else opened
    return True, opened, last


def keep(tasks: Tasks, streams: Streams, kept: Kept, t: int) -> None:
    """Note what a request of template `t` will change."""
    for k in range(kept.touched_at[t], kept.touched_at[t + 1]):
        resource = kept.touched[k]
        kept.head[resource] = streams.head[resource]
        kept.mark[resource] = streams.mark[resource]
        for s in range(tasks.stream_at[resource], tasks.stream_at[resource + 1]):
            kept.free[s] = streams.free[s]


def take_back(tasks: Tasks, streams: Streams, kept: Kept, t: int) -> None:
    """Let it be as it was when it was noted."""
    for k in range(kept.touched_at[t], kept.touched_at[t + 1]):
        resource = kept.touched[k]
        streams.head[resource] = kept.head[resource]
        streams.mark[resource] = kept.mark[resource]
        for s in range(tasks.stream_at[resource], tasks.stream_at[resource + 1]):
            streams.free[s] = kept.free[s]


def release(queues: Queues, t: int) -> None:
    """Let the first request out."""
    at = (queues.head[t] + 1) & (queues.room - 1)
    queues.head[t] = at
    queues.size[t] -= 1
    queues.next_end[t] = queues.ends[t * queues.room + at] if queues.size[t] > 0 else math.inf


def settle(queues: Queues, now: float) -> None:
    """Let requests out that have ended by now. O(templates + those)."""
    for t in range(len(queues.next_end)):
        while queues.next_end[t] <= now:
            release(queues, t)


def enter(queues: Queues, t: int, finish: float) -> None:
    """Take a request in that ends at `finish`, after all there."""
    at = (queues.head[t] + queues.size[t]) & (queues.room - 1)
    queues.ends[t * queues.room + at] = finish
    if queues.size[t] == 0:
        queues.next_end[t] = finish
    queues.size[t] += 1


def serve(
    tasks: Tasks,
    streams: Streams,
    kept: Kept,
    queues: Queues,
    least: Floats,
    routing: int,
    timeout_s: float,
    arrival: Sequence[float],
    template: Ints,
    begun: Floats,
    finish: Floats,
) -> int:
    """Play a block of requests; return how many, fewer than all where a later one could overtake.

    Parameters
    ----------
    tasks, streams, kept
    queues
        For SHORTEST_QUEUE alone.
    least : [templates]
        State: when a request would end at the soonest, if it came later. For LEAST_FINISH alone.
    routing : int
        GIVEN, SHORTEST_QUEUE or LEAST_FINISH; of equals the lowest template.
    timeout_s : float
        A request of which nothing would have started so long after it came is dropped; infinite
        where none is.
    arrival : [requests]
    template : [requests]
        In where GIVEN; out: -1 where dropped.
    begun, finish : [requests]
        Out: when the first task started and the last ended; NaN where dropped.

    Complexity: that of ``play`` a request; for LEAST_FINISH at most as often as there are
    templates, and once more.
    """
    templates = len(tasks.first) - 1
    likeliest = 0
    # What is watched must be tried each time: that alone tells whether it may be taken.
    sure = True
    for k in range(len(tasks.watched)):
        if tasks.watched[k] > 0:
            sure = False
    tentative = routing == LEAST_FINISH or timeout_s < math.inf
    for r in range(len(arrival)):
        came = arrival[r]
        t = template[r]
        attempts = 1
        if routing == SHORTEST_QUEUE:
            settle(queues, came)
            t = 0
            for other in range(1, templates):
                if queues.size[other] < queues.size[t]:
                    t = other
        elif routing == LEAST_FINISH:
            # The likeliest, then each in turn, all taken back; then the best.
            attempts = templates + 2
            likeliest = 0
            for other in range(templates):
                if least[other] < least[likeliest]:
                    likeliest = other
        best = math.inf
        chosen = 0
        opened = came
        last = came
        for attempt in range(attempts):
            final = attempt + 1 == attempts
            if routing == LEAST_FINISH:
                t = chosen if final else likeliest if attempt == 0 else attempt - 1
                hopeless = least[t] > best or (least[t] == best and t >= chosen)
                if hopeless and sure and not final:
                    continue
            if tentative:
                keep(tasks, streams, kept, t)
            certain, opened, last = play(tasks, streams, t, came)
            if not certain:
                return r
            if tentative and (not final or opened > came + timeout_s):
                take_back(tasks, streams, kept, t)
            if routing == LEAST_FINISH:
                # None that comes later ends sooner there.
                least[t] = last
                if last < best or (last == best and t < chosen):
                    best = last
                    chosen = t
        if tasks.first[t] == tasks.first[t + 1]:
            opened = came
        if opened > came + timeout_s:
            template[r] = -1
            begun[r] = math.nan
            finish[r] = math.nan
            continue
        template[r] = t
        begun[r] = opened
        finish[r] = last
        if routing == SHORTEST_QUEUE:
            enter(queues, t, last)
    return len(arrival)


PARTS = (play, keep, take_back, release, settle, enter)
"""What the drivers of the recursion call."""


@functools.cache
def compiled() -> Callable[..., int]:
    """Return `serve` as machine code for int64 and float64 arrays."""
    return machine_code(serve, *PARTS, inline=True)
