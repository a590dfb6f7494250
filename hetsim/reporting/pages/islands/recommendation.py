"""What the report of ``hetsim recommend`` shows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hetsim.reporting.pages.figures import (
    GREEN,
    ORANGE,
    RED,
    figure,
    label,
    logarithmic,
    remark,
    rule,
)
from hetsim.reporting.pages.island import Island, Section, Tile, Verdict, table
from hetsim.reporting.pages.islands.load import load_picture, load_sections
from hetsim.reporting.pages.islands.service import (
    lean,
    service_sections,
    there,
    use_pictures,
)
from hetsim.reporting.pages.islands.shared import Found, provenance_section, seconds
from hetsim.reporting.tables.recommendation import amount, counts_text
from hetsim.reporting.words.text import ABSENT, big, percent, ratio

SORTS = (("meets", "circle", GREEN), ("undecided", "circle-open", ORANGE), ("misses", "x", RED))
"""Answers for a platform, and how each is drawn."""


def recommendation_island(
    record: Found,
    command: Sequence[str],
    pictures: Mapping[str, Any],
) -> Island:
    """Return what a recommendation's record shows.

    Parameters
    ----------
    record : mapping
        As ``recommendation_record`` gives it and JSON holds it.
    command : sequence of str
    pictures : mapping
        ``vectors``: what was tried, and the cheapest at other prices, as ``vectors_picture``
        gives it; ``rates``: the answer, as ``rates_picture`` gives it.
    """
    rates, used = pictures.get("rates", []), {}
    sections = [_front(record, pictures), *_prices(pictures), _excuses(record)]
    sections += [
        replace(one, order=8, title="The answer at other rates") for one in load_sections(rates)
    ]
    answer = record["answer"]
    if answer is not None:
        service = answer["service"]
        used = use_pictures(service)
        sections += [*service_sections(service), provenance_section(service["problem"])]
    if record.get("priced"):
        sections.append(_priced(record))
    if record["doubt"] is not None and record["doubt"].get("near", True):
        sections.append(_doubt(record))
    return Island(
        kind="recommend",
        title="The cheapest platform",
        command=tuple(command),
        record=_lean(record),
        verdict=Verdict(
            record["verdict"]["say"], _binds(record), tuple(_levers(record)), _sure(record)
        ),
        tiles=tuple(_tiles(record)),
        sections=tuple(sections),
        pictures={**pictures, **load_picture(rates), **used, **_front_picture(record, pictures)},
    )


def _lean(record: Found) -> Found:
    """Return the record with fewer spans of queue lengths."""
    answer = record["answer"]
    if answer is None:
        return record
    return {**record, "answer": {**answer, "service": lean(answer["service"])}}


def money(record: Found, cost: float) -> str:
    """Return a cost with its unit."""
    return amount(cost, record["unit"])


def _binds(record: Found) -> str:
    binding = record["binding"]
    if binding is None:
        return str(record["impossible"] or "")
    if binding["unit"] == "s":
        amounts = f"{seconds(binding['has'])}, {seconds(binding['needs'])} is asked"
    else:
        amounts = f"{binding['has']:.4g} of {binding['needs']:.4g} {binding['unit']}"
    return (
        f"Nearest that costs less: {counts_text(binding['counts'])}; {binding['what']}: {amounts}."
    )


def _levers(record: Found) -> list[str]:
    binding = record["binding"]
    if binding is None:
        return []
    return [
        f"{'Lets it in' if one['enough'] else 'At least'}: {one['what']}"
        for one in binding["levers"]
    ]


def _sure(record: Found) -> str:
    doubt = record["doubt"]
    undecided = len(record["undecided"])
    text = ""
    if undecided:
        text = f"{undecided} that cost less may meet it all the same. "
    if doubt is None:
        return text + "No Monte Carlo samples: what the figures may be off by is not looked at."
    if not doubt.get("near", True):
        return text + "What is near it was not asked: --draws N asks that, too."
    return (
        f"{text}Over {doubt['draws']} samples it is the cheapest near it that meets in "
        f"{percent(doubt['right'])}."
    )


def _priced(record: Found) -> Section:
    rows = [
        (
            one["model"],
            one["device"],
            (f"as if {one['precision']}" if one["as_if"] else one["precision"]) or ABSENT,
            one["status"],
            ratio(one["within_80"]),
        )
        for one in record["priced"]
    ]
    names = ("model", "device", "precision", "figures", "#80 % within")
    told = (
        "In which precision each model is priced on each device of the catalog that runs it, and "
    )
    told += 'what its figures rest on; "as if" is a precision that the model does not have.'
    if record["weakest"] is not None:
        told += f" The weakest figure of the answer: {record['weakest']}."
    return Section(
        "priced", "What it rests on", told, (table("Precisions and figures", names, rows),),
        open=True, order=45,
    )  # fmt: skip


def _tiles(record: Found) -> list[Tile]:
    answer, found = record["answer"], []
    if answer is not None:
        found.append(Tile("costs", money(record, answer["cost"]), counts_text(answer["counts"])))
        found += there(answer["service"], "asked")
        second = record["runner_up"]
        if second is not None:
            more = second["cost"] / answer["cost"] - 1 if answer["cost"] else 0.0
            found.append(
                Tile("the next costs", percent(more, sign=True), counts_text(second["counts"]))
            )
    proved = sum(one["vectors"] for one in record["excuses"] if one["proved"])
    found.append(Tile("platforms", big(record["vectors"]), f"{big(proved)} excluded by proof"))
    return found


def _front(record: Found, pictures: Mapping[str, Any]) -> Section:
    rows = [
        (
            counts_text(one["counts"]),
            f"{one['cost']:.4g}",
            str(one["devices"]),
            seconds(one["latency_s"]),
            seconds(one["limit_s"]),
            one["answer"] + (", the answer" if one["chosen"] else ""),
        )
        for one in pictures.get("vectors", {}).get("tried", [])
    ]
    marked = [k for k, row in enumerate(rows) if row[-1].endswith("the answer")]
    names = ("platform", f"#{record['unit']}", "#devices", "#latency", "#asked", "")
    return Section(
        "front",
        "Cost and latency",
        "Platforms that were tried, by what they cost and the latency of the objective that each "
        "comes nearest to missing, by its best policy. Filled where it meets, hollow where that "
        "is undecided, crossed where each policy misses. What is not drawn is excluded by proof, "
        "or costs more.",
        (table("Platforms that were tried", names, rows, marked=marked),),
        order=5,
    )


def _front_picture(record: Found, pictures: Mapping[str, Any]) -> dict[str, Any]:
    """Platforms that were tried by cost and latency; the line joins those that none beats."""
    tried = [one for one in pictures.get("vectors", {}).get("tried", []) if one["latency_s"]]
    if not tried:
        return {}
    traces: list[dict[str, Any]] = []
    for sort, symbol, hue in SORTS:
        mine = [one for one in tried if one["answer"] == sort]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": sort,
                "x": [one["cost"] for one in mine],
                "y": [one["latency_s"] for one in mine],
                "marker": {
                    "symbol": symbol,
                    "size": [18 if one["chosen"] else 11 for one in mine],
                    "color": hue,
                    "line": {"width": 2, "color": hue},
                },
                "customdata": [
                    [label(counts_text(one["counts"])), label(money(record, one["cost"])),
                     seconds(one["latency_s"])]
                    for one in mine
                ],
                "hovertemplate": "%{customdata[0]}<br>%{customdata[1]}, %{customdata[2]}<br>"
                f"{sort}<extra></extra>",
            }
        )  # fmt: skip
    best: list[dict[str, Any]] = []
    meets = [one for one in tried if one["answer"] == "meets"]
    for one in sorted(meets, key=lambda one: (one["cost"], one["latency_s"])):
        if not best or one["latency_s"] < best[-1]["latency_s"]:
            best.append(one)
    line = {"color": GREEN, "width": 2, "shape": "hv"}
    traces.append({"type": "scatter", "mode": "lines", "name": "front", "hoverinfo": "skip",
                   "x": [one["cost"] for one in best], "y": [one["latency_s"] for one in best],
                   "line": line})  # fmt: skip
    limits = sorted({one["limit_s"] for one in tried})
    shapes = [rule("y", limit, "--bad") for limit in limits]
    notes = [
        remark(f"asked: {seconds(limit)}", "--bad", xref="paper", x=1, xanchor="right",
               y=math.log10(limit), yanchor="bottom")
        for limit in limits
    ]  # fmt: skip
    layout = {
        "shapes": shapes,
        "annotations": notes,
        "showlegend": True,
        "margin": {"t": 46},
        "legend": {"y": 1.1},
        "xaxis": {"title": {"text": f"cost, {record['unit']}"}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": "latency nearest to its limit (logarithmic)"},
                  **logarithmic([*(one["latency_s"] for one in tried), *limits])},
    }  # fmt: skip
    alt = "Platforms by cost and latency; the table has them"
    return {"front": [figure(traces, layout, alt=alt, height=420)]}


def _prices(pictures: Mapping[str, Any]) -> list[Section]:
    """The cheapest platform at other prices; nothing where none were tried."""
    rows = [
        (
            str(one["kind"]),
            f"{one['price']:.4g}",
            "not known: ask again at this price"
            if one["counts"] is None
            else counts_text(one["counts"]),
            ABSENT if one["cost"] is None else f"{one['cost']:.4g}",
        )
        for one in pictures.get("vectors", {}).get("prices", [])
    ]
    if not rows:
        return []
    return [
        Section(
            "prices",
            "Other prices",
            "The cheapest platform where one kind costs a quarter, half, twice or four times as "
            "much. `hetsim recommend --price KIND=PRICE/h` says the same.",
            (table("Other prices", ("kind", "#USD/h", "cheapest", "#USD/h of all"), rows),),
            open=True,
            order=12,
        )
    ]


def _excuses(record: Found) -> Section:
    proved = [
        (big(one["vectors"]), one["because"], "proved")
        for one in record["excuses"]
        if one["proved"]
    ]
    if record["dearer"]:
        dearer = "cost more" if record["answer"] is not None else "were not looked at"
        proved.append((big(record["dearer"]), dearer, "by their cost"))
    tried = [
        (counts_text(one["counts"] or {}), one["because"])
        for one in record["excuses"]
        if not one["proved"]
    ]
    tables = [
        table("Excluded together", ("#platforms", "because", "how it is known"), proved),
        table("Tried one by one: each stated policy was played", ("platform", "because"), tried),
        table("Policies", ("policy",), [(one,) for one in record["policies"]]),
    ]
    return Section(
        "excuses",
        "Why not the others",
        "Every platform of the catalog is here, is dearer, or is the answer: a bound excludes "
        "those that cannot meet it whatever is done on them, the rest were played.",
        tuple(tables),
        open=True,
        order=10,
    )


def _doubt(record: Found) -> Section:
    rows = [
        (
            counts_text(one["counts"]),
            f"{one['cost']:.4g}",
            percent(one["meets"]),
            percent(one["cheapest"]),
            f"{one['regret']:.3g}",
        )
        for one in record["doubt"]["candidates"]
    ]
    names = ("near it", f"#{record['unit']}", "#meets", "#cheapest", "#regret")
    return Section(
        "doubt",
        "How sure",
        "Asked again on Monte Carlo samples of what the figures may be off by, and on the "
        "demand that was told.",
        (table("What is near the answer", names, rows),),
        open=True,
        order=50,
    )
