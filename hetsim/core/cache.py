"""The folder in which hetsim keeps what it can make again, and what of it is for one user alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from hetsim.core.systems import this_user

ROOM = "set HETSIM_CACHE_DIR to a folder that is writable and has room"
"""What to do where something cannot be written there."""


def cache_dir() -> Path:
    """Return hetsim's cache folder; it may not exist yet.

    ``HETSIM_CACHE_DIR`` names it; else it is ``hetsim`` below ``XDG_CACHE_HOME`` or
    ``~/.cache``.
    """
    own = os.environ.get("HETSIM_CACHE_DIR")
    if own:
        return Path(own).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "hetsim"


def private_folder(*names: str) -> Path | None:
    """Return a folder below ``cache_dir`` that this user alone can read and write.

    Parameters
    ----------
    names : str
        Its place: the first is the one that is shut to others.

    None where there is no room for one: no home folder, a file system that is read-only or
    full of others' rights, a folder or link of somebody else in its place.
    """
    try:
        top = cache_dir() / names[0]
        top.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = top.lstat()
        shut = stat.S_ISDIR(status.st_mode) and not status.st_mode & 0o077
        if not shut or status.st_uid != this_user():
            return None
        folder = top.joinpath(*names[1:])
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder if os.access(folder, os.W_OK | os.X_OK) else None
    except (OSError, RuntimeError, ValueError):
        return None
