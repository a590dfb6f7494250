"""M/D/1: Poisson arrivals, constant services; A. K. Erlang 1909."""

from __future__ import annotations

from holding import at_loads, holds
from known_queues import constant


@at_loads(0.3, 0.5, 0.8)
def test_mean_percentile_queue_and_use_are_within_their_intervals(load: float, seeds: int) -> None:
    holds(constant(load), seeds)
