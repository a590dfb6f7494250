"""A disk that is full, by the limit that the system has for the size of a file."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager

LIMIT_BYTES = 3000


@contextmanager
def small_files(limit_bytes: int = LIMIT_BYTES) -> Iterator[None]:
    """Let no file grow beyond a limit, as on a disk that is full there.

    Bytecode of what is imported meanwhile is not kept: Python takes half of it for all of it.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    kept, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = kept
