"""Rules of the clock, stated once: dependencies of tasks, and their starts.

Requests run templates: tasks, each a subgraph on a stream of a device or a transfer over links,
that wait for each other. The rules know no times. Whoever has them, be it a heap of events, the
same where devices fail, or the wall clock, tells what happens by two verbs and asks by a third:

``admit``
    A request has come. Its transfers that wait for nothing join the queues of their links.
``end``
    A task has ended. It gives up its stream or its links; a transfer that became ready by this
    joins the queue of each of its links; one that stands first in all its queues starts.
``starts``
    What devices start: each, of the subgraphs whose inputs are present and whose turn it is within
    their request, those of the earliest request of the lowest rank, while streams are free.

All three leave what starts in ``State.starting``, for the caller to take. At one instant, in this
order, until nothing more happens at it: what ends now ends, by (request, task), and requests that
come now are admitted by number, what starts by either at once after it, so that tasks of no
duration end within the same step; then devices start what they can.

In the subset of Python that numba compiles: on lists as it stands, on arrays compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetsim.simulation.clock.heaps import Ints, pop_key, push_key

SHIFT = 32
"""A task of a request is one number, its code: ``(request << SHIFT) + task``."""
MASK = (1 << SHIFT) - 1

ENDED = -1
RUNS = -2
"""Of a task that runs, less its stream; see ``State.pending``."""

STARTING, ABLE, KEPT, OLDEST, ADMITTED = 0, 1, 2, 3, 4
"""Places in ``State.counts``."""
COUNTS = 5


class Structure(NamedTuple):
    """Tasks of requests, template after template; lists, or int arrays.

    Attributes
    ----------
    first : [templates + 1]
        Tasks of template t are ``first[t] .. first[t + 1] - 1``, subgraphs before transfers.
    waits : [tasks]
        How many tasks must end first.
    successor_at, successors : [tasks + 1], [dependencies]
        Tasks that wait for task i are ``successors[successor_at[i]:successor_at[i + 1]]``.
    device : [tasks]
        Of a subgraph; of a transfer -1 less the device that it goes to.
    issue_at, issue : [templates * devices + 1], [subgraphs]
        Subgraphs of template t on device d in their order:
        ``issue[issue_at[k]:issue_at[k + 1]]`` for k = t * devices + d.
    streams : [devices]
    held_at, held : [tasks + 1], [holds]
        Links that task i holds; none for subgraphs.
    root_at, roots : [templates + 1], [roots]
        Transfers of each template that wait for nothing.
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
    """Streams, links, turns and requests in flight; lists, or int arrays, and three numbers.

    Request r lives in slot ``r & (window - 1)``, from its admission until it and all before it
    have ended. Whoever admits sees to it that its slot is free, or widens the state first
    (``hetsim.simulation.clock.rules``).

    Attributes
    ----------
    window : int
        Slots; a power of two.
    width, holds : int
        Tasks, and links held by tasks, of the widest template at least.
    pending : [window * width]
        How many tasks a task waits for; of a transfer for which no task is left, in how many
        queues it is not first. RUNS less the stream (0 for transfers) where it runs, then ENDED.
    turn : [window * devices]
        Where in ``Structure.issue`` the next subgraph of a request on a device stands.
    template, rank, left : [window]
        Which template a request runs; lower ranks go first on devices; tasks that have not ended.
    base, hold_base : [window]
        What to add to a task's number for its place in `pending`, to a hold's in `next_up`.
    ready, ready_size : [devices * window], [devices]
        A heap a device: requests, by (rank, number), whose next subgraph there could start.
    free, occupied : [devices], [devices * most streams]
        Streams that run nothing: how many, and which.
    able, listed : [devices]
        Devices where something may start, each once.
    shut : [devices]
        Whether transfers there are kept back when they are ready, in `kept`.
    next_up, tail : [window * holds], [links]
        The queue of a link: after each of a transfer's holds the code of the one behind it, -1
        for the last, whose place `tail` has; -1 for an empty queue.
    starting : [enough for what a verb starts]
        Codes of what starts, to be taken after every verb; ``counts[STARTING]`` of them.
    kept : [enough for what a driver that shuts devices lets come]
    counts : [COUNTS]
        Of what is in `starting`, `able` and `kept`; the oldest request that is not over, and how
        many were admitted.
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
    """Take a request; later ones have higher numbers. Return whether it has nothing to do.

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
    """Note that a task has ended; return whether it was the last of its request.

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
    """Start what devices can. O(log requests) for each subgraph."""
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
            # The request stays first in the heap where its next subgraph on this device could
            # start as well: none comes before it still.
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
    """Tell the caller that a task starts."""
    count = state.counts
    state.starting[count[STARTING]] = code
    count[STARTING] += 1


def note(state: State, device: int) -> None:
    """Let ``starts`` look at a device."""
    count = state.counts
    state.listed[device] = 1
    state.able[count[ABLE]] = device
    count[ABLE] += 1


def offer(state: State, slot: int, request: int, device: int) -> None:
    """Put a request up on a device where its next subgraph waits for nothing but a stream."""
    size = state.ready_size[device]
    push_key(state.ready, device * state.window, size, (state.rank[slot] << SHIFT) + request)
    state.ready_size[device] = size + 1
    if state.listed[device] == 0:
        note(state, device)


def queue(structure: Structure, state: State, slot: int, request: int, task: int) -> None:
    """Let a transfer that waits for no task join the queues of its links, and start if it can."""
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
    """Take a transfer from the heads of its queues; who is then first in all of its own starts."""
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
    """Free the slots of the oldest requests that are over."""
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
    """Return the state in which nothing has come yet; `window` is a power of two.

    `arrays`: for machine code; `keeps`: with room for transfers that are kept back.
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
    """Return the state with room for twice the requests. O(its size)."""
    old, new = state.window, 2 * state.window
    # Slots from `cut` on belong to the oldest requests, those before it to later ones.
    oldest = int(state.counts[OLDEST])
    cut, first = oldest & (old - 1), oldest & old
    later = first ^ old

    def rows(values: Ints, width: int, step: int = 0) -> Ints:
        """Each slot's row at its new place, and `step` more for each slot that it moved."""
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
    """Return how many tasks can run at once, of `structure` in arrays. O(tasks).

    Each stream and link runs one at most; transfers without links, all there are.
    """
    bare = (structure.device < 0) & (structure.held_at[1:] == structure.held_at[:-1])
    fixed = int(structure.streams.sum()) + links + 1
    if not bare.any():
        return fixed
    before = np.concatenate(([0], np.cumsum(bare)))[structure.first]
    return fixed + window * int(np.diff(before).max(initial=0))


def _like(values: Ints, made: NDArray[np.int64]) -> Ints:
    """A list or an array, as `values` is."""
    found: Ints = made.tolist() if isinstance(values, list) else made  # type: ignore[assignment]
    return found
