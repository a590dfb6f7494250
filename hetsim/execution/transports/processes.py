"""Processes of private Rays: identity, signals, end, and leftovers of killed runs."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import stat
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO

from hetsim.core.files import left_by_its_owner, own_folders, try_lock
from hetsim.core.process import ENDING, ending_left_to_others


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


@contextlib.contextmanager
def held_interrupts() -> Iterator[None]:
    """Defer SIGINT, and SIGTERM and SIGHUP if Python handles them, until the context ends.

    An interrupt during a start or stop would leave unknown processes. Outside the main thread, and
    if SIGINT is handled by non-Python code, this does nothing.
    """
    previous = {signal.SIGINT: signal.getsignal(signal.SIGINT)}
    if not _in_main_thread() or None in previous.values():
        yield
        return
    for number in ENDING:
        if callable(handler := signal.getsignal(number)):
            previous[number] = handler
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)

    for number in previous:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number, handler in previous.items():
            # Handlers set within, e.g. by a Ray that ends with its own, stay.
            if signal.getsignal(number) is note:
                signal.signal(number, handler)
        for number in dict.fromkeys(came):
            signal.raise_signal(number)


@contextlib.contextmanager
def ending_waits() -> Iterator[None]:
    """Defer SIGTERM and SIGHUP, and then deliver them to the handler known to Python.

    Ray's handler for SIGTERM ends the process immediately, and removes an existing handler when it
    goes. Threads started within leave these signals to others.
    """
    if not _in_main_thread():
        yield
        return
    handlers = {number: signal.getsignal(number) for number in ENDING}
    with ending_left_to_others():
        try:
            yield
        finally:
            for number, handler in handlers.items():
                # Without a handler, it may be that of Ray's Python code.
                handler = handler if callable(handler) else signal.getsignal(number)
                if handler is not None:
                    signal.signal(number, handler)


@contextlib.contextmanager
def hangup_ends() -> Iterator[None]:
    """Make SIGHUP end this process like SIGTERM, unless it is handled or ignored."""
    number = getattr(signal, "SIGHUP", None)
    handler = signal.getsignal(signal.SIGTERM)
    free = number is not None and signal.getsignal(number) == signal.SIG_DFL
    if number is None or not (free and _in_main_thread() and callable(handler)):
        yield
        return
    signal.signal(number, handler)
    try:
        yield
    finally:
        # The last user may be on another thread, which cannot set signal handlers.
        if _in_main_thread():
            signal.signal(number, signal.SIG_DFL)


_PROC = Path("/proc")
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Process:
    """Process; its start, in clock ticks from boot, distinguishes it from later ones of its id."""

    pid: int
    parent: int
    start_ticks: int


def descendants(root: int) -> tuple[Process, ...]:
    """Return every living process below process `root`, parents first; none without ``/proc``."""
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
    """Return other living processes of this user whose arguments name `folder`."""
    return tuple(one for one in _others() if str(folder) in command_line(one))


def working_in(folder: Path) -> tuple[Process, ...]:
    """Return the same, plus those with open files in it: Ray's workers rename themselves."""
    below = f"{folder}{os.sep}"
    return tuple(
        one for one in _others() if str(folder) in command_line(one) or _has_open(one, below)
    )


def _others() -> Iterator[Process]:
    for process in _all():
        with contextlib.suppress(OSError):
            owner = (_PROC / str(process.pid)).stat().st_uid
            if owner == os.geteuid() and process.pid != os.getpid():
                yield process


def _has_open(process: Process, below: str) -> bool:
    with contextlib.suppress(OSError):
        for descriptor in (_PROC / str(process.pid) / "fd").iterdir():
            with contextlib.suppress(OSError):
                if os.readlink(descriptor).startswith(below):
                    return True
    return False


def command_line(process: Process) -> str:
    """Return its arguments, joined by blanks; empty if it has ended."""
    try:
        content = (_PROC / str(process.pid) / "cmdline").read_bytes()
    except OSError:
        return ""
    return content.replace(b"\0", b" ").decode(errors="replace").strip()


def end_all(processes: Iterable[Process], grace_s: float) -> None:
    """Wait until `processes` have ended; kill the remaining ones after `grace_s` seconds."""
    left = _left(processes, grace_s)
    for process in left:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, signal.SIGKILL)
    _left(left, grace_s)


def _left(processes: Iterable[Process], grace_s: float) -> list[Process]:
    """Wait until `processes` have ended; return those that still live."""
    deadline = time.monotonic() + grace_s
    while (left := _living(processes)) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    return left


def _living(processes: Iterable[Process]) -> list[Process]:
    left: list[Process] = []
    for process in processes:
        if process.parent == os.getpid():
            # Otherwise an ended child stays in the process table as long as this one runs.
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)
        found = _read(process.pid)
        if found is not None and found.start_ticks == process.start_ticks:
            left.append(process)
    return left


def _all() -> Iterator[Process]:
    with contextlib.suppress(OSError):
        for pid in sorted(int(name) for name in os.listdir(_PROC) if name.isdigit()):
            process = _read(pid)
            if process is not None:
                yield process


def _read(pid: int) -> Process | None:
    """Return the living process `pid`, or None if there is none, or only its exit status."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The name, in parentheses, may itself contain blanks and parentheses (proc(5)).
    state, parent, *rest = text.rpartition(")")[2].split()
    return None if state in ("Z", "X") else Process(pid, int(parent), int(rest[17]))


OWNER = "owner"
"""File in the folder of a private Ray, locked by its process for its lifetime."""

INSIDE = "r"
"""Folder of Ray itself, next to it: Ray opens its own to everybody; the outer one stays private."""

TEMP_PREFIX = "hetsim-"
_DRAFT = "owner.draft"
_NAME = re.compile(re.escape(TEMP_PREFIX) + "[a-z0-9_]{8}")
_UNOWNED_S = 24 * 3600.0
"""Age from which a folder without an owner lost it between two lines of code."""

_GRACE_S = 1.0
"""Seconds for orphaned processes to end, which may not know that they should."""

_ROUNDS = 3
"""Number of passes, as a process being started may have been missed."""


def owned(folder: Path) -> IO[bytes]:
    """Mark `folder` as owned by this process, until the returned file is closed."""
    held = (folder / _DRAFT).open("xb")
    # Locked before it is renamed: an unlocked one counts as that of a dead process.
    try_lock(held)
    (folder / _DRAFT).rename(folder / OWNER)
    return held


def end_abandoned(base: Path) -> None:
    """End private Rays in `base` of this user without living owners, and remove their files."""
    for folder in own_folders(base, TEMP_PREFIX):
        end_if_abandoned(folder)


def end_if_abandoned(folder: Path) -> None:
    """End the private Ray in a folder, if its owner is gone, and remove its files.

    A folder that is a link, another user's, or has unexpected content is left.
    """
    with contextlib.suppress(OSError):
        found = folder.lstat()
        ours = found.st_uid == os.geteuid() and stat.S_ISDIR(found.st_mode)
        if not ours or found.st_mode & 0o777 != 0o700 or not _NAME.fullmatch(folder.name):
            return
        held = set(os.listdir(folder))
        if OWNER in held and held <= {OWNER, INSIDE}:
            with left_by_its_owner(folder / OWNER) as left:
                for _ in range(_ROUNDS if left else 0):
                    end_all(working_in(folder), _GRACE_S)
                    shutil.rmtree(folder, ignore_errors=True)
                    if not folder.exists():
                        break
        elif held <= {_DRAFT, INSIDE} and time.time() - found.st_mtime > _UNOWNED_S:
            shutil.rmtree(folder)
