"""Tables of plans under load for the driver: lists if interpreted, arrays for machine code."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetsim.core.heaps import Floats, Ints
from hetsim.simulation.clock.runs import run
from hetsim.simulation.clock.templates import TemplateLayout
from hetsim.simulation.serving.setup import Clients, ModelSetup, RequestSource, Turns
from hetsim.workload.deployment import ROUTINGS

SERVED, FULL, EXPIRED = 0, 1, 2
"""Outcomes of a request: answered; rejected by a full queue; rejected by timeout."""
OPEN = -1
"""Outcome of a request that is not decided yet."""

CAME, TOLD, TAKEN, LOOKS, THINKS, STORM, PENDING, BEST, CLOSED = 0, 1, 2, 3, 4, 5, 6, 7, 8
LOOSE, FOREIGN, FETCHES, CLAIMS, ASKED = 9, 10, 11, 12, 13
"""Indices into ``Flow.counts``."""
COUNTS = 14
SOONEST, OLDEST_CAME, CLOSEST, LIMIT, CALM, WHOLE = 0, 1, 2, 3, 4, 5
"""Indices into ``Flow.times``."""
TIMES = 6

ROUND_ROBIN, SHORTEST_QUEUE, LEAST_FINISH = 0, 1, 2

WINDOWS = 2048
BINS = 1024

ABSENT, AWAITED, LOADING, THERE = 0, 1, 2, 3
"""States of a model's weights in a device's memory: absent; memory allocated; loading; loaded."""


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
        Routing rule; largest batch; whether requests may wait; how many, -1 for unlimited; whether
        timed-out requests go last; offset of its templates in `table`.
    timeout, delay : [models]
        Seconds.
    cycle_at, cycle : [models + 1], [turns]
    liked_at, liked : [models + 1], [sizes]
        Whether each size is preferred, from size 0 on.
    table : [models' variants, instances, sizes]
    alone, load : [templates]
        Seconds of a batch alone, and until the next may follow.
    on_demand : [models]
        Whether its weights share device memory in turns.
    budget : [devices]
        Shared bytes.
    weight : [models * devices]
        Shared bytes that a model needs on a device; 0: none.
    fetch : [models * devices]
        Template that loads them; -1: none.
    place_at, places : [instances + 1], [places]
        Devices whose shared memory an instance needs.
    stream_of, variant_of : [clients]
    turns : int
        Number of think times stored per client.
    most : int
        Maximum number of requests.
    until : float
        Time after which clients no longer send.
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
    """State of queues, instances and clients.

    Attributes
    ----------
    head, tail : [2 * queues]
        First and last request of queue q at 2 q, of its timed-out requests at 2 q + 1; -1: none.
    queued : [queues]
    waiting, inside : [models]
        Requests in its queues; in its queues and instances.
    in_flight, most, free_s : [instances]
        Current batches; maximum, 0 if excluded; time at which it could begin one more on its own.
    spare, idle : [models]
        Free capacity of its instances in batches, and number of idle instances.
    turn : [models]
        Position in the round-robin cycle.
    timer, dirty : [models]
        Time of its batcher's timer; whether it is marked to look now.
    ran : [templates]
    think, thought : [clients * turns], [clients]
        Think seconds before each of a client's requests, and index of the current or next one; -1:
        its first is under way.
    room : [devices]
        Free bytes of `Setup.budget`.
    there, users : [models * devices]
        State of a model's weights: ABSENT, AWAITED, LOADING or THERE; number of batches under way
        that use them, plus instances that reserve them.
    used_s, since_s : [models * devices]
        Times of their last use, and of the allocation.
    reserved, from_s, until_s : [instances]
        Whether memory is reserved for its next batch, and start and end of the loading.
    claim : [models]
        Sequence number of its claim for memory; 0: none.
    loads, loading_s, resident_s : [models * devices]
        Number of loads, seconds of loading, and seconds of allocated memory.
    highest : [devices]
        Maximum shared bytes allocated.
    alone_s : [templates]
        Seconds of a batch without interference; NaN if not computed yet, infinite if unknown.
        Empty: every batch is simulated task by task.
    lasts, since, until : [tasks]
        For each template's tasks by end: seconds, and indices of the times at which they begin and
        end; see ``routing.passes``.
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
    """Batches in flight, by slot in the clock's state.

    `first` request, to which ``RequestRecords.following`` links the others; `begun` is the start of
    its first task, infinite before. Model -1: no batch, or an answered one with tasks that nothing
    waits for. Model -2 - m: loading of model m's weights to a device, given as the instance.
    `needed`, for a batch with tasks that nothing waits for (``counts[LOOSE]`` counts these): number
    of its other open tasks, whose durations are not NaN; 0 for others.
    """

    first: Ints
    instance: Ints
    model: Ints
    begun: Floats
    needed: Ints


class RequestRecords(NamedTuple):
    """Records of unreported requests: request r at index ``r - counts[TOLD]``.

    Client of a request, and the one `following` in its queue or batch: -1 for none. `load`: seconds
    that it waited while weights were loaded for its batch.
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

    `waiting` and `inside` [models * WINDOWS] are request-seconds by window; `at_length` [models *
    BINS] are seconds by number of waiting requests, with all larger numbers in the last bin.
    `since` and `window` are the time accounted for so far by model, and its window; `length` [2]
    the seconds of a window, and the start of the first.
    """

    waiting: Floats
    inside: Floats
    at_length: Floats
    since: Floats
    window: Ints
    length: Floats


def requests_of(flow: Flow, batches: Batches, records: RequestRecords, slot: int) -> list[int]:
    """Return the requests of a batch; none for a weight-loading batch."""
    found: list[int] = []
    request = -1 if batches.model[slot] < 0 else int(batches.first[slot])
    while request >= 0:
        found.append(request)
        request = int(records.following[request - flow.counts[TOLD]])
    return found


UNLIMITED = 1 << 40
"""Remaining batch capacity of an instance without a limit."""

WINDOW_S = 2.0**-20
"""Initial length of windows in seconds."""


def setup_of(
    layout: TemplateLayout,
    duration: NDArray[np.float64],
    models: Sequence[ModelSetup],
    sources: Sequence[RequestSource],
    clients: Sequence[Clients],
    turns: int,
    most: int,
    until: float,
    turns_in_memory: Turns | None = None,
    known: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None,
) -> Setup:
    """Return the constant tables. `known`: results of ``seconds_alone`` and ``loads``."""
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

    `first` is that of the layout; `shortens`: whether batches without interference may be skipped
    as a whole.
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
    """Return empty windows; `window_s` absent: WINDOW_S."""

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


def new_records(room: int, arrays: bool) -> RequestRecords:
    """Return tables for this number of requests."""
    if not arrays:
        made: Any = [[0.0] * room for _ in range(4)] + [[0] * room for _ in range(8)]
        made.append([0.0] * room)
        return RequestRecords._make(made)
    kinds = [np.float64] * 4 + [np.int32] * 4 + [np.int8] * 2 + [np.int32, np.int64, np.float64]
    columns: Any = [np.zeros(room, kind) for kind in kinds]
    return RequestRecords._make(columns)


def as_arrays(record: Any) -> Any:
    """Return a named tuple of lists as arrays, integers separate from seconds."""
    kinds: Any = type(record).__annotations__
    return record._make(
        np.array(part, np.float64 if "loat" in str(kinds[name]) else np.int64)
        if isinstance(part, list)
        else part
        for name, part in zip(record._fields, record, strict=True)
    )


def _no_turns(models: Sequence[ModelSetup]) -> Turns:
    none = np.zeros((len(models), 0), dtype=np.int64)
    return Turns((), none, none, tuple(((),) * len(model.limits) for model in models))


def _loaded_first(setup: Setup) -> tuple[list[int], list[int]]:
    """Return the free shared bytes and the states of weights initially, with those loaded that fit.

    Loads the first instance of each model that fits, model by model, then the next of each.
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


def seconds_alone(layout: TemplateLayout, duration: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the seconds of a request of each template without other work."""
    one = np.zeros(1)
    return np.array(
        [
            run(
                layout, duration, one, np.array([template]), traced=False, machine_code=False
            ).finish[0]
            for template in range(len(layout.first) - 1)
        ]
    )


def learn(flow: Flow, layout: TemplateLayout, duration: NDArray[np.float64], template: int) -> None:
    """Record a template's run without other work, for ``routing.passes``. Simulates it once."""
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


def loads(layout: TemplateLayout, duration: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return by template the seconds on its busiest resource."""
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
