"""Requests of one model that pass its gates one after another, and run without a heap of events.

What ``driver`` and ``routing`` do event by event, said request by request: where requests go one
by one in the order in which they came, when each goes and to which instance follows from when
those before it end. What their tasks do follows by ``hetsim.simulation.recursion``.

In the subset of Python that numba compiles: on lists as it stands, on arrays compiled.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from hetsim.base.machine_code import machine_code
from hetsim.simulation.clock.heaps import Floats, Ints
from hetsim.simulation.recursion.kernel import (
    PARTS,
    Queues,
    Streams,
    Tasks,
    enter,
    play,
    release,
    settle,
)
from hetsim.simulation.serving.tables import (
    EXPIRED,
    FULL,
    LEAST_FINISH,
    ROUND_ROBIN,
    SERVED,
    SHORTEST_QUEUE,
)


class Gates(NamedTuple):
    """Instances of a model and its queue.

    Attributes
    ----------
    table : [variants, instances]
        Templates.
    limit : [instances]
        Requests that each takes at a time; 0: any number.
    cycle : [turns]
        Instances in the order of round robin.
    alone, load : [templates]
        As ``tables.Setup`` has them.
    routing, gated, room : int
        As there.
    timeout : float
    free, last : [instances]
        State: when it could begin one more, were it alone; when what it got last ends.
    turn : [1]
        State: of round robin.
    left : [1]
        State: when a request last left the queue.
    """

    table: Sequence[int]
    limit: Sequence[int]
    cycle: Sequence[int]
    alone: Sequence[float]
    load: Sequence[float]
    routing: int
    gated: int
    room: int
    timeout: float
    free: Floats
    last: Floats
    turn: Ints
    left: Floats


class Passed(NamedTuple):
    """What became of requests, and when each left the queue; NaN where it never was in it.

    Attributes
    ----------
    left, begun, finish : [requests]
    instance, why, fresh : [requests]
        As ``outcomes.Outcomes`` has them.
    """

    left: Any
    begun: Any
    finish: Any
    instance: Any
    why: Any
    fresh: Any


def opening(gates: Gates, inside: Queues, now: float) -> float:
    """Return when an instance takes one more, `now` where one does. O(instances)."""
    first = math.inf
    for k in range(len(gates.limit)):
        if gates.limit[k] == 0 or inside.size[k] < gates.limit[k]:
            return now
        if inside.next_end[k] < first:
            first = inside.next_end[k]
    return first


def chosen(gates: Gates, inside: Queues, variant: int, now: float) -> int:
    """Return the instance, one of those that take one more: as ``routing.choose`` does it."""
    instances = len(gates.limit)
    if gates.routing == ROUND_ROBIN:
        turns = len(gates.cycle)
        turn = gates.turn[0]
        k = gates.cycle[turn]
        while gates.limit[k] > 0 and inside.size[k] >= gates.limit[k]:
            turn = turn + 1 if turn + 1 < turns else 0
            k = gates.cycle[turn]
        gates.turn[0] = turn + 1 if turn + 1 < turns else 0
        return k
    best = -1
    least = math.inf
    for k in range(instances):
        if gates.limit[k] > 0 and inside.size[k] >= gates.limit[k]:
            continue
        if gates.routing == SHORTEST_QUEUE:
            if best < 0 or inside.size[k] < inside.size[best]:
                best = k
        else:
            end = ready(gates, inside, k, now) + gates.alone[gates.table[variant * instances + k]]
            if best < 0 or end < least:
                best, least = k, end
    return best


def ready(gates: Gates, inside: Queues, k: int, now: float) -> float:
    """Return when an instance could begin one more, were it alone with what it got before."""
    if inside.size[k] > 0 and gates.free[k] > now:
        return gates.free[k]
    return now


def go(
    tasks: Tasks,
    streams: Streams,
    gates: Gates,
    inside: Queues,
    waiting: Queues,
    arrival: Sequence[float],
    variant: Sequence[int],
    passed: Passed,
) -> int:
    """Play a block of requests; return how many, fewer than all where only the heap knows.

    Parameters
    ----------
    tasks, streams, gates
    inside : Queues
        Of those that each instance has, when they end.
    waiting : Queues
        Of those that wait, in one queue, when they leave it; only where `gates.room` limits them.
    arrival, variant : [requests]
    passed
        Out.

    Complexity: that of ``recursion.kernel.play`` and O(instances) a request.
    """
    instances = len(gates.limit)
    for r in range(len(arrival)):
        came = arrival[r]
        idle = False
        for k in range(instances):
            # What takes no time ends after those that come at the same time.
            if tasks.instant > 0 and inside.next_end[k] == came:
                return r
        settle(inside, came)
        for k in range(instances):
            if inside.size[k] == 0:
                idle = True
        passed.why[r] = SERVED
        passed.instance[r] = -1
        passed.left[r] = math.nan
        passed.begun[r] = math.nan
        passed.finish[r] = math.nan
        # Batchers look when all that comes at one time has come.
        passed.fresh[r] = 1 if idle and (gates.gated == 0 or gates.left[0] < came) else 0
        now = came
        if gates.gated > 0:
            if gates.room >= 0:
                while waiting.next_end[0] < came:
                    release(waiting, 0)
                if waiting.size[0] >= gates.room:
                    passed.why[r] = FULL
                    passed.fresh[r] = 0
                    continue
            if gates.left[0] > came:
                now = gates.left[0]
            expired = came + gates.timeout < now
            if not expired:
                settle(inside, now)
                now = opening(gates, inside, now)
                expired = came + gates.timeout < now
            gates.left[0] = now
            passed.left[r] = now
            if gates.room >= 0:
                enter(waiting, 0, now)
            if expired:
                passed.why[r] = EXPIRED
                continue
            settle(inside, now)
        k = chosen(gates, inside, variant[r], now)
        t = gates.table[variant[r] * instances + k]
        if gates.routing == LEAST_FINISH:
            gates.free[k] = ready(gates, inside, k, now) + gates.load[t]
        certain, opened, last = play(tasks, streams, t, now)
        if not certain:
            return r
        if tasks.first[t] == tasks.first[t + 1]:
            opened = now
        elif last <= now:
            return r
        # An instance with one that ends before one that it got sooner.
        if inside.size[k] > 0 and last < gates.last[k]:
            return r
        gates.last[k] = last
        enter(inside, k, last)
        passed.left[r] = now
        passed.begun[r] = opened
        passed.finish[r] = last
        passed.instance[r] = k
    return len(arrival)


INLINED = (*PARTS, opening, ready, chosen)


@functools.cache
def compiled() -> Callable[..., int]:
    """Return ``go`` as machine code. The first call in a process loads numba."""
    return machine_code(go, *INLINED, inline=True)
