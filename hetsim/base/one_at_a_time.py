"""Work that processes do one after the other, so that the first does it for all."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hetsim.base.locks import try_lock

PATIENCE_S = 120.0
"""Longer than what is done here takes: who has waited that long goes ahead."""

_PAUSE_S = 0.02


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Hold `folder` while this runs; wait until other processes let go of it, but not for ever.

    A process lets go of what it holds however it ends. Where the folder cannot be opened, or the
    system has no such locks, nobody waits. It is not to be nested with the same folder.
    """
    try:
        held = os.open(folder, os.O_RDONLY)
    except OSError:
        yield
        return
    try:
        ends = time.monotonic() + PATIENCE_S
        while time.monotonic() < ends:
            try:
                if try_lock(held):
                    break
            except (ImportError, OSError):
                # What the system cannot lock is not waited for.
                break
            time.sleep(_PAUSE_S)
        yield
    finally:
        # That lets go of it, too.
        os.close(held)
