"""Reports as self-contained HTML files: content, template, and packing."""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import accumulate, pairwise
from pathlib import Path
from shlex import join
from typing import Any

import jinja2
from markupsafe import Markup, escape

from hetsim.core.text import Record, cut, plain, to_compact_json
from hetsim.core.units import format_bytes
from hetsim.reporting.output import write_file
from hetsim.version import __version__

SCHEMA = "hetsim-report/2"

CELL_MOST = 400
"""Maximum number of characters of a table's cell that are shown; the record has all."""

BYTES_MOST = 2_500_000
"""Maximum size in bytes of a report; pictures beyond it are left out, and the page says so."""

UNPACKED_MOST = 2**26
"""Maximum unpacked size in bytes of a page's packed data, in total: that of a file that is read for
a report, and ten times that of the fullest page."""

_GZIP = 16 + zlib.MAX_WBITS
_UNIT = re.compile(r"(?<=\d) (%|[num]?s|[KMG]iB|B|[kmu]?J)(?![\w/])")
_OPTION = re.compile(r"(--[a-z][a-z-]*)")

Cell = str | Sequence[str]
"""Content of a table's cell: one line, or several."""


@dataclass(frozen=True, slots=True)
class PageVerdict:
    """Answer in a sentence, its bottleneck, and its confidence."""

    say: str
    binds: str = ""
    sure: str = ""

    def __post_init__(self) -> None:
        _check_texts(self.say, self.binds, self.sure)


@dataclass(frozen=True, slots=True)
class Tile:
    """Headline figure: label, value, and note."""

    label: str
    figure: str
    note: str = ""

    def __post_init__(self) -> None:
        _check_texts(self.label, self.figure, self.note)


@dataclass(frozen=True, slots=True)
class PageTable:
    """Rows of text under headings; ``#`` marks columns of figures, `marked` highlighted rows."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    marked: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        _check_texts(self.title, *self.headings)
        for row in self.rows:
            _check_texts(*(line for one in row for line in _lines(one)))

    def columns(self) -> list[tuple[str, bool]]:
        """Headings, each with whether its column has figures."""
        return [(told(name.removeprefix("#")), name.startswith("#")) for name in self.headings]

    def shown(self) -> list[list[str]]:
        """Cells as they are shown, their lines cut to CELL_MOST."""
        return [["\n".join(map(told, _lines(one))) for one in row] for row in self.rows]


def table(
    title: str, headings: Sequence[str], rows: Sequence[Sequence[Cell]], marked: Sequence[int] = ()
) -> PageTable:
    """Return a table; headings of figures begin with ``#``."""
    return PageTable(title, tuple(headings), tuple(map(tuple, rows)), frozenset(marked))


@dataclass(frozen=True, slots=True)
class Section:
    """Part of a view that is visible without scripts: captions and tables, in ascending order.

    `view` names the pictures that are drawn above the tables, if any; `open`: the tables are
    unfolded; `notes` are paragraphs between caption and tables.
    """

    view: str
    title: str
    caption: str
    tables: tuple[PageTable, ...] = ()
    open: bool = False
    order: int = 50
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_texts(self.title, self.caption, *self.notes)


@dataclass(frozen=True, slots=True)
class Island:
    """Content of one report.

    `kind` is the verb, ``plan``, ``folder`` or ``difference``, `record` the verb's output with
    ``--json``; `pictures` are data that views draw and the record lacks, as columns.
    """

    kind: str
    title: str
    command: tuple[str, ...]
    record: Mapping[str, Any]
    verdict: PageVerdict
    tiles: tuple[Tile, ...] = ()
    sections: tuple[Section, ...] = ()
    pictures: Mapping[str, Any] = field(default_factory=dict)

    @property
    def command_line(self) -> str:
        """Command as it is typed."""
        return plain(join(("hetsim", *self.command[1:])))

    def text(self) -> str:
        """Return the data for scripts as JSON that cannot end its HTML element.

        The JSON is ASCII, so that line ends of scripts that JSON allows are escaped, too.
        """
        data = {
            "report": SCHEMA,
            "kind": self.kind,
            "title": self.title,
            "command": self.command_line,
            "version": __version__,
            "record": self.record,
            "pictures": self.pictures,
        }
        text = to_compact_json(data)
        for char in "<>&":
            text = text.replace(char, f"\\u{ord(char):04x}")
        return text


def told(text: str) -> str:
    """Return `text` as it is shown: on one line, control characters escaped, cut to CELL_MOST."""
    return cut(plain(text), CELL_MOST)


def _lines(one: Cell) -> Sequence[str]:
    return (one,) if isinstance(one, str) else one


def _check_texts(*shown: object) -> None:
    """Raise TypeError for anything but text: records from files may contain any type."""
    for one in shown:
        if not isinstance(one, str):
            raise TypeError(f"a {type(one).__name__} where there must be a text")


def page(island: Island) -> str:
    """Return the report as HTML, the same for the same island.

    The policy in its meta element lets the page's own two scripts run, by their digests, and
    nothing else: no request, and no script that a name may contain. Pictures beyond BYTES_MOST are
    left out, the largest first, and the page says so.
    """
    left_out: list[str] = []
    while True:
        text = _rendered(island, left_out)
        if len(text.encode()) <= BYTES_MOST or not island.pictures:
            return text
        largest = max(island.pictures, key=lambda name: len(to_compact_json(island.pictures[name])))
        left_out.append(largest)
        pictures = {name: one for name, one in island.pictures.items() if name != largest}
        island = replace(island, pictures=pictures)


def write_page(
    island: Island, path: Path, *, force: bool = False, option: str = "--report"
) -> None:
    """Write the report to `path`, whole or not at all; see ``write_file``."""
    write_file(path, page(island), force=force, option=option)


def _rendered(island: Island, left_out: Sequence[str]) -> str:
    script = _script()
    library, of_library = plotly()
    scripts = " ".join(f"'{one}'" for one in (_digest(script.encode()), of_library))
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src {scripts}; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    return _template().render(
        island=island,
        left_out=left_out,
        title=told(island.title),
        policy=policy,
        css=Markup(asset("page.css")),
        data=Markup(island.text()),
        script=Markup(script),
        packed=Markup(library),
        sections=sorted(island.sections, key=lambda section: section.order),
        version=__version__,
    )


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["told"] = told
    environment.filters["bound"] = _bound
    environment.filters["options"] = _options
    return environment.from_string(asset("page.html"))


def _bound(text: str) -> str:
    """Text with figures and their units kept on one line."""
    return _UNIT.sub("\N{NO-BREAK SPACE}\\1", text)


def _options(text: str) -> Markup:
    """Markup with options kept whole, which browsers would break at their dashes."""
    return Markup(_OPTION.sub(r'<span class="option">\1</span>', str(escape(text))))


@functools.cache
def _script() -> str:
    """Script of the page, those of views, and the line that starts them, without comments."""
    views = sorted(_assets().joinpath("views").iterdir(), key=lambda one: one.name)
    parts = (asset("page.js"), *(one.read_text(encoding="utf-8") for one in views))
    lines = (line.strip() for part in (*parts, "hetsim.start();\n") for line in part.splitlines())
    text = "\n".join(line for line in lines if line and not line.startswith("//"))
    if "</script" in text.lower() or "<!--" in text:
        raise AssertionError("a script of the page would end its element")
    return text


def asset(name: str) -> str:
    """Return the text of a file that pages are built from."""
    return _assets().joinpath(name).read_text(encoding="utf-8")


def _assets() -> Traversable:
    return files("hetsim.reporting.pages") / "assets"


@functools.cache
def plotly() -> tuple[str, str]:
    """Return plotly's script, packed, and its digest for the page's policy."""
    script = (files("plotly") / "package_data" / "plotly.min.js").read_bytes()
    return pack(script), _digest(script)


def _digest(script: bytes) -> str:
    """Source expression of a content security policy for a script of these bytes."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script).digest()).decode('ascii')}"


def pack(content: bytes) -> str:
    """Return `content` as gzip in base64, the same for the same bytes."""
    return base64.b64encode(gzip.compress(content, 9, mtime=0)).decode("ascii")


def packed(value: Any, differences: Sequence[str] = ()) -> Record:
    """Return `value` as a record that the page's script unpacks.

    Columns named by `differences`, of whole numbers or lists of them, are stored as differences
    from one to the next: columns of times shrink to a third.
    """
    if differences:
        value = {
            name: _steps(column) if name in differences else column
            for name, column in value.items()
        }
    text = to_compact_json(value).encode("ascii")
    return {"packed": pack(text), "differences": list(differences)}


def _steps(column: Sequence[Any]) -> list[Any]:
    if column and isinstance(column[0], list):
        return [_steps(one) for one in column]
    return [now - before for before, now in pairwise((0, *column))]


def unpacked(value: Any) -> Any:
    """Return the content of `packed`; anything else unchanged.

    Raises ValueError if it is damaged, or has more than ``UNPACKED_MOST`` bytes.
    """
    if not _is_packed(value):
        return value
    try:
        found = json.loads(_inflated(value["packed"], UNPACKED_MOST))
        for name in value.get("differences", ()):
            found[name] = _sums(found[name])
    except (zlib.error, LookupError, TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    return found


def _sums(steps: Sequence[Any]) -> list[Any]:
    if steps and isinstance(steps[0], list):
        return [_sums(one) for one in steps]
    return list(accumulate(steps))


def check_packed(value: Any) -> None:
    """Raise ValueError if packed data within `value` is damaged, or too large in total.

    At most ``UNPACKED_MOST`` bytes are unpacked, however small they are packed, and none kept.
    """
    left, waiting = UNPACKED_MOST, [value]
    while waiting:
        one = waiting.pop()
        if _is_packed(one):
            try:
                left -= len(_inflated(one["packed"], left))
            except zlib.error as error:
                raise ValueError(str(error)) from None
        elif isinstance(one, Mapping):
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


def _is_packed(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("packed"), str)


def _inflated(text: str, most: int) -> bytes:
    """Return the bytes of one whole gzip; raises ValueError or zlib.error for anything else."""
    stream = zlib.decompressobj(_GZIP)
    found = stream.decompress(base64.b64decode(text, validate=True), most + 1)
    if len(found) > most:
        raise ValueError(f"it unpacks to more than {format_bytes(UNPACKED_MOST)}")
    if not stream.eof or stream.unused_data:
        raise ValueError("packed data are cut or have extra bytes")
    return found
