"""Folders that live as long as a run, and go away even where the run was killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from hetsim.base.cache import ROOM, private_folder
from hetsim.base.locks import left_by_its_owner, own_folders, try_lock
from hetsim.base.room import out_of_room
from hetsim.errors import ExecutionError

_LOCK = "lock"
_DRAFT = ".draft-"
_DRAFT_LIVES_S = 24 * 3600.0


@contextlib.contextmanager
def run_folder() -> Iterator[Path]:
    """Give an empty folder below hetsim's cache, removed when the context ends.

    Where the cache cannot be written, or is not this user's alone, the folder is made among the
    system's temporary files, under a name that cannot be guessed. None that is there is used, and
    none is removed but the user's own.
    A lock says that its owner lives, so that the folders of killed processes are told apart
    and removed here; a lock, unlike a process id, holds across containers and reboots.

    Raises
    ------
    ExecutionError
        Where no folder can be made.
    """
    folder, lock = _create()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.close()


def _create() -> tuple[Path, IO[bytes]]:
    places = [(Path(tempfile.gettempdir()), f"hetsim-run-{os.geteuid()}-")]
    own = private_folder("runs")
    if own is not None:
        places.insert(0, (own, ""))
    for base, prefix in places:
        try:
            _remove_abandoned(base, prefix)
            # Locked under a name that nobody removes, and only then shown as a run.
            draft = Path(tempfile.mkdtemp(prefix=prefix + _DRAFT, dir=base.resolve()))
            lock = (draft / _LOCK).open("wb")
            try_lock(lock)
            folder = draft.with_name(prefix + draft.name.removeprefix(prefix + _DRAFT))
            draft.rename(folder)
        except OSError as error:
            failure = error
            continue
        return folder, lock
    raise out_of_room(failure, base, hint=ROOM) or ExecutionError(
        f"no folder for the weights can be made: {failure.strerror or failure}",
        where=str(base),
        hint="set HETSIM_CACHE_DIR to a folder that is writable",
    ) from failure


def _remove_abandoned(base: Path, prefix: str) -> None:
    """Remove folders of runs whose owner is gone; nothing that is a link, or another user's."""
    for folder in own_folders(base, prefix):
        with contextlib.suppress(OSError):
            if folder.name.startswith(prefix + _DRAFT):
                if time.time() - folder.lstat().st_mtime > _DRAFT_LIVES_S:
                    shutil.rmtree(folder)
                continue
            with left_by_its_owner(folder / _LOCK) as left:
                if left:
                    shutil.rmtree(folder)
