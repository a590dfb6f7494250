"""Where a request ends first, of replicas that share nothing: told without trying any.

Of a replica whose tasks have a resource each, to themselves, the end of a request is the later of
two: that of one that came long ago, which is known since the replica was last given one, and that
of one that comes now to nobody. All that happens to times is ``max`` and the addition of durations,
always in the same order, and ``max(a, b) + d`` is ``max(a + d, b + d)``, of floats too: to the last
bit. So a request costs a comparison for each replica, and its tasks once.

In the subset of Python that numba compiles; called as it stands on lists it does the same.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, MutableSequence, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from hetsim.base.machine_code import machine_code
from hetsim.simulation.orders import Order

Ints = MutableSequence[int]
Floats = MutableSequence[float]


class Replicas(NamedTuple):
    """Replicas that share nothing, each of tasks that share nothing.

    Attributes
    ----------
    first, waits_at, waits : [templates + 1], [tasks + 1], [dependencies]
        As ``kernel.Tasks`` has them.
    duration : [tasks]
        Seconds.
    holds : [tasks]
        Whether a task holds anything.
    alike : [templates]
        The first template that takes as long alone, whenever it begins.
    chained : int
        Not 0 where every task waits for the one before it alone.
    clear : [tasks]
        State: when what a task holds is free.
    ended, next_ended : [tasks]
        Room.
    least : [templates]
        State: when a request that came long ago would end.
    alone : [templates]
        Room.
    """

    first: Sequence[int]
    waits_at: Sequence[int]
    waits: Sequence[int]
    duration: Sequence[float]
    holds: Sequence[int]
    alike: Sequence[int]
    chained: int
    clear: Floats
    ended: Floats
    next_ended: Floats
    least: Floats
    alone: Floats


def replicas_of(order: Order, seconds: Any) -> Replicas | None:
    """Return replicas that have run nothing, of arrays; None where tasks share what they hold.

    Complexity: O(tasks, what they wait for and hold).
    """
    if order.watched.any() or len(np.unique(order.held)) < len(order.held):
        return None
    if (order.width[order.held] > 1).any():
        return None
    templates, tasks = len(order.first) - 1, len(seconds)
    seen: dict[object, int] = {}
    alike, chained = [], True
    for at, (begin, end) in enumerate(pairwise(order.first.tolist())):
        waits = [
            tuple((order.waits[a:b] - begin).tolist())
            for a, b in pairwise(order.waits_at[begin : end + 1].tolist())
        ]
        chained &= waits == [(k - 1,) if k else () for k in range(end - begin)]
        alike.append(seen.setdefault((tuple(waits), seconds[begin:end].tobytes()), at))
    parts: Any = (
        order.first,
        order.waits_at,
        order.waits,
        seconds,
        (np.diff(order.held_at) > 0).astype(np.int64),
        np.array(alike, dtype=np.int64),
        int(chained),
        np.full(tasks, -math.inf),
        np.zeros(tasks),
        np.zeros(tasks),
        np.full(templates, -math.inf),
        np.zeros(templates),
    )
    return Replicas._make(parts)


def alone(replicas: Replicas, t: int, came: float) -> float:
    """Return when a request ends that comes now to nobody. O(tasks, what they wait for)."""
    last = came
    for i in range(replicas.first[t], replicas.first[t + 1]):
        if replicas.chained > 0:
            last = last + replicas.duration[i]
            continue
        ready = came
        for k in range(replicas.waits_at[i], replicas.waits_at[i + 1]):
            end = replicas.ended[replicas.waits[k]]
            ready = end if end > ready else ready
        end = ready + replicas.duration[i]
        replicas.ended[i] = end
        last = end if end > last else last
    return last


def run(replicas: Replicas, t: int, came: float) -> tuple[float, float]:
    """Let a request run; return when its first task starts, and when it ends.

    `replicas.least` is then that of the next. O(tasks, what they wait for).
    """
    opened, last, following = math.inf, came, -math.inf
    clear, ended, next_ended = replicas.clear, replicas.ended, replicas.next_ended
    begin, beyond = replicas.first[t], replicas.first[t + 1]
    if replicas.chained > 0:
        for i in range(begin, beyond):
            free = clear[i]
            last = free if free > last else last
            opened = last if i == begin else opened
            last = last + replicas.duration[i]
            if replicas.holds[i] > 0:
                clear[i] = last
                following = last if last > following else following
            following = following + replicas.duration[i]
        replicas.least[t] = following
        return opened, last
    for i in range(begin, beyond):
        ready, next_ready = came, -math.inf
        for k in range(replicas.waits_at[i], replicas.waits_at[i + 1]):
            end = ended[replicas.waits[k]]
            ready = end if end > ready else ready
            end = next_ended[replicas.waits[k]]
            next_ready = end if end > next_ready else next_ready
        start = clear[i] if clear[i] > ready else ready
        end = start + replicas.duration[i]
        if replicas.holds[i] > 0:
            clear[i] = end
            next_ready = end if end > next_ready else next_ready
        ended[i] = end
        next_ended[i] = next_ready + replicas.duration[i]
        opened = start if start < opened else opened
        last = end if end > last else last
        following = next_ended[i] if next_ended[i] > following else following
    replicas.least[t] = following
    return opened, last


def serve_least(
    replicas: Replicas, arrival: Sequence[float], template: Ints, begun: Floats, finish: Floats
) -> None:
    """Play a block of requests, each where it ends first; of equals the lowest template.

    Parameters
    ----------
    replicas
    arrival : [requests]
    template, begun, finish : [requests]
        Out, as ``kernel.serve`` has them.

    Complexity: O(templates + tasks, what they wait for) a request, and O(tasks of those that are
    unlike).
    """
    templates = len(replicas.first) - 1
    for r in range(len(arrival)):
        came = arrival[r]
        best = math.inf
        chosen = 0
        for t in range(templates):
            kin = replicas.alike[t]
            if kin == t:
                replicas.alone[t] = alone(replicas, t, came)
            end = replicas.alone[kin]
            least = replicas.least[t]
            end = least if least > end else end
            if end < best:
                best = end
                chosen = t
        opened, last = run(replicas, chosen, came)
        template[r] = chosen
        begun[r] = came if opened == math.inf else opened
        finish[r] = last


PARTS = (alone, run)
"""What it calls."""


@functools.cache
def compiled() -> Callable[..., None]:
    """Return `serve_least` as machine code for int64 and float64 arrays."""
    return machine_code(serve_least, *PARTS, inline=True)
