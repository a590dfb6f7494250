"""A run of which only its end is known: what became of each request, and nothing between."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hetsim.simulation.serving.following import Following
from hetsim.simulation.serving.gates import Passed
from hetsim.simulation.serving.outcomes import Lengths, Outcomes


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
    arrival = outcomes.arrival_s
    follows = Following([True], 1, None, machine_code=False)
    follows.begin(float(arrival[0]))
    passed = Passed(
        outcomes.sent_s,
        outcomes.begun_s,
        outcomes.finish_s,
        outcomes.instance,
        outcomes.why,
        outcomes.fresh,
    )
    follows.take(arrival, np.zeros(len(arrival), dtype=np.int64), passed, outcomes.finish_s)
    follows.rest()
    return follows.lengths(now_s)
