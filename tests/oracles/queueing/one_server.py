"""One server, Poisson arrivals, services of a few lengths: M/G/1 exactly.

F. Pollaczek (1930) and A. Khinchine (1932); A. K. Erlang (1909) for constant services. Each figure
by two methods that share nothing: a renewal equation on a lattice, and the transform inverted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Transform = Callable[[complex], complex]


@dataclass(frozen=True)
class Services:
    """How long services are: ``seconds[k]`` with chance ``shares[k]``."""

    seconds: tuple[float, ...]
    shares: tuple[float, ...]

    def moment(self, power: int) -> float:
        """Its mean, of a power."""
        return float(np.dot(np.power(self.seconds, power), self.shares))

    def transform(self, s: complex) -> complex:
        """Mean of exp(-s S)."""
        return complex(np.dot(self.shares, np.exp(-s * np.asarray(self.seconds))))


class Memoryless:
    """Exponential services of mean 1."""

    def moment(self, power: int) -> float:
        """Its mean, of a power."""
        return float(math.factorial(power))

    def transform(self, s: complex) -> complex:
        """Mean of exp(-s S)."""
        return 1 / (1 + s)


CONSTANT = Services((1.0,), (1.0,))
TWO = Services((0.5, 5.5), (0.9, 0.1))
"""Of mean 1, with a squared coefficient of variation of 2.25."""


def exponential(step: float, most: float = 25.0) -> Services:
    """Exponential services of mean 1, each rounded to the mean of its cell of this width.

    Their mean is 1 still, and their second moment 2 - step**2 / 12, but for what is above `most`.
    """
    cells = np.arange(round(most / step))
    shares = np.exp(-cells * step) * -math.expm1(-step)
    within = 1 - step / math.expm1(step)
    return Services(
        tuple((cells * step + within).tolist()), tuple((shares / shares.sum()).tolist())
    )


def mean_wait(rate: float, services: Services) -> float:
    """Pollaczek's and Khinchine's mean."""
    return rate * services.moment(2) / (2 * (1 - rate * services.moment(1)))


def waits_by_renewal(rate: float, services: Services, step: float, steps: int) -> Floats:
    """P(wait <= k step), k up to `steps`: it is 0, or a wait and what is left of a service.

    F(x) = 1 - load + rate * integral of F(x - u) P(S > u) du. Services are multiples of `step`, so
    P(S > u) is constant on its cells and the trapezium errs by the curve of F alone.
    """
    load = rate * services.moment(1)
    cells = round(max(services.seconds) / step)
    middle = (np.arange(cells) + 0.5) * step
    above = (np.asarray(services.seconds)[None, :] > middle[:, None]) @ np.asarray(services.shares)
    # Cell j of u holds F between x - j and x - j - 1 steps: each end with half of it.
    weight = np.append(above, 0.0) + np.insert(above, 0, 0.0)
    weight *= rate * step / 2
    found = np.zeros(steps + 1)
    found[0] = 1 - load
    for k in range(1, len(found)):
        reach = min(k, cells)
        known = float(weight[1 : reach + 1] @ found[k - reach : k][::-1])
        if reach == k and k < cells:
            # The last cell of u ends where F does.
            known -= rate * step / 2 * above[k] * found[0]
        found[k] = (1 - load + known) / (1 - weight[0])
    return found


def late_by_renewal(
    rate: float, services: Services, step: float, longest: float
) -> tuple[Floats, Floats]:
    """P(latency > t) for multiples t of a step, by two steps and what their difference tells."""
    steps = math.ceil(longest / step)
    coarse = waits_by_renewal(rate, services, step, steps)
    fine = waits_by_renewal(rate, services, step / 2, 2 * steps)[::2]
    waits = fine + (fine - coarse) / 3
    on_time = np.zeros(len(waits))
    for seconds, share in zip(services.seconds, services.shares, strict=True):
        shift = round(seconds / step)
        on_time[shift:] += share * waits[: len(waits) - shift]
    return step * np.arange(len(waits)), 1 - on_time


def percentile(times: Floats, late: Floats, percent: float) -> float:
    """Where so many are late: between two times, the logarithm of the share is straight."""
    wanted = 1 - percent / 100
    after = int(np.argmax(late <= wanted))
    low, high = math.log(late[after - 1]), math.log(late[after])
    part = (low - math.log(wanted)) / (low - high)
    return float(times[after - 1] + part * (times[after] - times[after - 1]))


def waits(rate: float, services: Services) -> Transform:
    """The transform of the wait: (1 - load) s / (s - rate + rate S*(s))."""
    load = rate * services.moment(1)
    return lambda s: (1 - load) * s / (s - rate + rate * services.transform(s))


def late_by_transform(latency: Transform, time: float, terms: int = 200) -> float:
    """P(latency > time): the transform inverted along a line, its sum smoothed by Euler's means.

    J. Abate and W. Whitt, The Fourier-series method for inverting transforms of probability
    distributions, Queueing Systems 10 (1992). Errors of 1e-8 where the distribution is smooth.
    """
    accuracy = 18.4

    def value(k: int) -> float:
        s = complex(accuracy, 2 * math.pi * k) / (2 * time)
        return ((1 - latency(s)) / s).real

    total = value(0) / 2
    sums = []
    for k in range(1, terms + 13):
        total += (-1) ** k * value(k)
        if k > terms:
            sums.append(total)
    smooth = sum(math.comb(11, k) * one for k, one in enumerate(sums)) / 2**11
    return math.exp(accuracy / 2) / time * smooth


def beyond_constant(load: float, latency: float) -> float:
    """P(latency > t) of constant services of 1: Erlang's sum, alternating, so in many digits."""
    if latency < 1:
        return 1.0
    with localcontext() as context:
        context.prec = 150
        rate, wait, total, factorial = Decimal(load), Decimal(latency) - 1, Decimal(0), 1
        for count in range(int(wait) + 1):
            factorial *= max(count, 1)
            term = rate * (wait - count)
            power = (-term) ** count if count else Decimal(1)
            total += power * term.exp() / factorial
        return float(1 - (1 - rate) * total)


def time_at(late: Callable[[float], float], percent: float, high: float) -> float:
    """Where a falling share of late ones is what is left of `percent`: by halving."""
    low = 0.0
    while high - low > 1e-7 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if late(middle) > 1 - percent / 100 else (low, middle)
    return high
