"""Tables of plans under load, for the driver: lists in plain Python, arrays for machine code."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetsim.simulation.clock.heaps import Floats, Ints
from hetsim.simulation.clock.runs import run
from hetsim.simulation.clock.templates import Layout
from hetsim.simulation.serving.setup import Clients, Model, Source, Turns
from hetsim.workload.deployment import ROUTINGS

SERVED, FULL, EXPIRED = 0, 1, 2
"""What became of a request: answered; rejected as too many waited; rejected as it waited too
long."""
OPEN = -1
"""Of a request of which that is not known yet."""

CAME, TOLD, TAKEN, LOOKS, THINKS, STORM, PENDING, BEST, CLOSED = 0, 1, 2, 3, 4, 5, 6, 7, 8
LOOSE, FOREIGN, FETCHES, CLAIMS, ASKED = 9, 10, 11, 12, 13
"""Places in ``Flow.counts``."""
COUNTS = 14
SOONEST, OLDEST_CAME, CLOSEST, LIMIT, CALM, WHOLE = 0, 1, 2, 3, 4, 5
"""Places in ``Flow.times``."""
TIMES = 6

ROUND_ROBIN, SHORTEST_QUEUE, LEAST_FINISH = 0, 1, 2

WINDOWS = 2048
BINS = 1024

ABSENT, AWAITED, LOADING, THERE = 0, 1, 2, 3
"""Of a model's weights in a device's memory: not there; there is room for them; on their way."""


class Setup(NamedTuple):
    """Constant tables. Queues are numbered over all models and their levels.

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
    alone_s : [templates]
        Seconds of a batch that meets nothing else; NaN where that was not asked yet, infinite where
        it is not known. Empty: every batch is played task by task.
    lasts, since, until : [tasks]
        Of each template's tasks in the order in which they then end: seconds, and the numbers of
        the moments at which they begin and end; see ``routing.passes``.
    moments : [most moments]
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
    alone_s: Floats
    lasts: Floats
    since: Ints
    until: Ints
    moments: Floats
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
    """Records of requests not reported yet: request r at ``r - counts[TOLD]``.

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
    """Numbers of waiting and of ongoing requests over time.

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


UNLIMITED = 1 << 40
"""Batches that an instance without a limit could take still."""

WINDOW_S = 2.0**-20
"""Length of the first windows."""


def setup_of(
    layout: Layout,
    duration: NDArray[np.float64],
    models: Sequence[Model],
    sources: Sequence[Source],
    clients: Sequence[Clients],
    turns: int,
    most: int,
    until: float,
    turns_in_memory: Turns | None = None,
    known: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None,
) -> Setup:
    """Put models one after another. `known`: what ``seconds_alone`` and ``loads`` give."""
    memory = turns_in_memory or _no_turns(models)
    places = [list(places) for instances in memory.places for places in instances]
    shapes = [model.template.shape for model in models]
    queue_at = _offsets(len(model.ranks) for model in models)
    cycles = [model.cycle or tuple(range(len(model.limits))) for model in models]
    liked = [
        [int(size in (model.preferred or (shape[2],))) for size in range(shape[2] + 1)]
        for model, shape in zip(models, shapes, strict=True)
    ]
    alone = load = np.zeros(len(layout.first) - 1)
    if any(model.routing == "least_finish" for model in models):
        alone, load = known or (seconds_alone(layout, duration), loads(layout, duration))
    return Setup(
        model_of=[source.model for source in sources],
        queue_of=[queue_at[source.model] + source.level for source in sources],
        queue_at=queue_at,
        rank=[rank for model in models for rank in model.ranks],
        instance_at=_offsets(shape[1] for shape in shapes),
        limit=[limit for model in models for limit in model.limits],
        routing=[ROUTINGS.index(model.routing) for model in models],
        largest=[shape[2] for shape in shapes],
        gated=[int(model.gated) for model in models],
        room=[-1 if model.max_queue_size is None else model.max_queue_size for model in models],
        delays=[int(model.timeout_action == "delay") for model in models],
        table_at=_offsets(math.prod(shape) for shape in shapes)[:-1],
        timeout=[float(model.timeout_s) for model in models],
        delay=[float(model.delay_s) for model in models],
        cycle_at=_offsets(map(len, cycles)),
        cycle=[instance for cycle in cycles for instance in cycle],
        liked_at=_offsets(map(len, liked))[:-1],
        liked=[flag for flags in liked for flag in flags],
        table=[one for model in models for one in model.template.reshape(-1).tolist()],
        alone=alone.tolist(),
        load=load.tolist(),
        on_demand=memory.weight.any(axis=1).astype(int).tolist(),
        budget=[int(each) for each in memory.budget],
        weight=memory.weight.reshape(-1).tolist(),
        fetch=memory.fetch.reshape(-1).tolist(),
        place_at=_offsets(map(len, places)),
        places=[device for each in places for device in each],
        stream_of=[one.stream for one in clients for _ in range(one.concurrency)],
        variant_of=[one.variant for one in clients for _ in range(one.concurrency)],
        turns=turns,
        most=most,
        until=float(until),
    )


def new_flow(
    setup: Setup, first: Sequence[int], think: NDArray[np.float64], *, shortens: bool
) -> Flow:
    """Return empty queues and idle instances; `think` is [clients, turns].

    `first` is that of the layout; `shortens`: whether batches that meet nothing else may pass as a
    whole.
    """
    templates = len(first) - 1
    tasks, widest = (first[-1], max(map(int, np.diff(first)))) if shortens else (0, -1)
    queues, models, instances = len(setup.rank), len(setup.room), len(setup.limit)
    spans = [range(*span) for span in pairwise(setup.instance_at)]
    spare = [
        sum(setup.limit[k] if setup.limit[k] else UNLIMITED for k in instances_of)
        for instances_of in spans
    ]
    room, there = _loaded_first(setup)
    many = len(there)
    return Flow(
        head=[-1] * 2 * queues,
        tail=[-1] * 2 * queues,
        queued=[0] * queues,
        waiting=[0] * models,
        inside=[0] * models,
        in_flight=[0] * instances,
        most=[limit or UNLIMITED for limit in setup.limit],
        free_s=[-math.inf] * instances,
        spare=spare,
        idle=[len(instances_of) for instances_of in spans],
        turn=[0] * models,
        timer=[math.inf] * models,
        dirty=[0] * models,
        ran=[0] * templates,
        think=think.reshape(-1).tolist(),
        thought=[0] * len(setup.stream_of),
        room=room,
        there=there,
        users=[0] * many,
        used_s=[-math.inf] * many,
        since_s=[0.0] * many,
        reserved=[0] * instances,
        from_s=[0.0] * instances,
        until_s=[0.0] * instances,
        claim=[0] * models,
        loads=[0] * many,
        loading_s=[0.0] * many,
        resident_s=[0.0] * many,
        highest=[whole - left for whole, left in zip(setup.budget, room, strict=True)],
        alone_s=[math.nan] * (templates if shortens else 0),
        lasts=[0.0] * tasks,
        since=[0] * tasks,
        until=[0] * tasks,
        moments=[0.0] * (widest + 1),
        counts=[0] * COUNTS,
        times=[-math.inf if at == CALM else math.inf for at in range(TIMES)],
    )


def new_spans(models: int, window_s: float | None, *, arrays: bool) -> Spans:
    """Return windows in which nothing was yet; `window_s` absent: WINDOW_S."""

    def zeros(size: int) -> Floats:
        return np.zeros(size) if arrays else [0.0] * size  # type: ignore[return-value]

    spans = Spans(
        waiting=zeros(models * WINDOWS),
        inside=zeros(models * WINDOWS),
        at_length=zeros(models * BINS),
        since=[-math.inf] * models,
        window=[0] * models,
        length=[WINDOW_S if window_s is None else window_s, 0.0],
    )
    return as_arrays(spans) if arrays else spans


def new_batches(window: int, arrays: bool) -> Batches:
    """Return tables for this number of batches in flight."""
    whole: Any = [0] * window
    seconds: Any = [0.0] * window
    batches = Batches(whole, list(whole), list(whole), seconds, list(whole))
    return as_arrays(batches) if arrays else batches


def new_records(room: int, arrays: bool) -> Records:
    """Return tables for this number of requests."""
    if not arrays:
        made: Any = [[0.0] * room for _ in range(4)] + [[0] * room for _ in range(8)]
        made.append([0.0] * room)
        return Records._make(made)
    kinds = [np.float64] * 4 + [np.int32] * 4 + [np.int8] * 2 + [np.int32, np.int64, np.float64]
    columns: Any = [np.zeros(room, kind) for kind in kinds]
    return Records._make(columns)


def as_arrays(record: Any) -> Any:
    """Return a named tuple of lists as one of arrays, whole numbers apart from seconds.

    Those of a kind are parts of one array, which is made in a fraction of the time of many.
    """
    fields = list(record)
    kinds: Any = type(record)
    for places, kind in zip(_places(kinds), (np.int64, np.float64), strict=True):
        mine = [at for at in places if isinstance(fields[at], list)]
        whole = np.array([one for at in mine for one in fields[at]], kind)
        ends = list(accumulate(len(fields[at]) for at in mine))
        for at, begin, end in zip(mine, [0, *ends], ends, strict=False):
            fields[at] = whole[begin:end]
    return record._make(fields)


@functools.cache
def _places(record: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Which fields of a named tuple are whole numbers, and which are seconds."""
    kinds = [str(record.__annotations__[name]) for name in record._fields]
    seconds = tuple(at for at, kind in enumerate(kinds) if "loat" in kind)
    return tuple(at for at in range(len(kinds)) if at not in seconds), seconds


def _no_turns(models: Sequence[Model]) -> Turns:
    none = np.zeros((len(models), 0), dtype=np.int64)
    return Turns((), none, none, tuple(((),) * len(model.limits) for model in models))


def _loaded_first(setup: Setup) -> tuple[list[int], list[int]]:
    """Return the room that is left, and what is there: what fits, before anything comes.

    The first instance of each model that it fits with, model after model, then the next of each.
    """
    room, devices = list(setup.budget), len(setup.budget)
    there = [ABSENT] * len(setup.weight)
    spans = enumerate(pairwise(setup.instance_at))
    waiting = [list(range(*span)) if setup.on_demand[m] else [] for m, span in spans]
    while any(waiting):
        for model, instances in enumerate(waiting):
            while instances:
                instance = instances.pop(0)
                at = range(setup.place_at[instance], setup.place_at[instance + 1])
                new = [
                    device for k in at if not there[model * devices + (device := setup.places[k])]
                ]
                if all(setup.weight[model * devices + p] <= room[p] for p in new):
                    for p in new:
                        there[model * devices + p] = THERE
                        room[p] -= setup.weight[model * devices + p]
                    break
    return room, there


def seconds_alone(layout: Layout, duration: NDArray[np.float64]) -> NDArray[np.float64]:
    """Seconds that a request of each template takes where nothing else is."""
    one = np.zeros(1)
    return np.array(
        [
            run(
                layout, duration, one, np.array([template]), traced=False, machine_code=False
            ).finish[0]
            for template in range(len(layout.first) - 1)
        ]
    )


def learn(flow: Flow, layout: Layout, duration: NDArray[np.float64], template: int) -> None:
    """Note how a template runs where nothing else is, for ``routing.passes``. A run of it."""
    recording = run(
        layout, duration, np.zeros(1), np.array([template]), traced=True, machine_code=False
    )
    alone_s, begin = float(recording.finish[0]), layout.first[template]
    flow.alone_s[template] = alone_s if math.isfinite(alone_s) else math.inf
    moments = np.unique([0.0, *recording.end.tolist()])
    since, until = (np.searchsorted(moments, at) for at in (recording.start, recording.end))
    for k, task in enumerate(np.lexsort((since, until)).tolist(), begin):
        flow.lasts[k] = float(duration[begin + task])
        flow.since[k], flow.until[k] = int(since[task]), int(until[task])


def loads(layout: Layout, duration: NDArray[np.float64]) -> NDArray[np.float64]:
    """Seconds that each template asks of what it asks the most of."""
    structure = layout.structure
    found = []
    for begin, end in pairwise(layout.first):
        devices, links = [0.0] * len(structure.streams), [0.0] * layout.links
        for task in range(begin, end):
            seconds = float(duration[task])
            device = structure.device[task]
            if device >= 0:
                devices[device] += seconds / structure.streams[device]
            for at in range(structure.held_at[task], structure.held_at[task + 1]):
                links[structure.held[at]] += seconds
        found.append(max([0.0, *devices, *links]))
    return np.array(found)


def _offsets(sizes: Iterable[int]) -> list[int]:
    return list(accumulate(map(int, sizes), initial=0))
