"""What the report of ``hetsim place`` shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hetsim.reporting.pages.figures import Bar, bars
from hetsim.reporting.pages.island import Island, Section, Table, Tile, Verdict, table
from hetsim.reporting.pages.islands.load import load_picture, load_sections
from hetsim.reporting.pages.islands.service import (
    lean,
    service_sections,
    there,
    use_pictures,
)
from hetsim.reporting.pages.islands.shared import Found, nbytes, provenance_section, seconds
from hetsim.reporting.words.text import ABSENT, big, percent

ANSWERS = {"meets": "yes", "misses": "no"}
BESIDE = 8
"""Links that are drawn at most beside the devices, those that are busiest."""


def place_island(record: Found, command: Sequence[str], pictures: Mapping[str, Any]) -> Island:
    """Return what a placement's record shows.

    Parameters
    ----------
    record : mapping
        As ``place_record`` gives it and JSON holds it.
    command : sequence of str
    pictures : mapping
        ``rates``: the best placement, as ``rates_picture`` gives it.
    """
    record = _lean(record)
    rows, service = record["rows"], record["service"]
    rates = pictures.get("rates", [])
    used = {} if service is None else use_pictures(service)
    sections = [_placements(record)]
    if rows:
        sections.append(_best(rows[0], service))
    if record["apart"]:
        sections.append(_apart(record))
    sections.append(_sought(record))
    sections += [
        replace(one, order=8, title="The best at other rates") for one in load_sections(rates)
    ]
    if service is not None:
        sections += service_sections(service)
    if record["problem"] is not None:
        sections.append(provenance_section(record["problem"]))
    was = record.get("as_it_is")
    said = record["verdict"]["say"]
    return Island(
        kind="place",
        title="Where models are best placed",
        command=tuple(command),
        record=record,
        verdict=Verdict(
            said if was is None else f"{said} As it is: {was['verdict']['say']}",
            _binds(record),
            tuple(_levers(record)),
            _sure(record),
        ),
        tiles=tuple(_tiles(record)),
        sections=tuple(sections),
        pictures={**pictures, **load_picture(rates), **used, **_bars(record)},
    )


def times(value: float | None) -> str:
    """Return a multiple of the demand; None: any."""
    return "any" if value is None else f"{value:.3g}x"


def _lean(record: Found) -> Found:
    service = record["service"]
    return record if service is None else {**record, "service": lean(service)}


def _binds(record: Found) -> str:
    if not record["rows"]:
        return str(record["impossible"] or "")
    best = record["rows"][0]
    return f"{best['binds']} is busy all the time at {times(best['factor'])} the demand."


def _levers(record: Found) -> list[str]:
    found = []
    rows = record["rows"]
    if rows and record["bound"] is not None:
        gap = record["gap"]
        told = "which is proved the best" if gap is not None and gap < 1e-9 else "at the most"
        found.append(
            f"No placement of these instances carries more than {times(record['bound'])} the "
            f"demand, {told}."
        )
    if record["impossible"] is not None and rows:
        found.append(f"Proved: {record['impossible']}.")
    return found


def _sure(record: Found) -> str:
    played = sum(row["requests"] for row in record["rows"])
    if not played:
        return "No placement was simulated."
    return (
        f"What is carried is computed of the figures; whether objectives are met is told by "
        f"{big(played)} requests that were played."
    )


def _tiles(record: Found) -> list[Tile]:
    found = []
    if record["rows"]:
        best = record["rows"][0]
        bound = f"{times(record['bound'])} at most"
        found.append(Tile("carries", times(best["factor"]), f"the demand; {bound}"))
        answer = ANSWERS.get(best["answer"], best["answer"])
        found.append(Tile("meets its objectives", answer, f"requests: {best['waits']}"))
    found.append(Tile("demand", f"{record['rate_per_s']:.4g}/s", "of all streams together"))
    return found if record["service"] is None else [*found, *there(record["service"], "asked")]


def _where(row: Found) -> str:
    where: dict[str, list[str]] = {}
    for one in row["instances"]:
        where.setdefault(one["model"], []).append("+".join(one["devices"]))
    text = "; ".join(f"{model} on {', '.join(mine)}" for model, mine in where.items())
    batch = row["max_batch_size"]
    return text if batch == 1 else f"{text}; batches of {batch}"


def _placements(record: Found) -> Section:
    rows = [
        (
            _where(row),
            times(row["factor"]),
            ANSWERS.get(row["answer"], row["answer"]),
            ABSENT if not row["nearest"] else f"{row['nearest']:.2f}",
            row["waits"],
            str(row["binds"]),
        )
        for row in record["rows"]
    ]
    names = ("placement", "#carries", "meets", "#of its limit", "requests wait", "busy all along")
    return Section(
        "placements",
        "Placements",
        "What was simulated, the best first: what it carries of the demand where each request "
        "goes where it suits best, and the largest percentile over its limit.",
        (table("Placements", names, rows, marked=(0,) if rows else ()),),
        open=True,
        order=10,
    )


def _best(best: Found, service: Found | None) -> Section:
    instances = [
        (one["model"], ", ".join(one["devices"]), one["strategy"], seconds(one["alone_s"]))
        for one in best["instances"]
    ]
    uses = []
    for name, use in best["utilization_at_factor"].items():
        kind, _, short = name.partition(" ")
        now = None if service is None else service[f"{kind}s"].get(short)
        held = best["memory_bytes"].get(short) if kind == "device" else None
        busy = ABSENT if now is None else percent(now["utilization"])
        uses.append((name, percent(use), busy, nbytes(held)))
    tables: list[Table] = [
        table("Instances", ("model", "on", "planned by", "#alone"), instances),
        table(
            "Devices and links", ("what", "#busy at what it carries", "#busy now", "#memory"), uses
        ),
    ]
    return Section(
        "placed",
        "The best",
        "How much of its time each device and link is busy when the placement carries all that it "
        "can; by the figures of a request on each instance.",
        tuple(tables),
        open=True,
        order=5,
    )


def _bars(record: Found) -> dict[str, Any]:
    if not record["rows"]:
        return {}
    use = record["rows"][0]["utilization_at_factor"]
    devices = [name for name in use if name.startswith("device ")]
    links = sorted((name for name in use if name not in devices), key=lambda name: -use[name])
    shown = devices + [name for name in links if use[name] >= 0.0005][:BESIDE]
    made = [Bar(name, use[name], percent(use[name])) for name in shown]
    return {"placed": bars(made, axis="busy at what it carries", unit="share")}


def _apart(record: Found) -> Section:
    rows = [
        (
            row["stream"],
            seconds(row["alone_p99_s"]),
            seconds(row["together_p99_s"]),
            seconds(row["alone_mean_s"]),
            seconds(row["together_mean_s"]),
            seconds(row["others_s"]),
        )
        for row in record["apart"]
    ]
    names = (
        "stream", "#p99 alone", "#p99 with others", "#mean alone", "#mean with others",
        "#for others' work",
    )  # fmt: skip
    return Section(
        "apart",
        "With others and without",
        "Each model with the others on the platform and alone on its own instances, and how much "
        "of a request's time is for others' work.",
        (table("With others and without", names, rows),),
        open=True,
        order=15,
    )


def _sought(record: Found) -> Section:
    rows, refused = [], []
    for one in record["sought"]:
        batch = one["max_batch_size"]
        name = "one by one" if batch == 1 else f"batches of {batch}"
        known = "proved" if one["proved"] else f"{percent(one['gap'])} at most"
        rows.append(
            (
                name,
                str(one["offered"]),
                times(one["factor"]) if one["factor"] != 0 else "none fits",
                times(one["bound"]),
                known if one["factor"] != 0 else ABSENT,
            )
        )
        refused += [
            (row["model"], "+".join(row["devices"]), row["strategy"], name, row["why"])
            for row in one["refused"]
        ]
    tables = [
        table("Sets of instances", ("requests go", "#instances", "#best", "#bound", "gap"), rows),
    ]
    if refused:
        names = ("model", "on", "planned by", "requests go", "because")
        tables.append(table("Instances that cannot be", names, refused))
    return Section(
        "sought",
        "Looked through",
        "Instances that there may be, the best set of them that fits the memory, and what none "
        "exceeds.",
        tuple(tables),
        open=True,
        order=20,
    )
