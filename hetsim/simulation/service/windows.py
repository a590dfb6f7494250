"""When failures are felt: from the first that stops until what it left undone is done."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from hetsim.simulation.failures.serving import Spell
from hetsim.simulation.service.failed import Window

Seconds: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

CHUNK = 4096
"""Requests that are looked at at a time for one after which few enough are inside."""


def windows_of(spells: Sequence[Spell], arrival_s: Seconds, left_s: Seconds) -> tuple[Window, ...]:
    """Return the windows of a model.

    Parameters
    ----------
    spells : sequence of Spell
        When something that serves it did not work.
    arrival_s, left_s : float64[requests]
        When each of its requests came, ascending, and when it was over; rejected ones, too.

    Complexity: O(n log n), and O(n) a window at most.
    """
    if not spells:
        return ()
    gone_s = np.sort(left_s)
    inside = np.searchsorted(arrival_s, gone_s, side="right") - np.arange(1, len(gone_s) + 1)
    first_s = spells[0].begin_s
    together = float((np.minimum(left_s, first_s) - np.minimum(arrival_s, first_s)).sum())
    usual = math.ceil(together / first_s) if first_s > 0 else 0
    found: list[Window] = []
    level = 0
    for spell in spells:
        begin_s = spell.begin_s
        if found and spell.begin_s < found[-1].end_s:
            begin_s = found.pop().begin_s
        else:
            came = int(np.searchsorted(arrival_s, begin_s))
            level = max(came - int(np.searchsorted(gone_s, begin_s)), usual)
        end_s = _recovered(spell.end_s, level, arrival_s, gone_s, inside)
        found.append(Window(begin_s, spell.end_s, end_s))
    return tuple(found)


def _recovered(
    works_s: float, level: int, arrival_s: Seconds, gone_s: Seconds, inside: Any
) -> float:
    """When, from `works_s` on, at most `level` are inside."""
    if math.isinf(works_s):
        return math.inf
    at = int(np.searchsorted(gone_s, works_s, side="right"))
    if np.searchsorted(arrival_s, works_s, side="right") - at <= level:
        return works_s
    while at < len(gone_s):
        few = np.flatnonzero(inside[at : at + CHUNK] <= level)
        if len(few):
            return float(gone_s[at + few[0]])
        at += CHUNK
    return math.inf


def felt_by(windows: Sequence[Window], arrival_s: Seconds, left_s: Seconds) -> Any:
    """Return in which window each request was inside, the first of them; -1: in none.

    O(requests log windows).
    """
    if not windows:
        return np.full(len(arrival_s), -1)
    begins = np.array([one.begin_s for one in windows] + [math.inf])
    ends = np.array([one.end_s for one in windows])
    which = np.searchsorted(ends, arrival_s, side="right")
    return np.where(begins[which] < left_s, which, -1)
