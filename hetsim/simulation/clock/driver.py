"""The clock's rules driven by a heap of events: virtual time.

One source serves two ways: called as it stands on lists, which is quickest for one request,
or compiled by numba on arrays, which is quickest for many. Both do the same float additions
and comparisons in the same order, so their results are equal bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from hetsim.simulation.clock.events_of_lists import earliest, put, take
from hetsim.simulation.clock.heaps import Floats, Ints
from hetsim.simulation.clock.rules import (
    ABLE,
    ADMITTED,
    MASK,
    OLDEST,
    RUNS,
    SHIFT,
    STARTING,
    State,
    Structure,
    admit,
    end,
    queue,
    starts,
)

OVER, MOMENT, CROWDED, LOGGED = 0, 1, 2, 3
"""Why ``advance`` returns: nothing happens any more; it is `until_s`; no slot or line is free."""


class Requests(NamedTuple):
    """Those that come.

    Attributes
    ----------
    arrival : [requests]
        Seconds, ascending.
    template, rank : [requests]
    finish : [requests]
        Out: when the request's last task ended; untouched where it never did.
    """

    arrival: Sequence[float]
    template: Sequence[int]
    rank: Sequence[int]
    finish: Floats


class Log(NamedTuple):
    """What started, in that order: its code, when, and on which stream.

    `size` [1] lines are written; where there are none, nothing is logged.
    """

    code: Ints
    start: Floats
    stream: Ints
    size: Ints


def advance(
    structure: Structure,
    state: State,
    duration: Sequence[float],
    requests: Requests,
    events: Any,
    now_s: Floats,
    until_s: float,
    log: Log,
) -> int:
    """Let time go on from ``now_s[0]``, and tell there how far it came.

    To be called again where it returns before all is OVER: at MOMENT, when all has ended and
    come that does at `until_s`, and nothing has started on devices since; where there is no slot
    for one more request, CROWDED, or no line for what starts, LOGGED, with more of them.
    O(log (tasks that run + requests in flight)) a task.
    """
    count, slots = state.counts, state.window - 1
    arrival, finish = requests.arrival, requests.finish
    total = len(arrival)
    lines = len(log.code)
    now = now_s[0]
    ending = earliest(events)
    coming = arrival[count[ADMITTED]] if count[ADMITTED] < total else math.inf
    while True:
        while True:
            if lines > 0 and lines - log.size[0] < len(state.starting):
                return LOGGED
            if ending == now:
                code = take(events)
                if end(structure, state, code >> SHIFT, code & MASK):
                    finish[code >> SHIFT] = now
            elif coming == now:
                request = count[ADMITTED]
                if request - count[OLDEST] > slots:
                    return CROWDED
                over = admit(
                    structure, state, request, requests.template[request], requests.rank[request]
                )
                if over:
                    finish[request] = now
                coming = arrival[request + 1] if request + 1 < total else math.inf
            elif now == until_s:
                return MOMENT
            elif count[ABLE] > 0:
                starts(structure, state)
            else:
                break
            if count[STARTING] > 0:
                launch(state, duration, events, now, log)
            ending = earliest(events)
        now = ending
        if coming < now:
            now = coming
        if until_s < now:
            now = until_s
        if now == math.inf:
            return OVER
        now_s[0] = now


def again(
    structure: Structure,
    state: State,
    duration: Sequence[float],
    requests: Sequence[int],
    templates: Sequence[int],
    ranks: Sequence[int],
    kept: Sequence[int],
    events: Any,
    now: float,
    log: Log,
) -> None:
    """Admit requests once more, each with its template, and queue transfers that were kept back."""
    for k in range(len(requests)):
        admit(structure, state, requests[k], templates[k], ranks[k])
        launch(state, duration, events, now, log)
    for k in range(len(kept)):
        request = kept[k] >> SHIFT
        queue(structure, state, request & (state.window - 1), request, kept[k] & MASK)
        launch(state, duration, events, now, log)


def launch(state: State, duration: Sequence[float], events: Any, now: float, log: Log) -> None:
    """Put up the ends of what starts now. O(log events) each."""
    count, starting = state.counts, state.starting
    for k in range(count[STARTING]):
        code = starting[k]
        put(events, now + duration[code & MASK], code)
        if len(log.code) > 0:
            line = log.size[0]
            place = state.base[(code >> SHIFT) & (state.window - 1)] + (code & MASK)
            log.code[line] = code
            log.start[line] = now
            log.stream[line] = RUNS - state.pending[place]
            log.size[0] = line + 1
    count[STARTING] = 0
