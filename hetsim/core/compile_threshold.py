"""Threshold for machine code: work that takes plain Python over a second in this process.

Loading numba takes 0.5 CPU seconds in every process, and compiling a function 2 to 10 on the first
use on a machine. So each caller states the work that takes plain Python about a second, as its
`compile_from`; both ways give the same answer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from hetsim.core import deadline
from hetsim.core.machine_code import Compiled

LOADING, LOADING_MORE = 0.5, 0.1
"""Seconds of work in plain Python from which cached machine code is loaded: of all functions
together, to load numba; of one, to load its code."""

_done: dict[Callable[..., Any], float] = {}
"""Seconds of work requested in this process so far, by function."""

_kept: dict[Callable[..., Any], bool] = {}
"""Whether machine code of a function is cached, for the functions that were checked."""


def pays(compiled: Compiled, work: float, least: float, compile_from: float) -> bool:
    """Return whether this amount of work justifies machine code; otherwise Python runs it.

    Parameters
    ----------
    compiled : Compiled
        The machine code; the work that Python did in its place is added up.
    work, least, compile_from : float
        In one unit: the work of this call, the least that outweighs passing arrays, and the total
        in this process that justifies compilation. Code cached by another process is loaded from a
        part of that total on.

    If a deadline leaves no time to compile, nothing new is compiled.
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
    """Call machine code on arrays or plain Python on lists; return its result, and the columns."""
    if as_arrays:
        return compiled(*first, *columns), columns
    rows = [column.tolist() for column in columns]
    return compiled.plain(*first, *rows), rows
