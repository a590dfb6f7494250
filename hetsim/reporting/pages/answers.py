"""Pages of answers: those of verbs, of records on disk, and an index of several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rich.console import RenderableType

from hetsim.core.text import Record, to_compact_json
from hetsim.core.units import format_bytes
from hetsim.reporting.console import ROWS_MOST, parts
from hetsim.reporting.formatting import count
from hetsim.reporting.pages.page import Island, PageTable, PageVerdict, Section, table
from hetsim.reporting.pages.records import beside, headline, record_tables, tiles
from hetsim.reporting.pages.saved import KINDS, LIMIT_BYTES, TRACE, SavedAnswer, whole
from hetsim.reporting.pages.subgraphs import subgraphs_section
from hetsim.reporting.pages.timeline import timeline_section
from hetsim.reporting.pages.views import CAPTIONS, VIEWS, load_sections, rows_picture
from hetsim.reporting.tables.question import STATUSES
from hetsim.reporting.tables.verdicts import Found, binds, title, verdict_of

ROOM_BYTES = 200_000
"""Maximum size in bytes of a page's record; in larger ones the longest lists are cut."""

LENGTHS = (2**10, 2**8, 2**6, 2**4, 3)
"""Lengths to which lists of a large record are cut, tried in order until it fits."""

ASKED_TOO = ("what_if", "explanation", "sensitivities", "failures", "autoscaling", "survived")
"""Entries of a record that answer options."""

CHANGES = "Answers to further options: what-if changes, explanation, sensitivities, and failures."
SUBGRAPHS = (
    "Subgraphs of the plan. A report that the verb writes itself (--report) also has each node."
)
PROVENANCE = (
    "Provenance and uncertainty of the times of each device and link: about 80 % are within the "
    "stated factor."
)

EVIDENCE = ("of", "status", "before", "precision", "runtime", "within_80", "measured_share",
            "error", "likely")  # fmt: skip
"""Fields of the evidence of a device or link on a page."""


def answer_island(
    record: Found,
    command: Sequence[str],
    pictures: Found,
    printed: RenderableType | None = None,
) -> Island:
    """Return the page of a record.

    `pictures` are data that the record lacks: timelines, memory, subgraphs, other rates, and
    ``printed`` of a page that is read from disk. `printed` is the terminal output of the verb;
    without it tables are made of the record.
    """
    schema = record["schema"]
    made = VIEWS[schema](record) if schema in VIEWS else {}
    if printed is not None:
        made["printed"] = list(parts(printed))
    pictures = {**made, **pictures}
    say = verdict_of(record)
    sure = record.get("verdict", {}).get("sure") or ""
    sections = [
        _answer_section(record, pictures, (say, sure)),
        *load_sections(pictures),
        *subgraphs_section(pictures),
        *timeline_section(pictures),
        *(
            Section(view, name, caption, order=order)
            for view, (name, caption, order) in CAPTIONS.items()
            if pictures.get(view)
        ),
    ]
    asked = {key: record[key] for key in ASKED_TOO if key in record}
    if asked:
        tables = tuple(record_tables(asked, "Figures"))
        sections.append(Section("changes", "What if", CHANGES, tables, open=True, order=60))
    problem, top = _problem(record), headline(record)
    if problem is not None and "figures" in problem:
        sections.append(_provenance(problem))
    return Island(
        kind=KINDS[schema],
        title=title(record),
        command=tuple(command),
        record=_lean(record),
        verdict=PageVerdict(say, binds(record), sure),
        tiles=tuple(tiles(beside(top, top))),
        sections=tuple(sections),
        pictures=pictures,
    )


MAIN = {
    "compare": (
        "strategies",
        "Simulated cost of each strategy with its 80 % interval over Monte Carlo samples, best "
        "first, single devices in orange.",
    ),
    "lint": ("findings", "Latency after the change that removes each finding."),
    "sensitivities": ("sensitivities", "Share of the time that each change saves."),
    "nodes": ("units", "Nodes that each device supports, or the time of its nodes in the plan."),
    "place": (
        "placed",
        "Utilization of devices and links at the highest demand that the placement sustains.",
    ),
    "platforms": (
        "platforms",
        "Boards and machines, then single devices in orange, each by its best plan with its 80 % "
        "interval over Monte Carlo samples; the fastest is green.",
    ),
    "recommend": (
        "front",
        "Simulated platforms by cost and latency of the tightest objective: filled points meet it, "
        "hollow ones are undecided, crosses miss it. Other platforms are ruled out by proof or "
        "cost more.",
    ),
    "sweep": (
        "points",
        "Points of the grid by any two of their figures, with the Pareto front as a line. Points "
        "without a figure are not shown.",
    ),
}
"""View above the answer's tables and its caption, by the kind of report."""


def _answer_section(record: Found, pictures: Found, told: Sequence[str]) -> Section:
    """Section of the terminal's tables of the answer, or else of tables of the record."""
    kind = KINDS[record["schema"]]
    notes, tables = [], []
    said = tuple(filter(None, told))
    if "printed" in pictures:
        for part in pictures["printed"]:
            if "rows" in part:
                tables.append(table(**part))
            elif not part["text"].removeprefix("How sure: ").startswith(said):
                notes.append(part["text"])
    else:
        left_out = ("schema", "verdict", "groups", "served", *ASKED_TOO)
        own = {key: value for key, value in record.items() if key not in left_out}
        if kind != "plan":
            own.pop("problem", None)
        tables = record_tables(own, "Figures")
    if "lists_most" in record:
        notes.append(f"This page's record has at most {record['lists_most']} entries a list.")
    left = pictures.get("points", {}).get("left_out")
    if left:
        notes.append(f"{left} more rows are in {record['rows']}.")
    told_as = "Tables as on the terminal." if "printed" in pictures else "Figures of the record."
    view, caption = MAIN.get(kind, ("answer", told_as))
    return Section(view, "Answer", caption, tuple(tables), open=True, order=10, notes=tuple(notes))


def _problem(record: Found) -> Found | None:
    """Problem of a record."""
    if "problem" in record:
        found: Found | None = record["problem"]
        return found
    answer = record.get("answer")
    return None if answer is None else answer["service"]["problem"]


def _provenance(problem: Found) -> Section:
    """Section of the question, and of the provenance and uncertainty of its times."""
    asked = record_tables({key: one for key, one in problem.items() if key != "figures"}, "Asked")
    figures = problem["figures"]
    if figures is None:
        caption = "All times were given as arrays, without provenance."
        return Section("provenance", "Provenance", caption, tuple(asked), open=True, order=90)
    used = {one["status"] for part in ("devices", "links") for one in figures[part].values()}
    used |= {one.get("before") for one in figures["devices"].values()}
    meant = [(status, meaning) for status, meaning in STATUSES.items() if status in used]
    rests = {
        part: {name: {key: one[key] for key in EVIDENCE if key in one} for name, one in of.items()}
        for part, of in figures.items()
        if part != "weakest"
    }
    tables = record_tables(rests, "Figures")
    caption = f"{PROVENANCE} The weakest source: {STATUSES[figures['weakest']]}."
    tables += [table("Meaning of statuses", ("status", "meaning"), meant), *asked]
    return Section("provenance", "Provenance", caption, tuple(tables), open=True, order=90)


def _lean(record: Found) -> Found:
    """Record with its longest lists cut until it fits a page; ``lists_most`` is their length."""
    for most in LENGTHS:
        if len(to_compact_json(record)) <= ROOM_BYTES:
            break
        record = {**_cut(record, most), "lists_most": most}
    return record


def _cut(value: Any, most: int) -> Any:
    if isinstance(value, dict):
        return {key: _cut(one, most) for key, one in value.items()}
    return [_cut(one, most) for one in value[:most]] if isinstance(value, list) else value


def island_of(left: SavedAnswer, command: Sequence[str]) -> Island:
    """Return the page of `left`; `command` is used if it has none.

    Raises InvalidInput if its record lacks fields, as one of another version may.
    """
    pictures = left.pictures
    with whole(left):
        if left.rows and not pictures:
            pictures = {"points": rows_picture(left.rows)}
        if "timeline" not in pictures:
            pictures = {**pictures, **left.timelines()}
        island = answer_island(left.record, left.command or tuple(command), pictures)
        sections = list(island.sections)
        if left.too_long():
            told = f"{TRACE} is larger than {format_bytes(LIMIT_BYTES)} and is not shown."
            sections.append(Section("timeline", "Timeline", told, order=30))
        plan = left.record if left.kind == "plan" else left.plan
        if plan is not None and "subgraphs" not in left.pictures:
            sections.append(_subgraphs(plan))
    return replace(island, sections=tuple(sections))


def _subgraphs(plan: Record) -> Section:
    """Section of the subgraphs of a saved plan, without the model."""
    nodes = [group["nodes"] for group in plan["groups"]]
    rows = [
        (f"g{index}", str(group["device"]), str(len(of)), str(of[0]), str(of[-1]))
        for index, (group, of) in enumerate(zip(plan["groups"], nodes, strict=True))
    ]
    headings = ("subgraph", "device", "#nodes", "first node", "last node")
    more = f", the first {ROWS_MOST} of {len(rows)}" if len(rows) > ROWS_MOST else ""
    told = (table(f"Subgraphs{more}", headings, rows[:ROWS_MOST]),)
    return Section("subgraphs", "Subgraphs", SUBGRAPHS, told, open=True, order=20)


def folder_island(
    title: str, answers: Sequence[tuple[SavedAnswer, Island]], command: Sequence[str]
) -> Island:
    """Return a page of `answers`, each with the island of its own page: an index, and tables."""
    named = [(left.source, island.kind, island.title, island.verdict.say)
             for left, island in answers]  # fmt: skip
    rows = [(str(number), *one) for number, one in enumerate(named, 1)]
    caption = (
        "Every answer with its verdict. The sections below hold their tables; a report of one "
        "answer has its figures."
    )
    headings = ("#", "from", "kind", "title", "verdict")
    index = table("Answers", headings, rows)
    keys = ("source", "kind", "title", "verdict")
    return Island(
        kind="folder",
        title=title,
        command=tuple(command),
        record={
            "schema": "hetsim-folder/1",
            "answers": [dict(zip(keys, one, strict=True)) for one in named],
        },
        verdict=PageVerdict(f"This page has {count(len(answers), 'answer')} with their verdicts."),
        sections=(
            Section("index", "Index", caption, (index,), open=True, order=0),
            *(
                Section(
                    f"answer-{number}",
                    f"{number}. {left.source}",
                    island.verdict.say + f" Made by: {island.command_line}" * bool(left.command),
                    _tables_of(island),
                    order=number,
                )
                for number, (left, island) in enumerate(answers, 1)
            ),
        ),
    )


def _tables_of(island: Island) -> tuple[PageTable, ...]:
    """All tables of an answer, its figures first."""
    tiles = [(tile.label, tile.figure, tile.note) for tile in island.tiles]
    figures = [table("Figures", ("what", "#figure", ""), tiles)] if tiles else []
    sections = sorted(island.sections, key=lambda one: one.order)
    return (*figures, *(one for section in sections for one in section.tables))
