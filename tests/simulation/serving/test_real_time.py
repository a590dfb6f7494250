"""The driver told when tasks end, by clocks that are exact: virtual time to the last bit."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hetsim.simulation.serving.real_time import RealTime
from oracles.random_deployments import deployed, played


def test_an_end_that_is_told_late_counts_from_then() -> None:
    given = next(
        one for one in map(deployed, range(100)) if not one.requests and len(one.case.arrival) > 1
    )
    on_time, _ = played(given, 1, False)
    engine = RealTime(
        given.case.layout,
        given.case.duration,
        given.models,
        given.sources,
        lasts=np.where(given.case.duration > 0, math.inf, 0.0),
        blocks=[(given.case.arrival, given.stream, given.variant)],
    )
    started = engine.step()
    while not started:
        started = engine.step()
    one = started[0]
    late_s = one.at_s + given.case.duration[one.task] + 1000.0
    assert not engine.over
    assert engine.ended(one.batch, one.task, late_s) == late_s
    assert engine.next_s <= late_s
    with pytest.raises(KeyError):
        engine.ended(one.batch, one.task, late_s)
    assert on_time.requests == len(given.case.arrival)
