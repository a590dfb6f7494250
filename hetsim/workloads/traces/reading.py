"""Traces read as they are published: which format, and which requests."""

from __future__ import annotations

import csv
import functools
import json
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np

from hetsim.base.checks import shown as display
from hetsim.errors import WorkloadError, nearest
from hetsim.workloads.traces.lines import MAX_REQUESTS, lines_of
from hetsim.workloads.traces.times import PER_S, Unit, told_by
from hetsim.workloads.traces.trace import Trace

Format = Literal["azure", "mooncake", "csv", "jsonl"]
FORMATS: tuple[Format, ...] = ("azure", "mooncake", "csv", "jsonl")

MAX_VALUE = 2**31 - 1
"""Of a column that a dimension follows."""

Row = tuple[int, Sequence[Any]]
"""The number of a line, and what it says of the columns that were asked for."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a format has the time of a request.

    Attributes
    ----------
    column : str
    unit : str
    also : str
        A column that it has besides, which tells it from others.
    """

    column: str
    unit: Unit
    also: str


LAYOUTS: Mapping[Format, Layout] = {
    "azure": Layout("TIMESTAMP", "date", "ContextTokens"),
    "mooncake": Layout("timestamp", "ms", "input_length"),
}
"""Formats that say themselves where the time is.

Azure's LLM inference traces (https://github.com/Azure/AzurePublicDataset) are CSV with TIMESTAMP,
ContextTokens and GeneratedTokens; Mooncake's (https://github.com/kvcache-ai/Mooncake) are JSON
lines with timestamp, input_length, output_length and hash_ids.
"""


def read_trace(
    path: Path,
    shown: str,
    *,
    format: Format | None = None,
    column: str | None = None,
    unit: Unit | None = None,
    columns: tuple[str, ...] = (),
) -> Trace:
    """Read the trace at `path`, CSV or JSON lines, compressed where its name ends in ``.gz``.

    Parameters
    ----------
    path : Path
    shown : str
        What errors call it.
    format : str, optional
        Absent: what its first line looks like.
    column : str, optional
        Which column or key has the time, of the formats that do not say it: ``csv``, ``jsonl``.
        A CSV of one column without a name needs none.
    unit : str, optional
        Of that time; absent: seconds.
    columns : tuple of str
        Further columns to read, of whole numbers above 0.

    Raises
    ------
    WorkloadError
        With file and line, where it cannot be read so, is empty, is not in the order of time, or
        has more than MAX_REQUESTS requests.

    A trace that was read is kept: to ask for it again costs nothing while the file is the same.
    Complexity: linear in the file.
    """
    try:
        state = path.stat()
        stamp = (state.st_size, state.st_mtime_ns)
    except (OSError, ValueError):
        stamp = (0, 0)
    return _read(path, shown, format, column, unit, columns, stamp)


@functools.lru_cache(maxsize=4)
def _read(
    path: Path,
    shown: str,
    format: Format | None,
    column: str | None,
    unit: Unit | None,
    columns: tuple[str, ...],
    stamp: tuple[int, int],
) -> Trace:
    lines = lines_of(path, shown)
    first = next(lines, "")
    if not first.strip():
        raise WorkloadError(
            "the trace is empty" if not first else "the first line is empty",
            where=f"{shown}:1",
            hint="it has one request a line",
        )
    found = format or _format_of(first)
    layout = LAYOUTS.get(found)
    if layout is not None and (column is not None or unit is not None):
        raise WorkloadError(
            f"'{found}' says itself where the time is",
            where=shown,
            hint="leave out 'column' and 'unit', or write format: csv or jsonl",
        )
    is_json = found in ("mooncake", "jsonl")
    if layout is not None:
        column, unit = layout.column, layout.unit
    unit = unit or "s"
    rows: Iterator[Row]
    if is_json:
        if column is None:
            raise WorkloadError("which key has the time", where=shown, hint="write column: KEY")
        rows = _json_rows(chain([first], lines), shown, (column, *columns))
    else:
        rows = _csv_rows(chain([first], lines), shown, column, columns)
    return _trace(found, rows, shown, unit, column or "the time", columns)


def _format_of(first: str) -> Format:
    """Return the format that a first line is of: one that is known, or what it is written in."""
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


def _trace(
    found: Format, rows: Iterator[Row], shown: str, unit: Unit, column: str, columns: Sequence[str]
) -> Trace:
    told, per_s = told_by(unit), PER_S[unit]
    arrivals = array("d")
    kept = tuple(array("q") for _ in columns)
    start = before = None
    for line, values in rows:
        try:
            now = told(values[0])
        except ValueError as error:
            what = f"'{column}' is {display(values[0])}: {error}"
            hint = "write unit: date" if unit != "date" and "-" in str(values[0])[1:] else None
            raise WorkloadError(what, where=f"{shown}:{line}", hint=hint) from None
        if start is None or before is None:
            start = before = now
        if now < before:
            raise WorkloadError(
                f"'{column}' is earlier than on the line before",
                where=f"{shown}:{line}",
                hint="sort the trace by time",
            )
        before = now
        arrivals.append((now - start) / per_s)
        for name, numbers, value in zip(columns, kept, values[1:], strict=True):
            numbers.append(_whole(value, name, f"{shown}:{line}"))
        if len(arrivals) > MAX_REQUESTS:
            raise WorkloadError(
                f"more than {MAX_REQUESTS} requests",
                where=f"{shown}:{line}",
                hint="cut the trace: head -n",
            )
    if not arrivals:
        raise WorkloadError("the trace has no request", where=f"{shown}:1", hint="add some")
    return Trace(
        found,
        np.frombuffer(arrivals, dtype=np.float64),
        {
            name: np.frombuffer(numbers, dtype=np.int64)
            for name, numbers in zip(columns, kept, strict=True)
        },
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
            raise WorkloadError("no JSON object", where=where, hint='write {"key": value}')
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
                what = f"{len(cells)} values, and {width} on the first line"
                raise WorkloadError(what, where=where, hint="write as many on every line")
            yield reader.line_num, [cells[place] for place in places]
    except csv.Error as error:
        raise WorkloadError(f"not CSV: {error}", where=f"{shown}:{reader.line_num}") from None


def _places(names: list[str], column: str | None, columns: Sequence[str], where: str) -> list[int]:
    if column is None:
        raise WorkloadError(
            "which column has the time",
            where=where,
            hint=f"write column: NAME; it has {', '.join(names[:8])}",
        )
    for name in (column, *columns):
        if names.count(name) != 1:
            what = f"{names.count(name) or 'no'} columns are called '{name}'"
            raise WorkloadError(what, where=where, hint=nearest(name, set(names)))
    return [names.index(name) for name in (column, *columns)]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
