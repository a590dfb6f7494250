"""What nothing but some devices can do, in time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hetsim.recommending.bounds.bound import Bound, most_late
from hetsim.recommending.question import Question


def needs(question: Question) -> Iterator[Bound]:
    """Yield, for each ask and objective, that one device is there that answers it in time.

    *Proof.* A device has no way for a class within a limit where it lacks an op or the memory, or
    where one request alone takes longer than that in every batch size: with links that carry
    any number of transfers, and no batch answers sooner than one request. Then each request of
    the ask that it serves is late, or not served. Without any other device all of the ask's are,
    which is more than may be: it is only said of asks that are more than that.
    """
    empty = np.zeros(0)
    for at, ask in enumerate(question.asks):
        stream = question.streams[ask.stream]
        for place, slo in enumerate(stream.slos):
            if not _counts(question, at, slo.share):
                continue
            able = [
                float(bool(question.useful(of_type, ask.of_class, slo.latency_s)))
                for of_type in range(len(question.types))
            ]
            chosen = tuple(place if k == ask.stream else None for k in range(len(question.streams)))
            yield Bound("needs", np.array(able), 1.0, chosen, empty, ask=at)


def _counts(question: Question, at: int, share: float) -> bool:
    """Whether an ask alone is more than may be late of its stream."""
    mine = question.asks[at]
    siblings = [k for k, one in enumerate(question.asks) if one.stream == mine.stream]
    if question.arrivals is None:
        rates = [question.asks[k].rate_per_s or 0.0 for k in siblings]
        return (mine.rate_per_s or 0.0) > (1 - share) * sum(rates)
    judged = question.arrivals.ask[question.arrivals.time_s >= question.warm_up_s]
    own = int((judged == at).sum())
    return own > most_late(int(np.isin(judged, siblings).sum()), share)
