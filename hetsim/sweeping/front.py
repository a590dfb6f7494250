"""The Pareto front of rows: those that no other is as good as in all, and better in one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hetsim.errors import UsageError, nearest
from hetsim.sweeping.rows import OF_LOAD, OF_PLAN, Row

LARGER = {"throughput_per_s", "on_time"}
"""Columns of which more is better, where nothing is said."""

NUMBERS = tuple(
    name
    for name in (*OF_PLAN, *OF_LOAD)
    if name not in ("devices", "limited_by", "state", "verdict", "bottleneck")
)


@dataclass(frozen=True, slots=True)
class Wish:
    """A column, and whether more of it is better."""

    column: str
    larger: bool

    def __str__(self) -> str:
        return f"{self.column} ({'most' if self.larger else 'least'})"


def read_front(texts: Sequence[str]) -> tuple[Wish, ...]:
    """Read ``latency_s``, ``energy_j:min``, ``requests:max``.

    Raises UsageError for a column that holds no numbers, or is named twice.
    """
    found: list[Wish] = []
    for text in texts:
        name, _, way = text.strip().partition(":")
        if name not in NUMBERS:
            raise UsageError(f"no column '{name}' of numbers", hint=nearest(name, NUMBERS))
        if way not in ("", "min", "max"):
            raise UsageError(f"'{way}' is not min or max", where=text, hint=f"write {name}:min")
        if any(wish.column == name for wish in found):
            raise UsageError(f"column '{name}' is given twice", hint="leave one out")
        found.append(Wish(name, way == "max" or (not way and name in LARGER)))
    return tuple(found)


def front_of(rows: Sequence[Row], wishes: Sequence[Wish]) -> tuple[Row, ...]:
    """Return the rows that no other dominates, in their order; rows without a figure are out.

    Rows that are equal in all columns are all in it. O(n log n + n F) for F rows of the front.
    """
    if not wishes:
        return ()
    points: list[tuple[tuple[float, ...], int]] = []
    for index, row in enumerate(rows):
        figures = [row[wish.column] for wish in wishes]
        if row["error"] is None and None not in figures:
            pairs = zip(wishes, map(float, figures), strict=True)
            signed = tuple(-value if wish.larger else value for wish, value in pairs)
            points.append((signed, index))
    kept: list[tuple[tuple[float, ...], int]] = []
    # In this order nothing that comes later dominates what is kept.
    for values, index in sorted(points):
        if not any(_dominates(other, values) for other, _ in kept):
            kept.append((values, index))
    return tuple(rows[index] for index in sorted(index for _, index in kept))


def _dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    return one != other and all(mine <= its for mine, its in zip(one, other, strict=True))
