"""Whether a run kept up: queues whose load is known."""

from __future__ import annotations

import numpy as np
import pytest

from hetsim.simulation.service.stability import stability_of
from queues import sojourns


def run(load: float, requests: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Arrivals of an M/D/1 with a service time of 1, their ends, and where it was empty."""
    latency_s, fresh = sojourns("M/D/1", load, requests, seed)
    arrival_s = np.cumsum(np.random.default_rng([seed, 1]).standard_exponential(requests) / load)
    return arrival_s, arrival_s + latency_s, fresh


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(
    ("load", "state"),
    [(0.5, "stable"), (0.95, "stable"), (1.05, "overloaded"), (1.5, "overloaded")],
)
def test_loads_that_are_known(load: float, state: str, seed: int) -> None:
    assert stability_of(*run(load, 20_000, seed), load).state == state


@pytest.mark.parametrize("seed", range(20))
def test_a_load_just_below_one_is_never_overloaded(seed: int) -> None:
    # Relaxation takes a million requests here: most runs do not catch up in their second half.
    assert stability_of(*run(0.999, 20_000, seed), 0.999).state != "overloaded"


def test_constant_arrivals_that_are_too_many_leave_nothing_to_chance() -> None:
    arrival_s = np.arange(1000) / 1.01
    finish_s = np.arange(1, 1001, dtype=np.float64)
    fresh = np.arange(1000) == 0
    assert stability_of(arrival_s, finish_s, fresh, 1.01).state == "overloaded"
    exact = np.arange(1000, dtype=np.float64)
    assert stability_of(exact, exact + 1, np.ones(1000, bool), 1.0).state == "stable"


def test_a_burst_is_a_backlog() -> None:
    arrival_s = np.concatenate([np.arange(0, 1000, 2.0), np.full(500, 1000.0), [1400.0]])
    finish_s = np.empty_like(arrival_s)
    end = -np.inf
    for at, came in enumerate(arrival_s):
        end = finish_s[at] = max(end, came) + 1
    fresh = np.arange(len(arrival_s)) < 500
    assert stability_of(arrival_s[:-1], finish_s[:-1], fresh[:-1], 0.5).state == "stable"
    late = np.concatenate([np.zeros(500), np.linspace(1, 450, 300)])
    ends = np.arange(1, 801, dtype=np.float64)
    behind = np.arange(800) == 0
    found = stability_of(late, ends, behind, 0.6)
    assert (found.state, found.caught_up_s) == ("backlogged", 0.0)
    assert found.backlog == np.count_nonzero(ends > 450)


def test_nobody_knows_what_one_request_says() -> None:
    one = np.zeros(1)
    assert stability_of(one, one + 1, np.ones(1, bool), 5.0).state == "stable"
