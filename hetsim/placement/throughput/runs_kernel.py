"""The steps of ``chain_runs.fastest_runs`` on plain numbers: as they stand, or as machine code."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from hetsim.base import left_to_python
from hetsim.base.machine_code import machine_code

Array = Any
"""A list of numbers, or an array of them where it is compiled; matrices lie flat, by row."""

KEPT_FROM, COMPILE_FROM = 50_000, 50_000_000
"""Steps from which machine code pays, where it is kept, and in all where it is not."""


def follow_devices(
    table: Array,
    number: Array,
    nbytes: Array,
    latency: Array,
    per_byte: Array,
    enter: Array,
    best: Array,
    through: Array,
    came: Array,
) -> None:
    """Find, place by place, from which device each is reached in the least time.

    Parameters
    ----------
    table : float [n count]
        Seconds of what stands at each place.
    number, nbytes : float [n + 1]
        Values that cross the cut before each place, and their bytes.
    latency, per_byte, enter : float [count count]
        Of changing device, a value, a byte and once; zero on the diagonal.
    best, through : float [count], float [count count]
        Seconds up to the first place, changed to those up to the last; and room to work in.
    came : int [n count]
        Out. Of ways that take as long, staying goes first, then the first device.

    Complexity: O(n count^2).
    """
    count = len(best)
    for at in range(1, len(came) // count):
        values, size = number[at], nbytes[at]
        for p in range(count):
            before = best[p]
            for k in range(p * count, p * count + count):
                through[k] = before + latency[k] * values + per_byte[k] * size + enter[k]
        for q in range(count):
            least, source = through[q], 0
            for p in range(1, count):
                if through[p * count + q] < least:
                    least, source = through[p * count + q], p
            came[at * count + q] = q if through[q * count + q] <= least else source
            best[q] = least + table[at * count + q]


@functools.cache
def compiled() -> Callable[..., None]:
    """Return ``follow_devices`` as machine code for int64 and float64 arrays."""
    return machine_code(follow_devices)


def pays(steps: int) -> bool:
    """Whether so many steps are for machine code."""
    return left_to_python.pays(compiled, follow_devices, steps, KEPT_FROM, COMPILE_FROM)
