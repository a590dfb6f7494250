"""One bound: what each device and link adds, and what is needed at least."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hetsim.provisioning.platforms.question import Arrivals, Question
from hetsim.provisioning.platforms.vectors import Test

By = Literal["needs", "rate", "window", "pooled"]


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """What a vector must have: ``sum n_k c_k >= least``, c_k of all devices and links of a kind.

    Attributes
    ----------
    by : "needs", "rate", "window" or "pooled"
    capacity : float array [resources]
        What one device or link adds.
    least : float
    slo : tuple of int or None
        By stream: which of its objectives is not met otherwise; None: none of them counts.
    worth : float array [classes]
        What one request needs of it, by class; empty where that is not asked.
    window : tuple of int
        The first and the last request whose needs are added up, of a window.
    ask : int
        Of ``needs``; else -1.
    error : float
        What it may be wrong by, where it rests on drawn requests.
    requests : int
        The first so many of these.
    """

    by: By
    capacity: NDArray[np.float64]
    least: float
    slo: tuple[int | None, ...]
    worth: NDArray[np.float64]
    window: tuple[int, int] = (0, 0)
    ask: int = -1
    error: float = 0.0
    requests: int = 0

    def test(self, question: Question) -> Test:
        """Return it as a test of counts."""
        each = [
            sum(float(self.capacity[one]) for one in question.resources_of(kind))
            for kind in range(len(question.kinds))
        ]
        devices = [
            (float(self.capacity[of_type]), kind)
            for kind, one in enumerate(question.kinds)
            for of_type in one.devices
        ]
        most_first = tuple(sorted(devices, key=lambda row: (-row[0], row[1])))
        alone = not self.capacity[len(question.types) :].any()
        return Test(np.array(each), self.least, question.losses, most_first, alone)


def limits_s(question: Question, slo: Sequence[int | None]) -> NDArray[np.float64]:
    """By class: the longest latency of what is asked of it; NaN where nothing is."""
    found = np.full(len(question.classes), np.nan)
    for ask in question.asks:
        which = slo[ask.stream]
        if which is not None:
            limit_s = question.streams[ask.stream].slos[which].latency_s
            found[ask.of_class] = np.fmax(found[ask.of_class], limit_s)
    return found


def judged(question: Question, slo: Sequence[int | None], arrivals: Arrivals) -> NDArray[np.bool_]:
    """By request: whether it is of a stream whose objective counts, and not of the warm-up."""
    counts = np.array([slo[ask.stream] is not None for ask in question.asks])
    found: NDArray[np.bool_] = counts[arrivals.ask] & (arrivals.time_s >= question.warm_up_s)
    return found


def most_late(requests: int, share: float) -> int:
    """Return how many of so many requests may be late: the most L with N - L >= share * N."""
    late = int(requests - np.ceil(share * requests))
    while requests - (late + 1) >= share * requests:
        late += 1
    while late > 0 and requests - late < share * requests:
        late -= 1
    return max(late, 0)


def late_allowed(
    question: Question, slo: Sequence[int | None], arrivals: Arrivals
) -> Iterator[tuple[NDArray[np.bool_], int]]:
    """Yield, by stream whose objective counts, its judged requests and how many may be late."""
    counts = judged(question, slo, arrivals)
    stream_of = np.array([ask.stream for ask in question.asks])[arrivals.ask]
    for at, which in enumerate(slo):
        if which is not None:
            mine = counts & (stream_of == at)
            yield mine, most_late(int(mine.sum()), question.streams[at].slos[which].share)


def choices(question: Question) -> tuple[tuple[int | None, ...], ...]:
    """Return which objectives bounds are made of: of all streams, and of each alone.

    Where streams have several, the first of each together, then the second, and so on.
    """
    each = [len(stream.slos) for stream in question.streams]
    found: dict[tuple[int | None, ...], None] = {}
    for place in range(max(each)):
        found[tuple(min(place, count - 1) if count else None for count in each)] = None
    for at, count in enumerate(each):
        for place in range(count):
            found[tuple(place if k == at else None for k in range(len(each)))] = None
    return tuple(found)
