"""The recursion against the recursions of queueing theory, on the same sample path."""

from __future__ import annotations

import heapq

import numpy as np
import pytest
from numpy.typing import NDArray

from hetsim.simulation.recursion.playing import Recursion
from oracles.random_layouts import Shape, layout_of
from sweeps import sweep

Floats = NDArray[np.float64]
REQUESTS = 3000


def served(
    streams: list[int], duration: list[float], arrival: Floats, machine_code: bool
) -> Floats:
    """When each request leaves a tandem of devices."""
    stages = range(len(streams))
    shape = Shape([*stages], [], [[stage - 1] if stage else [] for stage in stages])
    layout = layout_of([shape], streams, 0)
    found = Recursion(layout, np.array(duration), machine_code=machine_code).serve(arrival)
    assert found is not None
    return found.finish


def poisson(load: float, seed: int) -> Floats:
    times: Floats = np.random.default_rng(seed).exponential(1 / load, REQUESTS).cumsum()
    return times


@pytest.mark.parametrize("machine_code", [False, True])
@sweep("seed", quick=[0], full=range(10))
@pytest.mark.parametrize("load", [0.3, 0.8, 0.95])
def test_lindley(load: float, seed: int, machine_code: bool) -> None:
    """W(n + 1) = max(0, W(n) + S - A(n)); D. V. Lindley 1952."""
    arrival = poisson(load, seed)
    wait = 0.0
    sojourns = []
    for gap in np.diff(arrival, prepend=arrival[0]):
        wait = max(0.0, wait + 1.0 - gap) if sojourns else 0.0
        sojourns.append(wait + 1.0)
    found = served([1], [1.0], arrival, machine_code) - arrival
    assert found == pytest.approx(np.array(sojourns), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("machine_code", [False, True])
@sweep("seed", quick=[0], full=range(10))
@pytest.mark.parametrize("streams", [2, 5])
def test_kiefer_wolfowitz(streams: int, seed: int, machine_code: bool) -> None:
    """The vector of work left at each server, ascending; J. Kiefer and J. Wolfowitz 1955.

    Services of two lengths, as a request has two subgraphs that are there when it comes.
    """
    arrival = poisson(0.45 * streams, seed)
    layout = layout_of([Shape([0, 0], [], [[], []])], [streams], 0)
    seconds = np.array([0.5, 1.5])
    found = Recursion(layout, seconds, machine_code=machine_code).serve(arrival)
    assert found is not None
    left = np.zeros(streams)
    expected = []
    before = 0.0
    for came in arrival:
        left = np.maximum(left - (came - before), 0.0)
        before = came
        ends = []
        for service in seconds:
            ends.append(left[0] + service)
            left[0] = ends[-1]
            left.sort()
        expected.append(max(ends))
    assert found.finish - arrival == pytest.approx(np.array(expected), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("machine_code", [False, True])
@sweep("seed", quick=[0], full=range(10))
@pytest.mark.parametrize("streams", [1, 3])
def test_friedman(streams: int, seed: int, machine_code: bool) -> None:
    """Constant services in a row: all wait is for the slowest; H. D. Friedman 1965."""
    rng = np.random.default_rng(seed)
    duration = rng.uniform(0.1, 1.0, 6)
    duration[rng.integers(6)] = 1.0
    arrival = poisson(0.9 * streams, seed)
    free = [0.0] * streams
    expected = []
    for came in arrival.tolist():
        start = max(came, heapq.heappop(free))
        heapq.heappush(free, start + 1.0)
        expected.append(start - came + duration.sum())
    found = served([streams] * 6, duration.tolist(), arrival, machine_code) - arrival
    assert found == pytest.approx(np.array(expected), rel=1e-10, abs=1e-9)
