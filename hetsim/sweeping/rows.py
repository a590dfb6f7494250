"""Rows of a sweep: columns, lines, and the Pareto front."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hetsim.errors import UsageError, nearest
from hetsim.sweeping.grid import Grid, Point

Row = dict[str, Any]

ASKED = ("model", "platform", "what_if", "execute", "strategy", "batching", "workload", "objective")
"""Columns of the question."""

OF_PLAN = ("latency_s", "request_s", "energy_j", "peak_memory_bytes", "moved_bytes", "subgraphs",
           "devices", "limited_by", "lower_bound_s")  # fmt: skip
"""Columns of one request alone; `request_s` is its load on the busiest device or link."""

OF_LOAD = ("requests", "state", "p50_s", "p90_s", "p99_s", "mean_s", "throughput_per_s", "on_time",
           "verdict", "utilization", "bottleneck", "energy_per_1000_j")  # fmt: skip
"""Columns under load: `on_time` is the least share of any objective."""

COLUMNS = ("key", *ASKED, *OF_PLAN, *OF_LOAD, "error", "kind")
"""Columns of every row, in this order; null without a value.

`key` is the digest of all that the answer depends on. `error` is the reason why there is none, in
one line, and `kind` the class of that error.
"""

WHOLE = frozenset({"peak_memory_bytes", "moved_bytes", "subgraphs", "requests"})
"""Columns of whole numbers."""

TEXT = frozenset(
    {"key", *ASKED, "devices", "limited_by", "state", "verdict", "bottleneck", "error", "kind"}
)
"""Columns of text; all others are numbers."""

BROKEN = "broken"
"""Kind of a row whose point failed for a reason outside the point: it is evaluated again."""


def blank(grid: Grid, point: Point) -> Row:
    """Return the row of a point before its evaluation; the caller fills in its key."""
    what_if = grid.what_ifs[point.what_if]
    load = grid.loads[point.load]
    batching = grid.batchings[point.batching]
    row: Row = dict.fromkeys(COLUMNS)
    row["model"] = grid.models[point.model].shown
    row["platform"] = grid.platforms[point.platform].shown
    row["what_if"] = str(what_if) or None
    execute = grid.precisions[point.precision]
    row["execute"] = ",".join(f"{name}={how}" for name, how in sorted(execute.items())) or None
    row["strategy"] = grid.strategies[point.strategy]
    row["objective"] = grid.objective
    row["workload"] = None if load is None else load.shown
    if batching is not None:
        preferred = ",".join(map(str, batching.preferred_batch_size))
        row["batching"] = f"{batching.max_batch_size}:{batching.max_queue_delay_us}" + (
            f" ({preferred})" if preferred else ""
        )
    return row


def finite(value: float | None) -> float | None:
    """Return a number for JSON: null for one that is not finite."""
    return None if value is None or not math.isfinite(value) else value


def line(row: Mapping[str, Any]) -> str:
    """Return a row as a line of JSON, identical for identical answers."""
    return json.dumps(row, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


LARGER = {"throughput_per_s", "on_time"}
"""Columns that are maximised by default."""

NUMBERS = tuple(name for name in (*OF_PLAN, *OF_LOAD) if name not in TEXT)


@dataclass(frozen=True, slots=True)
class Preference:
    """Column of a Pareto front, and whether it is maximised."""

    column: str
    larger: bool

    def __str__(self) -> str:
        return f"{self.column} ({'most' if self.larger else 'least'})"


def read_front(texts: Sequence[str]) -> tuple[Preference, ...]:
    """Read ``latency_s``, ``energy_j:min``, ``requests:max``.

    Raises UsageError for a column without numbers, or one that is named twice.
    """
    found: list[Preference] = []
    for text in texts:
        name, _, way = text.strip().partition(":")
        if name not in NUMBERS:
            raise UsageError(f"no column '{name}' of numbers", hint=nearest(name, NUMBERS))
        if way not in ("", "min", "max"):
            raise UsageError(
                (f"'{way}' is neither min nor max"), where=text, hint=f"write {name}:min"
            )
        if any(wish.column == name for wish in found):
            raise UsageError(f"column '{name}' is given twice", hint="leave one out")
        found.append(Preference(name, way == "max" or (not way and name in LARGER)))
    return tuple(found)


def front_of(rows: Sequence[Row], wishes: Sequence[Preference]) -> tuple[Row, ...]:
    """Return the Pareto front of the rows, in order; rows that lack a figure are excluded.

    Of rows that are equal in all columns all are in it. O(n log n + n F) for F rows of the front.
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
    # In this order no later row dominates one that is kept.
    for values, index in sorted(points):
        if not any(_dominates(other, values) for other, _ in kept):
            kept.append((values, index))
    return tuple(rows[index] for index in sorted(index for _, index in kept))


def _dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    return one != other and all(mine <= its for mine, its in zip(one, other, strict=True))
