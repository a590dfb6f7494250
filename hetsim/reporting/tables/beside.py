"""Two answers side by side, as it is and as supposed: as text, and as a plain record."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hetsim.analysis.beside import Beside, Side
from hetsim.base.text import Record, plain
from hetsim.base.units import format_seconds
from hetsim.reporting.words.console import cell, new_table
from hetsim.reporting.words.like_devices import folded
from hetsim.reporting.words.text import ABSENT, joules, percent, relative_change

SAME = 5e-4
"""Part of a figure below which a difference is none: percentages show as much."""

WORDS = {
    "strategy": "the strategy",
    "devices": "the devices",
    "limited_by": "what limits it",
    "subgraphs": "the subgraphs",
}
"""What decisions are called."""

Row = tuple[str, str, str, str, str]


def beside_report(found: Beside) -> RenderableType:
    """Return a table of both answers, and what moved, in a sentence."""
    was, now, kept = found.was, found.now, found.kept
    cost = "latency" if found.objective == "latency" else "a request"
    limit = None if kept is None else kept.limited_by
    rows = [
        _seconds(cost, was.cost_s, now.cost_s, None if kept is None else kept.cost_s, kept),
        ("strategy", *_texts(was.strategy, was.strategy if kept else ABSENT, now.strategy), ""),
        ("devices", _devices(was), _devices(kept), _devices(now), ""),
        ("limited by", *_texts(was.limited_by, limit, now.limited_by), ""),
    ]
    if not any(map(math.isnan, (was.energy_j, now.energy_j))):
        shown = ABSENT if kept is None else joules(kept.energy_j)
        change = difference(was.energy_j, now.energy_j)
        rows.append(("energy", joules(was.energy_j), shown, joules(now.energy_j), change))
    if was.bound_s is not None and now.bound_s is not None:
        rows.append(_seconds("lower bound", was.bound_s, now.bound_s, None, kept))
    if was.single_s is not None and now.single_s is not None:
        rows.append(_seconds("best single", was.single_s, now.single_s, None, kept))
        rows.append(("", was.single, "", now.single, ""))
    table = sides_table(("as it is", "plan kept", "supposed", "change"), rows)
    return Stack(table, Text(""), Text(sentence(found), style="bold"))


def sentence(found: Beside) -> str:
    """Return what the supposition does to the answer, in a sentence or two."""
    was, now = found.was, found.now
    of = "latency" if found.objective == "latency" else "seconds a request"
    change = found.change
    if change is None:
        text = f"as it is there is no plan ({was.reason})" if was.reason else "no plan as it is"
    elif abs(change) < SAME:
        text = f"the {of} stays {format_seconds(now.cost_s)}"
    else:
        text = (
            f"the {of} goes from {format_seconds(was.cost_s)} to {format_seconds(now.cost_s)}, "
            f"{percent(change, sign=True)}"
        )
    if change is not None:
        moved = [WORDS[name] for name in found.moved]
        text += f"; {' and '.join(moved)} changed" if moved else "; the plan stays"
        if found.kept is not None and moved and abs(change) >= SAME:
            share = found.kept.cost_s / was.cost_s - 1.0
            text += f" ({percent(share, sign=True)} with the plan kept)"
    lines = f"What if {found.supposed}: {text}."
    for each in found.idle:
        lines += f" '{each}' changes nothing that this answer depends on."
    return plain(lines)


def beside_record(found: Beside) -> Record:
    """Return both answers as plain data."""
    return {
        "changes": list(found.supposed.changes),
        "without": list(found.supposed.without),
        "without_effect": list(found.idle),
        "objective": found.objective,
        "as_it_is": side_record(found.was),
        "plan_kept": None if found.kept is None else side_record(found.kept),
        "supposed": side_record(found.now),
        "change": found.change,
        "moved": list(found.moved),
    }


def side_record(side: Side) -> Record:
    """Return one answer as plain data."""
    return {
        "cost_s": side.cost_s,
        "strategy": side.strategy or None,
        "devices": list(side.devices),
        "limited_by": side.limited_by or None,
        "energy_j": side.energy_j,
        "lower_bound_s": side.bound_s,
        "best_single": side.single or None,
        "best_single_s": side.single_s,
        "reason": side.reason or None,
    }


def difference(was: float, now: float) -> str:
    """Return ``-25 %``; ``same`` where there is none, a dash where it is no number."""
    share = relative_change(was, now)
    if share is None:
        return "same" if was == now else ABSENT
    return change_text(share)


def change_text(share: float) -> str:
    """Return a relative change; ``same`` where there is none, a dash where it is no number."""
    if math.isnan(share):
        return ABSENT
    return "same" if abs(share) < SAME else percent(share, sign=True)


def _seconds(what: str, was: float, now: float, kept: float | None, of: Side | None) -> Row:
    shown = "" if of is not None and kept is None else ABSENT if kept is None else _time(kept)
    return (what, _time(was), shown, _time(now), difference(was, now))


def _time(seconds: float) -> str:
    return "no plan" if math.isnan(seconds) else format_seconds(seconds)


def _texts(was: str, kept: str | None, now: str) -> tuple[str, str, str]:
    return (was or ABSENT, kept or ABSENT, now or ABSENT)


def _devices(side: Side | None) -> str:
    return ABSENT if side is None else ", ".join(folded(side.devices)) or ABSENT


def sides_table(sides: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Return a table of figures, each with its name before what it is on each side."""
    table = new_table()
    table.add_column(cell("what if"), overflow="fold")
    for name in sides:
        table.add_column(Text(name, justify="right"), justify="right", overflow="fold")
    for row in rows:
        table.add_row(*map(cell, row))
    return table
