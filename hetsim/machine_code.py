"""Functions on arrays as machine code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def machine_code(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function`, of the subset of Python that numba knows, compiled by numba.

    Division follows numpy: by zero it gives infinity or NaN. The machine code is kept on disk
    where the package or the user's cache directory can be written.
    """
    import numba

    try:
        made: Callable[..., Any] = numba.njit(cache=True, error_model="numpy")(function)
    except RuntimeError:  # numba found no place to write to
        made = numba.njit(error_model="numpy")(function)
    return made
