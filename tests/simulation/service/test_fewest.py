"""What no scaling goes below: brute force over small schedules, and what policies reach."""

from __future__ import annotations

import math
from itertools import pairwise, product

import numpy as np
import pytest

from hetsim.simulation.service.fewest import Asked, beyond, fewest, silences
from hetsim.workload.autoscaling import Autoscaling
from sweeps import sweep

SLOTS, MOST = 7, 2
CASES = 20
"""Seeds of a chunk."""


def on_time(arrival: list[int], latency: int, many: tuple[int, ...]) -> tuple[int, int]:
    """Requests on time, and answered in all, where so many of one slot each are served in each."""
    waiting: list[int] = []
    late: list[int] = []
    found = answered = 0
    for slot, places in enumerate(many):
        waiting += [at for at in arrival if at == slot]
        late += [at for at in waiting if slot + 1 > at + latency]
        waiting = [at for at in waiting if slot + 1 <= at + latency]
        for _ in range(places):
            if waiting:
                waiting.pop(0)
                found += 1
            elif late:
                late.pop()
            else:
                break
            answered += 1
    return found, answered


def cheapest(
    arrival: list[int], latency: int, late: int, config: Autoscaling, start: int, rejects: bool
) -> float:
    """Slots of replicas, starts too, of the cheapest of all schedules; infinite: none does."""
    best = math.inf
    for many in product(range(config.max_replicas + 1), repeat=SLOTS):
        if any(places < config.min_replicas for places in many[: arrival[-1] + 1]):
            continue
        starts = sum(max(b - a, 0) for a, b in pairwise(many))
        slots = sum(many) + start * starts
        if slots < best:
            timely, answered = on_time(arrival, latency, many)
            if timely >= len(arrival) - late and (rejects or answered == len(arrival)):
                best = slots
    return best


@sweep("chunk", quick=range(1), full=range(60))
def test_no_schedule_is_below_it(chunk: int) -> None:
    """Some reach it; where it is infinite none keeps the objectives."""
    reached = 0
    for seed in range(CASES * chunk, CASES * (chunk + 1)):
        rng = np.random.default_rng([seed, 77])
        count = int(rng.integers(1, 6))
        arrival = sorted(rng.integers(0, SLOTS - 2, count).tolist())
        latency = int(rng.integers(1, 4))
        late = int(rng.integers(0, 2))
        config = Autoscaling(min_replicas=int(rng.integers(0, 2)), max_replicas=MOST)
        start = int(rng.integers(0, 3))
        rejects = bool(rng.integers(2))
        times = np.array(arrival, dtype=float)
        asked = Asked(times, np.ones(count), late, float(latency))
        bound = fewest([asked], config, float(start), rejects=rejects)
        best = cheapest(arrival, latency, late, config, start, rejects)
        assert bound.replica_s <= best
        reached += best < math.inf and bound.replica_s > best - 1e-6
    assert reached


@pytest.mark.parametrize(
    ("arrival", "latency", "start", "late", "cost"),
    [
        ([0.0, 1.0, 10.0], 2.0, 3.0, 0, 3.0),
        ([0.0, 1.0, 10.0], 2.0, 30.0, 0, 7.0),
        ([0.0, 1.0, 10.0], 2.0, 30.0, 1, 0.0),
        ([0.0, 10.0, 11.0, 30.0], 2.0, 5.0, 1, 5.0),
        ([0.0, 10.0, 11.0, 12.0, 30.0], 2.0, 5.0, 2, 5.0 * (1 - 1 / 3)),
        ([0.0, 1.0, 2.0], 5.0, 3.0, 0, 0.0),
    ],
)
def test_silences_cost_the_less_of_staying_and_starting(
    arrival: list[float], latency: float, start: float, late: int, cost: float
) -> None:
    assert silences(np.array(arrival), latency, start, late) == pytest.approx(cost)


def test_peaks_leave_what_the_fewest_cannot_do_in_time() -> None:
    at_once = np.zeros(10)
    ones = np.ones(10)
    assert beyond(at_once, ones, 3.0, 2) == 4.0
    assert beyond(at_once, ones, 3.0, 0) == 10.0
    assert beyond(np.arange(10.0), ones, 1.0, 1) == 0.0
    assert beyond(np.arange(10.0) / 2, ones, 1.0, 1) == pytest.approx(4.5)


def test_without_objectives_only_what_must_be_answered_counts() -> None:
    config = Autoscaling(min_replicas=0, max_replicas=4)
    free = Asked(np.arange(4.0), np.ones(4), 4, math.inf)
    assert fewest([free], config, 1.0, rejects=False).replica_s == pytest.approx(4.0)
    assert fewest([free], config, 1.0, rejects=True).replica_s == 0.0
    assert fewest([free], Autoscaling(max_replicas=4), 1.0, rejects=True).replica_s == (
        pytest.approx(3.0)
    )


def test_what_the_most_cannot_do_nobody_can() -> None:
    config = Autoscaling(max_replicas=2)
    asked = Asked(np.zeros(10), np.ones(10), 3, 3.0)
    found = fewest([asked], config, 0.0, rejects=False)
    assert (found.replica_s, found.binds) == (math.inf, "objectives")
    asked = Asked(np.zeros(10), np.ones(10), 4, 3.0)
    assert fewest([asked], config, 0.0, rejects=False).replica_s < math.inf
