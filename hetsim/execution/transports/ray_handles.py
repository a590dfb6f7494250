"""Values on the ways into Ray and out of it: where they are stored, and who owns them."""

from __future__ import annotations

from typing import Any

import numpy as np
import ray
from ray.exceptions import RayError

from hetsim.errors import ExecutionError
from hetsim.execution.transports.channel import Held
from hetsim.execution.transports.ray_store import out_of_store

_INLINE_BELOW_BYTES = 100_000


def for_ray(handle: Any) -> Any:
    """Return what Ray takes for a value that is held here: stored once, however many read it."""
    if not isinstance(handle, Held):
        return handle
    if handle.elsewhere is None:
        handle.elsewhere = stored(handle.value())
    return handle.elsewhere


def stored(value: Any) -> Any:
    """Return a value if it is small, to travel with each call; else a reference to it in the store.

    Raises ExecutionError where there is no room for it.
    """
    if not isinstance(value, np.ndarray) or value.nbytes < _INLINE_BELOW_BYTES:
        return value
    try:
        return ray.put(value)
    except RayError as error:
        raise out_of_store(error, "an input", value.nbytes) or ExecutionError(
            f"an input of {value.nbytes} bytes cannot be stored: {type(error).__name__}",
            hint="let fewer requests be in flight, or give Ray a larger object store",
        ) from error


def owned(value: Any) -> Any:
    """Return a copy of a value: Ray's memory ends with the connection."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, list):
        return [owned(entry) for entry in value]
    return value
