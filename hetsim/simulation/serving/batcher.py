"""Batching by Triton's rules for the next batch.

Follows its documentation and scheduler
(https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/batcher.html) for
requests of batch size 1, with a batch formed when an instance can take it. The batcher walks over
the waiting requests by priority level, timed-out ones last within a level, until a batch of the
largest size is full or an input shape differs. Requests found to have timed out are rejected, or
moved to the end. Then

- a batch of the largest preferred size that it passed goes, unless the oldest request that it
  passed has waited the delay;
- else all that it passed goes, where it could not pass more, the delay is over or there is none;
- else all wait, until the oldest has waited the delay, or one has waited too long.

In the subset of Python that numba compiles.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hetsim.simulation.serving.setup import Lengths
from hetsim.simulation.serving.tables import (
    BEST,
    BINS,
    CLOSED,
    CLOSEST,
    EXPIRED,
    OLDEST_CAME,
    PENDING,
    SOONEST,
    TOLD,
    WINDOWS,
    Flow,
    RequestRecords,
    Setup,
    Spans,
)


def append(flow: Flow, records: RequestRecords, line: int, request: int) -> None:
    """Append a request to a line: a queue, or its timed-out requests."""
    told = flow.counts[TOLD]
    records.following[request - told] = -1
    last = flow.tail[line]
    if last < 0:
        flow.head[line] = request
    else:
        records.following[last - told] = request
    flow.tail[line] = request


def unlink(flow: Flow, records: RequestRecords, line: int, before: int, request: int) -> None:
    """Remove a request from a line; `before` is its predecessor, or -1 for none."""
    told = flow.counts[TOLD]
    following = records.following[request - told]
    if before < 0:
        flow.head[line] = following
    else:
        records.following[before - told] = following
    if following < 0:
        flow.tail[line] = before


def walk(
    setup: Setup,
    flow: Flow,
    records: RequestRecords,
    model: int,
    now: float,
    just_after: bool,
) -> int:
    """Walk over the waiting requests; return the first that was rejected, or -1.

    The findings are in the flow's counts and times; rejected requests are linked by
    ``RequestRecords.following``. O(largest batch + timed-out requests).
    """
    counts, told = flow.counts, flow.counts[TOLD]
    timeout, largest, liked = setup.timeout[model], setup.largest[model], setup.liked_at[model]
    pending, best, closed, variant = 0, 0, 0, -1
    oldest, closest = math.inf, math.inf
    first, last = -1, -1
    for line in range(2 * setup.queue_at[model], 2 * setup.queue_at[model + 1]):
        before = -1
        request = flow.head[line]
        while request >= 0 and closed == 0:
            place = request - told
            following = records.following[place]
            came = records.arrival[place]
            deadline = came + timeout
            timely = line & 1 == 0
            if timely and (deadline < now or (just_after and deadline == now)):
                unlink(flow, records, line, before, request)
                if setup.delays[model] > 0:
                    append(flow, records, line + 1, request)
                else:
                    flow.queued[line >> 1] -= 1
                    records.why[place] = EXPIRED
                    records.following[place] = -1
                    if last < 0:
                        first = request
                    else:
                        records.following[last - told] = request
                    last = request
                request = following
                continue
            if pending == largest or (pending > 0 and records.variant[place] != variant):
                closed = 1
                continue
            variant = records.variant[place]
            pending += 1
            if setup.liked[liked + pending] > 0:
                best = pending
            oldest = min(oldest, came)
            if timely:
                closest = min(closest, deadline)
            before = request
            request = following
        if closed > 0:
            break
    counts[PENDING], counts[BEST], counts[CLOSED] = pending, best, closed
    flow.times[OLDEST_CAME], flow.times[CLOSEST] = oldest, closest
    return first


def decide(setup: Setup, flow: Flow, model: int, now: float) -> int:
    """Return how many requests found by ``walk`` go now."""
    counts = flow.counts
    pending, delay = counts[PENDING], setup.delay[model]
    waited = delay > 0.0 and now >= flow.times[OLDEST_CAME] + delay
    if counts[BEST] > 0 and not waited:
        return counts[BEST]
    if counts[CLOSED] > 0 or waited or delay == 0.0:
        return pending
    return 0


def wait(setup: Setup, flow: Flow, model: int, now: float) -> bool:
    """Set the batcher's timer to the end of the delay found by ``walk``, or the next timeout.

    Return whether that is later than now.
    """
    until = min(flow.times[OLDEST_CAME] + setup.delay[model], flow.times[CLOSEST])
    if until <= now:
        return False
    flow.timer[model] = until
    flow.times[SOONEST] = min(flow.times[SOONEST], until)
    return True


def take_first(setup: Setup, flow: Flow, records: RequestRecords, model: int, size: int) -> int:
    """Remove the first `size` waiting requests; return the first, which links to the others."""
    told = flow.counts[TOLD]
    first, last = -1, -1
    line = 2 * setup.queue_at[model]
    for _ in range(size):
        while flow.head[line] < 0:
            line += 1
        request = flow.head[line]
        unlink(flow, records, line, -1, request)
        flow.queued[line >> 1] -= 1
        records.following[request - told] = -1
        if last < 0:
            first = request
        else:
            records.following[last - told] = request
        last = request
    return first


def account(flow: Any, spans: Spans, model: int, now: float) -> None:
    """Account for the time since the last call, before a change. O(windows passed)."""
    since = spans.since[model]
    if now <= since:
        return
    waiting, inside = flow.waiting[model], flow.inside[model]
    kept = waiting if waiting < BINS - 1 else BINS - 1
    spans.at_length[model * BINS + kept] += now - since
    edge = spans.length[1] + (spans.window[model] + 1) * spans.length[0]
    while edge < now:
        if edge > since:
            at = model * WINDOWS + spans.window[model]
            spans.waiting[at] += waiting * (edge - since)
            spans.inside[at] += inside * (edge - since)
            since = edge
        if spans.window[model] == WINDOWS - 1:
            double(spans)
        else:
            spans.window[model] += 1
        edge = spans.length[1] + (spans.window[model] + 1) * spans.length[0]
    at = model * WINDOWS + spans.window[model]
    spans.waiting[at] += waiting * (now - since)
    spans.inside[at] += inside * (now - since)
    spans.since[model] = now


def double(spans: Spans) -> None:
    """Double the length of each window. O(windows)."""
    half = WINDOWS // 2
    for model in range(len(spans.window)):
        row = model * WINDOWS
        for at in range(half):
            spans.waiting[row + at] = spans.waiting[row + 2 * at] + spans.waiting[row + 2 * at + 1]
            spans.inside[row + at] = spans.inside[row + 2 * at] + spans.inside[row + 2 * at + 1]
        for at in range(half, WINDOWS):
            spans.waiting[row + at] = 0.0
            spans.inside[row + at] = 0.0
        spans.window[model] //= 2
    spans.length[0] *= 2.0


def lengths_of(present: Any, spans: Any, now_s: float) -> Lengths:
    """Return the counts up to now."""
    models = len(spans.since)
    for model in range(models):
        account(present, spans, model, now_s)
    used = max(spans.window) + 1
    waiting, inside = (
        np.array(part).reshape(models, WINDOWS).T[:used].copy()
        for part in (spans.waiting, spans.inside)
    )
    at_length = np.array(spans.at_length).reshape(models, BINS)
    window_s, begin_s = map(float, spans.length)
    return Lengths(begin_s, window_s, waiting, inside, at_length)
