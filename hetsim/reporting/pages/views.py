"""Figures of records by their views, and their captions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hetsim.core.text import Record
from hetsim.reporting.formatting import ABSENT, count, percent, time_text
from hetsim.reporting.pages.figures import (
    BLUE,
    COLOURS,
    GREEN,
    ORANGE,
    RED,
    SECONDS,
    SINCE,
    Bar,
    axis,
    bars,
    colour,
    figure,
    label,
    limits_drawn,
    logarithmic,
    pattern,
    scatter,
)
from hetsim.reporting.pages.page import PageTable, Section, table, told
from hetsim.reporting.pages.records import leaf
from hetsim.reporting.tables.recommendation import amount, counts_text
from hetsim.reporting.tables.verdicts import Found, saved_share
from hetsim.sweeping.rows import ASKED, LARGER, NUMBERS, OF_LOAD, OF_PLAN, Row

if TYPE_CHECKING:
    from hetsim.provisioning.platforms.answer import Recommendation

SPANS_MOST = 256
"""Maximum number of intervals of time for which queue lengths are drawn."""

LINKS_MOST = 8
"""Maximum number of links drawn next to the devices of a placement: the busiest."""

SORTS = (("meets", "circle", GREEN), ("undecided", "circle-open", ORANGE), ("misses", "x", RED))
"""Marker of each verdict on a platform."""

CAPTIONS: Mapping[str, tuple[str, str, int]] = {
    "utilization": (
        "Utilization",
        "Share of each span of simulated time in which a device computes or a link transfers.",
        40,
    ),
    "memory": (
        "Memory",
        "Memory that each device holds: weights all the time, activations until their last use. "
        "The dashed line is the device's capacity.",
        45,
    ),
    "uses": (
        "Utilization",
        "Share of the run in which each device computes, each link transfers, and each instance "
        "has a batch in flight.",
        40,
    ),
    "queues": (
        "Queues",
        "Requests that wait for an instance, and requests that wait or are served: means over "
        "spans of time.",
        45,
    ),
}
"""Titles and captions of views without tables, and their positions."""


def _cost(record: Found) -> str:
    return "Latency" if record["objective"] == "latency" else "Time a request"


def _bar(row: Found, name: str, hue: str, within: Found | None) -> Bar:
    """Bar of a row's cost with its interval."""
    low, high = (within[end] if within else None for end in ("p10", "p90"))
    return Bar(row[name], row["cost_s"], time_text(row["cost_s"]), hue, low=low, high=high)


def _strategies(record: Found) -> Record:
    """Figure of strategies by their cost with its interval, and the lower bound of all plans."""
    bound = record["lower_bound_s"]
    rows = []
    for place, row in enumerate(record["rows"]):
        hue = ORANGE if row["strategy"].startswith("single:") else GREEN if place else "--strong"
        rows.append(_bar(row, "strategy", hue, row["sure"] and row["sure"]["cost_s"]))
    line = "" if bound is None else f"lower bound {time_text(bound)}"
    made = bars(rows, name=_cost(record), unit="seconds", line=bound, line_text=line)
    return {"strategies": made}


def _platforms(record: Found) -> Record:
    """Figure of platforms by the cost of their plan with its interval, devices alone in orange."""
    rows = [row for row in record["rows"] if row["feasible"]]
    best = record["verdict"]["fastest"]
    made = []
    for row in sorted(rows, key=lambda row: (row["alone"], row["cost_s"])):
        hue = GREEN if row["name"] == best else ORANGE if row["alone"] else BLUE
        made.append(_bar(row, "name", hue, row["interval_s"]))
    return {"platforms": bars(made, name=_cost(record), unit="seconds", dots=True)}


def _findings(record: Found) -> Record:
    made = [
        Bar(
            one["what"],
            one["after_s"],
            time_text(one["after_s"]),
            colour=BLUE if place else GREEN,
            more=f"{one['what']}; {one['change']['what']}",
        )
        for place, one in enumerate(record["findings"])
    ]
    before_s = record["before_s"]
    line = "" if before_s is None else f"now: {time_text(before_s)}"
    name = f"{_cost(record)} after the change"
    return {"findings": bars(made, name=name, unit="seconds", line=before_s, line_text=line)}


def _sensitivities(record: Found) -> Record:
    made = []
    for one in record["changes"]:
        share = saved_share(one)
        made.append(Bar(one["change"], max(share, 0.0), percent(share)))
    return {"sensitivities": bars(made, name="Time saved", unit="share")}


def _units(record: Found) -> Record:
    """Figure of supported nodes by device; with a plan the time of its kernels."""
    nodes, devices = record["nodes"], record["problem"]["devices"]
    made = []
    for place, name in enumerate(devices):
        if record["strategy"] is None:
            able = sum(
                one["device"] == name and one["takes"] != "no"
                for node in nodes
                for one in node["devices"]
            )
            value, text = float(able), f"{able} of {len(nodes)}"
        else:
            own = [node["seconds"] or 0.0 for node in nodes if node["device"] == name]
            value, text = float(sum(own)), f"{time_text(sum(own))}, {count(len(own), 'node')}"
        made.append(Bar(name, value, text, colour(place), pattern(place)))
    if record["strategy"] is None:
        return {"units": bars(made, name="Supported nodes", unit="count")}
    return {"units": bars(made, name="Time of kernels", unit="seconds")}


def _placed(record: Found) -> Record:
    if not record["rows"]:
        return {}
    use = record["rows"][0]["utilization_at_factor"]
    devices = [name for name in use if name.startswith("device ")]
    links = sorted((name for name in use if name not in devices), key=lambda name: -use[name])
    shown = devices + [name for name in links if use[name] >= 0.0005][:LINKS_MOST]
    made = [Bar(name, use[name], percent(use[name])) for name in shown]
    placed = bars(made, name="Utilization at the sustained demand", unit="share")
    return {"placed": placed, **_use(record["service"])}


def _use(service: Found | None) -> Record:
    """Figures ``uses`` and ``queues`` of a service, as far as it has data."""
    if service is None:
        return {}
    kinds = {"device": (BLUE, ""), "link": (ORANGE, "/"), "instance": (GREEN, "x")}
    rows = [("device", name, one) for name, one in service["devices"].items()]
    rows += [("link", name, one) for name, one in service["links"].items()]
    rows += [
        ("instance", f"{k} of {model['model']}", one)
        for model in service["models"]
        for k, one in enumerate(model["instances"])
    ]
    drawn = []
    for kind, name, one in rows:
        within = one["utilization_interval"]
        ends = (within["low"], within["high"]) if within and within["enough"] else (None, None)
        share = one["utilization"]
        drawn.append(Bar(f"{kind} {name}", share, percent(share), *kinds[kind], *ends))
    found = {"uses": bars(drawn, name="Utilization", unit="share"), "queues": _queues(service)}
    return {view: figures for view, figures in found.items() if figures}


def _queues(service: Found) -> list[Record]:
    traces: list[Record] = []
    for at, model in enumerate(service["models"]):
        queue = model["queue"]
        each = max(-(-len(queue["inside"]) // SPANS_MOST), 1)
        starts = np.arange(0, len(queue["inside"]), each)
        x = ((starts + each / 2) * queue["window_s"]).tolist()
        for key, what, dash in (("inside", "in the system", "solid"),
                                ("waiting", "waiting", "dot")):  # fmt: skip
            spans = [queue[key][start : start + each] for start in starts]
            means = [float(f"{sum(span) / len(span):.6g}") for span in spans]
            line = {"color": COLOURS[at % len(COLOURS)], "width": 2, "dash": dash}
            name = label(f"{model['model']}: {what}", 50)
            traces.append(scatter(x, means, line=line, name=name))
    if not any(trace["x"] for trace in traces):
        return []
    layout = {
        "showlegend": True,
        "margin": {"t": 40},
        "xaxis": axis(SINCE, **SECONDS),
        "yaxis": axis("Requests", rangemode="tozero"),
    }
    return [figure(traces, layout, alt="Requests that wait, over time", height=360)]


VIEWS: Mapping[str, Callable[[Found], Record]] = {
    "hetsim-comparison/1": _strategies,
    "hetsim-platforms/1": _platforms,
    "hetsim-lint/1": _findings,
    "hetsim-sensitivities/1": _sensitivities,
    "hetsim-nodes/1": _units,
    "hetsim-placement/1": _placed,
    "hetsim-service/1": _use,
    "hetsim-load-test/1": lambda record: _use(record["measured"]),
    "hetsim-capacity/1": lambda record: _use(record["rows"][0]["at"]),
    "hetsim-recommendation/1": lambda record: _use((record["answer"] or {}).get("service")),
}
"""Function that makes the pictures of a record, by its schema."""


def front_picture(found: Recommendation) -> Record:
    """Return simulated platforms by cost and latency of their tightest objective.

    The line joins those that no other dominates.
    """
    question, answer, unit = found.found.question, found.found.answer, found.unit
    known = {one.counts: one for one in found.found.tried}
    known |= {one.counts: one for one in (answer, found.found.runner_up) if one is not None}
    tried: list[Record] = []
    for each in sorted(known.values(), key=lambda each: question.key(each.counts)):
        of_one = each.best(question)
        said = None if of_one is None or of_one.played is None else of_one.played.worst(question)
        if said is not None and said.latency_s:
            tried.append(
                {
                    "counts": question.named(each.counts),
                    "cost": question.amount(each.counts),
                    "latency_s": said.latency_s,
                    "limit_s": question.streams[said.stream].slos[said.slo].latency_s,
                    "answer": each.answer,
                    "chosen": answer is not None and each.counts == answer.counts,
                }
            )
    if not tried:
        return {}
    traces: list[Record] = []
    for sort, symbol, hue in SORTS:
        mine = [one for one in tried if one["answer"] == sort]
        marker = {
            "symbol": symbol,
            "size": [18 if one["chosen"] else 11 for one in mine],
            "color": hue,
            "line": {"width": 2, "color": hue},
        }
        told = [
            [label(counts_text(one["counts"])), label(amount(one["cost"], unit)),
             time_text(one["latency_s"])]
            for one in mine
        ]  # fmt: skip
        hover = "%{customdata[0]}<br>%{customdata[1]}, %{customdata[2]}<br>"
        traces.append(
            scatter(
                *_by_cost(mine),
                mode="markers",
                name=sort,
                marker=marker,
                customdata=told,
                hovertemplate=f"{hover}{sort}<extra></extra>",
            )
        )
    best: list[Found] = []
    meets = [one for one in tried if one["answer"] == "meets"]
    for one in sorted(meets, key=lambda one: (one["cost"], one["latency_s"])):
        if not best or one["latency_s"] < best[-1]["latency_s"]:
            best.append(one)
    line = {"color": GREEN, "width": 2, "shape": "hv"}
    traces.append(scatter(*_by_cost(best), name="Pareto front", hoverinfo="skip", line=line))
    limits = sorted({one["limit_s"] for one in tried})
    shapes, notes = limits_drawn(limits, x=1, xanchor="right")
    latencies = logarithmic([*(one["latency_s"] for one in tried), *limits])
    layout = {
        "shapes": shapes,
        "annotations": notes,
        "showlegend": True,
        "margin": {"t": 46},
        "legend": {"y": 1.1},
        "xaxis": axis(f"Cost ({unit})", rangemode="tozero"),
        "yaxis": axis("Latency of the tightest objective", **latencies),
    }
    alt = "Platforms by cost and latency; the table has them"
    return {"front": [figure(traces, layout, alt=alt, height=420)]}


def _by_cost(tried: Sequence[Found]) -> tuple[list[float], list[float]]:
    return [one["cost"] for one in tried], [one["latency_s"] for one in tried]


def load_sections(pictures: Found) -> list[Section]:
    """Return the view of latency over rate with the answer at each stop; empty without a rate."""
    if "load" not in pictures:
        return []
    text = (
        "Simulated latency by arrival rate, with its 95 % interval and limit. Hollow points need "
        "more requests to be decided. The slider stops at each simulated rate, and the command "
        "beside it prints the same figures."
    )
    left = pictures["not_simulated"]
    if left:
        text += f" Not simulated at other rates: {'; '.join(left)}."
    tables = tuple(map(_stops_table, pictures["load"]))
    return [Section("load", "Latency over rate", text, tables, order=5)]


def _stops_table(row: Found) -> PageTable:
    names = dict.fromkeys(name for stop in row["stops"] for name, _ in stop["figures"])
    rows = []
    for stop in row["stops"]:
        known = dict(stop["figures"])
        rows.append([stop["rate"], *(known.get(name, ABSENT) for name in names)])
    by = f" of {row['name']}" if row["name"] else ""
    return table(f"Latency over rate{by}", ["#rate", *names], rows)


POINTS_MOST = 8000
"""Maximum number of rows in a page; their file has all."""

USUAL = ("p99_s", "latency_s", "energy_per_1000_j", "energy_j", "request_s")
"""Figures that are drawn first without a wish."""


def rows_picture(rows: Sequence[Row], wished: Sequence[str] = ()) -> Record:
    """Return rows as columns without empty ones, and which of them have numbers.

    The two `first` that are drawn are the `wished` ones, else the usual ones.
    """
    kept = rows[:POINTS_MOST]
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
