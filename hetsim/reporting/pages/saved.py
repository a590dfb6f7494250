"""Answers on disk, read for a report: pages, records, folders, sweeps, plans."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hetsim.core.files import no_such_file, read_regular
from hetsim.core.text import Record
from hetsim.errors import InvalidInput, nearest
from hetsim.reporting.pages.page import SCHEMA, check_packed, unpacked
from hetsim.reporting.pages.timeline import pictures_of_trace
from hetsim.reporting.tables.verdicts import ANSWERS

RESULT, MANIFEST, PLAN, ROWS = "result.json", "manifest.json", "plan.json", "rows.jsonl"
TRACE = "trace.json"

KINDS = {schema: answer.kind for schema, answer in ANSWERS.items()}
"""Kind of report of a record, by its schema."""

UNDER_LOAD = ("hetsim-service/1", "hetsim-load-test/1")
"""Schemas of answers whose trace is of requests under load, which pages do not draw."""

_ISLAND = '<script type="application/json" id="hetsim-data">'
_OF_REPORTS = ("folder", "difference")
LIMIT_BYTES = 2**26
"""Maximum number of bytes that are read of one file."""
_WHAT = "give a report.html, a record from --json, a folder of --out or of a sweep, or a plan"


@contextmanager
def whole(*read: SavedAnswer) -> Iterator[None]:
    """Context in which missing or wrong fields of a record raise InvalidInput."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else str(error)
        if isinstance(error, AttributeError | TypeError):
            what = "a value has another type than its schema says"
        raise InvalidInput(
            f"its record of '{read[0].record['schema']}' is not whole: {what}",
            where=" or ".join(left.source for left in read),
            hint="another hetsim made it, or it is damaged: write it again",
        ) from error


@dataclass(frozen=True, slots=True)
class SavedAnswer:
    """Answer of one verb on disk.

    `source` is the file or folder as given, `kind` one of ``KINDS``, `command` the command line
    that made it, program first, if known; `pictures` of a report are the data that its views draw,
    `manifest` and `plan` those of a folder of ``--out`` (for a page the version that made it),
    `rows` those of a sweep, `trace` a file.
    """

    source: str
    kind: str
    record: Record
    command: tuple[str, ...] = ()
    pictures: Mapping[str, Any] = field(default_factory=dict)
    manifest: Record | None = None
    plan: Record | None = None
    rows: tuple[Record, ...] = ()
    trace: Path | None = None

    def timelines(self) -> Record:
        """Return the pictures of its trace, with ``timeline``.

        Empty without a trace, or if that is too large. Raises InvalidInput if it cannot be read, or
        was not written by hetsim.
        """
        if self.trace is None or self.too_long():
            return {}
        trace = _record(self.trace)
        try:
            name, weights = self._played()
            return pictures_of_trace(trace, name, weights)
        except (AttributeError, LookupError, TypeError, ValueError, ArithmeticError):
            raise InvalidInput(
                "its events are not from hetsim",
                where=str(self.trace),
                hint="write it again, or move it out of the folder",
            ) from None

    def too_long(self) -> bool:
        """Whether its trace is too large to be read for a report."""
        return self.trace is not None and self.trace.stat().st_size > LIMIT_BYTES

    def _played(self) -> tuple[str, Record]:
        """Name of the plan and the weights of its devices; for a comparison of its best plan."""
        record = self.record["rows"][0] if self.kind == "compare" else self.record
        name = record["strategy"] if self.kind == "compare" else record["plan"]["strategy"]
        devices = record["timeline"]["devices"]
        return str(name), {device: one.get("weight_bytes") for device, one in devices.items()}

    def subgraphs(self) -> Record | None:
        """Return the device of each node; None if the answer has none. Raises InvalidInput."""
        picture = self.pictures.get("subgraphs")
        if picture is None:
            return None
        try:
            found = unpacked(picture)
        except ValueError as error:
            raise InvalidInput(
                f"its plans are damaged: {error}", where=self.source, hint="write the report again"
            ) from None
        return found if isinstance(found, dict) and "plans" in found else None


_MOST = 10**300
"""Largest whole number in a record: figures are compared and drawn as floats."""


def read_all(path: Path) -> list[SavedAnswer]:
    """Read the answers in a file, a folder of one verb, or a folder of several, sorted by name.

    Files of a folder that are not JSON or HTML, and those of other schemas, are skipped; damaged
    ones are errors. Raises InvalidInput if something cannot be read, is damaged, or has no report,
    and if there is no answer.
    """
    if not path.is_dir():
        return [_file(path)]
    own = _folder(path)
    if own is not None:
        return [own]
    found: list[SavedAnswer] = []
    for entry in sorted(_listing(path), key=lambda entry: entry.name):
        if entry.is_dir():
            inner = _folder(entry)
            found += [] if inner is None else [inner]
        elif entry.suffix == ".html":
            text = _text(entry)
            if _ISLAND in text and not _of_reports(text):
                found.append(_page(entry, text))
        elif entry.suffix == ".json":
            record = _json(entry, _text(entry))
            if isinstance(record, dict) and str(record.get("schema")) in KINDS:
                found.append(_of_record(str(entry), record))
    if not found:
        raise InvalidInput("no answer of hetsim in it", where=str(path), hint=_WHAT)
    return found


def _folder(path: Path) -> SavedAnswer | None:
    """Answer in a folder of ``--out`` or of a sweep; None for other folders."""
    if (path / RESULT).is_file():
        record = _record(path / RESULT)
        manifest = _record(path / MANIFEST) if (path / MANIFEST).is_file() else None
        plan = _record(path / PLAN) if (path / PLAN).is_file() else None
        command = () if manifest is None else _words(manifest.get("command"))
        found = _of_record(str(path), record, where=path / RESULT)
        drawn = (path / TRACE).is_file() and record["schema"] not in UNDER_LOAD
        trace = path / TRACE if drawn else None
        return SavedAnswer(str(path), found.kind, record, command, {}, manifest, plan, trace=trace)
    if (path / ROWS).is_file():
        return _sweep(path)
    if (path / PLAN).is_file():
        return _of_record(str(path), _record(path / PLAN), where=path / PLAN)
    return None


def _file(path: Path) -> SavedAnswer:
    text = _text(path)
    if path.name == ROWS:
        return _sweep(path.parent)
    if text.lstrip()[:1] == "<":
        return _page(path, text)
    record = _json(path, text)
    if isinstance(record, dict) and record.get("report") == SCHEMA:
        return _of_data(path, record)
    if not isinstance(record, dict):
        raise InvalidInput("it is not a record", where=str(path), hint=_WHAT)
    return _of_record(str(path), record)


def _page(path: Path, text: str) -> SavedAnswer:
    start = text.find(_ISLAND)
    end = text.find("</script>", start)
    if start < 0 or end < 0:
        raise InvalidInput("it is not a report of hetsim", where=str(path), hint=_WHAT)
    data = _json(path, text[start + len(_ISLAND) : end])
    if not isinstance(data, dict) or data.get("report") != SCHEMA:
        raise InvalidInput(
            f"its data are not of schema {SCHEMA}",
            where=str(path),
            hint="write the report again with this hetsim",
        )
    return _of_data(path, data)


def _of_reports(text: str) -> bool:
    """Whether a page is one of other reports; its kind precedes all that a name may contain."""
    head = text[text.find(_ISLAND) :][:200]
    return any(f'"kind":"{kind}"' in head for kind in _OF_REPORTS)


def _of_data(path: Path, data: Record) -> SavedAnswer:
    record, pictures, command = data.get("record"), data.get("pictures"), data.get("command")
    if not (isinstance(record, dict) and isinstance(pictures, dict) and isinstance(command, str)):
        raise InvalidInput("its data lack fields", where=str(path), hint="write the report again")
    if data.get("kind") in _OF_REPORTS:
        raise InvalidInput(
            "it is a report of reports", where=str(path), hint="give those that it is of"
        )
    try:
        check_packed(pictures)
    except ValueError as error:
        raise InvalidInput(
            f"its pictures are damaged: {error}", where=str(path), hint="write the report again"
        ) from None
    try:
        words = tuple(shlex.split(command))
    except ValueError:
        words = (command,)
    manifest = {"versions": {"hetsim": data.get("version")}}
    found = _of_record(str(path), record)
    rows = _page_rows(pictures) if found.kind == "sweep" else ()
    return SavedAnswer(str(path), found.kind, record, words, pictures, manifest, rows=rows)


def _page_rows(pictures: Record) -> tuple[Record, ...]:
    """Rows of a sweep, which its page stores as columns."""
    picture = pictures.get("points")
    columns = picture.get("columns") if isinstance(picture, dict) else None
    if not isinstance(columns, dict) or not columns:
        return ()
    names = list(columns)
    return tuple(
        dict(zip(names, values, strict=True)) for values in zip(*columns.values(), strict=True)
    )


def _of_record(source: str, record: Record, where: Path | None = None) -> SavedAnswer:
    schema = record.get("schema")
    kind = KINDS.get(schema) if isinstance(schema, str) else None
    if kind is None:
        told = "it has no schema" if schema is None else f"no report is made of a '{schema}'"
        raise InvalidInput(
            told, where=str(where or source), hint=nearest(str(schema), KINDS) if schema else _WHAT
        )
    return SavedAnswer(source, kind, record)


def _sweep(folder: Path) -> SavedAnswer:
    """Answer of a sweep's folder, with its rows."""
    rows = []
    path = folder / ROWS
    for number, line in enumerate(_text(path).splitlines(), 1):
        row = _json(path, line, number)
        if not isinstance(row, dict) or not isinstance(row.get("key"), str):
            raise InvalidInput(
                "this line is not a row of a sweep",
                where=f"{path}:{number}",
                hint="run the sweep again",
            )
        rows.append(row)
    record = {
        "schema": "hetsim-sweep/1",
        "points": len(rows),
        "answered": 0,
        "known": len(rows),
        "failed": sum(row.get("error") is not None for row in rows),
        "rows": str(path),
        "parquet": None,
        "front": [],
        "front_of": [],
    }
    return SavedAnswer(str(folder), "sweep", record, rows=tuple(rows))


def _record(path: Path) -> Record:
    found = _json(path, _text(path))
    if not isinstance(found, dict):
        raise InvalidInput("it is not a record", where=str(path), hint=_WHAT)
    return found


def _json(path: Path, text: str, line: int = 0) -> Any:
    try:
        return json.loads(text, parse_int=_whole)
    except json.JSONDecodeError as error:
        at = line or error.lineno
        raise InvalidInput(f"not JSON: {error.msg}", where=f"{path}:{at}", hint=_WHAT) from None
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"not JSON: {error}", where=str(path), hint=_WHAT) from None


def _whole(digits: str) -> int:
    """Whole number of at most _MOST; ValueError above, where no float is as large."""
    number = int(digits)
    if abs(number) > _MOST:
        raise ValueError(f"a number of {len(digits)} digits")
    return number


def _text(path: Path) -> str:
    try:
        return read_regular(path, LIMIT_BYTES).decode("utf-8")
    except FileNotFoundError:
        raise no_such_file(InvalidInput, path) from None
    except (OSError, ValueError) as error:
        what = error.strerror if isinstance(error, OSError) else "not a text file"
        raise InvalidInput(f"cannot read: {what}", where=str(path), hint=_WHAT) from None


def _listing(path: Path) -> list[Path]:
    try:
        return list(path.iterdir())
    except OSError as error:
        raise InvalidInput(f"cannot read: {error.strerror}", where=str(path)) from None


def _words(command: object) -> tuple[str, ...]:
    if not isinstance(command, list):
        return ()
    return tuple(command) if all(isinstance(word, str) for word in command) else ()
