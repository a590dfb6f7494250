"""M/D/c: C. D. Crommelin 1932, G. J. Franx 2001."""

from __future__ import annotations

from holding import at_loads, holds
from known_queues import several_constant


@at_loads(0.3, 0.5, 0.8)
def test_mean_percentile_queue_and_use_are_within_their_intervals(load: float, seeds: int) -> None:
    holds(several_constant(load), seeds)
