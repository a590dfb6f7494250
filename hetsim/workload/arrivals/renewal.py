"""Times of arrival out of the gaps between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from hetsim.workload.arrivals.contract import Seconds
from hetsim.workload.numbers import BLOCK


def running_sums(gaps: Callable[[int], Seconds]) -> Iterator[Seconds]:
    """Yield the sums of what `gaps` draws, so many at a time, added one after the other.

    What is summed so far goes into the next block as its first term: the sums are those of one
    long array, to the last bit.
    """
    row = np.empty(BLOCK + 1)
    row[0] = 0.0
    while True:
        row[1:] = gaps(BLOCK)
        sums = np.cumsum(row)
        row[0] = sums[-1]
        yield sums[1:]
