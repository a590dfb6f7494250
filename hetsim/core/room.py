"""Exhausted disk and memory, as errors apart from invalid input."""

from __future__ import annotations

import errno
import mmap
import os
import re
import tempfile
from contextlib import suppress
from pathlib import Path

from hetsim.core.units import format_bytes
from hetsim.errors import HetsimError, OutOfRoom

_DISK = {
    errno.ENOSPC: ("the disk is full", "free space there, or choose another folder"),
    errno.EDQUOT: ("the disk quota is used up", "free space there, or choose another disk"),
    errno.EFBIG: (
        "the file size limit is reached",
        "raise the limit (ulimit -f), or choose another disk",
    ),
}
_FILES = (errno.EMFILE, errno.ENFILE)
_NO_THREAD = "can't start new thread"
_NOT_MAPPED = "failed to map segment from shared object"
"""End of the system loader's message on a library if memory is short."""
_THREADS = "close other programs, or raise the limits of memory and processes (ulimit -v, -u)"
_LESS = "close other programs, use smaller inputs, or use a machine with more memory"

_REFUSED = re.compile(
    r"(?:failed to allocate memory for requested buffer of size (\d+)|available memory of \d+ is "
    r"smaller than requested bytes of (\d+)|bad_alloc|bad allocation|cannot allocate memory)\s*$",
    re.IGNORECASE,
)
"""Ends of libraries' messages on exhausted memory; names come before them, in quotes."""

_OF_NUMPY = re.compile(r"Unable to allocate ([\d.]+) ([KMGTPE]?)i?B")

REFUSED = "Failed to allocate memory for requested buffer of size"
"""Text of ONNX Runtime's message before the number of bytes."""

_READ_LENGTH = 1000
_BEYOND = 2**62
"""Bytes that no machine has: such a size is a miscalculation, not a lack of memory."""


def out_of_room(
    error: BaseException,
    at: str | os.PathLike[str] | None = None,
    *,
    path: str | os.PathLike[str] | None = None,
    needed_bytes: int = 0,
    hint: str = "",
) -> OutOfRoom | None:
    """Return the OutOfRoom error if `error` means that disk or memory is exhausted, else None.

    Parameters
    ----------
    error : exception
        Error of the system, of Python, or of a library, known by its message alone.
    at : str or path, optional
        Name, for users, of what was being written or made.
    path : path, optional
        Place on the disk, if `at` is not one; the message states the free space there.
    needed_bytes : int
        Bytes that the whole needs, if known.
    hint : str
        Advice, if not the usual one.
    """
    where = None if at is None else os.fspath(at)
    if isinstance(error, OutOfRoom):
        return error
    if isinstance(error, OSError) and error.errno in _DISK:
        what, do = _DISK[error.errno]
        place = path or at or error.filename
        free = _free_bytes(place) if isinstance(place, str | os.PathLike) else None
        if needed_bytes:
            what += f": {format_bytes(needed_bytes)} are to be written"
            what += "" if free is None else f", and {format_bytes(free)} are free"
        return OutOfRoom(
            what, where=where or _text(error.filename), hint=hint or do, short_of="disk",
            needed_bytes=needed_bytes,
        )  # fmt: skip
    if isinstance(error, OSError) and error.errno in _FILES:
        return OutOfRoom(
            "too many files are open", where=where, hint="raise the limit (ulimit -n)",
            short_of="files",
        )  # fmt: skip
    if isinstance(error, RuntimeError) and str(error).startswith(_NO_THREAD):
        return OutOfRoom(
            "the system cannot start another thread: memory or the thread limit is used up",
            where=where, hint=hint or _THREADS, short_of="threads",
        )  # fmt: skip
    found = _bytes_refused(error)
    if found is None:
        return None
    needed_bytes = needed_bytes or found
    what = "out of memory"
    if needed_bytes > memory_bytes():
        has = format_bytes(memory_bytes())
        what = f"{format_bytes(needed_bytes)} of memory are needed, and this machine has {has}"
    elif needed_bytes:
        what += f": {format_bytes(needed_bytes)} more were needed"
    return OutOfRoom(
        what, where=where, hint=hint or _LESS, short_of="memory", needed_bytes=needed_bytes
    )


def no_room_in(
    folder: str | os.PathLike[str], nbytes: int, at: str | os.PathLike[str], *, hint: str = ""
) -> OutOfRoom | None:
    """Return the error if `folder` cannot hold a file of `nbytes`; None if it can.

    For files that libraries write, whose errors give no reason. The trial file is removed.
    """
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            os.posix_fallocate(file.fileno(), 0, max(1, nbytes))
    except OSError as error:
        return out_of_room(error, at, path=folder, needed_bytes=nbytes, hint=hint)
    return None


def check_memory(nbytes: int) -> None:
    """Raise MemoryError if this process cannot allocate this many bytes. O(1): none is touched.

    Without memory, some libraries end the process, or blame their input.
    """
    if nbytes:
        try:
            mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
        except (OSError, ValueError, OverflowError):
            raise MemoryError(f"{REFUSED} {nbytes}") from None


def memory_refused(message: str) -> int | None:
    """Return the bytes that a message says were refused, 0 if unknown; None: no such message."""
    found = _REFUSED.search(message[-_READ_LENGTH:])
    if found is None:
        return None
    size = int(found[1] or found[2] or 0)
    return None if size > _BEYOND else size


def _bytes_refused(error: BaseException) -> int | None:
    if isinstance(error, MemoryError):
        return memory_refused(str(error)) or _of_numpy(str(error))
    if isinstance(error, ImportError | OSError) and str(error).endswith(_NOT_MAPPED):
        return 0
    if isinstance(error, OSError):
        return 0 if error.errno == errno.ENOMEM else None
    if isinstance(error, HetsimError):
        return None
    return memory_refused(str(error))


def _of_numpy(message: str) -> int:
    found = _OF_NUMPY.match(message[:_READ_LENGTH])
    return 0 if found is None else round(float(found[1]) * 1024 ** " KMGTPE".index(found[2] or " "))


def _free_bytes(path: str | os.PathLike[str]) -> int | None:
    place = Path(path).absolute()
    for folder in (place, *place.parents):
        with suppress(OSError, ValueError):
            status = os.statvfs(folder)
            return status.f_bavail * status.f_frsize
    return None


def _text(name: object) -> str | None:
    return name if isinstance(name, str) else None


def memory_bytes() -> int:
    """Return the machine's memory in bytes; 16 GiB if the system does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 16 * 2**30


def resident_bytes() -> int:
    """Return the resident memory of this process in bytes; 0 if unknown."""
    try:
        with open("/proc/self/statm", "rb") as stream:
            return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError, IndexError):
        return 0
