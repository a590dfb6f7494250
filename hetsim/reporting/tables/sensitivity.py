"""What would move an answer: as a table, and as a plain record."""

from __future__ import annotations

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from hetsim.analysis.sensitivity import Sensitivities
from hetsim.base.text import Record, plain
from hetsim.reporting.tables.beside import SAME, change_text
from hetsim.reporting.words.console import cell, new_table
from hetsim.reporting.words.text import count, seconds_text


def sensitivities_report(found: Sensitivities) -> RenderableType:
    """Return a row for each change that moves the figure, the largest first."""
    table = new_table()
    table.add_column(cell(f"what would move {found.figure}"), overflow="fold")
    for name in ("plan kept", "planned anew"):
        table.add_column(Text(name, justify="right"), justify="right", no_wrap=True)
    still = 0
    for one in found.changes:
        if not (abs(one.kept) >= SAME or abs(one.anew) >= SAME):
            still += 1
            continue
        table.add_row(cell(one.change), cell(change_text(one.kept)), cell(change_text(one.anew)))
    value = seconds_text(found.value_s)
    moved = len(found.changes) - still
    told = f"{plain(found.figure)} is {value}; {count(still, 'other change')} would not move it"
    return Stack(table, Text(told)) if moved else Text(told)


def sensitivities_record(found: Sensitivities) -> Record:
    """Return the same as plain data."""
    return {
        "figure": found.figure,
        "value_s": found.value_s,
        "changes": [
            {"change": one.change, "plan_kept": one.kept, "planned_anew": one.anew}
            for one in found.changes
        ],
    }
