"""Latency over rate: a slider's stops, the figure, and the tables of each deployment."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hetsim.core.text import Record
from hetsim.reporting.pages.figures import (
    colour,
    figure,
    label,
    logarithmic,
    remark,
    rule,
)
from hetsim.reporting.pages.island import Section, Table, table, told
from hetsim.reporting.pages.islands.shared import Found, seconds
from hetsim.reporting.words.text import ABSENT, percent


def load_sections(rates: Sequence[Found]) -> list[Section]:
    """View of latency over rate, with a table a deployment; none where no rate was simulated."""
    tables = [one for row in rates for one in _curve_tables(row, len(rates) > 1)]
    if not tables:
        return []
    text = (
        "The same requests closer together or further apart, on the virtual clock: the percentile "
        "that is asked for with its 95 % interval, the limit, and what is busiest. Hollow: so many "
        "requests do not decide it. The slider stops at each rate that was simulated; the command "
        "beside it prints the same figures."
    )
    left = dict.fromkeys(
        f"{one['name']}: {one['why_not']}" if one["name"] else str(one["why_not"])
        for one in rates
        if one.get("why_not")
    )
    if left:
        text += f" Not simulated at other rates: {'; '.join(left)}."
    return [Section("load", "Latency over rate", text, tuple(tables), order=5)]


def _curve_tables(row: Found, several: bool) -> list[Table]:
    curve = row.get("curve")
    if curve is None:
        return []
    found = []
    for stream in curve["streams"]:
        names = ["#requests a second", f"#p{stream['percentile']:g}", "#95 % interval", "verdict",
                 "it is", "busiest", "#used"]  # fmt: skip
        rows = []
        for k, factor in enumerate(curve["factor"]):
            one = {key: stream[key][k] for key in ("latency_s", "low_s", "high_s", "enough")}
            rows.append(
                (
                    f"{factor * row['rate_per_s']:.4g}",
                    seconds(one["latency_s"]),
                    interval_text(one),
                    ", ".join(stream["verdict"][k]) or ABSENT,
                    curve["state"][k],
                    curve["bottleneck"][k],
                    percent(curve["used"][k]),
                )
            )
        of = f" of {stream['name']}" if len(curve["streams"]) > 1 else ""
        by = f", {row['name']}" if several else ""
        count = "all its" if row["requests"] is None else f"the first {row['requests']}"
        found.append(table(f"Latency{of} over rate{by}: {count} requests", names, rows))
    return found


def load_picture(rates: Sequence[Found]) -> Record:
    """Return ``load``: a slider's stops and the figure of each deployment; nothing without one."""
    rows = [row for row in rates if row.get("curve")]
    return {"load": [_load(row) for row in rows]} if rows else {}


def _load(row: Found) -> Record:
    curve = row["curve"]
    rates = [factor * row["rate_per_s"] for factor in curve["factor"]]
    return {
        "name": told(row["name"]),
        "rates": rates,
        "start": curve["start"],
        "leave": row.get("leave"),
        "figure": _load_figure(row, rates),
        "stops": [
            {
                "rate": f"{rate:.4g}/s",
                "say": f"At {rate:.4g} requests a second it is {curve['state'][k]}.",
                "figures": [[told(name), told(text)] for name, text in _stop(curve, k)],
                "command": curve["command"][k],
            }
            for k, rate in enumerate(rates)
        ],
    }


def _stop(curve: Found, k: int) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for one in curve["streams"]:
        of = f" of {one['name']}" if len(curve["streams"]) > 1 else ""
        found = {key: one[key][k] for key in ("latency_s", "low_s", "high_s", "enough")}
        none = "no percentile: it grows without end"
        text = none if found["latency_s"] is None else latency_text(found)
        rows.append((f"p{one['percentile']:g}{of}", text))
        if one["verdict"][k]:
            rows.append((f"objectives{of}", ", ".join(one["verdict"][k])))
    busiest = f"{curve['bottleneck'][k]}, {percent(curve['used'][k])}"
    return [*rows, ("it is", curve["state"][k]), ("busiest", busiest)]


def _load_figure(row: Found, rates: Sequence[float]) -> Record:
    curve, limits = row["curve"], row["limits_s"]
    traces = [trace for at, one in enumerate(curve["streams"])
              for trace in _latency_traces(one, curve, rates, colour(at))]  # fmt: skip
    found_s = [at for one in curve["streams"] for at in one["latency_s"] if at is not None]
    shapes = [rule("y", limit, "--bad") for limit in limits]
    notes = [
        remark(f"asked: {seconds(limit)}", "--bad", xref="paper", x=0, xanchor="left",
               y=math.log10(limit), yanchor="bottom")
        for limit in limits
    ]  # fmt: skip
    if row["ceiling_per_s"] is not None:
        shapes.append(rule("x", row["ceiling_per_s"], "--soft", "dot"))
        notes.append(
            remark(f"ceiling: {row['ceiling_binds']}", "--soft", x=row["ceiling_per_s"],
                   xanchor="right", yref="paper", y=1, yanchor="bottom")
        )  # fmt: skip
    layout = {
        "shapes": shapes,
        "annotations": notes,
        "margin": {"t": 40},
        "showlegend": len(curve["streams"]) > 1,
        "legend": {"y": 1.1},
        "xaxis": {"title": {"text": "requests a second"}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": "latency (logarithmic)"}, **logarithmic([*found_s, *limits])},
    }
    alt = "Latency over the rate of requests; the table has its figures"
    return figure(traces, layout, alt=alt, height=420)


def _latency_traces(one: Found, curve: Found, rates: Sequence[float], hue: str) -> list[Record]:
    kept = [k for k, at_s in enumerate(one["latency_s"]) if at_s is not None]
    band = [k for k in kept if one["enough"][k] and one["high_s"][k] is not None]
    area = {
        "type": "scatter",
        "mode": "lines",
        "hoverinfo": "skip",
        "showlegend": False,
        "x": [rates[k] for k in (*band, *reversed(band))],
        "y": [*(one["high_s"][k] for k in band), *(one["low_s"][k] for k in reversed(band))],
        "fill": "toself",
        "fillcolor": hue,
        "opacity": 0.18,
        "line": {"width": 0},
    }
    line = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": label(f"p{one['percentile']:g} of {one['name']}", 40),
        "x": [rates[k] for k in kept],
        "y": [one["latency_s"][k] for k in kept],
        "line": {"color": hue, "width": 2},
        "marker": {
            "size": 10,
            "line": {"color": hue, "width": 2},
            "symbol": ["x" if "misses" in one["verdict"][k] else "circle" for k in kept],
            "color": ["--paper" if "undecided" in one["verdict"][k] else hue for k in kept],
        },
        "customdata": [
            [
                seconds(one["latency_s"][k]),
                ", ".join(one["verdict"][k]) or "nothing asked",
                label(f"{curve['bottleneck'][k]}, {percent(curve['used'][k])}"),
            ]
            for k in kept
        ],
        "hovertemplate": "%{x:.4~g}/s: %{customdata[0]}<br>%{customdata[1]}<br>"
        "busiest: %{customdata[2]}<extra></extra>",
    }
    return [area, line]


def latency_text(one: Found) -> str:
    """Return a percentile with its interval."""
    if one["latency_s"] is None:
        return "beyond what was answered"
    interval = interval_text(one)
    if interval == ABSENT:
        return f"{seconds(one['latency_s'])} (too few for an interval)"
    return f"{seconds(one['latency_s'])} ({interval})"


def interval_text(one: Found) -> str:
    """Return both ends of a percentile's interval; a dash where a run is too short for one."""
    if not one["enough"] or one["high_s"] is None:
        return ABSENT
    return f"{seconds(one['low_s'])} to {seconds(one['high_s'])}"
