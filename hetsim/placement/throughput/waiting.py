"""Who waits for whom in a small graph given as a matrix, in the subset that numba compiles."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def waiting_in_vain(feeds: NDArray[np.int64], waits: NDArray[np.int64]) -> int:
    """Return how many vertices a cycle keeps from ever starting: 0 where there is none.

    Parameters
    ----------
    feeds : int array [k, k]
        Above 0 where the row feeds the column; the diagonal does not count.
    waits : int array [k]
        Room to work in.

    Complexity: O(k^3) at worst, O(k^2) where the order is nearly that of the indices.
    """
    count = len(waits)
    for v in range(count):
        waits[v] = 0
        for u in range(count):
            if u != v and feeds[u, v] > 0:
                waits[v] += 1
    left = count
    some = True
    while some:
        some = False
        for u in range(count):
            if waits[u] == 0:
                waits[u] = -1
                left -= 1
                some = True
                for v in range(count):
                    if v != u and feeds[u, v] > 0:
                        waits[v] -= 1
    return left
