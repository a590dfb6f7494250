"""Which instance takes a batch, and the batch as one request of the clock."""

from __future__ import annotations

import math

from hetsim.simulation.clock.rules import ADMITTED, State, Structure, admit
from hetsim.simulation.serving.residency import able, occupy, vacate
from hetsim.simulation.serving.tables import (
    LEAST_FINISH,
    ROUND_ROBIN,
    SERVED,
    SHORTEST_QUEUE,
    TOLD,
    Batches,
    Flow,
    Records,
    Setup,
)


def choose(setup: Setup, flow: Flow, model: int, row: int, size: int, now: float) -> int:
    """Return the instance, numbered over all models. One must take a batch more.

    `row` is where the templates of the batch's variant begin. O(instances).
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


def send(
    structure: Structure,
    state: State,
    setup: Setup,
    flow: Flow,
    batches: Batches,
    records: Records,
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
    rank = setup.rank[setup.queue_of[records.stream[first - told]]]
    if admit(structure, state, batch, template, rank):
        batches.begun[slot] = now
        leave(state, setup, flow, batches, records, batch, now)


def leave(
    state: State,
    setup: Setup,
    flow: Flow,
    batches: Batches,
    records: Records,
    batch: int,
    now: float,
) -> None:
    """Note that a batch is over."""
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
