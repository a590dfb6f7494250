"""Folders for a while, which go away even where the process that made them was killed."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from hetsim.core.locks import left_by_its_owner, own_folders, try_lock
from hetsim.core.systems import this_user

_LOCK = "lock"
_DRAFT = ".draft-"
_DRAFT_LIVES_S = 24 * 3600.0


def temporary_place(kind: str) -> tuple[Path, str]:
    """Return where temporary files are, and how names of this user's folders of a kind begin."""
    return Path(tempfile.gettempdir()), f"hetsim-{kind}-{this_user()}-"


def scratch_folder() -> contextlib.AbstractContextManager[Path]:
    """Give an empty folder among temporary files; see ``lasting_folder``."""
    return lasting_folder(*temporary_place("tmp"))


@contextlib.contextmanager
def lasting_folder(base: Path, prefix: str) -> Iterator[Path]:
    """Give an empty folder in `base` for this user alone, removed when the context ends.

    Its name begins with `prefix` and cannot be guessed; none that is there is used. A lock says
    that its owner lives, so that the folders of killed processes are told apart and removed here,
    this user's own and no others; a lock, unlike a process id, holds across containers and reboots.

    Raises OSError where none can be made.
    """
    _remove_abandoned(base, prefix)
    # Locked under a name that nobody removes, and only then shown.
    draft = Path(tempfile.mkdtemp(prefix=prefix + _DRAFT, dir=base.resolve()))
    try:
        with (draft / _LOCK).open("wb") as lock:
            if not try_lock(lock):  # without a lock, nobody may take it as left by its owner
                (draft / _LOCK).unlink()
            folder = draft.with_name(prefix + draft.name.removeprefix(prefix + _DRAFT))
            draft.rename(folder)
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _remove_abandoned(base: Path, prefix: str) -> None:
    """Remove folders whose owner is gone; nothing that is a link, or another user's."""
    for folder in own_folders(base, prefix):
        with contextlib.suppress(OSError):
            if folder.name.startswith(prefix + _DRAFT):
                if time.time() - folder.lstat().st_mtime > _DRAFT_LIVES_S:
                    shutil.rmtree(folder)
                continue
            with left_by_its_owner(folder / _LOCK) as left:
                if left:
                    shutil.rmtree(folder)
