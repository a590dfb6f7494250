"""Rules of the clock, defined once: dependencies and starts of tasks.

Requests run templates: tasks that wait for each other, each a subgraph on a stream of a device or a
transfer over links. The rules hold no times. A driver with times (a heap of events, with or without
failures, or the wall clock) reports events by two functions and asks by a third:

``admit``
    A request has arrived. Its transfers without dependencies join the queues of their links.
``end``
    A task has ended and frees its stream or links. Transfers that become ready join the queues of
    their links; a transfer that is first in all its queues starts.
``starts``
    Each device with free streams starts subgraphs whose inputs are present and whose turn it is
    within their request, those of the lowest rank and then the earliest request first.

All three leave the started tasks in ``State.starting`` for the caller. At one instant, in this
order, until nothing more happens: ending tasks end, by (request, task); arriving requests are
admitted by number, and tasks started by either start at once, so that tasks of no duration end
within the same step; then devices start subgraphs.

In the subset of Python that numba compiles: on lists when interpreted, on arrays when compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetsim.core.heaps import Ints, pop_key, push_key

SHIFT = 32
"""Bits of the task number in a code: ``(request << SHIFT) + task``."""
MASK = (1 << SHIFT) - 1

ENDED = -1
RUNS = -2
"""Base value of a running task, minus its stream; see ``State.pending``."""

STARTING, ABLE, KEPT, OLDEST, ADMITTED = 0, 1, 2, 3, 4
"""Indices into ``State.counts``."""
COUNTS = 5


class Structure(NamedTuple):
    """Tasks of requests, one template after another, as lists or int arrays.

    Attributes
    ----------
    first : [templates + 1]
        Tasks of template t are ``first[t] .. first[t + 1] - 1``, subgraphs before transfers.
    waits : [tasks]
        Number of tasks that must end first.
    successor_at, successors : [tasks + 1], [dependencies]
        Tasks that wait for task i are ``successors[successor_at[i]:successor_at[i + 1]]``.
    device : [tasks]
        Device of a subgraph; for a transfer -1 minus its target device.
    issue_at, issue : [templates * devices + 1], [subgraphs]
        Subgraphs of template t on device d in their order:
        ``issue[issue_at[k]:issue_at[k + 1]]`` for k = t * devices + d.
    streams : [devices]
    held_at, held : [tasks + 1], [holds]
        Links held by task i; none for subgraphs.
    root_at, roots : [templates + 1], [roots]
        Transfers of each template without dependencies.
    """

    first: Sequence[int]
    waits: Sequence[int]
    successor_at: Sequence[int]
    successors: Sequence[int]
    device: Sequence[int]
    issue_at: Sequence[int]
    issue: Sequence[int]
    streams: Sequence[int]
    held_at: Sequence[int]
    held: Sequence[int]
    root_at: Sequence[int]
    roots: Sequence[int]


class State(NamedTuple):
    """State of streams, links, turns and requests in flight, as lists or int arrays and scalars.

    Request r uses slot ``r & (window - 1)`` from its admission until it and all earlier requests
    have ended. The caller of ``admit`` ensures that its slot is free, or widens the state first
    (``hetsim.simulation.clock.rules``).

    Attributes
    ----------
    window : int
        Number of slots, a power of two.
    width, holds : int
        At least the number of tasks, and of held links, of the widest template.
    pending : [window * width]
        Number of tasks that a task waits for; then, for a transfer, number of queues where it is
        not first. RUNS minus the stream (0 for transfers) while it runs, then ENDED.
    turn : [window * devices]
        Index in ``Structure.issue`` of the next subgraph of a request on a device.
    template, rank, left : [window]
        Template of a request; its rank (lower first); number of its tasks that have not ended.
    base, hold_base : [window]
        Offsets of a task's index in `pending`, and of a hold's in `next_up`.
    ready, ready_size : [devices * window], [devices]
        Heap per device of requests, by (rank, number), whose next subgraph there could start.
    free, occupied : [devices], [devices * most streams]
        Number of idle streams, and the busy state of each.
    able, listed : [devices]
        Devices where a subgraph may start, without duplicates.
    shut : [devices]
        Whether ready transfers to the device are withheld, in `kept`.
    next_up, tail : [window * holds], [links]
        Queue of a link: for each hold of a transfer the code of the next one, -1 for the last,
        whose index is in `tail`; -1 for an empty queue.
    starting : [enough for what a verb starts]
        Codes of started tasks, to be taken after every call; ``counts[STARTING]`` of them.
    kept : [enough for what a driver that shuts devices lets come]
    counts : [COUNTS]
        Sizes of `starting`, `able` and `kept`; oldest open request; number of admitted requests.
    """

    window: int
    width: int
    holds: int
    pending: Ints
    turn: Ints
    template: Ints
    rank: Ints
    left: Ints
    base: Ints
    hold_base: Ints
    ready: Ints
    ready_size: Ints
    free: Ints
    occupied: Ints
    able: Ints
    listed: Ints
    shut: Ints
    next_up: Ints
    tail: Ints
    starting: Ints
    kept: Ints
    counts: Ints


def admit(structure: Structure, state: State, request: int, template: int, rank: int) -> bool:
    """Admit a request; numbers ascend. Return whether it has no tasks.

    O(tasks + devices).
    """
    waits, issue_at, issue = structure.waits, structure.issue_at, structure.issue
    turn = state.turn
    devices = len(structure.streams)
    slot = request & (state.window - 1)
    begin, after = structure.first[template], structure.first[template + 1]
    base = slot * state.width - begin
    state.template[slot] = template
    state.rank[slot] = rank
    state.left[slot] = after - begin
    state.base[slot] = base
    state.hold_base[slot] = slot * state.holds - structure.held_at[begin]
    for task in range(begin, after):
        state.pending[base + task] = waits[task]
    for device in range(devices):
        at = issue_at[template * devices + device]
        turn[slot * devices + device] = at
        if at < issue_at[template * devices + device + 1] and waits[issue[at]] == 0:
            offer(state, slot, request, device)
    for at in range(structure.root_at[template], structure.root_at[template + 1]):
        queue(structure, state, slot, request, structure.roots[at])
    state.counts[ADMITTED] = request + 1
    if after > begin:
        return False
    close(state)
    return True


def end(structure: Structure, state: State, request: int, task: int) -> bool:
    """Record the end of a task; return whether it was the last of its request.

    O(followers + links), and O(log requests) for each follower that may start.
    """
    pending = state.pending
    slot = request & (state.window - 1)
    base = state.base[slot]
    device = structure.device[task]
    if device >= 0:
        state.free[device] += 1
        most = len(state.occupied) // len(structure.streams)
        state.occupied[device * most + RUNS - pending[base + task]] = 0
        if state.ready_size[device] > 0 and state.listed[device] == 0:
            note(state, device)
    else:
        release(structure, state, slot, task)
    pending[base + task] = ENDED
    successors = structure.successors
    for at in range(structure.successor_at[task], structure.successor_at[task + 1]):
        follower = successors[at]
        waits = pending[base + follower] - 1
        pending[base + follower] = waits
        if waits == 0:
            device = structure.device[follower]
            if device < 0:
                queue(structure, state, slot, request, follower)
            else:
                turn = state.turn[slot * len(structure.streams) + device]
                if structure.issue[turn] == follower:
                    offer(state, slot, request, device)
    left = state.left[slot] - 1
    state.left[slot] = left
    if left > 0:
        return False
    close(state)
    return True


def starts(structure: Structure, state: State) -> None:
    """Start the subgraphs that devices can start. O(log requests) per subgraph."""
    free, ready, ready_size, pending = state.free, state.ready, state.ready_size, state.pending
    devices, window = len(structure.streams), state.window
    most = len(state.occupied) // devices
    for k in range(state.counts[ABLE]):
        device = state.able[k]
        state.listed[device] = 0
        heap = device * window
        while free[device] > 0 and ready_size[device] > 0:
            request = ready[heap] & MASK
            slot = request & (window - 1)
            at = state.turn[slot * devices + device]
            state.turn[slot * devices + device] = at + 1
            task = structure.issue[at]
            base = state.base[slot]
            # The request stays first in the heap if its next subgraph on this device could start as
            # well, as none precedes it.
            if (
                at + 1 == structure.issue_at[state.template[slot] * devices + device + 1]
                or pending[base + structure.issue[at + 1]] > 0
            ):
                pop_key(ready, heap, ready_size[device])
                ready_size[device] -= 1
            free[device] -= 1
            stream = device * most
            while state.occupied[stream] > 0:
                stream += 1
            state.occupied[stream] = 1
            pending[base + task] = RUNS - stream + device * most
            begin(state, (request << SHIFT) + task)
    state.counts[ABLE] = 0


def begin(state: State, code: int) -> None:
    """Report the start of a task to the caller."""
    count = state.counts
    state.starting[count[STARTING]] = code
    count[STARTING] += 1


def note(state: State, device: int) -> None:
    """Mark a device for ``starts``."""
    count = state.counts
    state.listed[device] = 1
    state.able[count[ABLE]] = device
    count[ABLE] += 1


def offer(state: State, slot: int, request: int, device: int) -> None:
    """Offer a request to a device where its next subgraph only waits for a stream."""
    size = state.ready_size[device]
    push_key(state.ready, device * state.window, size, (state.rank[slot] << SHIFT) + request)
    state.ready_size[device] = size + 1
    if state.listed[device] == 0:
        note(state, device)


def queue(structure: Structure, state: State, slot: int, request: int, task: int) -> None:
    """Append a transfer without pending tasks to the queues of its links; start it if possible."""
    code = (request << SHIFT) + task
    if state.shut[-1 - structure.device[task]] > 0:
        state.kept[state.counts[KEPT]] = code
        state.counts[KEPT] += 1
        return
    behind = 0
    next_up, tail = state.next_up, state.tail
    hold_base = state.hold_base[slot]
    for at in range(structure.held_at[task], structure.held_at[task + 1]):
        link = structure.held[at]
        last = tail[link]
        if last >= 0:
            next_up[last] = code
            behind += 1
        next_up[hold_base + at] = -1
        tail[link] = hold_base + at
    if behind > 0:
        state.pending[state.base[slot] + task] = behind
    else:
        state.pending[state.base[slot] + task] = RUNS
        begin(state, code)


def release(structure: Structure, state: State, slot: int, task: int) -> None:
    """Remove a transfer from the heads of its queues, and start those then first in all theirs."""
    hold_base = state.hold_base[slot]
    for at in range(structure.held_at[task], structure.held_at[task + 1]):
        behind = state.next_up[hold_base + at]
        if behind < 0:
            state.tail[structure.held[at]] = -1
        else:
            other = (behind >> SHIFT) & (state.window - 1)
            place = state.base[other] + (behind & MASK)
            waits = state.pending[place] - 1
            if waits > 0:
                state.pending[place] = waits
            else:
                state.pending[place] = RUNS
                begin(state, behind)


def close(state: State) -> None:
    """Free the slots of the oldest requests that have ended."""
    count = state.counts
    oldest = count[OLDEST]
    while oldest < count[ADMITTED] and state.left[oldest & (state.window - 1)] == 0:
        oldest += 1
    count[OLDEST] = oldest


def new_state(
    structure: Structure,
    links: int,
    *,
    window: int = 16,
    arrays: bool = False,
    keeps: bool = False,
) -> State:
    """Return the state before any request; `window` is a power of two.

    `arrays`: for machine code; `keeps`: with room for withheld transfers.
    """
    first, held_at = structure.first, structure.held_at
    width = max((b - a for a, b in pairwise(first)), default=0)
    holds = max((held_at[b] - held_at[a] for a, b in pairwise(first)), default=0)
    streams = structure.streams
    devices = len(streams)
    most = max(streams, default=0)

    def zeros(size: int) -> Ints:
        return np.zeros(size, np.int64) if arrays else [0] * size  # type: ignore[return-value]

    def counts(size: int) -> Ints:
        return np.zeros(size, np.int32) if arrays else [0] * size  # type: ignore[return-value]

    def full(values: Any) -> Ints:
        return np.array(values, np.int64) if arrays else list(values)  # type: ignore[return-value]

    return State(
        window=window,
        width=int(width),
        holds=int(holds),
        pending=counts(window * width),
        turn=counts(window * devices),
        template=counts(window),
        rank=zeros(window),
        left=counts(window),
        base=zeros(window),
        hold_base=zeros(window),
        ready=zeros(devices * window),
        ready_size=zeros(devices),
        free=full(streams),
        occupied=counts(devices * most),
        able=zeros(devices),
        listed=counts(devices),
        shut=counts(devices),
        next_up=zeros(window * holds),
        tail=full([-1] * links),
        starting=zeros(width + links + sum(streams) + 1),
        kept=zeros(window * width if keeps else 0),
        counts=zeros(COUNTS),
    )


def widened(state: State) -> State:
    """Return the state with room for twice the requests. O(size of the state)."""
    old, new = state.window, 2 * state.window
    # Slots from `cut` on belong to the oldest requests, the earlier slots to later ones.
    oldest = int(state.counts[OLDEST])
    cut, first = oldest & (old - 1), oldest & old
    later = first ^ old

    def rows(values: Ints, width: int, step: int = 0) -> Ints:
        """Return each slot's row at its new place, plus `step` for each slot that it moved."""
        table = np.asarray(values).reshape(old, width)
        wider = np.zeros((new, width), table.dtype)
        wider[cut + first : old + first] = table[cut:]
        wider[later : cut + later] = table[:cut]
        if step:
            wider[cut + first : old + first] += first * step
            wider[later : cut + later] += later * step
        return _like(values, wider.reshape(-1))

    devices = len(state.free)
    ready = np.zeros((devices, new), np.int64)
    for device, heap in enumerate(np.asarray(state.ready, np.int64).reshape(devices, old)):
        size = state.ready_size[device]
        ready[device, :size] = heap[:size]
    tail = np.array(state.tail, np.int64)
    if state.holds:
        moved = np.where(tail // state.holds >= cut, first, later)
        tail = np.where(tail >= 0, tail + moved * state.holds, tail)
    return state._replace(
        window=new,
        pending=rows(state.pending, state.width),
        turn=rows(state.turn, devices),
        template=rows(state.template, 1),
        rank=rows(state.rank, 1),
        left=rows(state.left, 1),
        base=rows(state.base, 1, state.width),
        hold_base=rows(state.hold_base, 1, state.holds),
        ready=_like(state.ready, ready.reshape(-1)),
        next_up=rows(state.next_up, state.holds),
        tail=_like(state.tail, tail),
        kept=_like(state.kept, np.concatenate((state.kept, state.kept)).astype(np.int64)),
    )


def most_running(structure: Any, links: int, window: int) -> int:
    """Return the maximum number of concurrently running tasks of `structure`. O(tasks).

    Each stream and link runs at most one; transfers without links are unlimited.
    """
    bare = (structure.device < 0) & (structure.held_at[1:] == structure.held_at[:-1])
    fixed = int(structure.streams.sum()) + links + 1
    if not bare.any():
        return fixed
    before = np.concatenate(([0], np.cumsum(bare)))[structure.first]
    return fixed + window * int(np.diff(before).max(initial=0))


def _like(values: Ints, made: NDArray[np.int64]) -> Ints:
    """Return a list or an array, like `values`."""
    found: Ints = made.tolist() if isinstance(values, list) else made  # type: ignore[assignment]
    return found
