"""The clock's kernel: tasks that wait for each other, for streams and for links, on arrays alone.

One source serves two ways: called as it stands on lists, which is quickest for one request,
or compiled by numba on arrays, which is quickest for many. Both do the same float additions
and comparisons in the same order, so their results are equal bit for bit.

What happens at one instant, in this order, until nothing more happens at it:

1. What ends now ends, by (request, task), and requests that come now are admitted by number.
   A transfer that became ready by this joins the queue of each of its links; one that stands
   first in all its queues starts. Tasks of no duration end within the same step.
2. Each device starts what it can: of the subgraphs whose inputs are present and whose
   turn it is within their request, those of the earliest request, while streams are free.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Sequence

import numpy as np

from hetsim.base.machine_code import machine_code
from hetsim.simulation.clock.heaps import (
    Floats,
    Ints,
    pop_event,
    pop_request,
    push_event,
    push_request,
)


def new_counts(size: int) -> Ints:
    """Return `size` zeros, each able to hold a count of tasks."""
    return [0] * size


def new_codes(size: int) -> Ints:
    """Return `size` zeros, each able to hold a packed (request, task)."""
    return [0] * size


def new_times(size: int) -> Floats:
    """Return `size` zeros, each able to hold a time."""
    return [0.0] * size


def _count_array(size):  # type: ignore[no-untyped-def]
    return np.zeros(size, np.int32)


def _code_array(size):  # type: ignore[no-untyped-def]
    return np.zeros(size, np.int64)


def _time_array(size):  # type: ignore[no-untyped-def]
    return np.zeros(size, np.float64)


def play(
    devices: int,
    links: int,
    first: Sequence[int],
    duration: Sequence[float],
    waits: Sequence[int],
    successor_at: Sequence[int],
    successors: Sequence[int],
    device: Sequence[int],
    issue_at: Sequence[int],
    issue: Sequence[int],
    streams: Sequence[int],
    held_at: Sequence[int],
    held: Sequence[int],
    arrival: Sequence[float],
    template: Sequence[int],
    entry_at: Sequence[int],
    finish: Floats,
    traced: bool,
    start: Floats,
    end: Floats,
    sequence: Ints,
    stream: Ints,
) -> int:
    """Play a template of tasks for each arrival and return how many requests finished.

    Templates' tasks follow one another; in each, subgraphs stand before transfers. Fewer
    finished requests than arrivals mean that the order of subgraphs on devices contradicts
    their dependencies.

    Parameters
    ----------
    devices, links : int
    first : [templates + 1]
        Tasks of template t are ``first[t] .. first[t + 1] - 1``.
    duration, waits : [tasks]
        Seconds, and how many tasks must end first.
    successor_at, successors : [tasks + 1], [dependencies]
        Tasks that wait for task i are ``successors[successor_at[i]:successor_at[i + 1]]``.
    device : [tasks]
        Of a subgraph; -1 for transfers.
    issue_at, issue : [templates * devices + 1], [subgraphs]
        Subgraphs of template t on device d in their order:
        ``issue[issue_at[k]:issue_at[k + 1]]`` for k = t * devices + d.
    streams : [devices]
    held_at, held : [tasks + 1], [holds]
        Links that task i holds; none for subgraphs.
    arrival : [requests]
        Seconds, ascending.
    template : [requests]
    entry_at : [requests]
        Where the request's tasks begin in the arrays of the trace.
    finish : [requests]
        Out: when the request's last task ended; untouched where it never did.
    traced : bool
        Whether the four arrays below are filled; they may be empty otherwise.
    start, end, sequence, stream : [sum of the requests' tasks]
        Out, by request, then task: seconds, the how-manieth start it was, the stream that
        ran it.

    Complexity: O(E log A) time for E ends of tasks and A tasks and requests in flight. Space
    O(A tasks) where A counts the requests between the oldest unfinished and the latest to
    arrive; with a trace O(requests * tasks).
    """
    tasks = len(duration)
    templates = len(first) - 1
    requests = len(arrival)

    # A task of a request is packed in one number that sorts by (request, task).
    shift = 0
    while (1 << shift) < tasks:
        shift += 1
    mask = (1 << shift) - 1

    # State of the requests in flight, in a ring: request r lives in slot r & (window - 1), and
    # task i of its template t in that slot's row, at i - first[t].
    width = 0
    for t in range(templates):
        width = max(width, first[t + 1] - first[t])
    window = 16
    pending = new_counts(window * width)
    turn = new_counts(window * devices)
    remaining = new_counts(window)
    oldest = 0
    arrived = 0
    finished = 0

    # Requests whose next subgraph on a device could start, one heap a device.
    ready = new_codes(window * devices)
    ready_size = new_codes(devices)
    free = new_codes(devices)
    # Devices where that, or a freed stream, may let something start; each once.
    able = new_codes(devices)
    listed = new_counts(devices)
    n_able = 0
    most_streams = 1
    all_streams = 0
    for d in range(devices):
        free[d] = streams[d]
        all_streams += streams[d]
        most_streams = max(most_streams, streams[d])
    occupied = new_counts(devices * most_streams)

    # Transfers at a link, one ring a link; the first is the one that holds it or waits for
    # its other links.
    room = 16
    queue = new_codes(links * room)
    queue_head = new_codes(links)
    queue_size = new_codes(links)

    space = 64
    times = new_times(space)
    codes = new_codes(space)
    size = 0
    fresh = new_codes(width + 1)
    starting = new_codes(width + links + 1)
    started = 0
    margin = 2 * width + links + all_streams + 2

    # Transfers that wait for nothing, by template.
    roots = new_counts(tasks)
    root_at = new_counts(templates + 1)
    n_roots = 0
    for t in range(templates):
        for task in range(first[t], first[t + 1]):
            if device[task] < 0 and waits[task] == 0:
                roots[n_roots] = task
                n_roots += 1
        root_at[t + 1] = n_roots

    while size > 0 or arrived < requests:
        if size > 0 and (arrived == requests or times[0] <= arrival[arrived]):
            now = times[0]
        else:
            now = arrival[arrived]

        while True:
            if space - size < margin:
                larger = 2 * space + margin
                grown_times = new_times(larger)
                grown_codes = new_codes(larger)
                for i in range(size):
                    grown_times[i] = times[i]
                    grown_codes[i] = codes[i]
                times = grown_times
                codes = grown_codes
                space = larger

            # One end, one admission, or all that devices start: a step adds few events.
            n_fresh = 0
            n_starting = 0
            if size > 0 and times[0] == now:
                code = codes[0]
                pop_event(times, codes, size)
                size -= 1
                request = code >> shift
                task = code & mask
                slot = request & (window - 1)
                row = slot * width - first[template[request]]
                d = device[task]
                if d >= 0:
                    free[d] += 1
                    if ready_size[d] > 0 and not listed[d]:
                        listed[d] = 1
                        able[n_able] = d
                        n_able += 1
                    if traced:
                        entry = entry_at[request] + task - first[template[request]]
                        occupied[d * most_streams + stream[entry]] = 0
                else:
                    for h in range(held_at[task], held_at[task + 1]):
                        link = held[h]
                        head = (queue_head[link] + 1) & (room - 1)
                        queue_head[link] = head
                        queue_size[link] -= 1
                        if queue_size[link] > 0:
                            code = queue[link * room + head]
                            other = code >> shift
                            place = (other & (window - 1)) * width
                            place += (code & mask) - first[template[other]]
                            pending[place] -= 1
                            if pending[place] == 0:
                                starting[n_starting] = code
                                n_starting += 1
                for s in range(successor_at[task], successor_at[task + 1]):
                    follower = successors[s]
                    pending[row + follower] -= 1
                    if pending[row + follower] == 0:
                        d = device[follower]
                        if d >= 0:
                            if issue[turn[slot * devices + d]] == follower:
                                push_request(ready, d * window, ready_size[d], request)
                                ready_size[d] += 1
                                if not listed[d]:
                                    listed[d] = 1
                                    able[n_able] = d
                                    n_able += 1
                        else:
                            fresh[n_fresh] = (request << shift) + follower
                            n_fresh += 1
                remaining[slot] -= 1
                if remaining[slot] == 0:
                    finish[request] = now
                    finished += 1
                    while oldest < arrived and remaining[oldest & (window - 1)] == 0:
                        oldest += 1

            elif arrived < requests and arrival[arrived] == now:
                if arrived - oldest == window:
                    wider = 2 * window
                    grown_pending = new_counts(wider * width)
                    grown_turn = new_counts(wider * devices)
                    grown_remaining = new_counts(wider)
                    grown_ready = new_codes(wider * devices)
                    for r in range(oldest, arrived):
                        here = r & (window - 1)
                        there = r & (wider - 1)
                        grown_remaining[there] = remaining[here]
                        for i in range(width):
                            grown_pending[there * width + i] = pending[here * width + i]
                        for i in range(devices):
                            grown_turn[there * devices + i] = turn[here * devices + i]
                    for d in range(devices):
                        for i in range(ready_size[d]):
                            grown_ready[d * wider + i] = ready[d * window + i]
                    pending = grown_pending
                    turn = grown_turn
                    remaining = grown_remaining
                    ready = grown_ready
                    window = wider
                request = arrived
                arrived += 1
                slot = request & (window - 1)
                t = template[request]
                begin = first[t]
                row = slot * width
                remaining[slot] = first[t + 1] - begin
                for i in range(first[t + 1] - begin):
                    pending[row + i] = waits[begin + i]
                for d in range(devices):
                    at = issue_at[t * devices + d]
                    turn[slot * devices + d] = at
                    if at < issue_at[t * devices + d + 1] and waits[issue[at]] == 0:
                        push_request(ready, d * window, ready_size[d], request)
                        ready_size[d] += 1
                        if not listed[d]:
                            listed[d] = 1
                            able[n_able] = d
                            n_able += 1
                for i in range(root_at[t], root_at[t + 1]):
                    fresh[n_fresh] = (request << shift) + roots[i]
                    n_fresh += 1
                if remaining[slot] == 0:
                    finish[request] = now
                    finished += 1
                    while oldest < arrived and remaining[oldest & (window - 1)] == 0:
                        oldest += 1

            else:
                for i in range(n_able):
                    d = able[i]
                    listed[d] = 0
                    while free[d] > 0 and ready_size[d] > 0:
                        request = ready[d * window]
                        t = template[request]
                        slot = request & (window - 1)
                        at = turn[slot * devices + d]
                        task = issue[at]
                        turn[slot * devices + d] = at + 1
                        # The request stays first in the heap where its next subgraph on this
                        # device could start as well: it is the earliest still.
                        if (
                            at + 1 == issue_at[t * devices + d + 1]
                            or pending[slot * width + issue[at + 1] - first[t]] > 0
                        ):
                            pop_request(ready, d * window, ready_size[d])
                            ready_size[d] -= 1
                        free[d] -= 1
                        then = now + duration[task]
                        if traced:
                            server = 0
                            while occupied[d * most_streams + server] != 0:
                                server += 1
                            occupied[d * most_streams + server] = 1
                            entry = entry_at[request] + task - first[t]
                            stream[entry] = server
                            start[entry] = now
                            end[entry] = then
                            sequence[entry] = started
                            started += 1
                        push_event(times, codes, size, then, (request << shift) + task)
                        size += 1
                n_able = 0
                if size == 0 or times[0] != now:
                    break

            for i in range(n_fresh):
                code = fresh[i]
                request = code >> shift
                task = code & mask
                behind = 0
                for h in range(held_at[task], held_at[task + 1]):
                    link = held[h]
                    if queue_size[link] == room:
                        grown_queue = new_codes(2 * links * room)
                        for k in range(links):
                            for j in range(queue_size[k]):
                                grown_queue[2 * k * room + j] = queue[
                                    k * room + ((queue_head[k] + j) & (room - 1))
                                ]
                            queue_head[k] = 0
                        queue = grown_queue
                        room = 2 * room
                    if queue_size[link] > 0:
                        behind += 1
                    queue[link * room + ((queue_head[link] + queue_size[link]) & (room - 1))] = code
                    queue_size[link] += 1
                # A ready transfer waits for no task any more: its count is reused for the
                # queues in which it is not first.
                place = (request & (window - 1)) * width + task - first[template[request]]
                pending[place] = behind
                if behind == 0:
                    starting[n_starting] = code
                    n_starting += 1

            for i in range(n_starting):
                code = starting[i]
                task = code & mask
                then = now + duration[task]
                if traced:
                    request = code >> shift
                    entry = entry_at[request] + task - first[template[request]]
                    start[entry] = now
                    end[entry] = then
                    sequence[entry] = started
                    started += 1
                push_event(times, codes, size, then, code)
                size += 1

    return finished


@functools.cache
def compiled() -> Callable[..., int]:
    """Return `play` as machine code for int64 and float64 arrays.

    The first call in a process loads numba.
    """
    scope = {
        **globals(),
        "new_counts": machine_code(_count_array),
        "new_codes": machine_code(_code_array),
        "new_times": machine_code(_time_array),
    }
    with_arrays = types.FunctionType(play.__code__, scope, play.__name__)
    return machine_code(with_arrays, push_event, pop_event, push_request, pop_request)
