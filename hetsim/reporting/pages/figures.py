"""Bars side by side: some names, and one figure of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from hetsim.base.text import Record

BARS_MOST = 30
"""Bars of a picture; the table under it has all."""


def bar(
    name: str,
    value: float | None,
    text: str,
    *,
    strong: bool = False,
    device: str = "",
    more: str = "",
) -> Record:
    """Return one bar: its figure, which is drawn, and the figure as text; None is not drawn.

    `strong` ones stand out; one of a `device` has its colour; `more` is said where it is pointed
    at, in the place of its name.
    """
    return {"name": name, "value": value, "text": text, "strong": strong, "device": device,
            "more": more}  # fmt: skip


def bars(
    view: str,
    rows: Sequence[Record],
    *,
    axis: str,
    unit: Literal["seconds", "share", "count"],
    line: float | None = None,
    line_text: str = "",
) -> Record:
    """Return ``bars`` of a view as part of an island's pictures; nothing without a figure.

    `line`: a figure that all are beside, with what it is.
    """
    drawn = [row for row in rows if row["value"] is not None][:BARS_MOST]
    if not drawn:
        return {}
    told = {"rows": drawn, "axis": axis, "unit": unit, "line": line, "line_text": line_text}
    return {"bars": {view: told}}
