"""What the driver of plans under load works on: lists in plain Python, arrays for machine code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hetsim.simulation.clock.heaps import Floats, Ints

SERVED, FULL, EXPIRED = 0, 1, 2
"""What became of a request: answered; rejected as too many waited; rejected as it waited too
long."""
OPEN = -1
"""Of a request of which that is not known yet."""

CAME, TOLD, TAKEN, LOOKS, THINKS, STORM, PENDING, BEST, CLOSED = 0, 1, 2, 3, 4, 5, 6, 7, 8
LOOSE, FOREIGN, FETCHES, CLAIMS = 9, 10, 11, 12
"""Places in ``Flow.counts``."""
COUNTS = 13
SOONEST, OLDEST_CAME, CLOSEST, LIMIT = 0, 1, 2, 3
"""Places in ``Flow.times``."""
TIMES = 4

ROUND_ROBIN, SHORTEST_QUEUE, LEAST_FINISH = 0, 1, 2

WINDOWS = 2048
BINS = 1024

ABSENT, AWAITED, LOADING, THERE = 0, 1, 2, 3
"""Of a model's weights in a device's memory: not there; there is room for them; on their way."""


class Setup(NamedTuple):
    """What does not change. Queues are numbered over all models and their levels.

    Attributes
    ----------
    model_of, queue_of : [streams]
    queue_at : [models + 1]
    rank : [queues]
    instance_at : [models + 1]
        Instances are numbered over all models, too.
    limit : [instances]
    routing, largest, gated, room, delays, table_at : [models]
        Largest batch; whether requests may wait; how many, -1 for any number; whether those that
        waited too long go last; where its templates begin in `table`.
    timeout, delay : [models]
        Seconds.
    cycle_at, cycle : [models + 1], [turns]
    liked_at, liked : [models + 1], [sizes]
        Whether a size is preferred, from size 0 on.
    table : [models' variants, instances, sizes]
    alone, load : [templates]
        Seconds that a batch takes alone, and those after which the next may follow.
    on_demand : [models]
        Whether its weights take turns with others' in the memory of devices.
    budget : [devices]
        Bytes in which models take turns.
    weight : [models * devices]
        Bytes that a model then needs of a device; 0 where it needs none.
    fetch : [models * devices]
        The template that loads them; -1: nothing is to be loaded.
    place_at, places : [instances + 1], [places]
        Devices whose memory an instance needs so.
    stream_of, variant_of : [clients]
    turns : int
        Times to think that are at hand for each client.
    most : int
        Requests that come in all.
    until : float
        When clients no longer send.
    """

    model_of: Sequence[int]
    queue_of: Sequence[int]
    queue_at: Sequence[int]
    rank: Sequence[int]
    instance_at: Sequence[int]
    limit: Sequence[int]
    routing: Sequence[int]
    largest: Sequence[int]
    gated: Sequence[int]
    room: Sequence[int]
    delays: Sequence[int]
    table_at: Sequence[int]
    timeout: Sequence[float]
    delay: Sequence[float]
    cycle_at: Sequence[int]
    cycle: Sequence[int]
    liked_at: Sequence[int]
    liked: Sequence[int]
    table: Sequence[int]
    alone: Sequence[float]
    load: Sequence[float]
    on_demand: Sequence[int]
    budget: Sequence[int]
    weight: Sequence[int]
    fetch: Sequence[int]
    place_at: Sequence[int]
    places: Sequence[int]
    stream_of: Sequence[int]
    variant_of: Sequence[int]
    turns: int
    most: int
    until: float


class Flow(NamedTuple):
    """Queues, instances and clients.

    Attributes
    ----------
    head, tail : [2 * queues]
        First and last request of queue q at 2 q, of those that waited too long at 2 q + 1; -1.
    queued : [queues]
    waiting, inside : [models]
        Requests in its queues; those and what its instances have.
    in_flight, most, free_s : [instances]
        Batches that it has; that it may have, 0 where it is left out; when it could begin one
        more, were it alone.
    spare, idle : [models]
        Batches that its instances could still take, and instances that have none.
    turn : [models]
        Of round robin.
    timer, dirty : [models]
        When its batcher looks again by itself; whether it is to look now.
    ran : [templates]
    think, thought : [clients * turns], [clients]
        Seconds before each of a client's requests, and which of them it thinks, or is to think
        when its request is over; -1: its first is under way.
    room : [devices]
        Bytes of `Setup.budget` that nobody has.
    there, users : [models * devices]
        Where a model's weights are: ABSENT, AWAITED, LOADING or THERE; batches under way that use
        them, and instances for which they are kept.
    used_s, since_s : [models * devices]
        When they were last used, and when their room was taken.
    reserved, from_s, until_s : [instances]
        Whether its memory is kept for its next batch, and from when to when that was loaded.
    claim : [models]
        The number of its claim for memory, in the order in which they were made; 0: none.
    loads, loading_s, resident_s : [models * devices]
        How often they were loaded, for how long, and for how long they had their room in all.
    highest : [devices]
        Bytes of it that were ever taken.
    counts, times : [COUNTS], [TIMES]
    """

    head: Ints
    tail: Ints
    queued: Ints
    waiting: Ints
    inside: Ints
    in_flight: Ints
    most: Ints
    free_s: Floats
    spare: Ints
    idle: Ints
    turn: Ints
    timer: Floats
    dirty: Ints
    ran: Ints
    think: Floats
    thought: Ints
    room: Ints
    there: Ints
    users: Ints
    used_s: Floats
    since_s: Floats
    reserved: Ints
    from_s: Floats
    until_s: Floats
    claim: Ints
    loads: Ints
    loading_s: Floats
    resident_s: Floats
    highest: Ints
    counts: Ints
    times: Floats


class Batches(NamedTuple):
    """Of the batches in flight, by their slots in the clock's state.

    Attributes
    ----------
    first : [window]
        The first of its requests; ``Records.following`` has the others.
    instance, model : [window]
        Model -1: no batch, or one that was answered and leaves behind what nobody waits for.
        Model -2 - m: no batch, but weights of model m on their way to a device, the instance.
    begun : [window]
        When its first task started; infinite before.
    needed : [window]
        Of a batch under way with tasks that nobody waits for (``counts[LOOSE]`` says whether there
        are any): how many others it has still; they have a duration that is a number. 0 of others.
    """

    first: Ints
    instance: Ints
    model: Ints
    begun: Floats
    needed: Ints


class Records(NamedTuple):
    """Of requests that came and were not told of yet: request r at ``r - counts[TOLD]``.

    Attributes
    ----------
    arrival, sent, begun, finish : [room]
    stream, variant, instance, size, why, fresh : [room]
    client, following : [room]
        -1 where there is none; the next in the same queue or batch.
    load : [room]
        Seconds that it waited while weights were loaded for its batch.
    """

    arrival: Floats
    sent: Floats
    begun: Floats
    finish: Floats
    stream: Ints
    variant: Ints
    instance: Ints
    size: Ints
    why: Ints
    fresh: Ints
    client: Ints
    following: Ints
    load: Floats


class Spans(NamedTuple):
    """How many waited, and were inside, over time.

    Attributes
    ----------
    waiting, inside : [models * WINDOWS]
        Requests times seconds, by window.
    at_length : [models * BINS]
        Seconds for which so many waited; in the last bin that many and more.
    since, window : [models]
        Until when this is accounted for, and the window of that time.
    length : [2]
        Seconds of a window, and when the first begins.
    """

    waiting: Floats
    inside: Floats
    at_length: Floats
    since: Floats
    window: Ints
    length: Floats


def requests_of(flow: Flow, batches: Batches, records: Records, slot: int) -> list[int]:
    """Return the requests of a batch; none of one of nobody."""
    found: list[int] = []
    request = -1 if batches.model[slot] < 0 else int(batches.first[slot])
    while request >= 0:
        found.append(request)
        request = int(records.following[request - flow.counts[TOLD]])
    return found


def taken(column: Any, at: Any) -> Any:
    """Return some entries of a column, a list or an array, as an array."""
    if isinstance(column, np.ndarray):
        return column[at]
    return np.array([column[place] for place in at.tolist()], dtype=np.int64)


def put(column: Any, at: Any, values: Any) -> None:
    """Set some entries of a column, a list or an array."""
    if isinstance(column, np.ndarray):
        column[at] = values
        return
    for place, value in zip(at.tolist(), values.tolist(), strict=True):
        column[place] = value
