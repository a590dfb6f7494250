"""The lines of a trace, plain or compressed by gzip, one after the other."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from hetsim.core.files import open_regular
from hetsim.errors import WorkloadError

MAX_LINE_BYTES = 2**20
MAX_REQUESTS = 50_000_000
"""Of one trace; the largest that is published has 27 million."""

MAX_LINES = MAX_REQUESTS + 1_000_000
"""The empty ones, too."""

_DEFLATED = 1032
"""Most bytes that one of a compressed file may stand for."""


def lines_of(path: Path, shown: str) -> Iterator[str]:
    """Yield the lines of the file at `path`, with what ends them.

    Raises
    ------
    WorkloadError
        Where it is no readable file, no text, or has a line that no trace has.
    """
    try:
        with open_regular(path) as plain:
            stream: BinaryIO | gzip.GzipFile = plain
            most = os.fstat(plain.fileno()).st_size
            if path.suffix == ".gz":
                stream = gzip.GzipFile(fileobj=plain, mode="rb")
                most *= _DEFLATED
            if most > MAX_LINES:
                _count(stream, shown)
                stream.seek(0)
            yield from _lines(stream, shown)
    except FileNotFoundError:
        raise WorkloadError("no such file", where=shown) from None
    except IsADirectoryError:
        raise WorkloadError("this is a directory", where=shown, hint="name a file in it") from None
    except (gzip.BadGzipFile, EOFError, zlib.error):
        what = "it ends in .gz, and is no whole gzip file"
        raise WorkloadError(what, where=shown, hint="take it from its source again") from None
    except OSError as error:
        raise WorkloadError(f"cannot be read: {error.strerror}", where=shown) from None
    except ValueError as error:
        raise WorkloadError(f"cannot be read: {error}", where=shown) from None


def _count(stream: BinaryIO | gzip.GzipFile, shown: str) -> None:
    """Raise WorkloadError where there are more lines than MAX_LINES. Quicker than to read them."""
    lines = 0
    while data := stream.read(MAX_LINE_BYTES):
        found = data.count(b"\n")
        if not found and len(data) == MAX_LINE_BYTES:
            # A line that no trace has: who reads the lines tells where.
            return
        lines += found
        if lines > MAX_LINES:
            raise WorkloadError(
                f"more than {MAX_REQUESTS} requests",
                where=f"{shown}:{MAX_LINES}",
                hint="cut the trace: head -n",
            )


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
        try:
            yield data.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise WorkloadError(
                "not UTF-8 text",
                where=f"{shown}:{number}",
                hint="a trace is CSV or JSON lines, or either compressed by gzip as .gz",
            ) from None
