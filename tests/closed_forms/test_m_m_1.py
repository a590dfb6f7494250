"""M/M/1: mean and p99; latencies are exponential."""

from __future__ import annotations

from holding import at_loads, holds
from known_queues import memoryless


@at_loads(0.3, 0.5, 0.8)
def test_mean_percentile_queue_and_use_are_within_their_intervals(load: float, seeds: int) -> None:
    holds(memoryless(load), seeds)
