"""The optimistic cost table of ``peft`` on plain numbers: as it stands, or as machine code."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from hetsim.base import left_to_python
from hetsim.base.machine_code import machine_code

Array = Any
"""A list of numbers, or an array of them where it is compiled; matrices lie flat, by row."""

INFINITY = float("inf")

KEPT_FROM, COMPILE_FROM = 10_000, 20_000_000
"""Readers times devices from which machine code pays, where it is kept, and in all where not."""


def look_ahead(
    count: int,
    host: int,
    latency_s: float,
    per_byte_s: float,
    seconds: Array,
    made_at: Array,
    made_bytes: Array,
    leaves: Array,
    reader_at: Array,
    readers: Array,
    latency: Array,
    bandwidth: Array,
    table: Array,
    through: Array,
) -> None:
    """Fill in `table`, from the last node to the first.

    Parameters
    ----------
    count, host : int
        Devices, and the one where outputs end; -1: they end anywhere.
    latency_s, per_byte_s : float
        Of transfers, on average.
    seconds ... bandwidth
        As in ``columns.Columns``.
    table, through : float [n count]
        Out, zeros before: the longest way out behind a node on a device where later nodes choose
        freely, and that with the node itself.

    Complexity: O(E count).
    """
    for node in range(len(made_at) - 2, -1, -1):
        row = node * count
        for value in range(made_at[node], made_at[node + 1]):
            if leaves[value] and host >= 0:
                for p in range(count):
                    way = (
                        latency[p * count + host] + made_bytes[value] / bandwidth[p * count + host]
                    )
                    if way > table[row + p]:
                        table[row + p] = way
            moved = latency_s + per_byte_s * made_bytes[value]
            for k in range(reader_at[value], reader_at[value + 1]):
                after = readers[k] * count
                least, second, where = INFINITY, INFINITY, -1
                for q in range(count):
                    if where < 0 or through[after + q] < least:
                        least, second, where = through[after + q], least, q
                    elif through[after + q] < second:
                        second = through[after + q]
                for p in range(count):
                    # Where it stays, or where another device is quickest.
                    way = (second if p == where else least) + moved
                    if through[after + p] < way:
                        way = through[after + p]
                    if way > table[row + p]:
                        table[row + p] = way
        for p in range(count):
            through[row + p] = table[row + p] + seconds[row + p]


@functools.cache
def compiled() -> Callable[..., None]:
    """Return ``look_ahead`` as machine code for int64 and float64 arrays."""
    return machine_code(look_ahead)


def pays(work: int) -> bool:
    """Whether so many readers times devices are for machine code."""
    return left_to_python.pays(compiled, look_ahead, work, KEPT_FROM, COMPILE_FROM)
