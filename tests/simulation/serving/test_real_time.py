"""The driver told when tasks end, by clocks that are exact: virtual time to the last bit."""

from __future__ import annotations

import heapq
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from hetsim.simulation.serving.real_time import RealTime
from hetsim.simulation.serving.setup import Clients, Outcomes
from oracles.random_deployments import CLIENTS, Deployed, deployed, played, think


def told(given: Deployed, outside: NDArray[np.bool_], *, at_once: bool) -> Outcomes:
    """Play it, somebody else ending the tasks of `outside`: told as they start, or when due."""
    lasts = given.case.duration
    count = len(given.case.arrival)
    engine = RealTime(
        given.case.layout,
        lasts,
        given.models,
        given.sources,
        [Clients(0, CLIENTS, think)] if given.requests else [],
        lasts=np.where(outside, math.inf, lasts),
        blocks=(
            (given.case.arrival[part], given.stream[part], given.variant[part])
            for part in np.array_split(np.arange(count), min(count, 3))
        ),
        requests=given.requests,
    )
    running: list[tuple[float, int, int]] = []
    seen = set()
    while not engine.over:
        while running and running[0][0] <= engine.next_s:
            end_s, batch, task = heapq.heappop(running)
            assert engine.ended(batch, task, end_s) == end_s
        for one in engine.step():
            assert outside[one.task]
            assert (one.batch, one.task) not in seen
            seen.add((one.batch, one.task))
            requests = engine.requests_of(one.batch)
            assert len(set(requests)) == len(requests) > 0
            end_s = one.at_s + lasts[one.task]
            if at_once:
                engine.ended(one.batch, one.task, end_s)
            else:
                heapq.heappush(running, (end_s, one.batch, one.task))
    assert not running
    return engine.outcomes()


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
