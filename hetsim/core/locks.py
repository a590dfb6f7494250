"""Locks on files and folders: they say that a process lives, as process ids do not.

However a process ends, it lets go of its locks; they hold across containers and reboots.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from hetsim.core.systems import open_flags, this_user


def try_lock(file: IO[Any] | int) -> bool:
    """Take the lock on `file` if no process has it; it is let go when the file is closed.

    False where the system has no such locks, too: then nothing counts as left by its owner.
    """
    try:
        import fcntl
    except ImportError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def own_folders(base: Path, prefix: str) -> Iterator[Path]:
    """Yield the folders in `base` that are named so and this user's, in order; no links to any."""
    for folder in sorted(base.glob(f"{prefix}*")):
        try:
            found = folder.lstat()
        except OSError:  # gone meanwhile
            continue
        if found.st_uid == this_user() and stat.S_ISDIR(found.st_mode):
            yield folder


@contextmanager
def left_by_its_owner(lock: Path) -> Iterator[bool]:
    """Say whether nobody holds a file that an owner locks, and hold it meanwhile if so.

    Raises OSError where it cannot be opened, or is a link.
    """
    held = os.open(lock, open_flags("O_RDONLY", "O_NOFOLLOW"))
    try:
        yield try_lock(held)
    finally:
        os.close(held)
