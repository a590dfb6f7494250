"""Requests that come several at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from hetsim.core.checks import one_of, whole
from hetsim.workload.arrivals.constant import Constant
from hetsim.workload.arrivals.contract import Seconds
from hetsim.workload.arrivals.poisson import Poisson
from hetsim.workload.checks import check_rate, factor
from hetsim.workload.numbers import Numbers

Spacing = Literal["constant", "poisson"]
SPACINGS: tuple[Spacing, ...] = ("constant", "poisson")
MAX_SIZE = 2**16


@dataclass(frozen=True, slots=True)
class Burst:
    """Bursts of `size` requests at one time.

    Attributes
    ----------
    rate_per_s : float
        Of requests: there are `rate_per_s` / `size` bursts a second.
    size : int
        Requests of one burst.
    spacing : "constant" or "poisson"
        When bursts come: every so often, the first at 0, or as a Poisson process.
    """

    kind: ClassVar[str] = "burst"

    rate_per_s: float
    size: int
    spacing: Spacing = "constant"

    def __post_init__(self) -> None:
        check_rate(self.rate_per_s, "rate_per_s")
        whole(1, MAX_SIZE)(self.size, "size")
        one_of(*SPACINGS)(self.spacing, "spacing")

    def faster(self, by: float) -> Burst:
        """Return the same arrivals in 1/`by` of the time."""
        return replace(self, rate_per_s=self.rate_per_s * factor(by))

    def blocks(self, numbers: Numbers) -> Iterator[Seconds]:
        """Yield the times of arrival in seconds, `size` of each."""
        each = Constant if self.spacing == "constant" else Poisson
        for times in each(self.rate_per_s / self.size).blocks(numbers):
            for part in np.array_split(times, self.size):
                if part.size:
                    yield np.repeat(part, self.size)
