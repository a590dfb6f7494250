"""Rates within a limit: the engine of deployments, closed forms, and every setting tried."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.fidelity.server import batches
from catalog.fidelity.server.batches import MOST, best_carried, carried, late_of
from hetsim.simulation.serving.engine import Serving
from hetsim.simulation.serving.outcomes import Outcomes
from hetsim.simulation.serving.setup import Model, Source
from known_queues import layout
from oracles.queueing.one_server import beyond_constant
from sweeps import examples


def played(takes: np.ndarray, servers: int, arrival: np.ndarray) -> np.ndarray:
    """Latencies of one queue before so many devices that each take a batch at a time."""
    most = len(takes) - 1
    template = np.arange(servers * most).reshape(1, servers, most)
    model = Model(template, (1,) * servers)
    serving = Serving(
        layout(most, (1,) * servers),
        np.tile(takes[1:], servers),
        [model],
        [Source(0)],
        machine_code=False,
    )
    zeros = np.zeros(len(arrival), dtype=np.int64)
    outcomes = Outcomes.joined([serving.serve(arrival, zeros, zeros), serving.close()])
    return np.asarray(outcomes.latency_s)


@examples(quick=12, full=400)
@given(
    seed=st.integers(0, 2**32 - 1),
    servers=st.integers(1, 3),
    most=st.integers(1, 5),
    load=st.sampled_from([0.3, 0.8, 1.0, 1.5]),
)
def test_as_many_are_late_as_the_engine_says(
    seed: int, servers: int, most: int, load: float
) -> None:
    rng = np.random.default_rng(seed)
    # Eighths, so that what ends and what comes meet at one instant as well.
    takes = np.append(0.0, np.cumsum(rng.integers(1, 12, most)) / 8)
    rate = load * servers * float((np.arange(1, most + 1) / takes[1:]).max())
    arrival = np.cumsum(rng.integers(0, 16, 200)) / 8
    latency = played(takes, servers, arrival / rate)
    for limit_s in (float(takes[1]), float(np.median(latency)), float(latency.max())):
        late = int((latency > limit_s).sum())
        assert late_of(arrival, takes, servers, limit_s, len(arrival), rate) == late
        if late:
            assert late_of(arrival, takes, servers, limit_s, late - 1, rate) == late


@pytest.mark.parametrize("limit", [3.0, 10.0])
def test_one_server_without_batches_is_that_of_erlang(limit: float) -> None:
    rate = carried(np.array([0.0, 1.0]), 1, limit)
    low, high = (beyond_constant(rate * by, limit) for by in (0.97, 1.03))
    assert low < 0.01 < high


def test_a_lone_request_that_is_late_leaves_no_rate() -> None:
    seconds = np.arange(MOST + 1) / 10
    assert carried(seconds[:5], 3, 0.09) == 0.0
    assert best_carried(seconds, 3, 0.09).rate_per_s == 0.0


def test_the_best_setting_is_that_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "QUERIES", batches.LOOK)
    # Half of a batch of 8 is there for one: batches pay, until they take too long.
    seconds = np.append(0.0, (7.0 + np.arange(1, MOST + 1)) / 1000)
    limit_s = 0.06
    rates = {
        (instances, batch): carried(
            seconds[: instances * batch + 1 : instances],
            2 * instances,
            limit_s,
            batches.LOOK,
        )
        for instances in (1, 2, 4, 8, 16, 32)
        for batch in (1, 2, 4, 8, 16, 32)
        if seconds[instances * batch] <= limit_s
    }
    best = best_carried(seconds, 2, limit_s)
    assert best.rate_per_s == pytest.approx(max(rates.values()), rel=2e-4)
    assert rates[best.instances, best.batch] == pytest.approx(best.rate_per_s, rel=2e-4)
