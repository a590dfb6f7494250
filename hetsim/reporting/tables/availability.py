"""How much of the time objectives hold, as tables: by what is up, and what devices matter."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hetsim.core.text import plain
from hetsim.provisioning.rates.redundancy.answer import Availability, State
from hetsim.reporting.tables.surviving import choices_record, nearest_text
from hetsim.reporting.words.console import cell, new_table
from hetsim.reporting.words.like_devices import fold_rows
from hetsim.reporting.words.losses import choices_text
from hetsim.reporting.words.text import share_text

SHOWN = 12
"""States, and devices, that are listed."""

HOW = {
    "refused": "cannot be served",
    "not asked": "too rare to be asked",
}


def availability_report(found: Availability) -> RenderableType:
    """Return the states, the likeliest first, the devices that matter, and the answer."""
    parts: list[RenderableType] = [_states(found), ""]
    if len(found.states) > SHOWN:
        parts.append(Text(f"{len(found.states) - SHOWN} more states are rarer."))
    parts += [_devices(found), ""]
    parts.append(
        Text(
            "Devices fail independently, and each state lasts; what is lost of a device is what "
            "runs there."
        )
    )
    parts += [Text(line, style="bold") for line in availability_lines(found)]
    return Stack(*parts)


def _states(found: Availability) -> Table:
    table = new_table()
    table.add_column("down", overflow="fold")
    table.add_column(Text("of the time", justify="right"), justify="right", no_wrap=True)
    for name in ("answer", "nearest to its limit"):
        table.add_column(name, overflow="fold")
    for one in found.states[:SHOWN]:
        table.add_row(
            cell(choices_text(one.sets)), _rare(one.chance), cell(one.answer), cell(_why(one))
        )
    return table


def _why(one: State) -> str:
    return HOW[one.how] if one.service is None else nearest_text(one.service)


def _rare(chance: Fraction) -> str:
    return share_text(chance) if chance > Fraction(1, 2) else f"{100 * float(chance):.3g} %"


def _devices(found: Availability) -> Table:
    table = new_table()
    table.add_column("device", overflow="fold")
    table.add_column(Text("up", justify="right"), justify="right", no_wrap=True)
    table.add_column("by", overflow="fold")
    rows = fold_rows(found.devices, lambda one: one.device, lambda one: (one.share, one.source))
    for name, one in rows[:SHOWN]:
        table.add_row(cell(name), share_text(one.share), cell(one.source))
    return table


def _digits(minutes: float) -> str:
    return f"{minutes:.0f}" if minutes >= 100 else f"{minutes:.3g}"


def availability_lines(found: Availability) -> list[str]:
    """Return the answer in a sentence."""
    low, high = found.low, found.high
    between = share_text(low)
    least, most = found.minutes_a_month
    lost = _digits(most)
    if low != high:
        between += f" to {share_text(high)}"
        lost = f"{_digits(least)} to {lost}"
    answer = {"meets": "met", "misses": "missed", "undecided": "undecided"}[found.answer]
    proof = f": {plain(found.impossible)}" if found.impossible is not None else ""
    return [
        f"The objectives hold {between} of the time, all but {lost} minutes a month: "
        f"{float(100 * found.target):.12g} % is {answer}{proof}."
    ]


def availability_record(found: Availability) -> dict[str, Any]:
    """Return the record for ``to_json``; shares are fractions, as text, and floats beside."""
    least, most = found.minutes_a_month
    return {
        "target": _share(found.target),
        "answer": found.answer,
        "low": _share(found.low),
        "high": _share(found.high),
        "missed_minutes_a_month": [least, most],
        "impossible": found.impossible,
        "states": [
            {
                "down": list(one.lost),
                "stands_for": choices_record(one.sets),
                "chance": _share(one.chance),
                "answer": one.answer,
                "how": one.how,
                "planned_again": list(one.anew),
                "p99_s": None
                if one.service is None
                else [stream.p99_s for stream in one.service.streams],
            }
            for one in found.states
        ],
        "devices": [
            {
                "device": one.device,
                "up": _share(one.share),
                "source": one.source,
            }
            for one in found.devices
        ],
    }


def _share(share: Fraction) -> dict[str, Any]:
    return {"exact": str(share), "share": float(share)}
