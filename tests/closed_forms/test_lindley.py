"""The same sample path by recursions on waits, to 1e-9: D. V. Lindley 1952; J. Kiefer and J.
Wolfowitz 1955."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from hetsim.simulation.serving.setup import Outcomes
from known_queues import exponential, server
from oracles.queueing.one_server import CONSTANT, TWO, Services

Floats = NDArray[np.float64]
REQUESTS = 3_000
SERVICES = {"D": CONSTANT, "G": TWO, "M": exponential()}


def path(kind: str, servers: int, load: float) -> tuple[Floats, Floats, Outcomes]:
    """Arrivals, services, and what the engine makes of them."""
    services: Services = SERVICES[kind]
    rng = np.random.default_rng([servers, 24])
    arrival = np.cumsum(rng.standard_exponential(REQUESTS) / (load * servers))
    variant = rng.choice(len(services.shares), REQUESTS, p=services.shares)
    serving = server(services.seconds, servers)
    told = serving.serve(arrival, np.zeros(REQUESTS, dtype=np.int64), variant)
    found = Outcomes.joined([told, serving.close()])
    return arrival, np.array(services.seconds)[variant], found


@pytest.mark.parametrize("kind", SERVICES)
@pytest.mark.parametrize("load", [0.5, 0.8, 0.95])
def test_lindley(kind: str, load: float) -> None:
    """The next waits for what is left: the wait and service before it, less the gap."""
    arrival, service, found = path(kind, 1, load)
    waits = [0.0]
    for takes, gap in zip(service, np.diff(arrival), strict=False):
        waits.append(max(waits[-1] + takes - gap, 0.0))
    np.testing.assert_allclose(found.sent_s - found.arrival_s, waits, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.latency_s, np.array(waits) + service, rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", SERVICES)
@pytest.mark.parametrize("servers", [2, 5])
@pytest.mark.parametrize("load", [0.5, 0.8, 0.95])
def test_kiefer_and_wolfowitz(kind: str, servers: int, load: float) -> None:
    """The next waits for the least of what is left at each server."""
    arrival, service, found = path(kind, servers, load)
    left = np.zeros(servers)
    waits = []
    for gap, takes in zip(np.diff(arrival, prepend=0.0), service, strict=True):
        left = np.maximum(left - gap, 0.0)
        waits.append(left[0])
        left[0] += takes
        left.sort()
    np.testing.assert_allclose(found.sent_s - found.arrival_s, waits, rtol=0, atol=1e-9)
    assert (found.begun_s == found.sent_s).all()
    # Its one instance has nothing to do where all servers are idle.
    over = np.maximum.accumulate(np.append(0.0, arrival + waits + service))[:-1]
    assert (found.fresh == (arrival > over)).mean() > 0.999
