"""Files that others name: opened only where they are regular files."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from io import BufferedReader

TEXT_LIMIT_BYTES = 2**28
"""More than any plan or description needs."""


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
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    descriptor = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file", os.fspath(path))
    return os.fdopen(descriptor, "rb")


def read_regular(path: str | os.PathLike[str], limit_bytes: int = TEXT_LIMIT_BYTES) -> bytes:
    """Return the content of a regular file; raises as ``open_regular``, and above the limit."""
    with open_regular(path) as stream:
        # What a file system makes up as it is read has no size beforehand.
        data = stream.read(limit_bytes + 1)
    if len(data) > limit_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {limit_bytes} bytes", os.fspath(path))
    return data


def sha256_of(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256, in hex, of a regular file; raises as ``open_regular``."""
    with open_regular(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
