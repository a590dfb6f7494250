"""Sweep: answered and failed points, and their Pareto front."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from hetsim.core.text import Record, fields, plain
from hetsim.reporting.console import bold, pairs, stack, table
from hetsim.reporting.formatting import ABSENT, count, figure_text
from hetsim.reporting.tables.verdicts import verdict_of
from hetsim.sweeping.evaluation import SweepProgress
from hetsim.sweeping.rows import ASKED, TEXT, Row
from hetsim.sweeping.verb import Swept

ERRORS_SHOWN = 5
ROWS_SHOWN = 20

ANSWERS = ("latency_s", "energy_j", "p99_s", "throughput_per_s", "verdict", "kind")
"""Columns of answers that a table shows, if a row has them."""


def progress_text(so_far: SweepProgress) -> str:
    """Return the progress of a sweep."""
    text = f"{so_far.done} of {so_far.total}"
    if so_far.failed:
        text += f", {so_far.failed} failed"
    return text


def sweep_report(found: Swept) -> RenderableType:
    """Return counts, the most frequent errors, and the Pareto front."""
    known = f", {found.known} already known" if found.known else ""
    rows = [("points", f"{len(found.rows)}, {found.answered} computed{known}")]
    errors = Counter(str(row["error"]) for row in found.rows if row["error"] is not None)
    if found.failed:
        rows.append(("failed", f"{found.failed}; each row has its error"))
        for error, times in errors.most_common(ERRORS_SHOWN):
            rows.append(("", f"{count(times, 'point')}: {plain(error)}"))
        if len(errors) > ERRORS_SHOWN:
            rows.append(("", f"and {count(len(errors) - ERRORS_SHOWN, 'other error')}"))
    rows.append(("rows", str(found.file)))
    if found.parquet is not None:
        rows.append(("", str(found.parquet)))
    return stack(pairs(rows), _front(found) if found.wishes else _all(found))


def _all(found: Swept) -> RenderableType:
    """Table of the first rows of the grid."""
    answers = [name for name in ANSWERS if any(row[name] is not None for row in found.rows)]
    made = _table(found, found.rows, answers)
    more = len(found.rows) - ROWS_SHOWN
    if more <= 0:
        return made
    return Stack(made, Text(f"{count(more, 'more row')} in {found.file}", style="bold"))


def _front(found: Swept) -> RenderableType:
    """Table of the Pareto front, best first by its first column."""
    wished = " and ".join(map(str, found.wishes))
    if not found.front:
        return Text(f"No row has {wished}.")
    first = found.wishes[0]
    best = sorted(
        found.front,
        key=lambda row: -row[first.column] if first.larger else row[first.column],
    )
    made = _table(found, best, [wish.column for wish in found.wishes])
    more = len(best) - ROWS_SHOWN
    text = verdict_of(sweep_record(found))
    return Stack(made, bold(f"{text} {more} are not shown." if more > 0 else text))


def _table(found: Swept, rows: Sequence[Row], answers: Sequence[str]) -> RenderableType:
    """Table of at most ROWS_SHOWN rows: the columns that vary in the grid, and answers."""
    varied = [name for name in ASKED if len({str(row[name]) for row in found.rows}) > 1]
    names = varied or ["model"]
    return table(
        (*names, *(name if name in TEXT else f"#{name}" for name in answers)),
        (
            (
                *(ABSENT if row[name] is None else str(row[name]) for name in names),
                *(figure_text(name, row[name]) for name in answers),
            )
            for row in rows[:ROWS_SHOWN]
        ),
    )


def sweep_record(found: Swept) -> Record:
    """Return the outcome of a sweep as plain data; its rows are in their file."""
    return {
        "schema": "hetsim-sweep/1",
        "points": len(found.rows),
        **fields(found, "answered known failed rows=file parquet"),
        "front": [dict(row) for row in found.front],
        "front_of": [str(wish) for wish in found.wishes],
    }
