"""The island: all that a report knows, as one block of JSON within its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from shlex import join
from typing import Any, Literal

from hetsim.core.text import Record, cut, plain, to_compact_json
from hetsim.version import __version__

SCHEMA = "hetsim-report/2"

Kind = Literal[
    "compare",
    "simulate",
    "run",
    "capacity",
    "recommend",
    "sweep",
    "place",
    "lint",
    "nodes",
    "record",
    "folder",
    "difference",
]

CELL_MOST = 400
"""Characters of a table's cell that are shown; the record has all."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a report says first.

    Attributes
    ----------
    say : str
        The answer in a sentence.
    binds : str
        What keeps it from being better.
    levers : tuple of str
        What would make it better, or what is known to be of no use.
    sure : str
        How sure that is; empty where it is not known.
    """

    say: str
    binds: str = ""
    levers: tuple[str, ...] = ()
    sure: str = ""

    def __post_init__(self) -> None:
        _check_texts(self.say, self.binds, *self.levers, self.sure)


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure that stands out: what it is, the figure, and what it is to be read with."""

    label: str
    figure: str
    note: str = ""

    def __post_init__(self) -> None:
        _check_texts(self.label, self.figure, self.note)


@dataclass(frozen=True, slots=True)
class Column:
    """A heading, and whether what stands below it are figures."""

    name: str
    figures: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under headings; `marked` rows stand out.

    `title` is what it says of them, for those who do not see where it stands.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    marked: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        for row in self.rows:
            _check_texts(*row)

    def shown(self) -> list[list[str]]:
        """Return the cells as they are shown: on one line, and not without end."""
        return [[told(cell) for cell in row] for row in self.rows]


@dataclass(frozen=True, slots=True)
class Section:
    """A view's part that is there before any script runs: its caption, and its tables.

    Attributes
    ----------
    view : str
        The view that draws above the tables, by its id in ``assets/views``; a section without
        such a view is its tables.
    title, caption : str
    tables : tuple of Table
    open : bool
        Whether the tables are seen at once, or opened under their picture.
    order : int
        Sections and views stand in ascending order.
    """

    view: str
    title: str
    caption: str
    tables: tuple[Table, ...] = ()
    open: bool = False
    order: int = 50

    def __post_init__(self) -> None:
        _check_texts(self.title, self.caption)


@dataclass(frozen=True, slots=True)
class Island:
    """What one report shows.

    Attributes
    ----------
    kind : Kind
    title : str
    command : tuple of str
        The command line, program first.
    record : mapping
        What the verb prints as JSON.
    verdict : Verdict
    tiles : tuple of Tile
    sections : tuple of Section
    pictures : mapping
        What views draw and the record does not hold; columns, not rows.
    """

    kind: Kind
    title: str
    command: tuple[str, ...]
    record: Mapping[str, Any]
    verdict: Verdict
    tiles: tuple[Tile, ...] = ()
    sections: tuple[Section, ...] = ()
    pictures: Mapping[str, Any] = field(default_factory=dict)

    @property
    def command_line(self) -> str:
        """The command as it is typed."""
        return plain(join(("hetsim", *self.command[1:])))

    def data(self) -> Record:
        """Return what scripts read."""
        return {
            "report": SCHEMA,
            "kind": self.kind,
            "title": self.title,
            "command": self.command_line,
            "version": __version__,
            "verdict": {
                "say": self.verdict.say,
                "sure": self.verdict.sure,
                "binds": self.verdict.binds,
                "levers": list(self.verdict.levers),
            },
            "tiles": [[tile.label, tile.figure, tile.note] for tile in self.tiles],
            "record": self.record,
            "pictures": self.pictures,
        }

    def text(self) -> str:
        """Return ``data`` as JSON that no HTML parser takes for an end of its element.

        Such JSON is ASCII, so the line ends that scripts know beyond JSON's are escaped, too.
        """
        text = to_compact_json(self.data())
        for char in "<>&":
            text = text.replace(char, f"\\u{ord(char):04x}")
        return text


def told(text: str) -> str:
    """Return `text` as it is shown: on one line, control characters escaped, not without end."""
    return cut(plain(text), CELL_MOST)


def _check_texts(*shown: object) -> None:
    """Raise TypeError for what is no text: records from files may hold anything in its place."""
    for one in shown:
        if not isinstance(one, str):
            raise TypeError(f"a {type(one).__name__} where there must be a text")


def columns(*names: str) -> tuple[Column, ...]:
    """Return headings; those that start with ``#`` are of figures."""
    return tuple(Column(name.removeprefix("#"), name.startswith("#")) for name in names)


def table(
    title: str, names: Sequence[str], rows: Sequence[Sequence[str]], marked: Sequence[int] = ()
) -> Table:
    """Return a table; `names` are headings as ``columns`` takes them."""
    return Table(title, columns(*names), tuple(tuple(row) for row in rows), frozenset(marked))
