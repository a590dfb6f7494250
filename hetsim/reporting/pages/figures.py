"""Figures as plotly's JSON: traces and layout, with the theme's colours by name (``--ink``)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

from hetsim.core.text import Record, to_compact_json
from hetsim.core.units import format_seconds, significant
from hetsim.reporting.pages.page import packed, told

BARS_MOST, DOTS_MOST = 30, 100
"""Maximum number of bars, and of dots, of a figure; the table under it has all."""

STACKED_MOST = 16
"""Maximum number of rows of a stacked figure, the largest; the table under it has all."""

PLAIN_BYTES = 20_000
"""Maximum size in bytes of a figure stored as JSON; larger ones are gzip in base64."""

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
"""Colours that stay distinct for colour-blind readers (Okabe and Ito 2008)."""

BLUE, ORANGE, GREEN, RED = COLOURS[0], COLOURS[1], COLOURS[2], COLOURS[5]

GREY = "#8a94a0"

PATTERNS = ("", "/", "\\", "x", "-", "|", "+", ".")

SECONDS: Record = {"tickformat": "~s", "ticksuffix": "s"}
SINCE = "Time since the first request"


def time_unit(seconds: float) -> tuple[float, str]:
    """Return the unit of an axis of times up to `seconds`, and its name."""
    return next((unit for unit in ((1.0, "s"), (1e-3, "ms")) if seconds >= unit[0]), (1e-6, "us"))


def logarithmic(values: Sequence[float]) -> Record:
    """Return a logarithmic axis of seconds with ticks at 1, 2 and 5 of each power of ten."""
    drawn = [one for one in values if 0 < one < math.inf] or [1.0]
    low, high = (math.log10(end(drawn)) for end in (min, max))
    powers = range(math.floor(low), math.ceil(high) + 1)
    ticks = [float(f"{digit}e{power}") for power in powers for digit in (1, 2, 5)]
    return {"type": "log", "tickvals": ticks, "ticktext": [format_seconds(at) for at in ticks]}


def colour(index: int) -> str:
    """Return the colour of a device by its index; grey below 0."""
    return GREY if index < 0 else COLOURS[index % len(COLOURS)]


def pattern(index: int) -> str:
    """Return the pattern of a device by its index."""
    return PATTERNS[(index + 3 * (index // len(COLOURS))) % len(PATTERNS)] if index >= 0 else ""


def label(text: str, most: int = 60) -> str:
    """Return a text with plotly's markup escaped, cut to `most` characters."""
    shown = told(text)
    short = shown if len(shown) <= most else f"{shown[: most - 3]}..."
    return escape(short, quote=False)


def figure(
    data: Sequence[Record],
    layout: Record,
    *,
    alt: str,
    height: int,
    name: str = "",
    note: str = "",
) -> Record:
    """Return a figure, as plotly takes it; packed where it is large. ``--ink`` is a colour of the
    theme.

    `alt` describes it to those who cannot see it, `name` identifies it in a view with several,
    `note` stands under it.
    """
    made = {"name": told(name), "note": told(note), "alt": told(alt), "height": height,
            "data": list(data), "layout": layout}  # fmt: skip
    return made if len(to_compact_json(made)) <= PLAIN_BYTES else packed(made)


def rule(axis: Literal["x", "y"], at: float, shade: str, dash: str = "dash") -> Record:
    """Return a straight line through a figure at a position on an axis."""
    other = "y" if axis == "x" else "x"
    return {"type": "line", f"{axis}0": at, f"{axis}1": at, f"{other}ref": "paper",
            f"{other}0": 0, f"{other}1": 1,
            "line": {"color": shade, "width": 2, "dash": dash}}  # fmt: skip


def remark(text: str, shade: str, **place: Any) -> Record:
    """Return a text at a position in a figure, as an annotation of plotly's."""
    font = {"color": shade, "size": 13}
    return {"text": label(text), "showarrow": False, "font": font, **place}


def limits_drawn(limits_s: Sequence[float], **place: Any) -> tuple[list[Record], list[Record]]:
    """Return lines across a figure of latencies at their limits, and the texts next to them."""
    notes = [
        remark(f"limit: {format_seconds(limit)}", "--bad", xref="paper", y=math.log10(limit),
               yanchor="bottom", **place)
        for limit in limits_s
    ]  # fmt: skip
    return [rule("y", limit, "--bad") for limit in limits_s], notes


def scatter(x: Sequence[Any], y: Sequence[Any], *, mode: str = "lines", **more: Any) -> Record:
    """Return a trace of points or lines."""
    return {"type": "scatter", "mode": mode, "x": list(x), "y": list(y), **more}


def axis(title: str, **more: Any) -> Record:
    """Return an axis with its title."""
    return {"title": {"text": title}, **more}


@dataclass(frozen=True, slots=True)
class Bar:
    """Bar of a figure: its value, and the value as text; a bar without a value is left out.

    ``low`` and ``high`` are the ends of its interval; ``more`` is shown on hovering, instead of its
    name.
    """

    name: str
    value: float | None
    text: str
    colour: str = BLUE
    pattern: str = ""
    low: float | None = None
    high: float | None = None
    more: str = ""


def bars(
    given: Sequence[Bar],
    *,
    name: str,
    unit: Literal["seconds", "share", "count"],
    line: float | None = None,
    line_text: str = "",
    dots: bool = False,
) -> list[Record]:
    """Return the figure of some bars, the first on top; empty if none has a value.

    `name`: that of the value, without its unit; `line`: a limit, with its name. `dots`: dots on a
    logarithmic axis of seconds, for figures over several powers of ten.
    """
    rows = [row for row in given if row.value is not None][: DOTS_MOST if dots else BARS_MOST]
    if not rows:
        return []
    alt = f"{name}: {', '.join(f'{row.name} {row.text}' for row in rows)}"
    rows.reverse()
    largest = max([*(max(row.value or 0.0, row.high or 0.0) for row in rows), line or 0.0])
    step, scaled = (0.01 if unit == "share" else 1.0), ""
    if unit == "seconds" and not dots:
        step, scaled = time_unit(largest)
    values = [(row.value or 0.0) / step for row in rows]

    def ends(given: Sequence[float | None]) -> list[float]:
        return [at if one is None else one / step for one, at in zip(given, values, strict=True)]

    highs, lows = ends([row.high for row in rows]), ends([row.low for row in rows])
    line = None if line is None else line / step
    spread = highs != values or lows != values
    most = largest / step or 1.0
    places = list(range(len(rows)))
    names = [label(f"{row.text}  {row.name}" if spread else row.name, 40) for row in rows]
    trace: Record = {
        "y": places,
        "x": values,
        "customdata": [label(row.more or row.name, 160) for row in rows],
        "hovertemplate": "%{customdata}<br>%{text}<extra></extra>",
    }
    if spread:
        trace["error_x"] = {
            "type": "data",
            "symmetric": False,
            "color": "--ink",
            "array": [high - at for high, at in zip(highs, values, strict=True)],
            "arrayminus": [at - low for low, at in zip(lows, values, strict=True)],
        }
    colours = [row.colour for row in rows]
    titled = {"seconds": f"{name} ({scaled})", "share": f"{name} (%)", "count": name}[unit]
    layout: Record = {
        "bargap": 0.35,
        "xaxis": axis(titled, range=[0, most * 1.05]),
        "yaxis": {"tickvals": places, "ticktext": names,
                  "zeroline": False, "showgrid": False},
    }  # fmt: skip
    if dots:
        trace |= {"type": "scatter", "mode": "markers", "marker": {"color": colours, "size": 11}}
        layout["xaxis"] = axis(name, **logarithmic([*lows, *highs]))
    else:
        shapes = {"shape": [row.pattern for row in rows], "fgcolor": "#ffffff", "solidity": 0.2}
        inside = ["inside" if at > most / 2 else "outside" for at in values]
        trace |= {
            "type": "bar",
            "orientation": "h",
            "text": [label(row.text) for row in rows],
            "textposition": "none" if spread else inside,
            "insidetextanchor": "end",
            "cliponaxis": False,
            "textfont": {"size": 13},
            "outsidetextfont": {"color": "--ink", "size": 13},
            "marker": {
                "color": colours,
                "line": {"color": "--ink", "width": 0.5},
                "pattern": shapes,
            },
        }
    if line is not None:
        layout["margin"] = {"t": 34}
        layout["shapes"] = [rule("x", line, "--bad")]
        layout["annotations"] = [
            remark(line_text, "--bad", x=line, y=1, yref="paper", yanchor="bottom",
                   xanchor="right" if line > most / 2 else "left")
        ]  # fmt: skip
    height = max(160, 96 + (24 if dots else 34) * len(rows))
    return [figure([trace], layout, alt=alt, height=height)]


@dataclass(frozen=True, slots=True)
class Area:
    """Row of a stacked figure: a step function of time, constant from each time to the next.

    The last time is the end of the last value; `device` determines colour and pattern, below 0
    grey; `top` is the end of its axis, `axis` has further settings of it; `line` is a limit, `base`
    a constant part; `hover` is the text of each value.
    """

    name: str
    title: str
    times_s: Sequence[float]
    values: Sequence[float]
    device: int
    top: float
    axis: Record
    hover: Sequence[str]
    line: float | None = None
    base: float | None = None


def stacked(rows: Sequence[Area], *, name: str, alt: str, note: str) -> Record:
    """Return areas under each other over one axis of time."""
    layout: Record = {
        "margin": {"t": 26, "l": 72},
        "hovermode": "x unified",
        "grid": {"rows": len(rows), "columns": 1, "ygap": 0.42},
        "annotations": [],
        "shapes": [],
        "xaxis": {"zeroline": False, "title": {"text": SINCE}, **SECONDS,
                  "anchor": f"y{len(rows) if len(rows) > 1 else ''}"},
    }  # fmt: skip
    data: list[Record] = []
    for place, row in enumerate(rows):
        suffix = str(place + 1) if place else ""
        shade, shape = colour(row.device), pattern(row.device)
        layout[f"yaxis{suffix}"] = {
            "range": [0, row.top], "fixedrange": True, "zeroline": False, **row.axis
        }  # fmt: skip
        layout["annotations"].append(
            remark(row.title, "--ink", xref="paper", x=0, xanchor="left", y=1, yanchor="bottom",
                   yref=f"y{suffix} domain")
        )  # fmt: skip
        if row.line is not None:
            layout["shapes"].append({**rule("y", row.line, "--bad"), "yref": f"y{suffix}"})
        filled: Record = {"fill": "tozeroy", "fillcolor": f"{shade}b0"}
        if shape:
            filled["fillpattern"] = {"shape": shape, "bgcolor": f"{shade}b0", "fgcolor": "#ffffff",
                                     "fgopacity": 0.5, "size": 8, "solidity": 0.2}  # fmt: skip
        data.append(
            scatter(
                row.times_s,
                [significant(one, 5) for one in (*row.values, *row.values[-1:])],
                yaxis=f"y{suffix}",
                **filled,
                name=label(row.name, 40),
                line={"shape": "hv", "width": 1.2, "color": shade},
                customdata=[*row.hover, *row.hover[-1:]],
                hovertemplate="%{customdata}",
            )
        )
        if row.base is not None:
            ends, both = (row.times_s[0], row.times_s[-1]), (row.base, row.base)
            line = {"width": 1.4, "dash": "dot", "color": "--ink"}
            data.append(scatter(ends, both, yaxis=f"y{suffix}", hoverinfo="skip", line=line))
    height = 90 + 90 * len(rows)
    return figure(data, layout, name=name, alt=alt, note=note, height=height)
