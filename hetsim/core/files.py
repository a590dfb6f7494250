"""Regular files opened by name, and files and folders written atomically."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader, BufferedWriter, FileIO
from pathlib import Path

from hetsim.core.systems import open_flags

TEXT_LIMIT_BYTES = 2**28
"""More than any plan or description needs."""

_PIECE_BYTES = 2**20


def open_regular(path: str | os.PathLike[str], *, follow: bool = True) -> BufferedReader:
    """Open a file to read it, where it is one: no folder, device or pipe, which may never end.

    Parameters
    ----------
    path : path
    follow : bool
        Whether a link to a file is as good.

    Raises
    ------
    OSError
        As ``open`` does, and for everything that is no regular file.
    ValueError
        Where `path` holds a null byte.
    """
    # A pipe without a writer would keep even the opening waiting.
    flags = ("O_RDONLY", "O_NONBLOCK", "O_CLOEXEC", *(() if follow else ("O_NOFOLLOW",)))
    descriptor = os.open(path, open_flags(*flags))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file", os.fspath(path))
    return os.fdopen(descriptor, "rb")


def read_regular(path: str | os.PathLike[str], limit_bytes: int = TEXT_LIMIT_BYTES) -> bytes:
    """Return the content of a regular file; raises as ``open_regular``, and above the limit."""
    with open_regular(path) as stream:
        data = read_most(stream, limit_bytes + 1)
    if len(data) > limit_bytes:
        raise OSError(errno.EINVAL, f"it is larger than {limit_bytes} bytes", os.fspath(path))
    return data


def read_most(stream: BufferedReader, nbytes: int) -> bytes:
    """Return what is left of a file, up to `nbytes`.

    Memory is taken for what there is, not for `nbytes`. What a file system makes up as it is read
    has no size beforehand, and is read to its end.
    """
    stated = os.fstat(stream.fileno()).st_size
    data = stream.read(min(nbytes, stated + 1))
    if len(data) <= stated:
        return data
    parts, left = [data], nbytes - len(data)
    while left and (more := stream.read(min(left, _PIECE_BYTES))):
        parts.append(more)
        left -= len(more)
    return b"".join(parts)


def sha256_of(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256, in hex, of a regular file; raises as ``open_regular``."""
    with open_regular(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def create(path: str | os.PathLike[str]) -> BufferedWriter:
    """New file, open for writing. Raises FileExistsError where the name is taken, by a link too."""
    return open(path, "xb", opener=_unfollowed)


def append(path: str | os.PathLike[str]) -> FileIO:
    """Regular file, open for unbuffered appending, created where there is none.

    Raises OSError for everything else of that name, such as a symbolic link or a pipe.
    """
    descriptor = _unfollowed(path, open_flags("O_WRONLY", "O_APPEND", "O_CREAT", "O_CLOEXEC"))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file", os.fspath(path))
    return FileIO(descriptor, "ab")


def _unfollowed(path: str | os.PathLike[str], flags: int) -> int:
    return os.open(path, flags | open_flags("O_NOFOLLOW", "O_NONBLOCK"), 0o666)


@contextmanager
def whole_file(path: Path) -> Iterator[BufferedWriter]:
    """Temporary file in the folder of `path`, renamed to `path` where nothing is raised.

    Else it is deleted, and a file at `path` stays as it was.
    """
    draft = _draft_of(path)
    stream = create(draft)
    try:
        with stream:
            yield stream
        draft.replace(path)
    except BaseException:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


@contextmanager
def draft_folder(path: Path) -> Iterator[Path]:
    """New temporary folder in the parent of `path`, which is created where it is missing.

    The caller renames it, or moves what it needs out of it; the rest is deleted.
    """
    draft = _draft_of(path)
    # Path.mkdir calls itself for each parent.
    for parent in reversed([parent for parent in draft.parents if not parent.exists()]):
        parent.mkdir(exist_ok=True)
    draft.mkdir()
    try:
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _draft_of(path: Path) -> Path:
    # Without the file's own name, which may be as long as names can be.
    return path.with_name(f".hetsim-{secrets.token_hex(16)}.tmp")
