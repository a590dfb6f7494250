"""Private Rays whose process was killed: what still runs of them ends, and their files go."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from pathlib import Path
from typing import IO

from hetsim.base.locks import left_by_its_owner, own_folders, try_lock
from hetsim.execution.transports.ray_connection.processes import end_all, working_in

OWNER = "owner"
"""In the folder of a private Ray: the file that its process has locked for as long as it lives."""

_UNOWNED_S = 24 * 3600.0
"""A folder without an owner that is as old has lost it between two lines."""

_GRACE_S = 1.0
"""What lost its owner is ending by itself, or does not know that it should."""

_ROUNDS = 3
"""A process that was being started may have been missed."""


def owned(folder: Path) -> IO[bytes]:
    """Say in `folder` that this process lives, until what is returned is closed."""
    held = (folder / OWNER).open("xb")
    try_lock(held)
    return held


def end_abandoned(base: Path, prefix: str) -> None:
    """End the private Rays in `base` of this user whose owners are gone, and remove their files.

    Nothing that is a link, or of another user, is looked into. O(processes of the system) for each.
    """
    for folder in own_folders(base, prefix):
        if not os.path.lexists(folder / OWNER):
            with contextlib.suppress(OSError):
                if time.time() - folder.lstat().st_mtime > _UNOWNED_S:
                    folder.rmdir()
            continue
        with contextlib.suppress(OSError), left_by_its_owner(folder / OWNER) as left:
            if left:
                clear(folder)


def clear(folder: Path) -> None:
    """End what still works in the folder of a private Ray that has lost its owner, and remove it.

    O(processes of the system, and their open files).
    """
    for _ in range(_ROUNDS):
        end_all(working_in(folder), _GRACE_S)
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            break
