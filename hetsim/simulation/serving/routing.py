"""Device memory shared in turns by models: loading, eviction, waiting.

A batch goes to a *ready* instance: its model's weights are on all devices that it uses. If none is
ready, memory is reserved for one of the instances with capacity, and missing weights are loaded
over the links as a request of the clock; waiting requests go once all are loaded. Unused weights
are evicted to make room, least recently used first; never those of a batch under way, or being
loaded.

A model without enough memory *claims* it. Meanwhile, no later batch of others begins on its
devices, so they drain; claims are served in order. So no model waits forever, and each gets one
batch between two of another (like the queue of pending requests in Ollama's scheduler:
https://github.com/ollama/ollama, ``server/sched.go``).

In the subset of Python that numba compiles.
"""

from __future__ import annotations

import math

from hetsim.simulation.clock.rules import ADMITTED, OLDEST, State, Structure, admit
from hetsim.simulation.serving.tables import (
    ABSENT,
    ASKED,
    AWAITED,
    CALM,
    CLAIMS,
    FETCHES,
    LEAST_FINISH,
    LOADING,
    LOOKS,
    LOOSE,
    ROUND_ROBIN,
    SERVED,
    SHORTEST_QUEUE,
    THERE,
    TOLD,
    WHOLE,
    Batches,
    Flow,
    RequestRecords,
    Setup,
)


def mark(flow: Flow, model: int) -> None:
    """Mark a batcher to be looked at."""
    if flow.dirty[model] == 0:
        flow.dirty[model] = 1
        flow.counts[LOOKS] += 1


def wake(setup: Setup, flow: Flow) -> None:
    """Mark the batchers that may wait for memory. O(models)."""
    for model in range(len(flow.claim)):
        if setup.on_demand[model] > 0 and flow.waiting[model] > 0:
            mark(flow, model)


def claimed_before(setup: Setup, flow: Flow, model: int, instance: int) -> bool:
    """Return whether another model claimed memory of an instance before this model did.

    O(models times devices of the instance).
    """
    devices, mine = len(flow.room), flow.claim[model]
    for other in range(len(flow.claim)):
        theirs = flow.claim[other]
        if other == model or theirs == 0 or (mine > 0 and theirs > mine):
            continue
        for at in range(setup.place_at[instance], setup.place_at[instance + 1]):
            if setup.weight[other * devices + setup.places[at]] > 0:
                return True
    return False


def able(setup: Setup, flow: Flow, model: int, instance: int) -> bool:
    """Return whether an instance can take one more batch now."""
    if flow.in_flight[instance] >= flow.most[instance]:
        return False
    if setup.on_demand[model] == 0:
        return True
    row = model * len(flow.room)
    for at in range(setup.place_at[instance], setup.place_at[instance + 1]):
        if flow.there[row + setup.places[at]] != THERE:
            return False
    return flow.reserved[instance] > 0 or not claimed_before(setup, flow, model, instance)


def missing(setup: Setup, flow: Flow, model: int, device: int, spared: bool) -> int:
    """Return the bytes that a device lacks for a model's missing weights.

    0 or less: it has room. `spared`: without evictions. O(models).
    """
    devices = len(flow.room)
    if flow.there[model * devices + device] != ABSENT:
        return 0
    lacks = setup.weight[model * devices + device] - flow.room[device]
    if not spared:
        for other in range(len(flow.claim)):
            k = other * devices + device
            if flow.there[k] == THERE and flow.users[k] == 0:
                lacks -= setup.weight[k]
    return lacks


def evict(setup: Setup, flow: Flow, device: int, now: float) -> None:
    """Evict the least recently used of the unused weights. O(models)."""
    devices, best = len(flow.room), -1
    for other in range(len(flow.claim)):
        k = other * devices + device
        if flow.there[k] != THERE or flow.users[k] > 0:
            continue
        if best < 0 or flow.used_s[k] < flow.used_s[best]:
            best = k
    flow.there[best] = ABSENT
    flow.room[device] += setup.weight[best]
    flow.resident_s[best] += now - flow.since_s[best]


def reserve(setup: Setup, flow: Flow, model: int, instance: int, spared: bool, now: float) -> bool:
    """Reserve the memory that an instance needs, if available; return whether it was.

    O(models times devices of the instance), and as much again for each eviction.
    """
    if claimed_before(setup, flow, model, instance):
        return False
    row = model * len(flow.room)
    for at in range(setup.place_at[instance], setup.place_at[instance + 1]):
        if missing(setup, flow, model, setup.places[at], spared) > 0:
            return False
    for at in range(setup.place_at[instance], setup.place_at[instance + 1]):
        device = setup.places[at]
        k = row + device
        if flow.there[k] == ABSENT:
            while flow.room[device] < setup.weight[k]:
                evict(setup, flow, device, now)
            flow.room[device] -= setup.weight[k]
            taken = setup.budget[device] - flow.room[device]
            flow.highest[device] = max(flow.highest[device], taken)
            flow.there[k] = AWAITED
            flow.since_s[k] = now
    use(setup, flow, model, instance, 1, now)
    flow.reserved[instance] = 1
    flow.from_s[instance] = now
    flow.until_s[instance] = now
    return True


def use(setup: Setup, flow: Flow, model: int, instance: int, more: int, now: float) -> None:
    """Add `more` users (or remove, if negative) to the memory of an instance."""
    row = model * len(flow.room)
    for at in range(setup.place_at[instance], setup.place_at[instance + 1]):
        k = row + setup.places[at]
        flow.users[k] += more
        flow.used_s[k] = now


def settle(setup: Setup, flow: Flow, model: int, now: float) -> int:
    """Prepare memory for the next batch; return 1: ready; 0: wait; -1: look again.

    Memory is reserved for at most as many instances as the waiting requests fill: first one that
    needs no eviction, then one that does; of several the first in the deployment.
    """
    begin, after = setup.instance_at[model], setup.instance_at[model + 1]
    kept = 0
    for instance in range(begin, after):
        if able(setup, flow, model, instance):
            return 1
        kept += flow.reserved[instance]
    if flow.waiting[model] <= kept * setup.largest[model]:
        return 0
    wants = False
    for spared in range(2):
        for instance in range(begin, after):
            if flow.reserved[instance] > 0 or flow.in_flight[instance] >= flow.most[instance]:
                continue
            wants = True
            if reserve(setup, flow, model, instance, spared == 0, now):
                flow.counts[FETCHES] = model + 1
                unclaim(setup, flow, model)
                return -1
    if wants and flow.claim[model] == 0:
        flow.counts[CLAIMS] += 1
        flow.claim[model] = flow.counts[CLAIMS]
    return 0


def unclaim(setup: Setup, flow: Flow, model: int) -> None:
    """Withdraw the claim for memory, and wake those behind it."""
    if flow.claim[model] > 0:
        flow.claim[model] = 0
        wake(setup, flow)


def release_claim(setup: Setup, flow: Flow, model: int, now: float) -> None:
    """Without requests to send, release reserved memory with loaded weights, and the claim."""
    row = model * len(flow.room)
    given = False
    for instance in range(setup.instance_at[model], setup.instance_at[model + 1]):
        if flow.reserved[instance] == 0:
            continue
        waits = False
        for at in range(setup.place_at[instance], setup.place_at[instance + 1]):
            waits = waits or flow.there[row + setup.places[at]] != THERE
        if not waits:
            flow.reserved[instance] = 0
            use(setup, flow, model, instance, -1, now)
            given = True
    if given:
        wake(setup, flow)
    unclaim(setup, flow, model)


def fetch(
    structure: Structure,
    state: State,
    setup: Setup,
    flow: Flow,
    batches: Batches,
) -> None:
    """Start the first pending load of weights, of the model that reserved room last."""
    devices, model = len(flow.room), flow.counts[FETCHES] - 1
    for device in range(devices):
        k = model * devices + device
        if flow.there[k] != AWAITED:
            continue
        template = setup.fetch[k]
        if template < 0:
            flow.there[k] = THERE
            continue
        flow.there[k] = LOADING
        flow.loads[k] += 1
        flow.ran[template] += 1
        batch = state.counts[ADMITTED]
        slot = batch & (state.window - 1)
        batches.instance[slot] = device
        batches.model[slot] = -2 - model
        batches.begun[slot] = math.inf
        batches.needed[slot] = 0
        admit(structure, state, batch, template, 0)
        return
    flow.counts[FETCHES] = 0


def arrived(setup: Setup, flow: Flow, model: int, device: int, now: float) -> None:
    """Note that a model's weights are loaded on a device, and mark its batcher. O(instances)."""
    k = model * len(flow.room) + device
    flow.there[k] = THERE
    flow.loading_s[k] += now - flow.since_s[k]
    for instance in range(setup.instance_at[model], setup.instance_at[model + 1]):
        if flow.reserved[instance] > 0:
            for at in range(setup.place_at[instance], setup.place_at[instance + 1]):
                if setup.places[at] == device:
                    flow.until_s[instance] = now
    mark(flow, model)


def occupy(
    setup: Setup,
    flow: Flow,
    records: RequestRecords,
    model: int,
    instance: int,
    first: int,
    now: float,
) -> None:
    """Assign a batch to an instance: it uses the memory, and the reservation ends."""
    if setup.on_demand[model] == 0:
        return
    if flow.reserved[instance] > 0:
        begun, over = flow.from_s[instance], flow.until_s[instance]
        request = first
        while request >= 0:
            place = request - flow.counts[TOLD]
            records.load[place] = max(over - max(begun, records.arrival[place]), 0.0)
            request = records.following[place]
        flow.reserved[instance] = 0
    else:
        use(setup, flow, model, instance, 1, now)
    unclaim(setup, flow, model)


def vacate(setup: Setup, flow: Flow, model: int, instance: int, now: float) -> None:
    """Release the memory of a finished batch to those who wait for it."""
    if setup.on_demand[model] > 0:
        use(setup, flow, model, instance, -1, now)
        wake(setup, flow)


def choose(setup: Setup, flow: Flow, model: int, row: int, size: int, now: float) -> int:
    """Return the instance for a batch, numbered over all models; one must have capacity.

    `row` is the offset of the templates of the batch's variant. O(instances).
    """
    begin, after = setup.instance_at[model], setup.instance_at[model + 1]
    routing = setup.routing[model]
    if routing == ROUND_ROBIN:
        cycle, turns = setup.cycle_at[model], setup.cycle_at[model + 1] - setup.cycle_at[model]
        turn = flow.turn[model]
        instance = begin + setup.cycle[cycle + turn]
        while not able(setup, flow, model, instance):
            turn = (turn + 1) % turns
            instance = begin + setup.cycle[cycle + turn]
        flow.turn[model] = (turn + 1) % turns
        return instance
    best = -1
    fewest = 0
    least = math.inf
    for instance in range(begin, after):
        if not able(setup, flow, model, instance):
            continue
        inside = flow.in_flight[instance]
        if routing == SHORTEST_QUEUE:
            if best < 0 or inside < fewest:
                best, fewest = instance, inside
        else:
            template = setup.table[row + (instance - begin) * setup.largest[model] + size - 1]
            finish = max(now, flow.free_s[instance]) + setup.alone[template]
            if best < 0 or finish < least:
                best, least = instance, finish
    return best


OFTEN = 4
"""Number of batches of a template from which its run alone is recorded."""


def passes(
    structure: Structure,
    state: State,
    flow: Flow,
    template: int,
    size: int,
    now: float,
) -> bool:
    """Return whether a batch ends before any other event; its end is then ``Flow.times[WHOLE]``.

    Without other work, tasks begin and end as in the template's run from 0, as long as the order of
    that run's times is kept: the rules depend on the order only, and each end is the start plus the
    task's seconds, bitwise. If rounding changes the order, the batch is simulated task by task.
    O(models + tasks).
    """
    counts, times, moments = flow.counts, flow.times, flow.moments
    if times[CALM] <= now or counts[LOOSE] > 0 or state.counts[ADMITTED] > state.counts[OLDEST]:
        return False
    inside = 0
    for model in range(len(flow.inside)):
        inside += flow.inside[model]
    alone_s = flow.alone_s[template]
    if inside > size or now + alone_s >= times[CALM]:
        return False
    if math.isnan(alone_s):
        counts[ASKED] = template + 1 if flow.ran[template] >= OFTEN else 0
        return False
    moments[0] = now
    last = 0
    for k in range(structure.first[template], structure.first[template + 1]):
        end = moments[flow.since[k]] + flow.lasts[k]
        if flow.until[k] == last:
            if end != moments[last]:
                return False
        elif end > moments[last]:
            last += 1
            moments[last] = end
        else:
            return False
    if last == 0 or moments[last] >= times[CALM]:
        return False
    times[WHOLE] = moments[last]
    return True


def send(
    structure: Structure,
    state: State,
    setup: Setup,
    flow: Flow,
    batches: Batches,
    records: RequestRecords,
    model: int,
    first: int,
    size: int,
    now: float,
) -> None:
    """Admit the batch that begins with request `first` to the clock."""
    told = flow.counts[TOLD]
    place = first - told
    largest = setup.largest[model]
    instances = setup.instance_at[model + 1] - setup.instance_at[model]
    row = setup.table_at[model] + records.variant[place] * instances * largest
    instance = choose(setup, flow, model, row, size, now)
    number = instance - setup.instance_at[model]
    template = setup.table[row + number * largest + size - 1]
    occupy(setup, flow, records, model, instance, first, now)
    if flow.in_flight[instance] == 0:
        flow.idle[model] -= 1
    flow.in_flight[instance] += 1
    if setup.limit[instance] > 0:
        flow.spare[model] -= 1
    if setup.routing[model] == LEAST_FINISH:
        flow.free_s[instance] = max(now, flow.free_s[instance]) + setup.load[template]
    flow.ran[template] += 1
    request = first
    while request >= 0:
        place = request - told
        records.sent[place] = now
        records.instance[place] = number
        records.size[place] = size
        request = records.following[place]
    batch = state.counts[ADMITTED]
    slot = batch & (state.window - 1)
    batches.first[slot] = first
    batches.instance[slot] = instance
    batches.model[slot] = model
    batches.begun[slot] = math.inf
    batches.needed[slot] = 0
    if passes(structure, state, flow, template, size, now):
        batches.begun[slot] = now
        state.left[slot] = 1
        state.counts[ADMITTED] = batch + 1
        return
    rank = setup.rank[setup.queue_of[records.stream[first - told]]]
    if admit(structure, state, batch, template, rank):
        batches.begun[slot] = now
        leave(state, setup, flow, batches, records, batch, now)


def leave(
    state: State,
    setup: Setup,
    flow: Flow,
    batches: Batches,
    records: RequestRecords,
    batch: int,
    now: float,
) -> None:
    """Process the end of a batch."""
    told = flow.counts[TOLD]
    slot = batch & (state.window - 1)
    model, instance = batches.model[slot], batches.instance[slot]
    flow.in_flight[instance] -= 1
    if flow.in_flight[instance] == 0:
        flow.idle[model] += 1
        flow.free_s[instance] = now
    if setup.limit[instance] > 0 and flow.most[instance] > 0:
        flow.spare[model] += 1
    vacate(setup, flow, model, instance, now)
    request = batches.first[slot]
    while request >= 0:
        place = request - told
        records.begun[place] = batches.begun[slot]
        records.finish[place] = now
        records.why[place] = SERVED
        flow.inside[model] -= 1
        request = records.following[place]
