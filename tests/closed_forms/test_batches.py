"""A server that takes all that waits, up to four: its embedded chain, N. T. J. Bailey 1954."""

from __future__ import annotations

import numpy as np
import pytest

from hetsim.simulation.service.service import stability_of
from hetsim.simulation.serving.setup import Outcomes
from hetsim.statistics.intervals import mean_of
from holding import at_loads, holds
from known_queues import TAKES, batched, open_, takes_all
from oracles.queueing.batches import BatchServer


@pytest.mark.group("machine_code")
@at_loads(0.5, 0.7, 0.9)
def test_latency_and_queue(load: float, seeds: int) -> None:
    holds(batched(load), seeds)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.9])
def test_sizes_of_batches(load: float) -> None:
    """Each share of batches is within what is as good as certain of it."""
    rate = load * len(TAKES) / TAKES[-1]
    play = open_(takes_all, rate)(3)
    found = Outcomes.joined([next(play) for _ in range(6)])
    first = np.append(True, np.diff(found.sent_s) > 0)
    truth = BatchServer(rate, TAKES).sizes()
    for size in range(1, len(TAKES) + 1):
        share = mean_of((found.size[first] == size) * 1.0, found.fresh[first], confidence=0.9999)
        assert share.low <= truth[size] <= share.high


@pytest.mark.parametrize("load", [0.9, 1.1, 3.0])
def test_it_saturates_at_full_batches(load: float) -> None:
    most = len(TAKES) / TAKES[-1]
    play = open_(takes_all, load * most)(4)
    found = Outcomes.joined([next(play) for _ in range(3)])
    state = stability_of(found.arrival_s, found.finish_s, found.fresh, load * most)
    assert state.state == ("stable" if load < 1 else "overloaded")
    if load > 1:
        assert state.carried_per_s == pytest.approx(most, rel=1e-3)
        assert found.size[1000:].mean() == pytest.approx(len(TAKES), rel=0.01)


def test_what_comes_at_once_goes_in_full_batches() -> None:
    serving = takes_all()
    serving.serve(np.zeros(400), np.zeros(400, dtype=np.int64))
    found = serving.close()
    assert found.finish_s[-1] == 100 * TAKES[-1]
    assert (found.size == len(TAKES)).all()
