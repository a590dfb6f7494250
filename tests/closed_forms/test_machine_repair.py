"""A closed loop of constant services by its embedded chain."""

from __future__ import annotations

from itertools import product

import numpy as np

from hetsim.simulation.serving.engine import Serving
from hetsim.simulation.serving.setup import Clients, ModelSetup, RequestSource
from holding import bounds
from known_queues import layout
from oracles.queueing.closed_loop import constant_rate
from sweeps import sweep


@sweep("machines, seeds", quick=[(4, 4)], full=product([1, 4, 12], [4, 40]))
def test_throughput_and_who_is_inside(machines: int, seeds: int) -> None:
    think_s, requests = 6.0, 20_000
    rates = []
    for seed in range(seeds):

        def think(block: int, seed: int = seed) -> np.ndarray:  # type: ignore[type-arg]
            return np.random.default_rng([14, seed, block]).exponential(think_s, (8, machines))

        model = ModelSetup(np.zeros((1, 1, 1), dtype=np.int64), (1,))
        serving = Serving(
            layout(1),
            np.ones(1),
            [model],
            [RequestSource(0)],
            [Clients(0, machines, think)],
            requests=requests,
        )
        found = serving.close()
        assert found.requests == requests
        ended = np.sort(found.finish_s)
        # Who is inside or thinks is a machine: never more than there are.
        under_way = np.arange(requests) - np.searchsorted(ended, found.arrival_s, side="right")
        assert under_way.max() < machines
        rates.append(requests / ended[-1])
    error = np.std(rates, ddof=1) / np.sqrt(seeds)
    truth = constant_rate(machines, think_s)
    # Ten deviations of what so few runs tell: a tenth of that is what an answer more or less makes.
    assert abs(np.mean(rates) - truth) < 10 * error + machines / requests
    assert bounds(seeds)[0] <= seeds
