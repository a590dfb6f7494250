"""Queue lengths of requests of which all times are known: as ``lengths`` counts them.

In the subset of Python that numba compiles.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from hetsim.base.machine_code import machine_code
from hetsim.simulation.clock.heaps import Ints
from hetsim.simulation.serving.lengths import Present, account, double
from hetsim.simulation.serving.tables import BINS, FULL, WINDOWS, Spans


class Now(NamedTuple):
    """Requests of each model that wait, and that are inside: [models] each."""

    waiting: Ints
    inside: Ints


class Moves(NamedTuple):
    """When requests came, left the queue of their model, and were over: each in order.

    Attributes
    ----------
    came, left, over : [...]
        Seconds.
    came_of, left_of, over_of : [...]
        Which model's each is; ``-1 - model`` of one that was rejected as it came.
    waits : [models]
        Whether what comes waits in the queue first.
    """

    came: Sequence[float]
    came_of: Sequence[int]
    left: Sequence[float]
    left_of: Sequence[int]
    over: Sequence[float]
    over_of: Sequence[int]
    waits: Sequence[int]


def follow(present: Now, spans: Spans, moves: Moves) -> None:
    """Count all moves, as the driver does event by event. O(moves + windows passed)."""
    comes, leaves, ends = 0, 0, 0
    while True:
        came = moves.came[comes] if comes < len(moves.came) else math.inf
        left = moves.left[leaves] if leaves < len(moves.left) else math.inf
        over = moves.over[ends] if ends < len(moves.over) else math.inf
        if over <= came and over <= left:
            if over == math.inf:
                return
            model = moves.over_of[ends]
            account(present, spans, model, over)
            present.inside[model] -= 1
            ends += 1
        elif came <= left:
            model = moves.came_of[comes]
            rejected = model < 0
            if rejected:
                model = -1 - model
            account(present, spans, model, came)
            if not rejected:
                present.inside[model] += 1
                if moves.waits[model] > 0:
                    present.waiting[model] += 1
            comes += 1
        else:
            present.waiting[moves.left_of[leaves]] -= 1
            leaves += 1


def follow_one(
    present: Present,
    spans: Spans,
    model: int,
    came: Sequence[float],
    why: Sequence[int],
    left: Sequence[float],
    over: Sequence[float],
    waits: int,
) -> None:
    """As ``follow``, of one model: most of the time from one move to the next, within a window.

    `why` is what became of each that came: what is FULL was rejected at once. Where there are
    several models, nothing comes to the others.
    """
    comes, leaves, ends = 0, 0, 0
    row, bins = model * WINDOWS, model * BINS
    waiting, inside, since = present.waiting[model], present.inside[model], spans.since[model]
    at = spans.window[model]
    edge = spans.length[1] + (at + 1) * spans.length[0]
    waited, stayed = spans.waiting[row + at], spans.inside[row + at]
    next_came = came[0] if len(came) > 0 else math.inf
    next_left = left[0] if len(left) > 0 else math.inf
    next_over = over[0] if len(over) > 0 else math.inf
    while True:
        now = min(next_came, next_left, next_over)
        if now == math.inf:
            break
        if now > edge:
            present.waiting[model], present.inside[model], spans.since[model] = (
                waiting,
                inside,
                since,
            )
            spans.waiting[row + at], spans.inside[row + at] = waited, stayed
            account(present, spans, model, now)
            since = now
            at = spans.window[model]
            edge = spans.length[1] + (at + 1) * spans.length[0]
            waited, stayed = spans.waiting[row + at], spans.inside[row + at]
        elif now > since:
            spans.at_length[bins + (waiting if waiting < BINS - 1 else BINS - 1)] += now - since
            waited += waiting * (now - since)
            stayed += inside * (now - since)
            since = now
        if next_over == now:
            inside -= 1
            ends += 1
            next_over = over[ends] if ends < len(over) else math.inf
        elif next_came == now:
            if why[comes] != FULL:
                inside += 1
                waiting += waits
            comes += 1
            next_came = came[comes] if comes < len(came) else math.inf
        else:
            waiting -= 1
            leaves += 1
            next_left = left[leaves] if leaves < len(left) else math.inf
    present.waiting[model], present.inside[model], spans.since[model] = waiting, inside, since
    spans.waiting[row + at], spans.inside[row + at] = waited, stayed


PARTS = (double, account)
"""What these call."""


@functools.cache
def compiled() -> Callable[..., None]:
    """Return ``follow`` as machine code. The first call in a process loads numba."""
    return machine_code(follow, *PARTS, inline=True)


@functools.cache
def compiled_one() -> Callable[..., None]:
    """Return ``follow_one`` as machine code. The first call in a process loads numba."""
    return machine_code(follow_one, *PARTS, inline=True)
