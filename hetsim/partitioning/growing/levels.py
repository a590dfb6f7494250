"""The levels of ``stage`` on arrays alone: for machine code."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from hetsim.base.code_folder import is_kept
from hetsim.base.machine_code import machine_code

Array = Any


def levels(at: Array, node: Array, place: Array, width: int, keys: Array) -> None:
    """Do what ``stage._levels`` does, into `keys`.

    Parameters
    ----------
    at, node : int arrays
        The nodes before each, as in ``Rows``.
    place : int [n]
        Of its device in the order.
    width : int
    keys : int [n]
    """
    for v in range(len(place)):
        latest = 0
        for k in range(at[v], at[v + 1]):
            latest = max(latest, keys[node[k]])
        keys[v] = latest + (place[v] - latest) % width


@functools.cache
def compiled_levels() -> Callable[..., Any]:
    """Return ``levels`` as machine code."""
    return machine_code(levels)


def levels_are_kept() -> bool:
    """Return whether that is most likely kept."""
    return is_kept(levels)
