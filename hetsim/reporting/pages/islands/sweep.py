"""What the report of ``hetsim sweep`` shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from hetsim.core.text import Record
from hetsim.reporting.pages.figures import COLOURS
from hetsim.reporting.pages.island import Island, Section, Table, Tile, Verdict, table, told
from hetsim.reporting.pages.islands.shared import Found
from hetsim.reporting.pages.leaves import leaf
from hetsim.reporting.tables.sweep import figure
from hetsim.reporting.words.text import ABSENT, count
from hetsim.sweeping.front import LARGER, NUMBERS
from hetsim.sweeping.rows import ASKED, OF_LOAD, OF_PLAN, Row

MOST = 8000
"""Rows that a page holds; their file has all."""

USUAL = ("p99_s", "latency_s", "energy_per_1000_j", "energy_j", "request_s")
"""Figures that are drawn first, where nothing is wished."""

SHOWN = 200
"""Rows of the front in a table."""


def rows_picture(rows: Sequence[Row], wished: Sequence[str] = ()) -> Record:
    """Return rows as columns: those that say something, and what of them is a number.

    The two `first` that are drawn are the `wished` ones, else those that are usual.
    """
    kept = rows[:MOST]
    names = [
        name
        for name in (*ASKED, *OF_PLAN, *OF_LOAD, "error")
        if any(row[name] is not None for row in kept)
    ]
    numbers = [name for name in NUMBERS if name in names]
    picked = list(
        dict.fromkeys([*(name for name in (*wished, *USUAL) if name in numbers), *numbers])
    )
    return {
        "columns": {name: [_shown(row[name]) for row in kept] for name in names},
        "axes": [
            name for name in ASKED if name in names and len({str(row[name]) for row in kept}) > 1
        ],
        "numbers": numbers,
        "larger": [name for name in NUMBERS if name in LARGER],
        "first": [*picked[:2], *picked[:1]][:2],
        "colours": list(COLOURS),
        "left_out": len(rows) - len(kept),
    }


def _shown(value: Any) -> Any:
    return told(value) if isinstance(value, str) else leaf(value)


def sweep_island(record: Found, command: Sequence[str], pictures: Mapping[str, Any]) -> Island:
    """Return what a sweep's record shows; ``points`` of the pictures is ``rows_picture``."""
    rows = pictures.get("points", {"columns": {}, "axes": [], "numbers": [], "left_out": 0})
    return Island(
        kind="sweep",
        title=f"A sweep of {count(record['points'], 'point')}",
        command=tuple(command),
        record=record,
        verdict=Verdict(_say(record), "", tuple(_errors(rows)), ""),
        tiles=(
            Tile("points", str(record["points"]), f"{record['answered']} answered now"),
            Tile("failed", str(record["failed"]), "why is in their rows"),
            Tile(
                "front", str(len(record["front"])), " and ".join(record["front_of"]) or "not asked"
            ),
        ),
        sections=(_front(record, rows),),
        pictures=pictures,
    )


def _say(record: Found) -> str:
    text = f"{record['points'] - record['failed']} of {count(record['points'], 'point')} answered"
    if not record["front_of"]:
        return f"{text}; pick two columns to see what no other beats."
    wished = " and ".join(record["front_of"])
    return f"{text}; {count(len(record['front']), 'row')} that no other beats in {wished}."


def _errors(rows: Found) -> list[str]:
    errors = Counter(one for one in rows["columns"].get("error", ()) if one is not None)
    return [f"{count(times, 'point')}: {error}" for error, times in errors.most_common(4)]


def _front(record: Found, rows: Found) -> Section:
    wishes = [text.partition(" ")[0] for text in record["front_of"]]
    axes = rows["axes"] or ["model"]
    shown = [
        (*(ABSENT if row[name] is None else str(row[name]) for name in axes),
         *(figure(name, row[name]) for name in wishes))
        for row in record["front"][:SHOWN]
    ]  # fmt: skip
    tables: tuple[Table, ...] = ()
    if shown:
        names = [*axes, *(f"#{name}" for name in wishes)]
        tables = (table(f"Rows that no other beats in {' and '.join(wishes)}", names, shown),)
    left = f" The first {MOST} rows; {rows['left_out']} more are in {record['rows']}." * bool(
        rows["left_out"]
    )
    return Section(
        "points",
        "Points",
        "Every point of the grid by any two of its figures; the line joins those that no other "
        f"beats in both. Rows without a figure are not drawn.{left}",
        tables,
        order=5,
    )
