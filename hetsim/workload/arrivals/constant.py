"""A request every so often."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from hetsim.workload.arrivals.contract import Seconds
from hetsim.workload.checks import check_rate, factor
from hetsim.workload.numbers import BLOCK, Numbers


@dataclass(frozen=True, slots=True)
class Constant:
    """A request every 1/`rate_per_s` seconds, the first at 0; none where the rate is 0."""

    kind: ClassVar[str] = "constant"

    rate_per_s: float

    def __post_init__(self) -> None:
        check_rate(self.rate_per_s, "rate_per_s")

    def faster(self, by: float) -> Constant:
        """Return the same arrivals in 1/`by` of the time."""
        return replace(self, rate_per_s=self.rate_per_s * factor(by))

    def blocks(self, numbers: Numbers) -> Iterator[Seconds]:
        """Yield the times of arrival in seconds. Each is rounded once: no error adds up."""
        first = 0
        while self.rate_per_s:
            yield np.arange(first, first + BLOCK, dtype=np.float64) / self.rate_per_s
            first += BLOCK
