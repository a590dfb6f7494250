"""Latency and bandwidth between all devices of a problem, as arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hetsim.problem.problem import Problem


def travel_matrices(problem: Problem) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (latency_s, bytes_per_s) of every route as arrays [P, P]; the diagonal is free."""
    latency_s = np.array([[route.latency_s for route in row] for row in problem.routes])
    bytes_per_s = np.array([[route.bytes_per_s for route in row] for row in problem.routes])
    np.fill_diagonal(latency_s, 0.0)
    np.fill_diagonal(bytes_per_s, np.inf)
    return latency_s, bytes_per_s


def transfer_costs(problem: Problem) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (latency_s, seconds a byte) [P, P], staging included; the diagonal is free."""
    latency_s, bytes_per_s = travel_matrices(problem)
    per_byte_s = 1.0 / bytes_per_s
    if problem.staging is not None:
        store_s, fetch_s = problem.staging.store_s_per_byte, problem.staging.fetch_s_per_byte
        per_byte_s = per_byte_s + np.array(store_s)[:, None] + np.array(fetch_s)[None, :]
        np.fill_diagonal(per_byte_s, 0.0)
    return latency_s, per_byte_s
