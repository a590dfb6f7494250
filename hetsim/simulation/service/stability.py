"""Whether a model keeps up with its requests over a run: stable, backlogged or overloaded."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

State = Literal["stable", "backlogged", "overloaded"]
STATES: tuple[State, ...] = ("stable", "backlogged", "overloaded")
"""From the best to the worst."""

Seconds: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

LATELY = 0.1
"""The last part of a run, which tells what still comes: a trace may have ended before it."""

SIGMAS = 3.0
"""Deviations that chance alone may make a backlog of, before it counts as one."""


@dataclass(frozen=True, slots=True)
class Stability:
    """What a run says of how a model keeps up.

    Attributes
    ----------
    state : "stable", "backlogged" or "overloaded"
    caught_up_s : float
        When a request last found nothing to wait for; the start where none did.
    backlog : int
        Requests that had come since then and were not answered when the last one came.
    offered_per_s : float
        Requests a second that come at the end of the run: as their arrivals state it.
    carried_per_s : float
        Requests a second that were answered from `caught_up_s` until the last one came; NaN
        where that is no time.
    """

    state: State
    caught_up_s: float
    backlog: int
    offered_per_s: float
    carried_per_s: float


def stability_of(
    arrival_s: Seconds,
    finish_s: Seconds,
    fresh: np.ndarray[Any, np.dtype[np.bool_]],
    offered_per_s: float | None,
) -> Stability:
    """Return whether a model kept up with the requests of a run.

    It is *stable* where requests found nothing to wait for in the second half of the run still,
    or where it since answered all that came but for what chance makes: what is left of n requests
    deviates by the root of n times the squared variations of gaps between arrivals and between
    answers. Else it was busy all the time since it last caught up, so what it answered since
    then is what it carries. It is *overloaded* where requests come faster than that over a
    long time, and *backlogged* where they do not: so many came at once, or the run is short.
    What was rejected is not answered.

    Parameters
    ----------
    arrival_s, finish_s : float64[requests]
        In the order of arrival; NaN for the end of what was rejected.
    fresh : bool[requests]
    offered_per_s : float, optional
        As their arrivals state it from ``lately_s`` on. Absent: as many as came, of clients
        among others; they never overload on their own.

    Complexity: O(n log n).
    """
    first_s, last_s = float(arrival_s[0]), float(arrival_s[-1])
    begins = np.flatnonzero(fresh)
    caught_up_s = float(arrival_s[begins[-1]]) if len(begins) else first_s
    long_s = last_s - first_s
    came = offered_per_s if offered_per_s is not None else _rate(len(arrival_s) - 1, long_s)
    since_s = last_s - caught_up_s
    ends = np.sort(finish_s[(finish_s > caught_up_s) & (finish_s <= last_s)])
    since = arrival_s >= caught_up_s
    left = int(np.count_nonzero(since & ~(finish_s <= last_s)))
    carried = _rate(len(ends), since_s)
    state: State = "stable"
    if since_s > long_s / 2:
        gaps = np.diff(arrival_s[since])
        chance = len(gaps) * (_variation(gaps) + _variation(np.diff(ends)))
        if left > 1 + SIGMAS * math.sqrt(chance):
            state = "overloaded" if came > carried else "backlogged"
    return Stability(state, caught_up_s, left, came, carried)


def lately_s(arrival_s: Seconds) -> float:
    """Return since when requests tell what still comes."""
    first_s, last_s = float(arrival_s[0]), float(arrival_s[-1])
    return last_s - LATELY * (last_s - first_s)


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds > 0 else math.nan


def _variation(gaps: Seconds) -> float:
    """Squared coefficient of variation; 0 of fewer than two gaps."""
    mean = float(gaps.mean()) if len(gaps) > 1 else 0.0
    return float(gaps.var()) / mean**2 if mean else 0.0
