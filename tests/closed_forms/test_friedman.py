"""Tandems of constant services, to 1e-10: H. D. Friedman 1965."""

from __future__ import annotations

import heapq
from itertools import permutations

import numpy as np
import pytest
from numpy.typing import NDArray

from hetsim.simulation.serving.engine import Serving
from hetsim.simulation.serving.setup import Model, Outcomes, Source
from oracles.random_layouts import Shape, layout_of

Floats = NDArray[np.float64]


def latencies(stages: list[float], servers: int, arrival: Floats) -> Floats:
    """Of a plan with a subgraph on each of so many devices, one after another."""
    places = range(len(stages))
    shape = Shape([*places], [], [[stage - 1] if stage else [] for stage in places])
    layout = layout_of([shape], [servers] * len(stages), 0)
    model = Model(np.zeros((1, 1, 1), dtype=np.int64), (0,))
    serving = Serving(layout, np.array(stages), [model], [Source(0)])
    told = serving.serve(arrival, np.zeros(len(arrival), dtype=np.int64))
    return Outcomes.joined([told, serving.close()]).latency_s


@pytest.mark.parametrize("servers", [1, 3])
@pytest.mark.parametrize("load", [0.5, 0.8, 0.95])
def test_all_waits_are_those_for_the_slowest(load: float, servers: int) -> None:
    rng = np.random.default_rng(25)
    stages = [*rng.uniform(0.1, 0.9, 5).tolist(), 1.0]
    arrival = np.cumsum(rng.standard_exponential(3_000) / (load * servers))
    free = [0.0] * servers
    expected = []
    for came in arrival.tolist():
        start = max(came, heapq.heappop(free))
        heapq.heappush(free, start + 1.0)
        expected.append(start - came + sum(stages))
    rng.shuffle(stages)
    found = latencies(stages, servers, arrival)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


def test_the_order_of_stages_changes_nothing() -> None:
    arrival = np.cumsum(np.random.default_rng(26).standard_exponential(400) / 0.8)
    found = [latencies(list(order), 1, arrival) for order in permutations((1.0, 0.25, 0.7))]
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=1e-10, atol=1e-10)
