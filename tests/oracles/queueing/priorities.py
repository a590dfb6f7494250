"""One server that ends what it began, and takes the most urgent next.

A. Cobham, Priority assignment in waiting line problems, Operations Research 2 (1954); transforms of
two levels: L. Takács, Priority queues, Operations Research 12 (1964).
"""

from __future__ import annotations

from collections.abc import Sequence

from oracles.queueing.one_server import Memoryless, Services, Transform


def mean_waits(rates: Sequence[float], services: Sequence[Services | Memoryless]) -> list[float]:
    """Mean wait of each level, the most urgent first."""
    left = sum(rate * one.moment(2) for rate, one in zip(rates, services, strict=True)) / 2
    found, load = [], 0.0
    for rate, one in zip(rates, services, strict=True):
        before = load
        load += rate * one.moment(1)
        found.append(left / ((1 - before) * (1 - load)))
    return found


def waits(
    rates: Sequence[float], services: Sequence[Services | Memoryless], level: int
) -> Transform:
    """The transform of the wait of one of two levels."""
    (first, second), (one, two) = rates, services
    idle = 1 - first * one.moment(1) - second * two.moment(1)

    def urgent(s: complex) -> complex:
        left = idle * s + second * (1 - two.transform(s))
        return left / (s - first + first * one.transform(s))

    def other(s: complex) -> complex:
        # What waits is held up by all urgent ones that come meanwhile, with theirs in turn.
        held = s + first * (1 - _busy(s, first, one))
        return idle * held / (s - second * (1 - two.transform(held)))

    return urgent if level == 0 else other


def _busy(s: complex, rate: float, services: Services | Memoryless) -> complex:
    """The transform of a busy period: the fixed point b = S*(s + rate - rate b), from below."""
    found = 0j
    for _ in range(2000):
        before = found
        found = services.transform(s + rate - rate * before)
        if abs(found - before) < 1e-15:
            break
    return found
