"""What nothing but some devices can do, in time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hetsim.provisioning.platforms.bounds.bound import Bound, most_late
from hetsim.provisioning.platforms.question import Question

MOST = 16
"""Choices of devices, one of each useful way, that are looked at for one objective."""


def needs(question: Question) -> Iterator[Bound]:
    """Yield, for each ask and objective, that what answers it in time is there.

    *Proof.* A device, or several together, have no way for a class within a limit where they lack
    an op or the memory, or where one request alone takes longer than that in every batch size: with
    links that carry any number of transfers, and no batch answers sooner than one request. Then
    each request of the ask that they serve is late, or not served. A vector that has a useful way
    has all of its devices, so also the one that was chosen of it: one that counts 1, or the m that
    the way takes of a type, which count 1/m each. Without any useful way all requests of the ask
    are late, which is more than may be: it is only said of asks that are more than that.
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


def _choices(
    question: Question, of_class: int, limit_s: float
) -> list[tuple[tuple[int, float], ...]]:
    """Sets of device types that have one of each useful way, with what each counts.

    None of them has another in it, so that together they exclude every vector without a way.
    """
    alone = {
        of_type: 1.0
        for of_type in range(len(question.types))
        if question.useful(of_type, of_class, limit_s)
    }
    ways = set()
    for split in question.splits:
        if any(way.alone_s <= limit_s for way in split.ways.get(of_class, ())):
            types = question.types_of(split)
            ways.add(tuple(sorted((one, 1.0 / types.count(one)) for one in set(types))))
    found = {tuple(sorted(alone.items()))}
    for way in sorted(ways):
        further = set()
        for able in found:
            has = dict(able)
            if any(has.get(of_type, 0.0) >= counts for of_type, counts in way):
                further.add(able)
                continue
            for of_type, counts in way:
                further.add(tuple(sorted({**has, of_type: counts}.items())))
        found = {able for able in further if not any(_within(one, able) for one in further)}
        # Fewer choices exclude less, and nothing that is not excluded by all of them.
        found = set(sorted(found)[:MOST])
    return sorted(found)


def _within(one: tuple[tuple[int, float], ...], other: tuple[tuple[int, float], ...]) -> bool:
    """Whether one choice is another's, with less in it."""
    has = dict(other)
    return one != other and all(has.get(of_type, 0.0) >= counts for of_type, counts in one)


def more_than_late(question: Question, at: int, share: float) -> bool:
    """Whether an ask alone is more than may be late of its stream."""
    mine = question.asks[at]
    siblings = [k for k, one in enumerate(question.asks) if one.stream == mine.stream]
    if question.arrivals is None:
        rates = [question.asks[k].rate_per_s or 0.0 for k in siblings]
        return (mine.rate_per_s or 0.0) > (1 - share) * sum(rates)
    judged = question.arrivals.ask[question.arrivals.time_s >= question.warm_up_s]
    own = int((judged == at).sum())
    return own > most_late(int(np.isin(judged, siblings).sum()), share)
