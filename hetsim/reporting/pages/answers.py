"""The report of what a verb left on disk, by its kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hetsim.core.text import Record, tally
from hetsim.core.units import format_bytes
from hetsim.reporting.pages.island import Island, Section, Verdict, table
from hetsim.reporting.pages.islands.capacity import capacity_island
from hetsim.reporting.pages.islands.compare import comparison_island
from hetsim.reporting.pages.islands.lint import lint_island
from hetsim.reporting.pages.islands.load_test import load_test_island
from hetsim.reporting.pages.islands.nodes import nodes_island
from hetsim.reporting.pages.islands.place import place_island
from hetsim.reporting.pages.islands.plan import run_island, simulation_island
from hetsim.reporting.pages.islands.recommendation import recommendation_island
from hetsim.reporting.pages.islands.service import service_island
from hetsim.reporting.pages.islands.sweep import rows_picture, sweep_island
from hetsim.reporting.pages.leaves import leaf_text, leaves, unit_of
from hetsim.reporting.pages.reading import LIMIT_BYTES, TRACE, Left, whole
from hetsim.reporting.words.text import count, listed

Make = Callable[[Mapping[str, Any], Sequence[str], Mapping[str, Any]], Island]

ISLANDS: Mapping[str, Make] = {
    "hetsim-comparison/1": comparison_island,
    "hetsim-simulation/1": simulation_island,
    "hetsim-run/1": run_island,
    "hetsim-service/1": service_island,
    "hetsim-load-test/1": load_test_island,
    "hetsim-capacity/1": capacity_island,
    "hetsim-recommendation/1": recommendation_island,
    "hetsim-sweep/1": sweep_island,
    "hetsim-placement/1": place_island,
    "hetsim-lint/1": lint_island,
    "hetsim-nodes/1": nodes_island,
}
"""What makes a report of a record, by its schema; all others are of plans."""

ROWS_MOST = 1000
"""Figures that are told one by one; nodes of subgraphs that are named."""


def island_of(left: Left, command: Sequence[str]) -> Island:
    """Return what is shown of `left`; `command` where it does not tell its own.

    Raises
    ------
    InvalidInput
        Where its record lacks fields, as one of another version may.
    """
    make = ISLANDS.get(left.record["schema"], _plan_island)
    pictures = left.pictures
    with whole(left):
        if left.rows and not pictures:
            pictures = {"points": rows_picture(left.rows)}
        if "timeline" not in pictures:
            pictures = {**pictures, **left.timelines()}
        island = make(left.record, left.command or tuple(command), pictures)
        if left.too_long():
            island = replace(island, sections=tuple(map(_not_drawn, island.sections)))
        plan = left.record if left.kind == "plan" else left.plan
        if plan is not None and "subgraphs" not in left.pictures:
            island = replace(island, sections=(*island.sections, _subgraphs(plan)))
    return island


def _plan_island(
    record: Mapping[str, Any], command: Sequence[str], pictures: Mapping[str, Any]
) -> Island:
    """A report of a saved plan: all that it tells but for its subgraphs."""
    rows = [
        (" / ".join(path), leaf_text(unit_of(path), value))
        for key, part in record.items()
        if key not in ("groups", "schema")
        for path, value in leaves(part, (key,))
    ]
    more = f", the first {ROWS_MOST}" if len(rows) > ROWS_MOST else ""
    groups = count(len(record["groups"]), "subgraph")
    return Island(
        kind="record",
        title="A plan",
        command=tuple(command),
        record=record,
        verdict=Verdict(f"A plan of {record['strategy']} in {groups}."),
        sections=(
            Section(
                "figures",
                "Figures",
                "Every figure of the record, by where it stands in it.",
                (table(f"Figures{more}", ("figure", "#value"), rows[:ROWS_MOST]),),
                open=True,
                order=10,
            ),
        ),
        pictures=pictures,
    )


def _not_drawn(section: Section) -> Section:
    """Say under the timeline that the trace is too large to be drawn here."""
    if section.view != "timeline":
        return section
    told = f"Its {TRACE} is larger than {format_bytes(LIMIT_BYTES)}, and is not drawn here."
    return replace(section, caption=f"{section.caption} {told}")


def _subgraphs(plan: Record) -> Section:
    """What a saved plan tells of its subgraphs, without the model."""
    groups = plan["groups"]
    devices = tally(str(group["device"]) for group in groups)
    rows = [
        (
            f"g{index}",
            str(group["device"]),
            str(len(group["nodes"])),
            str(group["nodes"][0]),
            str(group["nodes"][-1]),
        )
        for index, group in enumerate(groups[:ROWS_MOST])
    ]
    more = f", the first {ROWS_MOST} of {len(groups)}" if len(groups) > ROWS_MOST else ""
    return Section(
        "subgraphs",
        "Subgraphs",
        f"The plan of {plan['strategy']}: {count(len(groups), 'subgraph')}, {listed(devices)}. "
        f"{plan['reason']}. What each node takes is in a report that the verb writes (--report).",
        (
            table(
                f"Subgraphs{more}",
                ("subgraph", "device", "#nodes", "first node", "last node"),
                rows,
            ),
        ),
        open=True,
        order=20,
    )
