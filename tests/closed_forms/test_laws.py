"""What is said of queues whose laws are known is within its interval as often as it should be."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holding import at_loads, holds
from known_queues import (
    Known,
    constant,
    general,
    losing,
    memoryless,
    prioritised,
    repaired,
    several,
    several_constant,
)
from sweeps import sweep

Law = Callable[[float], Known]


@at_loads(0.3, 0.5, 0.8)
@pytest.mark.parametrize("law", [memoryless, constant, several_constant])
def test_m_m_1_m_d_1_and_m_d_c(law: Law, load: float, seeds: int) -> None:
    """M/D/1: A. K. Erlang 1909. M/D/c: C. D. Crommelin 1932, G. J. Franx 2001."""
    holds(law(load), seeds)


@at_loads(0.3, 0.5, 0.7)
@pytest.mark.parametrize("law", [general, several])
def test_m_g_1_and_where_all_wait_for_several(law: Law, load: float, seeds: int) -> None:
    """F. Pollaczek 1930 and A. Khinchine 1932; who waits is C, A. K. Erlang 1917."""
    holds(law(load), seeds)


@at_loads(0.3, 0.6, 0.9)
@pytest.mark.parametrize("law", [losing, repaired])
def test_where_nobody_waits_and_a_closed_loop(law: Law, load: float, seeds: int) -> None:
    """Who is lost is B, whatever the services; mean values, M. Reiser and S. Lavenberg 1980."""
    holds(law(load), seeds)


@sweep("level", quick=[1], full=[0, 1])
@at_loads(0.3, 0.5, 0.7)
def test_priorities_by_level(load: float, seeds: int, level: int) -> None:
    """No service cut short: A. Cobham 1954; percentiles by L. Takács's transforms, 1964."""
    holds(prioritised(load, level), seeds)
