"""Priorities, no batch cut short: A. Cobham 1954; percentiles by L. Takács's transforms, 1964."""

from __future__ import annotations

from holding import at_loads, holds
from known_queues import prioritised
from sweeps import sweep


@sweep("level", quick=[1], full=[0, 1])
@at_loads(0.3, 0.5, 0.7)
def test_mean_and_percentile_of_each_level(load: float, seeds: int, level: int) -> None:
    holds(prioritised(load, level), seeds)
