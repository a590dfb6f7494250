"""Folders that live as long as a run, and go away even where the run was killed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from hetsim.core.cache import ROOM, private_folder
from hetsim.core.room import out_of_room
from hetsim.core.scratch import lasting_folder, temporary_place
from hetsim.errors import ExecutionError


@contextlib.contextmanager
def run_folder() -> Iterator[Path]:
    """Give an empty folder below hetsim's cache, removed when the context ends."""
    with contextlib.ExitStack() as lasting:
        yield _entered(lasting)


def _entered(lasting: contextlib.ExitStack) -> Path:
    places = [temporary_place("run")]
    own = private_folder("runs")
    if own is not None:
        places.insert(0, (own, ""))
    for base, prefix in places:
        try:
            return lasting.enter_context(lasting_folder(base, prefix))
        except OSError as error:
            failure = error
    raise out_of_room(failure, base, hint=ROOM) or ExecutionError(
        f"no folder for the weights can be made: {failure.strerror or failure}",
        where=str(base),
        hint="set HETSIM_CACHE_DIR to a folder that is writable",
    ) from failure
