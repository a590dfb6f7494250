"""What the report of ``hetsim capacity`` shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hetsim.reporting.pages.island import Island, Section, Tile, Verdict, table
from hetsim.reporting.pages.islands.load import load_picture, load_sections
from hetsim.reporting.pages.islands.service import (
    MOST_SPANS,
    lean,
    service_sections,
    there,
    use_pictures,
)
from hetsim.reporting.pages.islands.shared import Found, provenance_section
from hetsim.reporting.words.text import ABSENT, percent


def capacity_island(
    record: Found,
    command: Sequence[str],
    pictures: Mapping[str, Any],
) -> Island:
    """Return what a capacity's record shows.

    Parameters
    ----------
    record : mapping
        As ``capacity_record`` gives it and JSON holds it.
    command : sequence of str
    pictures : mapping
        ``rates``: a row a deployment, as ``rates_picture`` gives them.
    """
    record = _lean(record)
    best = record["rows"][0]
    rates = pictures.get("rates", [])
    used = {} if best["at"] is None else use_pictures(best["at"])
    sections = [_rows(record), *load_sections(rates)]
    if best["at"] is not None:
        sections += service_sections(best["at"])
    if record["problem"] is not None:
        sections.append(provenance_section(record["problem"]))
    model = "" if record["problem"] is None else f" of {record['problem']['name']}"
    return Island(
        kind="capacity",
        title=f"How much is carried{model}",
        command=tuple(command),
        record=record,
        verdict=Verdict(
            record["verdict"]["say"], str(best["ends"]), tuple(_levers(record)), _sure(best)
        ),
        tiles=tuple(_tiles(record)),
        sections=tuple(sections),
        pictures={**pictures, **load_picture(rates), **used},
    )


def _lean(record: Found) -> Found:
    """Return the record with fewer spans of queue lengths; of all rows but the best none."""
    rows = [
        row if row["at"] is None else {**row, "at": lean(row["at"], 0 if k else MOST_SPANS)}
        for k, row in enumerate(record["rows"])
    ]
    return {**record, "rows": rows}


def rate_text(per_s: float | None) -> str:
    """Return requests a second, or a dash."""
    return ABSENT if per_s is None else f"{per_s:.4g}/s"


def _sure(best: Found) -> str:
    if best["exact_factor"] is not None:
        return "Exact: the requests are given, and the answer is proved of them."
    if best["how"] == "scan":
        return "The requests are given; rates were looked at on a grid that is refined."
    return "Verdicts of long runs, all together right in 95 of 100 cases."


def _levers(record: Found) -> list[str]:
    best, found = record["rows"][0], list[str]()
    if best["ceiling_per_s"] and best["ceiling_binds"]:
        found.append(
            f"{best['ceiling_binds']} ends all of it at {rate_text(best['ceiling_per_s'])}, "
            "however long requests may take."
        )
    if record["bound_per_s"] is not None:
        found.append(
            f"No plan carries {rate_text(record['bound_per_s'])} or more, however it is served."
        )
    return found


def _tiles(record: Found) -> list[Tile]:
    best = record["rows"][0]
    highest = "any rate" if best["any_rate"] else rate_text(best["highest_per_s"] or None)
    found = [Tile("carries", highest, str(best["name"]))]
    if best["rates"] and best["rates"][-1]["misses_above_per_s"] is not None:
        misses = best["rates"][-1]["misses_above_per_s"]
        found.append(Tile("misses from", rate_text(misses), "between them it is undecided"))
    if best["utilization"] is not None:
        found.append(
            Tile("of its ceiling", percent(best["utilization"]), str(best["ceiling_binds"]))
        )
    return found if best["at"] is None else [*found, *there(best["at"], "is asked")]


def _rows(record: Found) -> Section:
    rows = []
    for row in record["rows"]:
        if row["refused"] is not None:
            rows.append((row["name"], "no plan", *[ABSENT] * 5))
            continue
        spans = [
            ("to " if not one["low_per_s"] else f"{one['low_per_s']:.4g} to ")
            + ("any" if one["high_per_s"] is None else rate_text(one["high_per_s"]))
            for one in row["rates"]
        ]
        misses = [rate_text(one["misses_above_per_s"]) for one in row["rates"]]
        none = "none" if row["answer"] == "misses" else "undecided"
        rows.append(
            (
                row["name"],
                ", ".join(spans) or none,
                ", ".join(misses) or ABSENT,
                rate_text(row["ceiling_per_s"]),
                percent(row["utilization"]),
                str(row["ceiling_binds"]) or ABSENT,
                {"exact": "exactly", "scan": "on a grid", "verdicts": "by verdicts"}[row["how"]],
            )
        )
    tables = [
        table(
            "Deployments, what carries most first",
            ("deployment", "#meets", "#misses from", "#ceiling", "#of it", "bound by", "known"),
            rows,
            marked=(0,),
        ),
        table("Why there are no higher rates", ("deployment", "because"),
              [(row["name"], str(row["ends"])) for row in record["rows"]]),
    ]  # fmt: skip
    return Section(
        "deployments",
        "Deployments",
        "Rates that were shown to meet every objective, and from which on one is missed: between "
        "them nothing is said. The ceiling is where more comes than devices, links and instances "
        "can do: with any patience no more is carried.",
        tuple(tables),
        open=True,
        order=10,
    )
