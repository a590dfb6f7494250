"""What the report of ``hetsim lint`` shows."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from hetsim.core.text import to_compact_json
from hetsim.reporting.pages.figures import BLUE, GREEN, Bar, bars
from hetsim.reporting.pages.island import Island, Section, Tile, Verdict, table
from hetsim.reporting.pages.islands.shared import Found, provenance_section, seconds
from hetsim.reporting.words.text import ABSENT, count, percent

ROOM_BYTES = 200_000
"""What the record may take of a page; above, findings name fewer nodes."""

NAMED = 3
"""Nodes that are named in the table, and of a record that is too large."""

LEVERS = 3


def lint_island(record: Found, command: Sequence[str], pictures: Mapping[str, Any]) -> Island:
    """Return what a linter's record shows, as ``lint_record`` gives it and JSON holds it."""
    record = _lean(record)
    findings, others = record["findings"], record["others"]
    first = findings[0] if findings else None
    return Island(
        kind="lint",
        title=f"What costs {record['problem']['name']} time",
        command=tuple(command),
        record=record,
        verdict=Verdict(
            _say(record),
            "" if first is None else f"{first['what']}.",
            tuple(f"{one['change']['what']}: {_saves(record, one)}." for one in findings[:LEVERS]),
            f"Each change is planned again for itself, by {record['strategy']}, on the same "
            "figures: what it saves is the difference of two plans by the point estimates, without "
            "what the figures may be off by.",
        ),
        tiles=tuple(_tiles(record)),
        sections=(
            Section(
                "findings",
                "Findings",
                "What costs time, each by what the plan takes after the change that removes it, "
                "beside what it takes as it is.",
                (
                    _table("Worth a change", record, findings),
                    _table("Changes that gain less, or nothing", record, others),
                ),
                open=True,
                order=10,
            ),
            provenance_section(record["problem"]),
        ),
        pictures={**pictures, **_bars(record)},
    )


def _lean(record: Found) -> Found:
    """Return the record with fewer names of nodes where it is too large for a page."""
    if len(to_compact_json(record)) <= ROOM_BYTES:
        return record

    def less(one: Found) -> Found:
        change = one["change"]
        takes = {device: nodes[:NAMED] for device, nodes in change["takes"].items()}
        pins = dict(list(change["pins"].items())[:NAMED])
        return {
            **one,
            "nodes": one["nodes"][:NAMED],
            "file_nodes": one["file_nodes"][:NAMED],
            "change": {**change, "takes": takes, "pins": pins},
        }

    return {**record, **{key: [less(one) for one in record[key]] for key in ("findings", "others")}}


def _what(record: Found) -> str:
    return "latency" if record["objective"] == "latency" else "time a request"


def _say(record: Found) -> str:
    before = record["before_s"]
    findings, others = record["findings"], record["others"]
    if before is None:
        would = f"{len(findings)} of {count(len(findings) + len(others), 'change')} would"
        return f"No plan: {record['infeasible']}. {would} make it run."
    took = f"{record['strategy']} takes {seconds(before)}"
    if not findings and not others:
        return f"{took}, and nothing was found that could cost time."
    if not findings:
        least = percent(record["least"])
        return f"{took}, and none of {count(len(others), 'change')} gains {least} or more."
    best = findings[0]
    most = f"{best['change']['what']}, {_saves(record, best)}"
    return f"{took}; what saves the most by the point estimates: {most}."


def _saves(record: Found, one: Found) -> str:
    if one["after_s"] is None:
        return "no plan"
    if record["before_s"] is None:
        return f"it takes {seconds(one['after_s'])} then"
    return f"{percent(one['gain'])}, {seconds(one['after_s'])} then"


def _tiles(record: Found) -> list[Tile]:
    findings = record["findings"]
    found = [Tile(_what(record), seconds(record["before_s"]), str(record["strategy"]))]
    if findings and record["before_s"] is not None:
        best = findings[0]
        found.append(
            Tile("after the best change", seconds(best["after_s"]), str(best["change"]["what"]))
        )
    worth = f"that gain {percent(record['least'])} or more"
    found.append(Tile("findings", str(len(findings)), worth))
    return found


def _table(title: str, record: Found, shown: Sequence[Found]) -> Any:
    names = ("#saves", "#then", "finding", "device", "nodes", "#costs", "change", "asked by")
    return table(title, names, [_row(record, one) for one in shown])


def _row(record: Found, one: Found) -> tuple[str, ...]:
    nodes = one["nodes"]
    more = f", +{len(nodes) - NAMED} more" if len(nodes) > NAMED else ""
    saves = "all" if record["before_s"] is None else percent(one["gain"])
    return (
        ABSENT if one["after_s"] is None else saves,
        "no plan" if one["after_s"] is None else seconds(one["after_s"]),
        one["what"],
        one["device"] or ABSENT,
        ", ".join(nodes[:NAMED]) + more or ABSENT,
        seconds(one["cost_s"]),
        one["change"]["what"],
        shlex.join(one["change"]["options"]) or ABSENT,
    )


def _bars(record: Found) -> dict[str, Any]:
    made = [
        Bar(
            one["what"],
            one["after_s"],
            seconds(one["after_s"]),
            colour=BLUE if place else GREEN,
            more=f"{one['what']}; {one['change']['what']}",
        )
        for place, one in enumerate(record["findings"])
    ]
    before = record["before_s"]
    told = "" if before is None else f"as it is: {seconds(before)}"
    axis = f"{_what(record)} after the change"
    return {"findings": bars(made, axis=axis, unit="seconds", line=before, line_text=told)}
