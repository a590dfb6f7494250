"""The policy is Ray Serve's: on random states, on sequences of them, and of what was counted."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from hetsim.simulation.autoscaling.controller import NOWHERE, ScalingTrend, decide, ongoing
from hetsim.workload.autoscaling import AGGREGATIONS
from oracles.ray_serve import RayServe, settings
from sweeps import sweep

STATES, SEQUENCES = 1_000, 10
"""Of a chunk."""
OF_SETTINGS = 25
"""Random states of each settings."""


@sweep("chunk", quick=range(2), full=range(10))
def test_it_is_theirs_on_random_states(chunk: int, ray_serve: RayServe) -> None:
    rng = np.random.default_rng([16, chunk])
    changes = set()
    for _ in range(STATES // OF_SETTINGS):
        config = settings(rng)
        theirs = ray_serve.config(config)
        for _ in range(OF_SETTINGS):
            running = int(rng.integers(0, config.max_replicas + 2))
            target = int(rng.integers(config.min_replicas, config.max_replicas + 1))
            even = config.target_ongoing_requests * int(rng.integers(0, 20))
            total = float(rng.choice([0, even, rng.uniform(0, 50), int(rng.integers(0, 60))]))
            now_s = float(rng.choice([rng.uniform(0, 1000), int(rng.integers(1000)) * 0.1]))
            direction = int(rng.integers(-1, 2))
            since_s = now_s - float(rng.choice([0, 0.3, 0.7, 30, 60, rng.uniform(0, 100)]))
            leaning = ScalingTrend(direction, since_s) if direction else NOWHERE
            state: dict[str, Any] = {}
            if direction:
                state[ray_serve.counters] = direction * int(rng.integers(1, 9))
                state[ray_serve.since] = since_s
            ray_serve.now_s = now_s
            wanted, after = ray_serve.target(theirs, total, running, target, state)
            found, leans = decide(config, total, running, target, leaning, now_s)
            assert found == wanted
            assert_alike(ray_serve, leans, after)
            changes.add((found > target) - (found < target))
    assert changes == {-1, 0, 1}


def assert_alike(ray_serve: RayServe, leaning: ScalingTrend, state: dict[str, Any]) -> None:
    counter = state.get(ray_serve.counters, 0)
    assert leaning.direction == (counter > 0) - (counter < 0)
    since = state.get(ray_serve.since)
    assert since is None if math.isnan(leaning.since_s) else since == leaning.since_s


@sweep("chunk", quick=range(1), full=range(100))
def test_it_is_theirs_on_sequences(chunk: int, ray_serve: RayServe) -> None:
    """Delays remember what was wanted before; replicas follow the target after a while."""
    for seed in range(SEQUENCES * chunk, SEQUENCES * (chunk + 1)):
        assert_theirs_on_a_sequence(np.random.default_rng([16, seed]), ray_serve)


def assert_theirs_on_a_sequence(rng: np.random.Generator, ray_serve: RayServe) -> None:
    config = settings(rng)
    theirs = ray_serve.config(config)
    target = ours = config.initial
    running, total, now_s = config.initial, 0.0, 0.0
    leaning: ScalingTrend = NOWHERE
    state: dict[str, Any] = {}
    for _ in range(200):
        now_s += float(rng.choice([0.1, 0.1, 0.1, 5]))
        if rng.random() < 0.1:
            total = float(rng.choice([0, rng.uniform(0, 40)]))
        if rng.random() < 0.2:
            running = target
        ray_serve.now_s = now_s
        target, state = ray_serve.target(theirs, total, running, target, state)
        ours, leaning = decide(config, total, running, ours, leaning, now_s)
        assert ours == target
        assert_alike(ray_serve, leaning, state)


@pytest.mark.parametrize("function", AGGREGATIONS)
def test_what_was_counted_is_summed_up_as_they_do(function: Any, ray_serve: RayServe) -> None:
    """Series that begin late, that stay at nothing, or of which there is one."""
    rng = np.random.default_rng([17, len(function)])
    for _ in range(400):
        times = np.cumsum(rng.integers(1, 700, int(rng.integers(1, 9)))) / 100
        series = []
        for _ in range(int(rng.integers(0, 5))):
            own = times[int(rng.integers(0, len(times))) :]
            counts = rng.integers(0, 4, len(own)) * int(rng.integers(0, 2))
            series.append(list(zip(own.tolist(), counts.tolist(), strict=True)))
        now_s = float(times[-1] + rng.choice([0, 0.1, 0.37, 6]))
        wanted = ray_serve.total(series, now_s, function)
        found = ongoing(series).at(now_s, function)
        assert found == pytest.approx(wanted, rel=1e-9, abs=1e-12)
