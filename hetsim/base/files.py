"""Files that others name, opened only where they are regular files; and files written whole."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path

from hetsim.base.systems import open_flags

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


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a name beside `path` to write to; it takes the place of `path` where all went well.

    Where anything is raised, nothing is left of it, and a file of that name is as before.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield draft
        draft.replace(path)
    except BaseException:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise
