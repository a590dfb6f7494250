"""Verdicts of late shares told again from the rules are those of the package."""

from __future__ import annotations

import numpy as np

from hetsim.simulation.service.stability import stability_of
from hetsim.statistics.verdict import verdict_of, verdict_of_all
from oracles.late_share import counted, estimated, may_be_late, overloaded
from sweeps import sweep


@sweep("first", quick=range(0, 30, 30), full=range(0, 900, 30))
def test_verdicts_of_random_queues(first: int) -> None:
    for seed in range(first, first + 30):
        rng = np.random.default_rng([seed, 24])
        count = int(rng.integers(500, 30_000))
        arrival = np.cumsum(rng.exponential(1, count))
        load = rng.choice([0.3, 0.5, 0.8, 0.95, 1.1])
        service = rng.exponential(load, count) if seed % 2 else np.full(count, load)
        # Lindley: what ends is a running maximum of where sums of services have begun anew.
        before = np.cumsum(service) - service
        finish = np.maximum.accumulate(arrival - before) + before + service
        fresh = np.append(True, arrival[1:] >= finish[:-1])
        latency = finish - arrival
        if seed % 5 == 0:
            latency = np.ceil(latency)
        share = float(rng.choice([0.5, 0.9, 0.95, 0.99, 0.999]))
        limit = float(np.quantile(latency, share) * rng.choice([0.3, 0.8, 1.0, 1.2, 3.0]))
        error = float(rng.choice([0.1, 0.05, 0.01, 0.001]))
        said = verdict_of(latency, fresh, share, limit, 1 - error).answer
        assert estimated(latency, fresh, share, limit, error) == said, seed
        whole = verdict_of_all(latency, fresh, share, limit)
        assert counted(whole.late.late, count, share) == whole.answer
        known = stability_of(arrival, finish, fresh, 1.0)
        falls, carried = overloaded(arrival, finish, fresh, 1.0)
        assert falls == (known.state == "overloaded"), seed
        if falls:
            assert carried == known.carried_per_s


def test_how_many_may_be_late_is_the_most_that_meets() -> None:
    for requests in (1, 7, 100, 1000, 12_345):
        for share in (0.5, 0.9, 0.99, 0.999, 0.57, 1 - 1e-9):
            meets = [late for late in range(requests + 1)
                     if counted(late, requests, share) == "meets"]  # fmt: skip
            assert may_be_late(requests, share) == max(meets, default=-1)
