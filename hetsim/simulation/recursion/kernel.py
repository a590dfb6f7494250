"""The recursion's kernel: requests one after another, and of each task after task, on arrays.

In the subset of Python that numba compiles; called as it stands on lists it does the same. What
tasks are, and why the clock's times come out, stands in ``orders.Order``. Sums are the clock's:
of two times the later, then one addition.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, MutableSequence, Sequence

from hetsim.base.machine_code import machine_code

Ints = MutableSequence[int]
Floats = MutableSequence[float]

ALONE, FREE, LINKS, DEVICE = 0, 1, 2, 3
"""A task that holds one unwatched resource of one stream; none; links; a device."""

GIVEN, SHORTEST_QUEUE, LEAST_FINISH = 0, 1, 2
"""How a request gets its template: as told; where fewest are; where it ends first."""


def serve(
    first: Sequence[int],
    duration: Sequence[float],
    kind: Sequence[int],
    slot: Sequence[int],
    waits_at: Sequence[int],
    waits: Sequence[int],
    held_at: Sequence[int],
    held: Sequence[int],
    previous: Sequence[int],
    strict: Sequence[int],
    stream_at: Sequence[int],
    watched: Sequence[int],
    touched_at: Sequence[int],
    touched: Sequence[int],
    instant: int,
    routing: int,
    timeout_s: float,
    free: Floats,
    head: Ints,
    mark: Floats,
    queue: Floats,
    room: int,
    queue_head: Ints,
    queue_size: Ints,
    next_end: Floats,
    least: Floats,
    started: Floats,
    ended: Floats,
    kept_free: Floats,
    kept_head: Ints,
    kept_mark: Floats,
    arrival: Sequence[float],
    template: Ints,
    begun: Floats,
    finish: Floats,
) -> int:
    """Play a block of requests; return how many, fewer than all where a later one could overtake.

    Parameters
    ----------
    first, waits_at, waits, held_at, held, previous, strict, watched
        As ``orders.Order`` has them.
    duration : [tasks]
        Seconds.
    kind : [tasks]
        ALONE, FREE, LINKS or DEVICE.
    slot : [tasks]
        Of one that is ALONE its stream, an index into `free`.
    stream_at : [resources + 1]
        Where a resource's streams begin in `free`.
    touched_at, touched : [templates + 1], [...]
        Resources that a template uses.
    instant : int
        Not 0 where a task may take no time.
    routing : int
        GIVEN, SHORTEST_QUEUE or LEAST_FINISH; of equals the lowest template.
    timeout_s : float
        A request of which nothing would have started so long after it came is dropped; infinite
        where none is.
    free : [streams of all resources]
        State: when each stream is free; of a resource a ring that ascends from its `head`.
    head, mark : [resources]
        State; no task may be ready on a watched resource before its `mark`.
    queue, queue_head, queue_size, next_end : [templates * room], then [templates] each
        State: when requests of a template end, of those that had not when the latest came; rings
        of `room`, a power of two that holds these and the block; the first of each, infinite
        where there is none. For SHORTEST_QUEUE alone.
    least : [templates]
        State: when a request would end at the soonest, if it came later. For LEAST_FINISH alone.
    started, ended : [tasks]
        Room for a request; `started` for what holds a device.
    kept_free, kept_head, kept_mark
        Room as for `free`, `head` and `mark`.
    arrival : [requests]
    template : [requests]
        In where GIVEN; out: -1 where dropped.
    begun, finish : [requests]
        Out: when the first task started and the last ended; NaN where dropped.

    Complexity: O(tasks, what they wait for and hold) a request, and streams where tasks of a
    device overtake each other in their ends; for LEAST_FINISH at most as often as there are
    templates, and once more.
    """
    templates = len(first) - 1
    infinite = float("inf")
    nan = float("nan")
    likeliest = 0
    # What is watched must be tried each time: that alone tells whether it may be taken.
    sure = True
    for k in range(len(watched)):
        if watched[k]:
            sure = False
    tentative = routing == LEAST_FINISH or timeout_s < infinite
    for r in range(len(arrival)):
        came = arrival[r]
        t = template[r]
        attempts = 1
        if routing == SHORTEST_QUEUE:
            t = 0
            fewest = 1 << 62
            for other in range(templates):
                while next_end[other] <= came:
                    at = (queue_head[other] + 1) & (room - 1)
                    queue_head[other] = at
                    queue_size[other] -= 1
                    next_end[other] = queue[other * room + at] if queue_size[other] else infinite
                size = queue_size[other]
                if size < fewest:
                    fewest = size
                    t = other
        elif routing == LEAST_FINISH:
            # The likeliest, then each in turn, all taken back; then the best.
            attempts = templates + 2
            likeliest = 0
            for other in range(templates):
                if least[other] < least[likeliest]:
                    likeliest = other
        best = infinite
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
                for k in range(touched_at[t], touched_at[t + 1]):
                    resource = touched[k]
                    kept_head[resource] = head[resource]
                    kept_mark[resource] = mark[resource]
                    for s in range(stream_at[resource], stream_at[resource + 1]):
                        kept_free[s] = free[s]
            opened = infinite
            last = came
            for i in range(first[t], first[t + 1]):
                ready = came
                for k in range(waits_at[i], waits_at[i + 1]):
                    end = ended[waits[k]]
                    ready = end if end > ready else ready
                if kind[i] == ALONE:
                    s = slot[i]
                    clear = free[s]
                    start = clear if clear > ready else ready
                    end = start + duration[i]
                    free[s] = end
                elif kind[i] == FREE:
                    start = ready
                    end = start + duration[i]
                elif kind[i] == LINKS:
                    start = ready
                    for k in range(held_at[i], held_at[i + 1]):
                        resource = held[k]
                        clear = free[stream_at[resource]]
                        start = clear if clear > start else start
                        if watched[resource]:
                            before = mark[resource]
                            if ready < before or (ready == before and (instant or strict[i])):
                                return r
                            mark[resource] = ready
                    end = start + duration[i]
                    for k in range(held_at[i], held_at[i + 1]):
                        free[stream_at[held[k]]] = end
                else:
                    resource = held[held_at[i]]
                    s = stream_at[resource]
                    streams = stream_at[resource + 1] - s
                    hole = head[resource]
                    clear = free[s + hole]
                    if previous[i] >= 0:
                        # The turn of a subgraph comes when the one before it has started.
                        turn = started[previous[i]]
                        ready = turn if turn > ready else ready
                    if watched[resource]:
                        before = mark[resource]
                        if ready < before or (ready == before and instant):
                            return r
                        if ready > clear or (ready == clear and instant):
                            mark[resource] = ready
                    start = clear if clear > ready else ready
                    end = start + duration[i]
                    # The stream that was free first is now free at `end`: up to its place.
                    head[resource] = hole + 1 if hole + 1 < streams else 0
                    for _ in range(streams - 1):
                        below = hole - 1 if hole > 0 else streams - 1
                        if free[s + below] <= end:
                            break
                        free[s + hole] = free[s + below]
                        hole = below
                    free[s + hole] = end
                    started[i] = start
                ended[i] = end
                last = end if end > last else last
                opened = start if start < opened else opened
            if tentative and (not final or opened > came + timeout_s):
                for k in range(touched_at[t], touched_at[t + 1]):
                    resource = touched[k]
                    head[resource] = kept_head[resource]
                    mark[resource] = kept_mark[resource]
                    for s in range(stream_at[resource], stream_at[resource + 1]):
                        free[s] = kept_free[s]
            if routing == LEAST_FINISH:
                # None that comes later ends sooner there.
                least[t] = last
                if last < best or (last == best and t < chosen):
                    best = last
                    chosen = t
        if first[t] == first[t + 1]:
            opened = came
        if opened > came + timeout_s:
            template[r] = -1
            begun[r] = nan
            finish[r] = nan
            continue
        template[r] = t
        begun[r] = opened
        finish[r] = last
        if routing == SHORTEST_QUEUE:
            queue[t * room + ((queue_head[t] + queue_size[t]) & (room - 1))] = last
            if queue_size[t] == 0:
                next_end[t] = last
            queue_size[t] += 1
    return len(arrival)


@functools.cache
def compiled() -> Callable[..., int]:
    """Return `serve` as machine code for int64 and float64 arrays."""
    return machine_code(serve)
