"""Driver of the clock's rules by a heap of events, with queues and batchers before them.

At one instant, in this order, until nothing more happens: ends; arrivals, streams before clients;
at `until_s`, external changes; then each batcher sees all arrivals; then devices start. Requests of
a model without gates are admitted to the clock at once, so times are bitwise those of
``hetsim.simulation.clock.virtual_time``. A batch is one request of the clock.

In the subset of Python that numba compiles: on lists when interpreted, on arrays when compiled.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from hetsim.core.heaps import Floats
from hetsim.simulation.clock.rules import (
    ABLE,
    ADMITTED,
    MASK,
    OLDEST,
    SHIFT,
    STARTING,
    State,
    Structure,
    close,
    end,
    starts,
)
from hetsim.simulation.clock.virtual_time import earliest, put, take
from hetsim.simulation.serving.batcher import account, append, decide, take_first, wait, walk
from hetsim.simulation.serving.routing import (
    arrived,
    fetch,
    leave,
    mark,
    release_claim,
    send,
    settle,
)
from hetsim.simulation.serving.tables import (
    ASKED,
    CALM,
    CAME,
    FETCHES,
    FOREIGN,
    FULL,
    LIMIT,
    LOOKS,
    LOOSE,
    OPEN,
    SOONEST,
    STORM,
    TAKEN,
    THINKS,
    TOLD,
    UNLIMITED,
    WHOLE,
    Batches,
    Flow,
    RequestRecords,
    Setup,
    Spans,
)

OVER, MORE, CROWDED, FILLED, THINK, RETRIED, MOMENT, LATER, ALONE = 0, 1, 2, 3, 4, 5, 6, 7, 8
"""Reasons why ``advance`` returns: no more events; further arrivals needed; no free slot for a
batch; no free record; client ``Flow.counts[THINKS]`` needs think times; a rejected client retries
at once; `until_s` is reached or weights have arrived, and all ends and arrivals of this instant are
processed; the next event is after ``Flow.times[LIMIT]``; the run of template ``counts[ASKED] - 1``
alone is needed."""


class RequestBlock(NamedTuple):
    """Block of open-loop requests, ascending; ``Flow.counts[TAKEN]`` have arrived.

    `last`: whether no block follows.
    """

    arrival: Sequence[float]
    stream: Sequence[int]
    variant: Sequence[int]
    last: int


def advance(
    structure: Structure,
    state: State,
    duration: Sequence[float],
    setup: Setup,
    flow: Flow,
    batches: Batches,
    records: RequestRecords,
    spans: Spans,
    coming: RequestBlock,
    events: Any,
    returning: Any,
    now_s: Floats,
    until_s: float,
) -> int:
    """Advance the simulation from ``now_s[0]`` as far as arrivals are known.

    Must be called again after supplying what it returned for. O(log (running tasks + batches in
    flight)) per task, and O(largest batch + levels) per look of a batcher.
    """
    count, counts, slots = state.counts, flow.counts, state.window - 1
    total, room = len(coming.arrival), len(records.arrival)
    now = now_s[0]
    while True:
        while True:
            if count[ADMITTED] - count[OLDEST] > slots:
                return CROWDED
            if counts[ASKED] > 0:
                return ALONE
            comes, looks = False, False
            stream, variant, client = 0, 0, -1
            if earliest(events) == now:
                code = take(events)
                if code & MASK == MASK:
                    state.left[(code >> SHIFT) & slots] = 0
                    close(state)
                    over = True
                else:
                    over = end(structure, state, code >> SHIFT, code & MASK)
                if over or (counts[LOOSE] > 0 and answered(state, duration, batches, code)):
                    finish(state, setup, flow, batches, records, spans, returning, code, now)
            elif counts[TAKEN] < total and coming.arrival[counts[TAKEN]] == now:
                if counts[CAME] - counts[TOLD] == room:
                    return FILLED
                stream = coming.stream[counts[TAKEN]]
                variant = coming.variant[counts[TAKEN]]
                client = -1
                counts[TAKEN] += 1
                comes = counts[CAME] < setup.most
            elif counts[TAKEN] == total and coming.last == 0:
                return MORE
            elif earliest(returning) == now:
                if counts[CAME] - counts[TOLD] == room:
                    return FILLED
                client = take(returning)
                if flow.thought[client] + 1 == setup.turns:
                    put(returning, now, client)
                    counts[THINKS] = client
                    return THINK
                stream, variant = setup.stream_of[client], setup.variant_of[client]
                comes = counts[CAME] < setup.most and now < setup.until
            elif now == until_s or counts[FOREIGN] > 0:
                return MOMENT
            elif counts[LOOKS] > 0:
                looks = True
            elif count[ABLE] > 0:
                starts(structure, state)
            else:
                break
            if (comes or looks) and len(flow.alone_s) > 0:
                flow.times[CALM] = calm(state, setup, flow, coming, events, returning, until_s)
            if looks:
                look(structure, state, setup, flow, batches, records, spans, returning, now)
            elif comes:
                come(
                    structure, state, setup, flow, batches, records, spans, returning,
                    stream, variant, client, now,
                )  # fmt: skip
                if counts[STORM] > 0:
                    return RETRIED
            if flow.times[WHOLE] < math.inf:
                # No task has this number: it stands for the end of the whole batch.
                put(events, flow.times[WHOLE], ((count[ADMITTED] - 1) << SHIFT) + MASK)
                flow.times[WHOLE] = math.inf
            if count[STARTING] > 0:
                launch(state, duration, batches, events, now)
        before = now
        now = min(upcoming(setup, flow, coming, events, returning), until_s)
        if now == math.inf:
            return OVER
        if now > flow.times[LIMIT]:
            return LATER
        if before == -math.inf:
            spans.length[1] = now
            for model in range(len(spans.since)):
                spans.since[model] = now
        now_s[0] = now
        if flow.times[SOONEST] == now:
            mark_expired_timers(flow, now)


def upcoming(setup: Setup, flow: Flow, coming: RequestBlock, events: Any, returning: Any) -> float:
    """Return the time of the next event, as far as arrivals are known.

    Arrivals beyond the number of requests, or too late, do not count.
    """
    now = min(earliest(events), flow.times[SOONEST])
    if flow.counts[CAME] >= setup.most:
        return now
    if earliest(returning) < setup.until:
        now = min(now, earliest(returning))
    taken = flow.counts[TAKEN]
    return min(now, coming.arrival[taken]) if taken < len(coming.arrival) else now


def calm(
    state: State,
    setup: Setup,
    flow: Flow,
    coming: RequestBlock,
    events: Any,
    returning: Any,
    until_s: float,
) -> float:
    """Return the time until which only the batch sent now is active; -inf if unknown."""
    idle = state.counts[ADMITTED] == state.counts[OLDEST]
    if idle and (flow.counts[TAKEN] < len(coming.arrival) or coming.last > 0):
        return min(upcoming(setup, flow, coming, events, returning), until_s, flow.times[LIMIT])
    return -math.inf


def launch(
    state: State, duration: Sequence[float], batches: Batches, events: Any, now: float
) -> None:
    """Push the ends of the tasks that start now. O(log events) each."""
    count, starting = state.counts, state.starting
    for k in range(count[STARTING]):
        code = starting[k]
        slot = (code >> SHIFT) & (state.window - 1)
        if batches.begun[slot] == math.inf:
            batches.begun[slot] = now
        put(events, now + duration[code & MASK], code)
    count[STARTING] = 0


def mark_expired_timers(flow: Flow, now: float) -> None:
    """Mark the batchers whose timers have expired. O(models)."""
    soonest = math.inf
    for model in range(len(flow.timer)):
        if flow.timer[model] <= now:
            flow.timer[model] = math.inf
            mark(flow, model)
        soonest = min(soonest, flow.timer[model])
    flow.times[SOONEST] = soonest


def answered(state: State, duration: Sequence[float], batches: Batches, code: int) -> bool:
    """Return whether a task's end completes the answer of its batch."""
    slot = (code >> SHIFT) & (state.window - 1)
    if batches.needed[slot] == 0 or math.isnan(duration[code & MASK]):
        return False
    batches.needed[slot] -= 1
    return batches.needed[slot] == 0


def finish(
    state: State,
    setup: Setup,
    flow: Flow,
    batches: Batches,
    records: RequestRecords,
    spans: Spans,
    returning: Any,
    code: int,
    now: float,
) -> None:
    """Complete a batch: its clients think, and its instance may take another.

    Or note that weights have reached a device.
    """
    slot = (code >> SHIFT) & (state.window - 1)
    model = batches.model[slot]
    if model < -1:
        arrived(setup, flow, -2 - model, batches.instance[slot], now)
    elif model < 0:
        flow.counts[FOREIGN] += 1
    if model < 0:
        return
    account(flow, spans, model, now)
    leave(state, setup, flow, batches, records, code >> SHIFT, now)
    batches.model[slot] = -1
    answer(setup, flow, records, returning, batches.first[slot], now)
    if flow.waiting[model] > 0:
        mark(flow, model)


def answer(
    setup: Setup, flow: Flow, records: RequestRecords, returning: Any, first: int, now: float
) -> None:
    """Start the think times of the clients of linked requests."""
    if len(setup.stream_of) == 0:
        return
    request = first
    while request >= 0:
        place = request - flow.counts[TOLD]
        client = records.client[place]
        if client >= 0:
            turn = flow.thought[client]
            put(returning, now + flow.think[client * setup.turns + turn], client)
        request = records.following[place]


def come(
    structure: Structure,
    state: State,
    setup: Setup,
    flow: Flow,
    batches: Batches,
    records: RequestRecords,
    spans: Spans,
    returning: Any,
    stream: int,
    variant: int,
    client: int,
    now: float,
) -> None:
    """Process an arriving request: send it, queue it, or reject it."""
    counts = flow.counts
    request = counts[CAME]
    counts[CAME] = request + 1
    place = request - counts[TOLD]
    model, queue = setup.model_of[stream], setup.queue_of[stream]
    records.arrival[place] = now
    records.sent[place] = math.nan
    records.begun[place] = math.nan
    records.finish[place] = math.nan
    records.stream[place] = stream
    records.variant[place] = variant
    records.instance[place] = -1
    records.size[place] = 0
    records.why[place] = OPEN
    records.fresh[place] = 1 if flow.waiting[model] == 0 and flow.idle[model] > 0 else 0
    records.client[place] = client
    records.following[place] = -1
    records.load[place] = 0.0
    if client >= 0:
        flow.thought[client] += 1
    account(flow, spans, model, now)
    room = setup.room[model]
    if room >= 0 and flow.queued[queue] >= room and (room > 0 or full(flow, model)):
        records.why[place] = FULL
        records.fresh[place] = 0
        if client >= 0:
            until = now + flow.think[client * setup.turns + flow.thought[client]]
            if until == now:
                counts[STORM] = 1
            put(returning, until, client)
        return
    flow.inside[model] += 1
    if setup.gated[model] == 0:
        # A variable instead of a constant, for which numba would compile all callees again.
        size = counts[CAME] - request
        send(structure, state, setup, flow, batches, records, model, request, size, now)
        if records.why[place] != OPEN:
            answer(setup, flow, records, returning, request, now)
        return
    append(flow, records, 2 * queue, request)
    flow.queued[queue] += 1
    flow.waiting[model] += 1
    mark(flow, model)


def full(flow: Flow, model: int) -> bool:
    """Return whether no instance takes one more request than those waiting."""
    return flow.waiting[model] >= flow.spare[model]


def look(
    structure: Structure,
    state: State,
    setup: Setup,
    flow: Flow,
    batches: Batches,
    records: RequestRecords,
    spans: Spans,
    returning: Any,
    now: float,
) -> None:
    """Let the first marked batcher send a batch, wait, or load weights."""
    if flow.counts[FETCHES] > 0:
        fetch(structure, state, setup, flow, batches)
        return
    model = 0
    while flow.dirty[model] == 0:
        model += 1
    size = 0
    if flow.spare[model] > 0 and flow.waiting[model] > 0:
        account(flow, spans, model, now)
        size = sized(setup, flow, records, returning, model, now)
    if setup.on_demand[model] > 0:
        if size > 0:
            found = settle(setup, flow, model, now)
            if found < 0:
                return
            size *= found
        elif flow.spare[model] > 0 or flow.waiting[model] == 0:
            release_claim(setup, flow, model, now)
    if size == 0:
        flow.dirty[model] = 0
        flow.counts[LOOKS] -= 1
        return
    first = take_first(setup, flow, records, model, size)
    flow.waiting[model] -= size
    send(structure, state, setup, flow, batches, records, model, first, size, now)
    if records.why[first - flow.counts[TOLD]] != OPEN:
        answer(setup, flow, records, returning, first, now)


def sized(
    setup: Setup, flow: Flow, records: RequestRecords, returning: Any, model: int, now: float
) -> int:
    """Return how many requests go now, and reject those that timed out.

    A request that would wait until this instant is treated as just after it.
    """
    size = 0
    for again in range(2):
        gone = walk(setup, flow, records, model, now, again > 0)
        request = gone
        while request >= 0:
            flow.waiting[model] -= 1
            flow.inside[model] -= 1
            request = records.following[request - flow.counts[TOLD]]
        answer(setup, flow, records, returning, gone, now)
        size = decide(setup, flow, model, now)
        if size > 0 or flow.waiting[model] == 0 or wait(setup, flow, model, now):
            break
    return size


def restrict(
    setup: Setup, flow: Flow, model: int, instances: Sequence[int], taking: Collection[int]
) -> None:
    """Restrict batches of a model to some of its instances. O(instances)."""
    spare = 0
    for instance in instances:
        limit = setup.limit[instance]
        most = (limit or UNLIMITED) if instance in taking else 0
        flow.most[instance] = most
        if most:
            spare += most - flow.in_flight[instance] if limit else UNLIMITED
    flow.spare[model] = spare
    if flow.waiting[model] > 0:
        mark(flow, model)
