"""Requests more or less regular than those of a Poisson process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from hetsim.errors import InvalidInput
from hetsim.workload.arrivals.contract import Seconds
from hetsim.workload.arrivals.renewal import running_sums
from hetsim.workload.checks import check_rate, factor, positive
from hetsim.workload.numbers import Numbers

LEAST_CV, MOST_CV = 0.01, 20.0
"""Beyond these gaps are as good as constant, or nearly all of them are nothing at all."""


@dataclass(frozen=True, slots=True)
class Gamma:
    """A renewal process with gamma distributed gaps; none come at a rate of 0.

    Attributes
    ----------
    rate_per_s : float
    cv : float
        Coefficient of variation of the gaps: 1 is a Poisson process, above it requests come in
        clusters, below it they are more regular.
    """

    kind: ClassVar[str] = "gamma"

    rate_per_s: float
    cv: float

    def __post_init__(self) -> None:
        check_rate(self.rate_per_s, "rate_per_s")
        positive(self.cv, "cv")
        if not LEAST_CV <= self.cv <= MOST_CV:
            raise InvalidInput(
                f"cv is {self.cv:g}, outside {LEAST_CV:g} to {MOST_CV:g}",
                hint="constant arrivals have 0; mmpp and burst cluster more",
            )

    def faster(self, by: float) -> Gamma:
        """Return the same arrivals in 1/`by` of the time."""
        return replace(self, rate_per_s=self.rate_per_s * factor(by))

    def blocks(self, numbers: Numbers) -> Iterator[Seconds]:
        """Yield the times of arrival in seconds: sums of gaps of shape 1/cv**2, scaled."""
        if not self.rate_per_s:
            return
        generator = numbers.generator("gaps")
        shape = 1.0 / self.cv**2
        for sums in running_sums(lambda count: generator.standard_gamma(shape, count)):
            yield sums / shape / self.rate_per_s
