"""Queues and instances of plans under load, as the failure of a device changes them.

On the tables of ``hetsim.simulation.serving``, lists or arrays, between two moments.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from hetsim.simulation.serving.driver import mark
from hetsim.simulation.serving.flattening import UNLIMITED
from hetsim.simulation.serving.tables import TOLD, Batches, Flow, Records, Setup, requests_of


def place(
    setup: Setup, flow: Flow, model: int, instances: Sequence[int], taking: Collection[int]
) -> None:
    """Let batches of a model go to some of its instances only. O(instances)."""
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


def take_back(flow: Flow, batches: Batches, records: Records, slot: int, now: float) -> list[int]:
    """Take a batch from its instance as though it had not been sent; return its requests.

    Its model's lengths must be accounted for, and it must be put in its place afterwards.
    """
    model, instance = batches.model[slot], batches.instance[slot]
    flow.in_flight[instance] -= 1
    if flow.in_flight[instance] == 0:
        flow.idle[model] += 1
        flow.free_s[instance] = now
    found = requests_of(flow, batches, records, slot)
    for request in found:
        at = request - flow.counts[TOLD]
        records.sent[at] = math.nan
        records.instance[at] = -1
        records.size[at] = 0
    batches.model[slot] = -1
    return found


def put_first(setup: Setup, flow: Flow, records: Records, requests: Collection[int]) -> None:
    """Put requests at the head of their queues, in the order in which they came."""
    told = flow.counts[TOLD]
    for request in sorted(requests, reverse=True):
        stream = records.stream[request - told]
        model, queue = setup.model_of[stream], setup.queue_of[stream]
        head = flow.head[2 * queue]
        records.following[request - told] = head
        flow.head[2 * queue] = request
        if head < 0:
            flow.tail[2 * queue] = request
        flow.queued[queue] += 1
        flow.waiting[model] += 1
        mark(flow, model)
