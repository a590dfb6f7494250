"""Several servers: A. K. Erlang 1917. Who waits is C, who is lost B, whatever the services."""

from __future__ import annotations

from holding import at_loads, holds
from known_queues import losing, several


@at_loads(0.3, 0.6, 0.9)
def test_erlang_b_where_nobody_waits(load: float, seeds: int) -> None:
    holds(losing(load), seeds)


@at_loads(0.3, 0.5, 0.7)
def test_erlang_c_where_all_wait(load: float, seeds: int) -> None:
    holds(several(load), seeds)
