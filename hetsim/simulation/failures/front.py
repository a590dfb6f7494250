"""Queues of plans under load, as the failure of a device changes them.

On the tables of ``hetsim.simulation.serving``, lists or arrays, between two moments.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from hetsim.simulation.serving.driver import mark
from hetsim.simulation.serving.tables import TOLD, Batches, Flow, Records, Setup, requests_of


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
