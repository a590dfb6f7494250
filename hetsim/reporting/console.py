"""Console and tables in the house style."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal, TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from hetsim.core.text import Record, plain
from hetsim.reporting.formatting import figure_text

PLAIN_WIDTH = 120
"""Columns of output to a file or a pipe."""

CUT = "\N{HORIZONTAL ELLIPSIS}"
"""Sign that rich inserts where it cuts text."""

LEAST = 8
"""Minimum width of a column that wraps."""

WIDEST, STEP = 320, 4
"""Widest table, and the step by which tables are widened until nothing is cut."""


class _Shown(Console):
    """Console that escapes every character that would steer a terminal, whatever its origin."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """Yield the segments of `renderable`; rich's own control segments stay."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            if control or text.replace("\n", "").isprintable():
                yield segment
            else:
                yield Segment("\n".join(map(plain, text.split("\n"))), style)


def console(stream: TextIO) -> Console:
    """Return a console on `stream`: as wide as the terminal, or PLAIN_WIDTH without one.

    The environment variable COLUMNS overrides both. Markup is off: names are printed as
    they are.
    """
    width = None
    if not stream.isatty() and not os.environ.get("COLUMNS", "").isdigit():
        width = PLAIN_WIDTH
    return _Shown(
        file=stream, width=width, markup=False, emoji=False, highlight=False, soft_wrap=False
    )


def whole(target: Console, report: RenderableType) -> str:
    """Return `report` as `target` prints it, wide enough that no figure is cut off.

    If the terminal is too narrow for a table, the table's lines exceed the terminal's width: a
    wrapped line can be read, one that ends in dots cannot. Text next to the table is not widened.
    """
    if isinstance(report, Group):
        return "".join(whole(target, part) for part in report.renderables)
    if isinstance(report, Table):
        _keep_words(report)

    def at(width: int) -> str:
        target.width = width
        with target.capture() as captured:
            target.print(report, crop=False)
        return captured.get()

    given = width = target.width
    text = at(width)
    if CUT in text:
        own = at(max(width, WIDEST)).count(CUT)
        while text.count(CUT) > own and width < WIDEST:
            width += STEP
            text = at(width)
    target.width = given
    return text


def _keep_words(table: Table) -> None:
    """Keep each column that wraps wide enough to be read."""
    for column in table.columns:
        if column.overflow == "fold" and not column.no_wrap and column.min_width is None:
            texts = (column.header, *column.cells)
            lines = [len(line) for text in texts for line in str(text).split("\n")]
            column.min_width = min(max(lines, default=0), LEAST)


Cell = str | Text | Sequence[str]
"""Content of a cell: one line, several, or text with a style."""


@dataclass(frozen=True, slots=True)
class Heading:
    """Heading of a column, its lines separated by line breaks, and the alignment of its cells.

    - `text`: prefix ``#``: figures, right-aligned; ``|``: names. Neither wraps; other text does.
    - `least`: least width in characters.
    """

    text: str
    least: int | None = None


def table(
    headings: Iterable[str | Heading],
    rows: Iterable[Iterable[Cell]],
    *,
    style: Callable[[int], str] = lambda row: "",
    lines: bool = False,
) -> Table:
    """Return a table in the house style.

    Cells of `rows` are freed of characters that steer a terminal; `style` returns the style of a
    row by its number; `lines`: a rule stands below each row.
    """
    made = Table(
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
        header_style="bold",
    )
    for heading in headings:
        one = Heading(heading) if isinstance(heading, str) else heading
        figures, names = one.text.startswith("#"), one.text.startswith("|")
        made.add_column(
            cell(*one.text[figures or names :].split("\n")),
            justify="right" if figures else "left",
            no_wrap=figures or names,
            overflow="ellipsis" if figures or names else "fold",
            min_width=one.least,
        )
    for number, row in enumerate(rows):
        cells = [cell(one) if isinstance(one, str) else one for one in row]
        shown = [one if isinstance(one, Text) else cell(*one) for one in cells]
        made.add_row(*shown, style=style(number), end_section=lines)
    return made


Column = str | tuple[str | Heading, str | Callable[[Any], Cell]] | Literal[False] | None
"""``heading=path`` of an attribute, or a heading and a path or function; None, False: left out."""


def table_of(
    rows: Iterable[Any],
    *columns: Column,
    style: Callable[[int], str] = lambda row: "",
) -> Table:
    """Return the ``table`` of records, with one column for each attribute, or function of a record.

    Attributes are formatted by ``figure_text`` in the unit that their name ends in; one that ends
    in ``%`` is a share.
    """
    known = [_column(one) for one in columns if one]
    cells = ([of(row) for _, of in known] for row in rows)
    return table((heading for heading, _ in known), cells, style=style)


def _column(
    one: str | tuple[str | Heading, str | Callable[[Any], Cell]],
) -> tuple[str | Heading, Callable[[Any], Cell]]:
    heading, of = one.rsplit("=", 1) if isinstance(one, str) else one
    if not isinstance(of, str):
        return heading, of
    read = attrgetter(of.removesuffix("%"))
    return heading, lambda row: figure_text(of, read(row))


def cell(*lines: str, style: str = "") -> Text:
    """Return a cell of several lines, free of markup and of characters that steer a terminal."""
    return Text("\n".join(plain(line) for line in lines), style=style)


def pairs(rows: Iterable[tuple[str, str | None]]) -> Table:
    """Return labels and their figures as two columns; those without a figure are left out."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for label, figure in rows:
        if figure is not None:
            table.add_row(cell(label), cell(figure))
    return table


Part = RenderableType | Sequence[RenderableType] | None


def stack(*parts: Part) -> RenderableType:
    """Return the parts that are not empty, with blank lines between them.

    A part may be several lines or tables; one without content or rows is left out.
    """
    there = (one for one in parts if not (isinstance(one, Table) and not one.row_count))
    shown = [[part] if isinstance(part, (str, Text, Table, Group)) else part for part in there]
    found: list[RenderableType] = []
    for part in shown:
        if isinstance(part, Sequence) and part:
            found += [*[Text("")] * bool(found), *part]
    return Group(*found)


def bold(text: str) -> Text:
    """Return a sentence in bold, free of characters that steer a terminal."""
    return Text(plain(text), style="bold")


def remark(head: str, text: str) -> Text:
    """Return a line that begins with its subject, in bold: ``npu: infeasible``."""
    return Text.assemble((f"{plain(head)}: ", "bold"), plain(text))


ROWS_MOST = 400
"""Maximum number of rows of a printed table that a page shows."""

HYPHEN = "-\n"
"""End of a heading's line within a word."""


def parts(report: RenderableType) -> Iterator[Record]:
    """Yield the texts and tables of a terminal report as plain data."""
    if isinstance(report, Group):
        for one in report.renderables:
            yield from parts(one)
    elif isinstance(report, Table):
        yield plain_table(report)
    elif str(report).strip():
        yield {"text": str(report)}


def plain_table(printed: Table) -> Record:
    """Return a table as plain data: title, headings, rows of lines, and highlighted rows."""
    columns = printed.columns
    headings = [
        f"{'#' * (one.justify == 'right')}{' '.join(str(one.header).replace(HYPHEN, '').split())}"
        for one in columns
    ]
    if not printed.show_header:
        headings = ["", *headings[1:]]
    cells = [[str(cell).split("\n") for cell in one.cells] for one in columns]
    rows = list(zip(*cells, strict=True))
    named = ", ".join([one.removeprefix("#") for one in headings if one.strip("#")][:3])
    name = f"{named[:1].upper()}{named[1:]}" or ("Options" if len(columns) == 1 else "Summary")
    more = f", the first {ROWS_MOST} of {len(rows)}" if len(rows) > ROWS_MOST else ""
    marked = [place for place, row in enumerate(printed.rows[:ROWS_MOST]) if row.style]
    return {"title": f"{name}{more}", "headings": headings, "rows": rows[:ROWS_MOST],
            "marked": marked}  # fmt: skip
