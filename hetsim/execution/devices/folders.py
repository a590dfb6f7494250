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

from hetsim.base.cache import cache_dir
from hetsim.errors import ExecutionError

_LOCK = "lock"
_DRAFT = ".draft-"
_DRAFT_LIVES_S = 24 * 3600.0


@contextlib.contextmanager
def run_folder() -> Iterator[Path]:
    """Give an empty folder below hetsim's cache, removed when the context ends.

    Where the cache cannot be written, the folder is made among the system's temporary files.
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
    for base in (cache_dir() / "runs", Path(tempfile.gettempdir()) / f"hetsim-runs-{os.getuid()}"):
        try:
            base.mkdir(parents=True, exist_ok=True, mode=0o700)
            _remove_abandoned(base)
            # Locked under a name that nobody removes, and only then shown as a run.
            draft = Path(tempfile.mkdtemp(prefix=_DRAFT, dir=base.resolve()))
            lock = (draft / _LOCK).open("wb")
            _try_lock(lock)
            folder = draft.with_name(draft.name.removeprefix(_DRAFT))
            draft.rename(folder)
        except OSError as error:
            failure = error
            continue
        return folder, lock
    raise ExecutionError(
        f"no folder for the weights can be made: {failure.strerror or failure}",
        where=str(base),
        hint="set HETSIM_CACHE_DIR to a folder that is writable",
    ) from failure


def _remove_abandoned(base: Path) -> None:
    for folder in sorted(base.iterdir()):
        with contextlib.suppress(OSError):
            if folder.name.startswith(_DRAFT):
                if time.time() - folder.stat().st_mtime > _DRAFT_LIVES_S:
                    shutil.rmtree(folder)
                continue
            with (folder / _LOCK).open("rb") as lock:
                if _try_lock(lock):
                    shutil.rmtree(folder)


def _try_lock(file: IO[bytes]) -> bool:
    """Take the lock on `file` if nobody has it; it is given back when the file is closed."""
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
