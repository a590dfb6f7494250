"""The same problem with devices and routes that take more or less time."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from hetsim.hardware.spec import Route
from hetsim.problem.given import Given
from hetsim.problem.parts import Staging

G = TypeVar("G", bound=Given)


def scaled(given: G, devices: NDArray[np.float64], routes: NDArray[np.float64]) -> G:
    """Return the problem with all times of devices and routes multiplied.

    What a device does - kernels, their launches, starting a subgraph, fetching and storing -
    takes ``devices[p]`` times as long, a transfer from p to q ``routes[p, q]`` times.

    Parameters
    ----------
    given : Given
        A Problem gives a Problem.
    devices : float array [P]
    routes : float array [P, P]

    Complexity: O(n P + P^2).
    """
    factors = devices.tolist()
    staging = given.staging
    return replace(
        given,
        seconds=given.seconds * devices,
        fused=tuple(replace(k, seconds=k.seconds * factors[k.device]) for k in given.fused),
        dispatch_s=tuple(s * f for s, f in zip(given.dispatch_s, factors, strict=True)),
        least_s={
            node: tuple(s * f for s, f in zip(least, factors, strict=True))
            for node, least in given.least_s.items()
        },
        staging=None
        if staging is None
        else Staging(
            tuple(s * f for s, f in zip(staging.fetch_s_per_byte, factors, strict=True)),
            tuple(s * f for s, f in zip(staging.store_s_per_byte, factors, strict=True)),
            staging.ends,
        ),
        routes=tuple(
            tuple(_slower(route, factor) for route, factor in zip(row, along, strict=True))
            for row, along in zip(given.routes, routes.tolist(), strict=True)
        ),
    )


def _slower(route: Route, factor: float) -> Route:
    return replace(
        route, latency_s=route.latency_s * factor, bytes_per_s=route.bytes_per_s / factor
    )
