"""The highest rate that instances with a batcher carry within a limit, by a fixed sample.

Poisson arrivals wait in one queue; an instance that is free takes what waits, at most so many, at
once: Triton's batcher without a delay, and what any routing that looks does among instances alike.
``hetsim.simulation.serving`` plays the same (tests hold both to be equal); here a rate is tried in
a few milliseconds, as nothing is kept of a request but whether it was late.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.base.machine_code import machine_code

Floats = NDArray[np.float64]

QUERIES = 270_336
"""Of a Server run at least, and of the sample (inference_rules.adoc, "Scenarios")."""
LOOK = QUERIES // 8
"""Of the sample, the first, by which settings are compared."""
LATE_SHARE = 0.01
MOST = 1024
"""The largest batch that is thought of."""
MOST_INSTANCES = 32
"""On a device."""
KEPT = 3
"""Settings that are tried on the whole sample."""
PRECISE = 1e-4
SEED = 41


@dataclass(frozen=True, slots=True)
class Carried:
    """What is carried at best, and how.

    Attributes
    ----------
    rate_per_s : float
        0 where no rate is.
    instances : int
        On each device.
    batch : int
        The most that an instance takes at once.
    """

    rate_per_s: float
    instances: int
    batch: int


def best_carried(seconds: Floats, devices: int, limit_s: float) -> Carried:
    """Return the highest rate over instances a device (1, 2, 4, ...) and sizes of batches.

    Parameters
    ----------
    seconds : float array [MOST + 1]
        Of a batch of so many on a device; 0 first. Instances share their device: where there are
        k, a batch of b takes as long as one of k b alone.
    devices : int
        Alike.
    limit_s : float
        That 99 of 100 requests are to be answered within.

    A few hundred passes over `LOOK` arrivals, and some forty over all.
    """
    settings = sorted(_settings(seconds, limit_s), key=_bound_of(seconds, devices))
    looked = _rising(settings, seconds, devices, limit_s, LOOK)
    nearest = sorted(looked, key=lambda one: (-one.rate_per_s, one.instances, one.batch))[:KEPT]
    again = [(one.instances, one.batch) for one in nearest]
    whole = _rising(again, seconds, devices, limit_s, QUERIES)
    return max(whole, key=lambda one: one.rate_per_s, default=Carried(0.0, 1, 1))


def _rising(
    settings: Iterable[tuple[int, int]],
    seconds: Floats,
    devices: int,
    limit_s: float,
    queries: int,
) -> list[Carried]:
    """Those of the settings, one after the other, that carry what the last of these does."""
    found: list[Carried] = []
    for instances, batch in settings:
        beyond = found[-1].rate_per_s if found else 0.0
        takes = _takes(seconds, instances, batch)
        rate = carried(takes, devices * instances, limit_s, queries, beyond)
        if rate:
            found.append(Carried(rate, instances, batch))
    return found


def _takes(seconds: Floats, instances: int, batch: int) -> Floats:
    """Seconds of a batch by its size up to `batch`, where so many instances share a device."""
    return seconds[: instances * batch + 1 : instances]


def _settings(seconds: Floats, limit_s: float) -> Iterator[tuple[int, int]]:
    """Instances a device and sizes of batches that end within the limit."""
    instances = 1
    while instances <= MOST_INSTANCES and seconds[instances] <= limit_s:
        batch = 1
        while instances * batch <= MOST and seconds[instances * batch] <= limit_s:
            yield instances, batch
            batch *= 2
        instances *= 2


def _bound_of(seconds: Floats, devices: int) -> Callable[[tuple[int, int]], tuple[float, int, int]]:
    """What no rate of a setting is above, the highest first; of equals the simplest."""

    def bound(setting: tuple[int, int]) -> tuple[float, int, int]:
        instances, batch = setting
        most = _throughput(_takes(seconds, instances, batch))
        return -most * instances * devices, instances, batch

    return bound


def _throughput(takes: Floats) -> float:
    return float((np.arange(1, len(takes)) / takes[1:]).max())


def carried(
    takes: Floats, servers: int, limit_s: float, queries: int = QUERIES, beyond: float = 0.0
) -> float:
    """Return the highest rate at which no more requests are late than may be; 0: none is.

    `takes` are seconds of a batch by its size, 0 first. Rates are halved between `beyond` and what
    the servers do at most; 0, too, where `beyond` is not carried.
    """
    arrival = _unit_arrivals(queries)
    may_be = queries - int((1 - LATE_SHARE) * queries) - 1
    late = functools.partial(
        _compiled(), arrival, np.ascontiguousarray(takes), servers, limit_s, may_be
    )
    low, high = beyond, servers * _throughput(takes)
    if high <= low or takes[1] > limit_s or (low and late(low) > may_be):
        return 0.0
    while high - low > PRECISE * high:
        middle = (low + high) / 2
        if late(middle) <= may_be:
            low = middle
        else:
            high = middle
    return low


def late_of(
    arrival: Floats, takes: Floats, servers: int, limit_s: float, may_be: int, rate: float
) -> int:
    """Return how many requests take longer than the limit, or `may_be` + 1 where more do.

    `arrival` is at a rate of 1, `takes` as in ``carried``. O(requests times servers).
    """
    free = np.zeros(servers)
    requests, most, late, first = len(arrival), len(takes) - 1, 0, 0
    while first < requests:
        server = 0
        for other in range(1, servers):
            if free[other] < free[server]:
                server = other
        begin = max(free[server], arrival[first] / rate)
        end = first + 1
        while end < requests and end - first < most and arrival[end] / rate <= begin:
            end += 1
        finish = begin + takes[end - first]
        free[server] = finish
        while first < end and finish - arrival[first] / rate > limit_s:
            late += 1
            first += 1
        if late > may_be:
            return may_be + 1
        first = end
    return late


@functools.cache
def _unit_arrivals(queries: int) -> Floats:
    """Poisson arrivals at a rate of 1: fewer are the first of more."""
    gaps = np.random.default_rng(SEED).standard_exponential(QUERIES)
    return np.cumsum(gaps[:queries])


@functools.cache
def _compiled() -> Callable[..., Any]:
    return machine_code(late_of)
