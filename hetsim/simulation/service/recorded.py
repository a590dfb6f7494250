"""A run of which only its end is known: what became of each request, and nothing between."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetsim.simulation.serving.batcher import account, lengths_of
from hetsim.simulation.serving.setup import Lengths, Outcomes
from hetsim.simulation.serving.tables import new_spans


class Recorded:
    """Requests of one model that is served, as they were answered: what engines tell of theirs.

    Parameters
    ----------
    outcomes : Outcomes
        All of them, answered, in the order in which they came and were sent; `fresh` is worked
        out here.
    templates : int
        Requests of instance k ran template k.

    Attributes
    ----------
    outcomes : Outcomes
    now_s : float
        When the last of them was answered.
    ran : int64[templates]
    lengths : Lengths
    """

    machine_code = False

    def __init__(self, outcomes: Outcomes, templates: int) -> None:
        before = np.maximum.accumulate(outcomes.finish_s)
        fresh = np.concatenate([[True], before[:-1] <= outcomes.arrival_s[1:]])
        self.outcomes = outcomes._replace(fresh=fresh)
        self.now_s = float(before[-1])
        self.ran: NDArray[np.int64] = np.bincount(outcomes.instance, minlength=templates)
        self.lengths = _lengths(self.outcomes, self.now_s)


def _lengths(outcomes: Outcomes, now_s: float) -> Lengths:
    """Count who waited and who was inside, from one event to the next."""
    begin_s = float(outcomes.arrival_s[0])
    spans = new_spans(1, None, arrays=False)
    spans.length[1] = spans.since[0] = begin_s
    present = _Present([0], [0])
    moves = [
        *((time_s, 1, 1) for time_s in outcomes.arrival_s.tolist()),
        *((time_s, -1, 0) for time_s in outcomes.sent_s.tolist()),
        *((time_s, 0, -1) for time_s in outcomes.finish_s.tolist()),
    ]
    for time_s, waits, stays in sorted(moves, key=lambda move: move[0]):
        account(present, spans, 0, time_s)
        present.waiting[0] += waits
        present.inside[0] += stays
    return lengths_of(present, spans, now_s)


class _Present(NamedTuple):
    """Requests that wait, and that are inside, of one model."""

    waiting: list[int]
    inside: list[int]
