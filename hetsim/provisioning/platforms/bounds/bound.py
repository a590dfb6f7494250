"""Bounds on vectors, linear in counts: required devices, and useful capacity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hetsim.provisioning.platforms.question import Arrivals, Question
from hetsim.provisioning.platforms.vectors import Test

By = Literal["needs", "rate", "window", "pooled"]

Slos = Sequence[int | None]
"""Index of the objective that counts by stream; None: none."""

Prices = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Price of a second by resource, and minimum price of a request by class."""

LENGTHS = 1.15
"""Ratio of consecutive window lengths."""

MOST = 16
"""Maximum number of device choices, one per useful way, considered for an objective."""


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """Condition on a vector: ``sum n_k c_k >= least``, c_k over all devices and links of a kind.

    `capacity` [resources] is the contribution of one device or link, `worth` [classes] the price of
    one request. `slo` is the objective of each stream that requires it. `window` has the first and
    last request of a window, `ask` that of ``needs``. With random requests, it is wrong with
    probability at most `error`, based on the first `requests`.
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
        """Bound as a test of counts."""
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


def limits_s(question: Question, slo: Slos) -> NDArray[np.float64]:
    """Return by class its longest latency limit; NaN without one."""
    found = np.full(len(question.classes), np.nan)
    for ask in question.asks:
        which = slo[ask.stream]
        if which is not None:
            limit_s = question.streams[ask.stream].slos[which].latency_s
            found[ask.of_class] = np.fmax(found[ask.of_class], limit_s)
    return found


def judged(question: Question, slo: Slos, arrivals: Arrivals) -> NDArray[np.bool_]:
    """Return by request whether its stream's objective counts and it is after the warm-up."""
    counts = np.array([slo[ask.stream] is not None for ask in question.asks])
    found: NDArray[np.bool_] = counts[arrivals.ask] & (arrivals.time_s >= question.warm_up_s)
    return found


def most_late(requests: int, share: float) -> int:
    """Return the allowed late requests of N: the largest L with N - L >= share * N, in floats."""
    late = int(requests - np.ceil(share * requests)) + 1
    while late > 0 and requests - late < share * requests:
        late -= 1
    return max(late, 0)


def late_allowed(
    question: Question, slo: Slos, arrivals: Arrivals
) -> Iterator[tuple[NDArray[np.bool_], int]]:
    """Yield, by stream with an objective, its judged requests and how many may be late."""
    counts = judged(question, slo, arrivals)
    stream_of = np.array([ask.stream for ask in question.asks])[arrivals.ask]
    for at, which in enumerate(slo):
        if which is not None:
            mine = counts & (stream_of == at)
            yield mine, most_late(int(mine.sum()), question.streams[at].slos[which].share)


def choices(question: Question) -> tuple[tuple[int | None, ...], ...]:
    """Return the objectives used for bounds: of all streams, and of each alone.

    If streams have several, the first of each together, then the second, and so on.
    """
    each = [len(stream.slos) for stream in question.streams]
    found: list[tuple[int | None, ...]] = [
        tuple(min(place, count - 1) if count else None for count in each)
        for place in range(max(each))
    ]
    found += [
        tuple(place if k == at else None for k in range(len(each)))
        for at, count in enumerate(each)
        for place in range(count)
    ]
    return tuple(dict.fromkeys(found))


# Required devices


def needs(question: Question) -> Iterator[Bound]:
    """Yield, for each ask and objective, the requirement of a device that answers it in time.

    *Proof.* One device, or several together, has no way for a class within a limit if it lacks an
    op or the memory, or if one request alone takes longer in every batch size, with links that
    carry any number of transfers, as no batch is answered sooner than one request. Then each
    request of the ask that it serves is late or not served. A vector with a useful way has all of
    its devices, and so the one chosen from it: a device that counts 1, or the m of a type that the
    way takes, which count 1/m each. Without a useful way all requests of the ask are late; the
    bound is made only for asks above the allowed late share.
    """
    empty = np.zeros(0)
    for at, ask in enumerate(question.asks):
        stream = question.streams[ask.stream]
        for place, slo in enumerate(stream.slos):
            if not more_than_late(question, at, slo.share):
                continue
            chosen = tuple(place if k == ask.stream else None for k in range(len(question.streams)))
            for able in _choices(question, ask.of_class, slo.latency_s):
                capacity = np.zeros(question.resources)
                for of_type, counts in able:
                    capacity[of_type] = counts
                yield Bound("needs", capacity, 1.0, chosen, empty, ask=at)


Able = tuple[tuple[int, float], ...]
"""Device types, ascending, with the contribution of one of each."""


def _choices(question: Question, of_class: int, limit_s: float) -> list[Able]:
    """Return sets of device types with one of each useful way, and their contributions."""

    def within(one: Able, other: Able) -> bool:
        has = dict(other)
        return all(has.get(of_type, 0.0) >= counts for of_type, counts in one)

    found = {
        tuple(
            (of_type, 1.0)
            for of_type in range(len(question.types))
            if question.useful(of_type, of_class, limit_s)
        )
    }
    ways = set()
    for split in question.splits:
        if any(way.alone_s <= limit_s for way in split.ways.get(of_class, ())):
            types = question.types_of(split)
            ways.add(tuple(sorted((one, 1.0 / types.count(one)) for one in set(types))))
    for way in sorted(ways):
        further = set()
        for able in found:
            if any(within((one,), able) for one in way):
                further.add(able)
            else:
                further |= {tuple(sorted({**dict(able), p: counts}.items())) for p, counts in way}
        least = {
            able
            for able in further
            if not any(one != able and within(one, able) for one in further)
        }
        # Fewer choices exclude fewer vectors, and none that other choices do not exclude.
        found = set(sorted(least)[:MOST])
    return sorted(found)


def more_than_late(question: Question, at: int, share: float) -> bool:
    """Return whether an ask alone exceeds the late share allowed for its stream."""
    mine = question.asks[at]
    siblings = [k for k, one in enumerate(question.asks) if one.stream == mine.stream]
    if question.arrivals is None:
        rates = [question.asks[k].rate_per_s or 0.0 for k in siblings]
        return (mine.rate_per_s or 0.0) > (1 - share) * sum(rates)
    judged = question.arrivals.ask[question.arrivals.time_s >= question.warm_up_s]
    own = int((judged == at).sum())
    return own > most_late(int(np.isin(judged, siblings).sum()), share)


# Useful capacity


def bound_of(question: Question, slo: Slos, prices: Prices) -> Bound | None:
    """Return the bound of given prices; None if they require nothing.

    *Proof.* A device runs as many subgraphs at once as it has streams, a link carries one transfer
    at a time: in a second a resource r gathers ``capacity[r]`` at most. A request of class c that
    is answered in time was in a batch of b that ran in a useful way, on one device or over several,
    between the request's arrival and its limit; its part of what that takes of all resources,
    ``uses / b``, is worth ``worth[c]`` or more by the choice of `worth`. So what is answered in
    time within a window is worth no more than the vector gathers in it: ``sum n_k c_k`` times its
    length, c_k of all devices and links of a kind.

    *In the long run* the share of each stream that is to be on time comes at its rate; of its
    classes those that are worth most may be late. *Of given requests* those that come from one to
    another are answered, if in time, before the last of them came and the longest latency passed:
    their worth, less the most that may be late of each stream, is gathered in that time.
    """
    capacity, worth = prices
    if not np.isfinite(capacity).all():
        return None
    if question.arrivals is None:
        least = in_the_long_run(question, slo, worth)
        found = Bound("rate", capacity, least, tuple(slo), worth)
    else:
        least, window = _busiest(question, slo, worth)
        found = Bound("window", capacity, least, tuple(slo), worth, window)
    return found if found.least > 0 else None


def in_the_long_run(question: Question, slo: Slos, worth: NDArray[np.float64]) -> float:
    """Return the price per second of requests that must be on time in the long run."""
    total = 0.0
    for at, which in enumerate(slo):
        if which is None:
            continue
        mine = [ask for ask in question.asks if ask.stream == at]
        rates = [ask.rate_per_s or 0.0 for ask in mine]
        each = [float(worth[ask.of_class]) for ask in mine]
        share = question.streams[at].slos[which].share
        total += sum(r * w for r, w in zip(rates, each, strict=True))
        total -= (1 - share) * sum(rates) * max(each)
    return total


def _busiest(
    question: Question, slo: Slos, worth: NDArray[np.float64]
) -> tuple[float, tuple[int, int]]:
    """Return the window with the highest price per second, and its first and last request."""
    arrivals = question.arrivals
    assert arrivals is not None
    each, spared = _needed(question, slo, worth)
    limit_s = float(np.nanmax(limits_s(question, slo)))
    rows = np.flatnonzero(judged(question, slo, arrivals))
    if not len(rows):
        return 0.0, (0, 0)
    time_s = arrivals.time_s[rows]
    sums = np.concatenate([[0.0], np.cumsum(each[rows])])
    best, window = 0.0, (0, 0)
    for length in _lengths(len(rows)):
        last = np.arange(length - 1, len(rows))
        first = last - length + 1
        value = (sums[last + 1] - sums[first] - spared) / (time_s[last] + limit_s - time_s[first])
        at = int(value.argmax())
        if value[at] > best:
            best, window = float(value[at]), (int(rows[first[at]]), int(rows[last[at]]))
    return best * (1 - 1e-12), window


def in_window(
    question: Question,
    slo: Slos,
    worth: NDArray[np.float64],
    window: tuple[int, int],
) -> float:
    """Return the price per second of requests that must be on time between two requests."""
    assert question.arrivals is not None
    first, last = window
    each, spared = _needed(question, slo, worth)
    time_s = question.arrivals.time_s
    limit_s = float(np.nanmax(limits_s(question, slo)))
    total = float(each[first : last + 1].sum()) - spared
    return total / float(time_s[last] + limit_s - time_s[first])


def _needed(
    question: Question, slo: Slos, worth: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """Return the price of each judged request, and the maximum price of late ones."""
    arrivals = question.arrivals
    assert arrivals is not None
    class_of = np.array([ask.of_class for ask in question.asks])
    counts = judged(question, slo, arrivals)
    each = np.where(counts, worth[class_of[arrivals.ask]], 0.0)
    late = late_allowed(question, slo, arrivals)
    return each, sum(many * float(each[mine].max(initial=0.0)) for mine, many in late)


def _lengths(most: int) -> list[int]:
    found, length = set(), float(most)
    while length >= 1:
        found.add(int(length))
        length /= LENGTHS
    return sorted(found)
