"""Request traces in published formats: CSV or JSON lines, plain or gzip."""

from __future__ import annotations

import csv
import functools
import gzip
import json
import math
import re
import zlib
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np

from hetsim.core.checks import shown as display
from hetsim.core.files import open_regular
from hetsim.errors import WorkloadError, nearest


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Recorded requests.

    `arrival_s` (float64[requests]) ascends from the file's first time, or from a requested earlier
    one; `columns` has the requested columns, int64[requests].
    """

    format: str
    arrival_s: np.ndarray[Any, np.dtype[np.float64]]
    columns: Mapping[str, np.ndarray[Any, np.dtype[np.int64]]]

    @property
    def rate_per_s(self) -> float:
        """Requests per second from the first to the last; infinite if all arrived at once."""
        span_s = float(self.arrival_s[-1] - self.arrival_s[0])
        gaps = len(self.arrival_s) - 1
        if not gaps:
            return 0.0
        return gaps / span_s if span_s else float("inf")


Unit = Literal["s", "ms", "us", "ns", "date"]
UNITS: tuple[Unit, ...] = ("s", "ms", "us", "ns", "date")

PER_S: Mapping[Unit, float] = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9, "date": 1e9}
"""Steps per second, by unit; dates are in nanoseconds."""

Told = Callable[[Any], float]
"""Function from a file's value to a number of steps; ValueError with the expected form."""

_DATE = re.compile(
    r"(\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}:\d{2})(?:\.(\d{1,9}))?(Z|[+-]\d{2}:\d{2})?", re.ASCII
)


def time_reader(unit: Unit) -> Told:
    """Return the reader of times in this unit."""
    return _date() if unit == "date" else _number(PER_S[unit])


def _number(per_s: float) -> Told:
    most = LARGEST * per_s

    def told(given: Any) -> float:
        if isinstance(given, bool) or not isinstance(given, str | int | float):
            raise ValueError("not a number")
        if isinstance(given, str) and (not given.isascii() or "_" in given):
            raise ValueError("not a number")
        try:
            # Integer nanoseconds since 1970 do not fit a float.
            value = int(given) if not isinstance(given, float) else given
        except ValueError:
            try:
                value = float(given)
            except ValueError:
                raise ValueError("not a number") from None
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError("not finite")
        if value < 0:
            raise ValueError("negative")
        if value > most:
            raise ValueError(f"above {LARGEST:g} s")
        return value

    return told


def _date() -> Told:
    # Many requests are within one second, whose date is parsed once.
    known: dict[str, int] = {}

    def told(given: Any) -> float:
        form = _DATE.fullmatch(given.strip()) if isinstance(given, str) else None
        if form is None:
            raise ValueError("not a date such as 2023-11-16 18:17:03.979")
        second, fraction, zone = form.groups()
        key = second + (zone or "")
        if key not in known:
            known.clear()
            offset = "+00:00" if zone in (None, "Z") else zone
            since = datetime.fromisoformat(second + offset) - datetime(1970, 1, 1, tzinfo=UTC)
            known[key] = (since.days * 86_400 + since.seconds) * 10**9
        return known[key] + int((fraction or "0").ljust(9, "0"))

    return told


MAX_LINE_BYTES = 2**20
MAX_REQUESTS = 50_000_000
"""Maximum requests of a trace; the largest published one has 27 million."""

MAX_LINES = MAX_REQUESTS + 1_000_000
"""Maximum lines, including empty ones."""


def lines_of(path: Path, shown: str) -> Iterator[str]:
    """Yield the lines of the file at `path`, with their line ends."""
    try:
        with open_regular(path) as plain:
            stream: BinaryIO | gzip.GzipFile = plain
            if path.suffix == ".gz":
                stream = gzip.GzipFile(fileobj=plain, mode="rb")
            yield from _lines(stream, shown)
    except FileNotFoundError:
        raise WorkloadError("no such file", where=shown) from None
    except IsADirectoryError:
        raise WorkloadError("this is a directory", where=shown, hint="name a file in it") from None
    except (gzip.BadGzipFile, EOFError, zlib.error):
        what = "it ends in .gz, but is not a complete gzip file"
        raise WorkloadError(what, where=shown, hint="download it again") from None
    except OSError as error:
        raise WorkloadError(f"cannot be read: {error.strerror}", where=shown) from None
    except ValueError as error:
        raise WorkloadError(f"cannot be read: {error}", where=shown) from None


def _lines(stream: BinaryIO | gzip.GzipFile, shown: str) -> Iterator[str]:
    number = 0
    while data := stream.readline(MAX_LINE_BYTES):
        number += 1
        if len(data) == MAX_LINE_BYTES:
            raise WorkloadError(
                f"a line of {MAX_LINE_BYTES} bytes or more",
                where=f"{shown}:{number}",
                hint="a trace has one request a line",
            )
        if number > MAX_LINES:
            raise WorkloadError(
                f"more than {MAX_REQUESTS} requests",
                where=f"{shown}:{MAX_LINES}",
                hint="cut the trace: head -n",
            )
        try:
            yield data.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise WorkloadError(
                "not UTF-8 text",
                where=f"{shown}:{number}",
                hint="a trace is CSV or JSON lines, or either compressed by gzip as .gz",
            ) from None


Format = Literal["azure", "mooncake", "csv", "jsonl"]
FORMATS: tuple[Format, ...] = ("azure", "mooncake", "csv", "jsonl")

LARGEST = 1e12
"""Largest rate, time or factor of a workload, so that derived values stay finite."""

MAX_VALUE = 2**31 - 1
"""Maximum value of a column that a dimension follows."""

MAX_NAMED = 100
"""Maximum number of a column's values listed in an error about an unmatched one."""

UNIX_FROM_S = 10**9
"""Seconds from which times (September 2001) count from 1970, like dates; smaller ones count from an
unknown start."""

Row = tuple[int, Sequence[Any]]
"""Line number, and the line's values of the requested columns."""


class TraceLayout(NamedTuple):
    """Column of a format with the time of a request, its unit, and a further column `also`."""

    column: str
    unit: Unit
    also: str


LAYOUTS: Mapping[Format, TraceLayout] = {
    "azure": TraceLayout("TIMESTAMP", "date", "ContextTokens"),
    "mooncake": TraceLayout("timestamp", "ms", "input_length"),
}
"""Formats with a fixed time column.

Azure's LLM inference traces (https://github.com/Azure/AzurePublicDataset) are CSV with TIMESTAMP,
ContextTokens and GeneratedTokens; Mooncake's (https://github.com/kvcache-ai/Mooncake) are JSON
lines with timestamp, input_length, output_length and hash_ids.
"""


class File(NamedTuple):
    """File of requests, CSV or JSON lines, compressed by gzip if it ends in ``.gz``.

    `format` is absent if recognised by the first line; `column` and `unit` are those of the time,
    for the formats without fixed ones: ``csv`` and ``jsonl``.
    """

    path: str
    format: Format | None = None
    column: str | None = None
    unit: Unit | None = None

    @property
    def stamp(self) -> tuple[int, int]:
        """Size and modification time, which show that a file must be read again."""
        try:
            state = Path(self.path).stat()
        except (OSError, ValueError):
            return 0, 0
        return state.st_size, state.st_mtime_ns


class TraceStart(NamedTuple):
    """First time in a file, and whether it counts from 1970.

    Times of two files are comparable if both do, or neither.
    """

    since_1970: bool
    at_s: Fraction


def beginning_of(file: File) -> TraceStart:
    """Return the time of a file's first request. Raises WorkloadError as ``read_trace``."""
    return _beginning(file, file.stamp)


@functools.lru_cache(maxsize=256)
def _beginning(file: File, stamp: tuple[int, int]) -> TraceStart:
    _, rows, unit, column = _rows(file, ())
    told = time_reader(unit)
    for line, values in rows:
        at_s = Fraction(_told(told, values[0], column, unit, f"{file.path}:{line}"))
        at_s /= int(PER_S[unit])
        return TraceStart(unit == "date" or at_s >= UNIX_FROM_S, at_s)
    raise _no_request(file.path)


def read_trace(
    file: File,
    *,
    columns: tuple[str, ...] = (),
    where: tuple[tuple[str, str], ...] = (),
    since_s: Fraction | None = None,
) -> Trace:
    """Return the trace of a file."""
    return _read(file, columns, where, since_s, file.stamp)


@functools.lru_cache(maxsize=32)
def _read(
    file: File,
    columns: tuple[str, ...],
    where: tuple[tuple[str, str], ...],
    since_s: Fraction | None,
    stamp: tuple[int, int],
) -> Trace:
    found, rows, unit, column = _rows(file, (*columns, *(name for name, _ in where)))
    shown = file.path
    told, per_s = time_reader(unit), PER_S[unit]
    wanted, first_of_where = tuple(value for _, value in where), 1 + len(columns)
    arrivals = array("d")
    kept = tuple(array("q") for _ in columns)
    others: set[tuple[str, ...]] = set()
    start = None if since_s is None else _steps(since_s, per_s)
    before = None
    for line, values in rows:
        place = f"{shown}:{line}"
        now = _told(told, values[0], column, unit, place)
        if start is None:
            start = now
        if before is not None and now < before:
            raise WorkloadError(
                f"'{column}' is before that of the previous line",
                where=place,
                hint="sort the trace by time",
            )
        before = now
        if wanted:
            has = tuple(map(_as_text, values[first_of_where:]))
            if has != wanted:
                if len(others) < MAX_NAMED:
                    others.add(has)
                continue
        arrivals.append((now - start) / per_s)
        for name, numbers, value in zip(columns, kept, values[1:first_of_where], strict=True):
            numbers.append(_whole(value, name, place))
        if len(arrivals) > MAX_REQUESTS:
            raise WorkloadError(
                f"more than {MAX_REQUESTS} requests", where=place, hint="cut the trace: head -n"
            )
    if not arrivals:
        raise _none_matches(shown, where, others) if others else _no_request(shown)
    return Trace(
        found,
        np.frombuffer(arrivals, dtype=np.float64),
        {
            name: np.frombuffer(numbers, dtype=np.int64)
            for name, numbers in zip(columns, kept, strict=True)
        },
    )


def _rows(file: File, columns: Sequence[str]) -> tuple[Format, Iterator[Row], Unit, str]:
    """Return the format of a file, its rows, and the unit and name of its time."""
    shown, column, unit = file.path, file.column, file.unit
    lines = lines_of(Path(shown), shown)
    first = next(lines, "")
    if not first.strip():
        raise WorkloadError(
            "the trace is empty" if not first else "the first line is empty",
            where=f"{shown}:1",
            hint="it has one request a line",
        )
    found = file.format or _format_of(first)
    layout = LAYOUTS.get(found)
    if layout is not None and (column is not None or unit is not None):
        raise WorkloadError(
            f"'{found}' defines the column of the time",
            where=shown,
            hint="remove 'column' and 'unit', or write format: csv or jsonl",
        )
    if layout is not None:
        column, unit = layout.column, layout.unit
    all_lines = chain([first], lines)
    rows: Iterator[Row]
    if found in ("mooncake", "jsonl"):
        if column is None:
            raise WorkloadError(
                ("the key of the time is not given"), where=shown, hint="write column: KEY"
            )
        rows = _json_rows(all_lines, shown, (column, *columns))
    else:
        rows = _csv_rows(all_lines, shown, column, columns)
    return found, rows, unit or "s", column or "the time"


def _format_of(first: str) -> Format:
    """Return the format of a first line: a known one, or its syntax."""
    if first.lstrip().startswith("{"):
        try:
            keys = set(json.loads(first))
        except (ValueError, RecursionError):
            return "jsonl"
        mooncake = LAYOUTS["mooncake"]
        return "mooncake" if {mooncake.column, mooncake.also} <= keys else "jsonl"
    names = {name.strip() for name in first.split(",")}
    azure = LAYOUTS["azure"]
    return "azure" if {azure.column, azure.also} <= names else "csv"


def _steps(since_s: Fraction, per_s: float) -> float:
    """Return a time in steps of a file's unit; integer if a float would lose digits."""
    steps = since_s * int(per_s)
    return math.floor(steps) if steps.denominator == 1 or steps > 2**53 else float(steps)


def _told(told: Told, given: Any, column: str, unit: Unit, where: str) -> float:
    try:
        return told(given)
    except ValueError as error:
        what = f"'{column}' is {display(given)}: {error}"
        hint = "write unit: date" if unit != "date" and "-" in str(given)[1:] else None
        raise WorkloadError(what, where=where, hint=hint) from None


def _as_text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else json.dumps(value)


def _no_request(shown: str) -> WorkloadError:
    return WorkloadError("the trace has no request", where=f"{shown}:1", hint="add requests")


def _none_matches(
    shown: str, where: Sequence[tuple[str, str]], others: set[tuple[str, ...]]
) -> WorkloadError:
    """Return the error of a trace without the wanted values, listing existing ones."""
    asked = " and ".join(f"'{name}' is {display(value)}" for name, value in where)
    if len(where) > 1:
        return WorkloadError(f"no request where {asked}", where=shown, hint="change 'where'")
    seen = {value for (value,) in others}
    return WorkloadError(
        (f"no request where {asked}"), where=shown, hint=nearest(where[0][1], seen)
    )


def _whole(value: Any, name: str, where: str) -> int:
    try:
        number = int(value) if isinstance(value, str | int) and value is not True else 0
    except ValueError:
        number = 0
    if not 0 < number <= MAX_VALUE:
        what = f"'{name}' is {display(value)}, not a whole number from 1 to {MAX_VALUE}"
        raise WorkloadError(what, where=where)
    return number


def _json_rows(lines: Iterator[str], shown: str, keys: Sequence[str]) -> Iterator[Row]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{shown}:{number}"
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            raise WorkloadError("not JSON", where=where, hint="write one object a line") from None
        if not isinstance(entry, dict):
            raise WorkloadError("not a JSON object", where=where, hint='write {"key": value}')
        for key in keys:
            if key not in entry:
                raise WorkloadError(f"no key '{key}'", where=where, hint=nearest(key, entry))
        yield number, [entry[key] for key in keys]


def _csv_rows(
    lines: Iterator[str], shown: str, column: str | None, columns: Sequence[str]
) -> Iterator[Row]:
    reader = csv.reader(lines, strict=True)
    places: list[int] | None = None
    width = 0
    try:
        for cells in reader:
            where = f"{shown}:{reader.line_num}"
            if not cells:
                continue
            if places is None:
                names = [name.strip() for name in cells]
                width = len(names)
                if column is None and not columns and width == 1 and _is_number(names[0]):
                    places = [0]
                else:
                    places = _places(names, column, columns, where)
                    continue
            if len(cells) != width:
                what = f"{len(cells)} values, but {width} on the first line"
                raise WorkloadError(what, where=where, hint="write the same number on every line")
            yield reader.line_num, [cells[place] for place in places]
    except csv.Error as error:
        raise WorkloadError(f"not CSV: {error}", where=f"{shown}:{reader.line_num}") from None


def _places(names: list[str], column: str | None, columns: Sequence[str], where: str) -> list[int]:
    if column is None:
        raise WorkloadError(
            "the column of the time is not given",
            where=where,
            hint=f"write column: NAME; it has {', '.join(names[:8])}",
        )
    for name in (column, *columns):
        if names.count(name) != 1:
            what = f"{names.count(name) or 'no'} columns are named '{name}'"
            raise WorkloadError(what, where=where, hint=nearest(name, set(names)))
    return [names.index(name) for name in (column, *columns)]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
