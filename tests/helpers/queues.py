"""Queues whose answers are known: their latencies by Lindley's recursion, and closed forms."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from oracles.queueing.one_server import beyond_constant, time_at

Kind = Literal["M/D/1", "M/M/1"]
Run = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]


def sojourns(kind: Kind, load: float, requests: int, seed: int) -> Run:
    """Latencies of the first requests, in mean service times, and where busy periods begin.

    Lindley: the wait is how far the sum of services less gaps is above its least so far.
    """
    gaps = np.random.default_rng([seed, 1]).standard_exponential(requests) / load
    services = np.ones(requests)
    if kind == "M/M/1":
        services = np.random.default_rng([seed, 2]).standard_exponential(requests)
    steps = np.concatenate([[0.0], services[:-1] - gaps[1:]])
    sums = np.cumsum(steps)
    least = np.minimum.accumulate(sums)
    waits = sums - least
    return waits + services, waits == 0


def blocks(kind: Kind, load: float, seed: int, size: int = 2**14) -> Iterator[Run]:
    """The same without end, block by block: each begins with what the one before left."""
    rng = np.random.default_rng([seed, 3])
    left = 0.0
    while True:
        gaps = rng.standard_exponential(size) / load
        services = np.ones(size) if kind == "M/D/1" else rng.standard_exponential(size)
        steps = np.concatenate([[0.0], services[:-1] - gaps[1:]])
        sums = np.cumsum(steps)
        # The wait of the first is what is left of the work before, less the gap.
        begin = max(left - gaps[0], 0.0)
        least = np.minimum(np.minimum.accumulate(sums), -begin)
        waits = sums - least
        left = float(waits[-1] + services[-1])
        yield waits + services, waits == 0


def beyond(kind: Kind, load: float, latency: float) -> float:
    """Share of requests that take longer than `latency` mean service times.

    M/M/1: exponential. M/D/1: Erlang's sum (1909).
    """
    if kind == "M/M/1":
        return math.exp(-(1 - load) * latency)
    return beyond_constant(load, latency)


def latency_at(kind: Kind, load: float, percentile: float) -> float:
    """The true percentile of latencies, in mean service times."""
    return time_at(lambda latency: beyond(kind, load, latency), percentile, 20.0 / (1 - load))


def innovations(load: float, requests: int, seed: int) -> Any:
    """How much longer than their mean the gaps after requests of ``sojourns`` are, over it."""
    gaps = np.random.default_rng([seed, 1]).standard_exponential(requests)
    return np.append(gaps[1:] - 1.0, 0.0)
