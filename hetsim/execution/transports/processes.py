"""Processes of private Rays: who they are, their end, and what a killed run left."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import stat
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from hetsim.core.locks import left_by_its_owner, own_folders, try_lock

_PROC = Path("/proc")
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Process:
    """One process; its start tells it from a later one of the same id."""

    pid: int
    parent: int
    start_ticks: int


def descendants(root: int) -> tuple[Process, ...]:
    """Return every living process below process `root`, parents first."""
    children: dict[int, list[Process]] = {}
    for process in _all():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    pending = [root]
    while pending:
        below = children.get(pending.pop(), [])
        found.extend(below)
        pending.extend(process.pid for process in below)
    return tuple(found)


def naming(folder: Path) -> tuple[Process, ...]:
    """Return the living processes of this user, but for this one, whose arguments name `folder`."""
    return tuple(one for one in _others() if str(folder) in command_line(one))


def working_in(folder: Path) -> tuple[Process, ...]:
    """Living processes of this user that name `folder` or have files in it open.

    Ray's workers give themselves another name, and are told by their logs.
    """
    found = []
    for process in _others():
        with contextlib.suppress(OSError):
            files = _PROC / str(process.pid) / "fd"
            if str(folder) in command_line(process) or _has_open(files, f"{folder}{os.sep}"):
                found.append(process)
    return tuple(found)


def _others() -> Iterable[Process]:
    """The living processes of this user, but for this one."""
    for process in _all():
        with contextlib.suppress(OSError):
            owner = (_PROC / str(process.pid)).stat().st_uid
            if owner == os.geteuid() and process.pid != os.getpid():
                yield process


def _has_open(descriptors: Path, below: str) -> bool:
    for name in os.listdir(descriptors):
        with contextlib.suppress(OSError):
            if os.readlink(descriptors / name).startswith(below):
                return True
    return False


def command_line(process: Process) -> str:
    """Return its arguments, joined by blanks; empty where it has ended."""
    try:
        content = (_PROC / str(process.pid) / "cmdline").read_bytes()
    except OSError:
        return ""
    return content.replace(b"\0", b" ").decode(errors="replace").strip()


def end_all(processes: Iterable[Process], grace_s: float) -> None:
    """Wait until `processes` have ended; kill those that have not after `grace_s` seconds."""
    left = _living(processes)
    deadline = time.monotonic() + grace_s
    while left and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        left = _living(left)
    for process in left:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, signal.SIGKILL)
    deadline = time.monotonic() + grace_s
    while left and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        left = _living(left)


def _living(processes: Iterable[Process]) -> list[Process]:
    left: list[Process] = []
    for process in processes:
        if process.parent == os.getpid():
            # Else a child that has ended stays in the process table as long as this one runs.
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)
        found = _read(process.pid)
        if found is not None and found.start_ticks == process.start_ticks:
            left.append(process)
    return left


def _all() -> Iterable[Process]:
    try:
        entries = sorted(int(name) for name in os.listdir(_PROC) if name.isdigit())
    except OSError:
        return
    for pid in entries:
        process = _read(pid)
        if process is not None:
            yield process


def _read(pid: int) -> Process | None:
    """The living process `pid`; None where there is none, or only its exit status is left."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The name, in parentheses, may itself hold blanks and parentheses (proc(5)).
    state, parent, *rest = text.rpartition(")")[2].split()
    if state in ("Z", "X"):
        return None
    return Process(pid, int(parent), int(rest[17]))


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
    """End the private Rays in `base` of this user whose owners are gone, and remove their files."""
    for folder in own_folders(base, TEMP_PREFIX):
        end_if_abandoned(folder)


def end_if_abandoned(folder: Path) -> None:
    """End the private Ray in a folder, if its owner is gone, and remove its files.

    A folder that is a link, another user's, or holds what no such folder does stays.
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
    """End what still works in the folder of an abandoned private Ray, and remove it."""
    for _ in range(_ROUNDS):
        end_all(working_in(folder), _GRACE_S)
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            break
