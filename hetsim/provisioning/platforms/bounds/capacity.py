"""Useful capacity: more work than devices have time for, in the long run or within a window."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hetsim.provisioning.platforms.bounds.bound import Bound, judged, late_allowed, limits_s
from hetsim.provisioning.platforms.bounds.prices import Prices
from hetsim.provisioning.platforms.question import Question

LENGTHS = 1.15
"""Ratio of the lengths of windows that are looked at."""


def bound_of(question: Question, slo: Sequence[int | None], prices: Prices) -> Bound | None:
    """Return the bound that prices give; None where they ask for nothing.

    *Proof.* A device runs as many subgraphs at once as it has streams, a link carries one transfer
    at a time: in a second a resource r gathers ``capacity[r]`` at most. A request of class c that
    is answered in time was in a batch of b that ran in a useful way, on one device or over several,
    between the request's arrival and its limit; its part of what that takes of all resources,
    ``uses / b``, is worth ``worth[c]`` or more by the choice of `worth`. So what is answered in
    time within a window is worth no more than the vector gathers in it: ``sum n_k c_k`` times its
    length, c_k of all devices and links of a kind.

    *In the long run* the share of each stream that is to be on time comes at its rate; of
    its classes those that are worth most may be late.

    *Of given requests* those that come from one to another are answered, if in time, before the
    last of them came and the longest latency passed: their worth, less the most that may be late of
    each stream, is gathered in that time.
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


def in_the_long_run(
    question: Question, slo: Sequence[int | None], worth: NDArray[np.float64]
) -> float:
    """Worth a second of what must be on time in the long run."""
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
    question: Question, slo: Sequence[int | None], worth: NDArray[np.float64]
) -> tuple[float, tuple[int, int]]:
    """The window whose requests are worth most a second, and its first and last request."""
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
    slo: Sequence[int | None],
    worth: NDArray[np.float64],
    window: tuple[int, int],
) -> float:
    """Worth a second of what must be on time from one request to another."""
    assert question.arrivals is not None
    first, last = window
    each, spared = _needed(question, slo, worth)
    time_s = question.arrivals.time_s
    limit_s = float(np.nanmax(limits_s(question, slo)))
    total = float(each[first : last + 1].sum()) - spared
    return total / float(time_s[last] + limit_s - time_s[first])


def _needed(
    question: Question, slo: Sequence[int | None], worth: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """By request its worth, where it is judged; and the most that late ones are worth."""
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
