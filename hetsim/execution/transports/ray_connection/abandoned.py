"""Private Rays whose process was killed: what still runs of them ends, and their files go."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from pathlib import Path
from typing import IO

from hetsim.base.files import try_lock
from hetsim.execution.transports.ray_connection.processes import end_all, working_in

OWNER = "owner"
"""In the folder of a private Ray: the file that its process has locked for as long as it lives."""

_GRACE_S = 1.0
"""What lost its owner is ending by itself, or does not know that it should."""


def owned(folder: Path) -> IO[bytes]:
    """Say in `folder` that this process lives, until what is returned is closed."""
    held = (folder / OWNER).open("xb")
    try_lock(held)
    return held


def end_abandoned(base: Path, prefix: str) -> None:
    """End the private Rays in `base` of this user whose owners are gone, and remove their files.

    Nothing that is a link, or of another user, is looked into. O(processes of the system) for each.
    """
    for folder in sorted(base.glob(f"{prefix}*")):
        with contextlib.suppress(OSError):
            found = folder.lstat()
            if found.st_uid != os.geteuid() or not stat.S_ISDIR(found.st_mode):
                continue
            owner = os.open(folder / OWNER, os.O_RDONLY | os.O_NOFOLLOW)
            with open(owner, "rb") as held:
                if try_lock(held):
                    end_all(working_in(folder), _GRACE_S)
                    shutil.rmtree(folder, ignore_errors=True)
