"""Work that was left to Python, by this process and by those before it, where nothing is made yet.

Machine code takes seconds to make and is then kept. Who has much to do has it made at once. Who has
less, again and again, would never: so what was left to Python is added up on disk, and machine code
is made once all of it together would have paid for that.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hetsim.base import deadline, object_code
from hetsim.base.cache import private_folder
from hetsim.base.code_folder import NAME, is_kept, stem_of
from hetsim.base.files import whole_file

FOLDER = "left-to-python"
"""Below that of machine code: a file by function, which holds a number."""

PARTS_WRITTEN = 50
"""Parts of what makes it due, each of which is written down; less is held in memory."""


@dataclass(slots=True)
class _Count:
    before: float
    """What the disk said, and this process wrote."""
    since: float = 0.0


_counts: dict[Callable[..., Any], _Count] = {}


def pays(
    compiled: Any,
    function: Callable[..., Any],
    work: float,
    kept_from: float,
    compile_from: float,
    *parts: Callable[..., Any],
    inline: bool = False,
) -> bool:
    """Return whether so much work is for machine code; where it is not, it is left to Python.

    Parameters
    ----------
    compiled : callable
        What gives the machine code, and has been asked before where its cache says so.
    function : callable
        What that is made of, with `parts` and ``inline`` as ``machine_code`` takes them.
    work, kept_from, compile_from : float
        In one unit: what is asked for now, from which on machine code that is loaded or kept pays,
        and from which on, of all that is asked for, having it made.
    """
    if work < kept_from:
        return False
    return (
        compiled.cache_info().currsize > 0
        or _was_kept(function, *parts, inline=inline)
        or is_due(function, work, compile_from, *parts, inline=inline)
    )


@functools.cache
def _was_kept(function: Callable[..., Any], *parts: Callable[..., Any], inline: bool) -> bool:
    """Whether machine code of it was most likely kept when this was first asked."""
    return is_kept(function, *parts, inline=inline)


def is_due(
    function: Callable[..., Any],
    work: float,
    least: float,
    *parts: Callable[..., Any],
    inline: bool = False,
) -> bool:
    """Add `work` to what was left to Python of a function; return whether that is `least` by now.

    What is due counts from nothing again. Where no folder can be written, or no object code is
    kept, `work` alone counts. Where a deadline leaves no time to compile, nothing is due.

    Parameters
    ----------
    function : callable
        What would be made, of `parts` and ``inline`` as ``machine_code`` takes them.
    work, least : float
        In the same unit; `least` takes as long in Python as making it does.

    All in all that takes at most twice the time of whoever knows what will be asked. Source: A. R.
    Karlin, M. S. Manasse, L. Rudolph, D. D. Sleator, Competitive snoopy caching, Algorithmica 3,
    1988 (the rule of the ski that is rented or bought).
    """
    if not deadline.may_compile():
        return False
    if work >= least or not object_code.is_allowed():
        return work >= least
    count = _counts.get(function)
    if count is None:
        count = _counts[function] = _Count(_read(function, parts, inline))
    count.since += work
    due = count.before + count.since >= least
    if due:
        count.before = count.since = 0.0
        _write(function, parts, inline, 0.0)
    elif count.since * PARTS_WRITTEN >= least:
        count.before, count.since = count.before + count.since, 0.0
        _write(function, parts, inline, count.before)
    return due


def _file(function: Callable[..., Any], parts: tuple[Any, ...], inline: bool) -> Path | None:
    folder = private_folder(NAME, FOLDER)
    return None if folder is None else folder / stem_of(function, parts, inline)


def _read(function: Callable[..., Any], parts: tuple[Any, ...], inline: bool) -> float:
    path = _file(function, parts, inline)
    try:
        return max(0.0, min(float(path.read_bytes()[:32]), 1e18)) if path is not None else 0.0
    except (OSError, ValueError):
        return 0.0


def _write(function: Callable[..., Any], parts: tuple[Any, ...], inline: bool, work: float) -> None:
    path = _file(function, parts, inline)
    if path is None:
        return
    # Of two processes that write at once one is not counted: nothing hangs on it.
    with contextlib.suppress(OSError), whole_file(path) as draft:
        draft.write(repr(work).encode())
