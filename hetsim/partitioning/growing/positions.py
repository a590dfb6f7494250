"""An order in which some are moved: numbers with room between them, and a list through them.

Functions on sequences of integers: on lists as they are, on arrays for machine code. A list runs
through `following` and `leading` from node to node; node n, which stands for nothing, is before
the first and behind the last.

Source: M. A. Bender, R. Cole, E. D. Demaine, M. Farach-Colton, J. Zito, Two simplified algorithms
for maintaining order in a list, ESA 2002: where there is no room, the numbers around are spread
out in the least aligned range that is not too full. There one is inserted at a time, here several.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Sequence = Any
Links = NDArray[np.int32]

WIDTH = 2**62
"""Positions are below."""

GROWTH = 4 / 3
"""A range twice as wide is too full from so many times as many positions on."""


def standing(order: NDArray[np.int64]) -> tuple[NDArray[np.int64], Links, Links]:
    """Positions, `following` and `leading` of nodes 0 .. n - 1 that stand in `order`. O(n)."""
    n = order.size
    position = np.full(n + 1, -1)
    position[order] = np.arange(n) * (WIDTH // (n + 1))
    following, leading = np.empty(n + 1, dtype=np.int32), np.empty(n + 1, dtype=np.int32)
    around = np.concatenate(([n], order, [n]))
    following[around[:-1]] = around[1:]
    leading[around[1:]] = around[:-1]
    return position, following, leading


def take_out(following: Sequence, leading: Sequence, node: int) -> None:
    """Take a node out of the list."""
    following[leading[node]] = following[node]
    leading[following[node]] = leading[node]


def put_behind(following: Sequence, leading: Sequence, before: int, node: int) -> None:
    """Put a node that is not in the list behind one that is."""
    after = following[before]
    following[before], leading[node] = node, before
    following[node], leading[after] = after, node


def move(
    position: Sequence, following: Sequence, leading: Sequence, before: int, nodes: Sequence,
    first: int, end: int,
) -> None:  # fmt: skip
    """Move nodes[first:end], as they are sorted, to behind `before`, which is none of them.

    Complexity: O(end - first), and O(log n) numbers changed a node over many moves.
    """
    last = before
    for k in range(first, end):
        take_out(following, leading, nodes[k])
        put_behind(following, leading, last, nodes[k])
        last = nodes[k]
    n, count = len(position) - 1, end - first
    after = following[last]
    room = (WIDTH if after == n else position[after]) - position[before]
    if room > count:
        gap, start, number = room // (count + 1), following[before], position[before]
        number += gap
    else:
        start, base = before, max(position[before], 0)
        if before == n:
            start = following[before]
        else:
            count += 1
        width, most = 1, 1.0
        low = base
        while count >= most:
            width *= 2
            most *= GROWTH
            low = base // width * width
            while start != following[n] and position[leading[start]] >= low:
                start = leading[start]
                count += 1
            while following[last] != n and position[following[last]] < low + width:
                last = following[last]
                count += 1
        gap, number = width // count, low
    node = start
    for _ in range(count):
        position[node] = number
        number += gap
        node = following[node]
