"""Several answers on one page: an index, and a section with the tables of each."""

from __future__ import annotations

from collections.abc import Sequence

from hetsim.reporting.pages.island import Island, Section, Verdict, table
from hetsim.reporting.pages.reading import Left
from hetsim.reporting.words.text import count


def folder_island(
    title: str, answers: Sequence[tuple[Left, Island]], command: Sequence[str]
) -> Island:
    """Return a page of `answers`, each with the island of its own page; at least one."""
    rows = [
        (str(number), left.source, island.kind, island.title, island.verdict.say)
        for number, (left, island) in enumerate(answers, 1)
    ]
    index = Section(
        "index",
        "Index",
        "Every answer with its verdict; the sections after it hold the tables of each. A report of "
        "one alone has its pictures.",
        (table("Answers", ("#", "from", "kind", "title", "verdict"), rows),),
        open=True,
        order=0,
    )
    return Island(
        kind="folder",
        title=title,
        command=tuple(command),
        record={
            "schema": "hetsim-folder/1",
            "answers": [
                {"source": left.source, "kind": island.kind, "title": island.title,
                 "verdict": island.verdict.say}
                for left, island in answers
            ],
        },
        verdict=Verdict(f"{count(len(answers), 'answer')}, each with its verdict below."),
        sections=(
            index,
            *(_section(number, left, one) for number, (left, one) in enumerate(answers, 1)),
        ),
    )  # fmt: skip


def _section(number: int, left: Left, island: Island) -> Section:
    """All tables of one answer, its figures first."""
    tiles = [(tile.label, tile.figure, tile.note) for tile in island.tiles]
    tables = [table("Figures", ("what", "#figure", ""), tiles)] if tiles else []
    if island.verdict.binds or island.verdict.levers:
        told = [("what binds", island.verdict.binds)] if island.verdict.binds else []
        told += [("what would help", lever) for lever in island.verdict.levers]
        tables.append(table("Why", ("", "said"), told))
    for section in sorted(island.sections, key=lambda one: one.order):
        tables += section.tables
    command = f" Made by: {island.command_line}" if left.command else ""
    return Section(
        f"answer-{number}",
        f"{number}. {left.source}",
        f"{island.verdict.say}{command}",
        tuple(tables),
        open=False,
        order=number,
    )
