"""Python's search for circles of garbage, put off while much is made that stays."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_inside = [0]
_was_enabled = [False]


@contextmanager
def collecting_put_off() -> Iterator[None]:
    """Look for no circles inside, nor in other threads meanwhile.

    Each search goes through all that there is, so that searches take longer the more is made.
    Calls may overlap; after the last, it is as before the first.
    """
    with _lock:
        if not _inside[0]:
            _was_enabled[0] = gc.isenabled()
            gc.disable()
        _inside[0] += 1
    try:
        yield
    finally:
        with _lock:
            _inside[0] -= 1
            if not _inside[0] and _was_enabled[0]:
                gc.enable()
