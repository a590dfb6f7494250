"""What a sweep that was killed could not clear away: told in its folder, cleared by the next."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hetsim.core.files import read_regular, whole_file
from hetsim.core.room import out_of_room
from hetsim.errors import SweepError
from hetsim.execution.transports.processes import end_if_abandoned

RUNNING = "running.json"


@contextmanager
def told_in(folder: Path) -> Iterator[None]:
    """Clear what a killed sweep left, and drop the note of this one's files at the end."""
    note = folder / RUNNING
    clear(note)
    try:
        yield
    finally:
        note.unlink(missing_ok=True)


def tell(folder: Path, files: Path | None) -> None:
    """Note in the sweep's folder where a private Ray has its files; None: it has none."""
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


def clear(note: Path) -> None:
    """Remove the files that a note names, where they are a Ray's of this user that is gone.

    A note is data, which may be from anywhere: see ``end_if_abandoned``.
    """
    with suppress(OSError, ValueError, TypeError, KeyError):
        files = Path(json.loads(read_regular(note))["files"])
        roots = {Path(root).resolve() for root in (tempfile.gettempdir(), "/tmp", "/var/tmp")}
        if files.parent.resolve() in roots:
            end_if_abandoned(files)
