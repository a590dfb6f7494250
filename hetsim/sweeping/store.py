"""Folder of a sweep: rows by the digest of their question, each once, in grid order at the end."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from hetsim.core.files import append, need, read_regular, sha256_of, try_lock, whole_file
from hetsim.core.room import out_of_room
from hetsim.errors import HetsimError, SweepError
from hetsim.execution.transports.processes import end_if_abandoned
from hetsim.graph.loading import read_source
from hetsim.hardware.spec import Platform
from hetsim.sweeping.grid import Grid, LoadAxis, ModelAxis
from hetsim.sweeping.rows import BROKEN, COLUMNS, TEXT, WHOLE, Row, line
from hetsim.version import package_folder
from hetsim.workload.arrivals import Replay

ROWS = "rows.jsonl"
PARQUET = "rows.parquet"
JOURNAL = "journal.jsonl"
_LIMIT_BYTES = 2**34
_AGAIN = "free space there and run it again: finished rows are kept"


class Store:
    """Rows of a sweep on disk, in a folder that is created if it does not exist.

    `journal.jsonl` has rows in the order in which they were answered, each on disk before the next
    chunk is counted; once all are there, `rows.jsonl` has them in the grid's order, and the journal
    is deleted. A later sweep, after a kill or of a larger grid, finds all of them by their keys.

    Raises SweepError if it cannot be written, contains anything but rows, or another sweep writes
    it; UsageError if the system has no locks on files.
    """

    def __init__(self, folder: Path) -> None:
        need("fcntl", "a sweep")
        self.folder = folder
        self.known: dict[str, str] = {}
        with ExitStack() as stack:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                # Unbuffered: a buffer would repeat a failed write when it is closed.
                journal = append(folder / JOURNAL)
            except OSError as error:
                raise out_of_room(error, folder) or self._error(
                    f"cannot be written: {error.strerror}", "use another -o"
                ) from None
            self._journal = stack.enter_context(journal)
            try:
                free = try_lock(journal)
            except OSError:
                free = False
            if not free:
                raise self._error("another sweep is writing it", "wait for it, or use another -o")
            for name in (ROWS, JOURNAL):
                self._read(folder / name)
            self._cut()
            self._stack = stack.pop_all()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()

    def add(self, rows: Iterable[Row]) -> None:
        """Write rows to disk before returning, except those to be evaluated again."""
        kept = {row["key"]: line(row) for row in rows if row["kind"] != BROKEN}
        if not kept:
            return
        self.known |= kept
        self._write("".join(f"{text}\n" for text in kept.values()))

    def finish(self, lines: Sequence[str]) -> Path:
        """Write all rows in order, atomically, and remove the journal."""
        target = self.folder / ROWS
        text = "".join(f"{each}\n" for each in lines)
        try:
            if not target.exists() or target.read_text(encoding="utf-8") != text:
                with whole_file(target) as draft:
                    draft.write(text.encode("utf-8"))
                    draft.flush()
                    os.fsync(draft.fileno())
            (self.folder / JOURNAL).unlink(missing_ok=True)
        except OSError as error:
            raise self._unwritten(error, len(text)) from None
        return target

    def _write(self, text: str) -> None:
        try:
            left = memoryview(text.encode())
            while left:
                left = left[self._journal.write(left) :]
            os.fsync(self._journal.fileno())
        except OSError as error:
            raise self._unwritten(error, len(text)) from None

    def _unwritten(self, error: OSError, nbytes: int) -> HetsimError:
        return out_of_room(error, self.folder, needed_bytes=nbytes, hint=_AGAIN) or self._error(
            f"cannot be written: {error.strerror}", "use another -o"
        )

    def _read(self, path: Path) -> None:
        if not path.exists():
            return
        try:
            content = read_regular(path, _LIMIT_BYTES).decode("utf-8", errors="replace")
        except OSError as error:
            raise self._error(f"{path.name} cannot be read: {error.strerror}", "") from None
        lines = content.split("\n")
        # A last line without its end was cut off by a kill.
        for number, text in enumerate(lines[:-1], 1):
            row = _row(text)
            if row is None:
                raise SweepError(
                    "this is not a row of a sweep",
                    where=f"{path}:{number}",
                    hint="use another folder for -o, or remove the file",
                )
            # Rows of other columns are from another version of hetsim: they answer nothing here.
            if tuple(row) == COLUMNS and row["kind"] != BROKEN:
                self.known[str(row["key"])] = text

    def _cut(self) -> None:
        """Remove an incomplete last line of the journal, so that the next one starts afresh."""
        content = read_regular(self.folder / JOURNAL, _LIMIT_BYTES)
        whole = content.rfind(b"\n") + 1
        if whole != len(content):
            self._journal.truncate(whole)

    def _error(self, what: str, hint: str) -> SweepError:
        return SweepError(what, where=str(self.folder), hint=hint or None)


def _row(text: str) -> Mapping[str, Any] | None:
    try:
        row = json.loads(text)
    except ValueError:
        return None
    fits = isinstance(row, dict) and isinstance(row.get("key"), str)
    return row if fits else None


def write_parquet(folder: Path, rows: Sequence[Row]) -> Path | None:
    """Write the rows as Parquet, if pyarrow is installed; return the file, or None."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        return None
    target = folder / PARQUET
    # The types do not depend on the rows, so that files of several sweeps can be joined.
    kinds = {**dict.fromkeys(WHOLE, pyarrow.int64()), **dict.fromkeys(TEXT, pyarrow.string())}
    schema = pyarrow.schema([(name, kinds.get(name, pyarrow.float64())) for name in COLUMNS])
    table = pyarrow.table({name: [row[name] for row in rows] for name in COLUMNS}, schema=schema)
    try:
        with whole_file(target) as draft:
            pyarrow.parquet.write_table(table, draft)
    except OSError as error:
        raise out_of_room(error, target, hint=_AGAIN) or SweepError(
            f"cannot be written: {error.strerror or error}",
            where=str(target),
            hint="use another -o",
        ) from error
    return target


SCHEMA = "hetsim-sweep/1"


def keys_of(grid: Grid, platforms: Sequence[Platform]) -> tuple[str, ...]:
    """Return the key of every point of a grid, SHA-256 in hex.

    It covers the models' files, the platforms with all files that they name, replayed traces, and
    hetsim's own code, so that a row is never taken for the answer to another question. O(bytes of
    the files + points).
    """
    parts: tuple[Sequence[object], ...] = (
        [_of_model(axis) for axis in grid.models],
        [
            [axis.shown, platform.sha256]
            for axis, platform in zip(grid.platforms, platforms, strict=True)
        ],
        [[list(axis.changes), list(axis.without)] for axis in grid.what_ifs],
        [dict(sorted(execute.items())) for execute in grid.precisions],
        grid.strategies,
        [None if axis is None else asdict(axis) for axis in grid.batchings],
        [_of_load(axis) for axis in grid.loads],
    )
    told = [[json.dumps(part, sort_keys=True) for part in axis] for axis in parts]
    common = json.dumps([SCHEMA, code_digest(), grid.objective, grid.bound])
    found = []
    for point in grid.points():
        places = (point.model, point.platform, point.what_if, point.precision, point.strategy,
                  point.batching, point.load)  # fmt: skip
        digest = hashlib.sha256(common.encode())
        for axis, place in zip(told, places, strict=True):
            digest.update(b"\0" + axis[place].encode())
        found.append(digest.hexdigest())
    return tuple(found)


@cache
def code_digest() -> str:
    """Return the SHA-256, in hex, of this hetsim's code and data, which determine the answers."""
    digest = hashlib.sha256()
    folder = package_folder()
    for path in sorted(folder.rglob("*.py")):
        digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _of_model(axis: ModelAxis) -> Mapping[str, object]:
    sha256 = "of the code"
    if not axis.source.startswith("zoo:"):
        try:
            sha256 = read_source(axis.source)[1].sha256
        except HetsimError as error:
            # The row reports the error; once the file can be read, its key is another.
            sha256 = str(error)
    return {"shown": axis.shown, "sha256": sha256, "dims": dict(sorted(axis.dims.items()))}


def _of_load(axis: LoadAxis | None) -> object:
    if axis is None:
        return None
    workload = axis.workload
    (stream,) = workload.streams
    assert stream.arrivals is not None
    trace = None
    if isinstance(stream.arrivals, Replay):
        trace = sha256_of(stream.arrivals.path)
        arrivals = {**asdict(stream.arrivals), "path": None}
    else:
        arrivals = {"kind": type(stream.arrivals).__name__, **asdict(stream.arrivals)}
    return {
        "shown": axis.shown,
        "arrivals": arrivals,
        "trace": trace,
        "slos": [asdict(slo) for slo in stream.slos],
        "duration_s": workload.duration_s,
        "requests": workload.requests,
        "warm_up_s": workload.warm_up_s,
        "seed": workload.seed,
    }


RUNNING = "running.json"


@contextmanager
def leftovers_removed(folder: Path) -> Iterator[None]:
    """Remove the leftovers of a killed sweep, and this one's note at the end."""
    note = folder / RUNNING
    clear_files(note)
    try:
        yield
    finally:
        note.unlink(missing_ok=True)


def note_ray_files(folder: Path, files: Path | None) -> None:
    """Write the folder of a private Ray's files to the sweep's folder; None: it has none."""
    if files is None:
        return
    try:
        with whole_file(folder / RUNNING) as draft:
            told = json.dumps({"pid": os.getpid(), "files": str(files)})
            draft.write(told.encode("utf-8"))
    except OSError as error:
        raise out_of_room(error, folder) or SweepError(
            f"cannot be written: {error.strerror or error}", where=str(folder)
        ) from error


def clear_files(note: Path) -> None:
    """Remove the files that a note names, if they belong to an ended Ray of this user.

    A note is untrusted data: see ``end_if_abandoned``.
    """
    with suppress(OSError, ValueError, TypeError, KeyError):
        files = Path(json.loads(read_regular(note))["files"])
        roots = {Path(root).resolve() for root in (tempfile.gettempdir(), "/tmp", "/var/tmp")}
        if files.parent.resolve() in roots:
            end_if_abandoned(files)
