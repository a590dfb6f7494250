"""Threshold for machine code: work that takes plain Python over a second in this process.

Loading numba takes 0.5 CPU seconds in every process, and compiling a function 2 to 10 on the first
use on a machine. So each caller states the work that takes plain Python about a second, as its
`compile_from`, and gives the same answer either way.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from hetsim.core import deadline
from hetsim.core.machine_code import Compiled

LOADING, LOADING_MORE = 0.5, 0.1
"""Seconds left to plain Python from which what is kept is loaded: of all functions together, numba;
of one, its machine code."""

_done: dict[Callable[..., Any], float] = {}
"""Seconds of work asked for in this process so far, by function."""

_kept: dict[Callable[..., Any], bool] = {}
"""Whether machine code of a function is kept, as far as it was asked."""


def pays(compiled: Compiled, work: float, least: float, compile_from: float) -> bool:
    """Return whether this amount of work justifies machine code; otherwise Python runs it.

    Parameters
    ----------
    compiled : Compiled
        The machine code; work is added up by what is left to Python in its place.
    work, least, compile_from : float
        In one unit: what is asked for now, what it must be to outweigh handing over arrays, and
        what is compiled, of all that this process has asked for. What is kept from another process
        is loaded from a part of that on.

    Where a deadline leaves no time to compile, nothing new is.
    """
    if work < least:
        return False
    function = compiled.plain
    if compiled.loaded:
        return True
    done = _done[function] = _done.get(function, 0.0) + work / compile_from
    if done >= 1.0 and deadline.may_compile():
        return True
    if done < LOADING_MORE or deadline.left_s() < deadline.LOAD_S:
        return False
    if "numba" not in sys.modules and sum(_done.values()) < LOADING:
        return False
    if function not in _kept:
        _kept[function] = compiled.kept
    return _kept[function]


def called(
    compiled: Compiled, first: Sequence[Any], columns: Sequence[Any], *, as_arrays: bool
) -> tuple[Any, Sequence[Any]]:
    """Call machine code on arrays or plain Python on lists; return its result, and those."""
    if as_arrays:
        return compiled(*first, *columns), columns
    rows = [column.tolist() for column in columns]
    return compiled.plain(*first, *rows), rows
