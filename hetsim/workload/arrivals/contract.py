"""What every kind of arrivals gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np

from hetsim.workload.numbers import Numbers

Seconds: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]


class Arrivals(Protocol):
    """When the requests of one stream arrive, each whatever became of those before.

    A kind is a frozen dataclass; its fields are what a file says of it.
    """

    kind: ClassVar[str]

    @property
    def rate_per_s(self) -> float:
        """Requests a second, on average over a long time."""
        ...

    def faster(self, factor: float) -> Arrivals:
        """Return the same arrivals in 1/`factor` of the time.

        By a power of two the times are exactly those of before over `factor`.
        """
        ...

    def blocks(self, numbers: Numbers) -> Iterator[Seconds]:
        """Yield the times of arrival in seconds from 0 on, none earlier than one before it.

        Each block has one or more. They end where the arrivals end, and most never do.
        """
        ...
