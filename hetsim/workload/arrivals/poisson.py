"""Requests of many who know nothing of each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from hetsim.workload.arrivals.contract import Seconds
from hetsim.workload.arrivals.renewal import running_sums
from hetsim.workload.checks import check_rate, factor
from hetsim.workload.numbers import Numbers


@dataclass(frozen=True, slots=True)
class Poisson:
    """A Poisson process: gaps are exponential and independent; none come at a rate of 0."""

    kind: ClassVar[str] = "poisson"

    rate_per_s: float

    def __post_init__(self) -> None:
        check_rate(self.rate_per_s, "rate_per_s")

    def faster(self, by: float) -> Poisson:
        """Return the same arrivals in 1/`by` of the time."""
        return replace(self, rate_per_s=self.rate_per_s * factor(by))

    def blocks(self, numbers: Numbers) -> Iterator[Seconds]:
        """Yield the times of arrival in seconds: those of rate 1, over the rate."""
        if self.rate_per_s:
            generator = numbers.generator("gaps")
            for sums in running_sums(generator.standard_exponential):
                yield sums / self.rate_per_s
