"""Private Rays whose process was killed: what still runs of them ends, and their files go."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import time
from pathlib import Path
from typing import IO

from hetsim.base.locks import left_by_its_owner, own_folders, try_lock
from hetsim.execution.transports.processes import end_all, working_in

OWNER = "owner"
"""In the folder of a private Ray: the file that its process has locked for as long as it lives."""

INSIDE = "r"
"""Beside it: the folder that Ray has. It opens its own to everybody; this one stays shut."""

TEMP_PREFIX = "hetsim-"
_DRAFT = "owner.draft"
_NAME = re.compile(re.escape(TEMP_PREFIX) + "[a-z0-9_]{8}")
_UNOWNED_S = 24 * 3600.0
"""A folder without an owner that is as old has lost it between two lines."""

_GRACE_S = 1.0
"""What lost its owner is ending by itself, or does not know that it should."""

_ROUNDS = 3
"""A process that was being started may have been missed."""


def owned(folder: Path) -> IO[bytes]:
    """Say in `folder` that this process lives, until what is returned is closed."""
    held = (folder / _DRAFT).open("xb")
    # Locked before it has its name: one that nobody has locked is taken for that of a dead one.
    try_lock(held)
    (folder / _DRAFT).rename(folder / OWNER)
    return held


def end_abandoned(base: Path) -> None:
    """End the private Rays in `base` of this user whose owners are gone, and remove their files.

    O(processes of the system) for each; see ``end_if_abandoned``.
    """
    for folder in own_folders(base, TEMP_PREFIX):
        end_if_abandoned(folder)


def end_if_abandoned(folder: Path) -> None:
    """End the private Ray in a folder, if its owner is gone, and remove its files.

    Nothing is looked into that is a link or another user's, or holds what no such folder does:
    users may call their own by such a name.
    """
    with contextlib.suppress(OSError):
        found = folder.lstat()
        ours = found.st_uid == os.geteuid() and stat.S_ISDIR(found.st_mode)
        if not ours or found.st_mode & 0o777 != 0o700 or not _NAME.fullmatch(folder.name):
            return
        held = set(os.listdir(folder))
        if OWNER in held and held <= {OWNER, INSIDE}:
            with left_by_its_owner(folder / OWNER) as left:
                if left:
                    clear(folder)
        elif held <= {_DRAFT, INSIDE} and time.time() - found.st_mtime > _UNOWNED_S:
            shutil.rmtree(folder)


def clear(folder: Path) -> None:
    """End what still works in the folder of a private Ray that has lost its owner, and remove it.

    O(processes of the system, and their open files).
    """
    for _ in range(_ROUNDS):
        end_all(working_in(folder), _GRACE_S)
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            break
