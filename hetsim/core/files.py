"""Atomic file writes, locks, temporary folders, and the user's private folders."""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import importlib
import operator
import os
import secrets
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader, BufferedWriter, FileIO
from pathlib import Path
from typing import IO, Any, TypeVar

from hetsim.errors import InvalidInput, UsageError, closest, nearest

Invalid = TypeVar("Invalid", bound=InvalidInput)

THREADS = "use --executor threads"


def need(module: str, what: str, instead: str = "use Linux or macOS, or WSL on Windows") -> None:
    """Raise UsageError if this system's Python lacks the `module` that `what` needs."""
    try:
        importlib.import_module(module)
    except ImportError:
        raise UsageError(
            f"{what} needs Python's module '{module}', which does not exist on {sys.platform}",
            hint=f"{instead}; docs/limits.md lists what works where",
        ) from None


def no_such_file(
    kind: Callable[..., Invalid], path: str | os.PathLike[str], where: str | None = None
) -> Invalid:
    """Return the error of this kind for a file that does not exist, with the nearest name."""
    hint = siblings(Path(path))
    return kind("no such file", where=where or os.fspath(path), hint=hint, missing=True)


def siblings(path: Path, suffix: str = "") -> str:
    """Return the hint for a file that does not exist: the nearest name with `suffix` next to it."""
    folder = path if os.path.isdir(path) else path.parent
    suffix = suffix or path.suffix
    try:
        found = sorted(one for one in folder.iterdir() if not one.name.startswith("."))
    except OSError:
        return f"the folder '{folder}' does not exist"
    names = [one.name for one in found if suffix in ("", one.suffix)]
    if names:
        return nearest(path.name, names)
    kind = f"{suffix} file" if suffix else "file"
    # The ending itself may be mistyped.
    meant = closest(path.name, [one.name for one in found])
    return meant or f"there is no {kind} in '{folder}'"


def open_flags(*names: str) -> int:
    """Return those of these flags of `os.open` that the system has, combined."""
    return functools.reduce(operator.or_, (getattr(os, name, 0) for name in names), 0)


def this_user() -> int:
    """Return the user id that owns files of this process, as `os.stat` reports it: 0 on Windows."""
    return os.geteuid() if hasattr(os, "geteuid") else 0


def try_lock(file: IO[Any] | int) -> bool:
    """Lock `file` unless another process holds it; closing the file releases it.

    Also False if the system has no such locks: then no file counts as abandoned.
    """
    try:
        import fcntl
    except ImportError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def own_folders(base: Path, prefix: str) -> Iterator[Path]:
    """Yield this user's folders in `base` with this prefix, sorted by name; links are skipped."""
    for folder in sorted(base.glob(f"{prefix}*")):
        try:
            found = folder.lstat()
        except OSError:  # gone meanwhile
            continue
        if found.st_uid == this_user() and stat.S_ISDIR(found.st_mode):
            yield folder


@contextmanager
def left_by_its_owner(lock: Path) -> Iterator[bool]:
    """Yield whether no process holds the lock on a file, and hold it within the block if so.

    Raises OSError if the file cannot be opened, or is a link.
    """
    held = os.open(lock, open_flags("O_RDONLY", "O_NOFOLLOW"))
    try:
        yield try_lock(held)
    finally:
        os.close(held)


ROOM = "set HETSIM_CACHE_DIR to a writable folder with free space"
"""Hint for errors on writing to the cache folder."""


def cache_dir() -> Path:
    """Return hetsim's cache folder; it may not exist yet.

    ``HETSIM_CACHE_DIR`` names it; otherwise it is ``hetsim`` below ``XDG_CACHE_HOME`` or
    ``~/.cache``.
    """
    own = os.environ.get("HETSIM_CACHE_DIR")
    if own:
        return Path(own).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "hetsim"


def private_folder(*names: str) -> Path | None:
    """Return a folder below ``cache_dir`` that this user alone can read and write.

    Parameters
    ----------
    names : str
        Path below ``cache_dir``, name by name; the first folder is closed to others.

    None if none can be made: no home folder, a file system that is read-only or without
    permissions, a folder or link of another user in its place.
    """
    try:
        top = cache_dir() / names[0]
        top.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = top.lstat()
        shut = stat.S_ISDIR(status.st_mode) and not status.st_mode & 0o077
        if not shut or status.st_uid != this_user():
            return None
        folder = top.joinpath(*names[1:])
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder if os.access(folder, os.W_OK | os.X_OK) else None
    except (OSError, RuntimeError, ValueError):
        return None


_LOCK = "lock"
_DRAFT = ".draft-"
_DRAFT_LIVES_S = 24 * 3600.0


def temporary_place(kind: str) -> tuple[Path, str]:
    """Return the folder of temporary files, and the prefix of this user's folders of a kind."""
    return Path(tempfile.gettempdir()), f"hetsim-{kind}-{this_user()}-"


def scratch_folder() -> contextlib.AbstractContextManager[Path]:
    """Return the context of an empty folder among temporary files; see ``lasting_folder``."""
    return lasting_folder(*temporary_place("tmp"))


@contextlib.contextmanager
def lasting_folder(base: Path, prefix: str) -> Iterator[Path]:
    """Yield an empty folder in `base` for this user alone, removed when the context ends.

    Its name begins with `prefix` and cannot be guessed; existing folders are not used. A lock shows
    that the owner lives, so that folders of killed processes are recognised and removed here, only
    those of this user; a lock, unlike a process id, holds across containers and reboots.

    Raises OSError if none can be made.
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
    """Remove folders whose owner has ended; never a link, or a folder of another user."""
    for folder in own_folders(base, prefix):
        with contextlib.suppress(OSError):
            if folder.name.startswith(prefix + _DRAFT):
                if time.time() - folder.lstat().st_mtime > _DRAFT_LIVES_S:
                    shutil.rmtree(folder)
                continue
            with left_by_its_owner(folder / _LOCK) as left:
                if left:
                    shutil.rmtree(folder)


TEXT_LIMIT_BYTES = 2**28
"""Maximum number of bytes read of a text file: more than any plan or description needs."""

_PIECE_BYTES = 2**20


def open_regular(path: str | os.PathLike[str], *, follow: bool = True) -> BufferedReader:
    """Open a regular file for reading; never a folder, device or pipe, which may never end.

    Parameters
    ----------
    path : path
    follow : bool
        Whether a link to a file is accepted.

    Raises
    ------
    OSError
        As in ``open``, and for everything that is not a regular file. FileNotFoundError for a name
        that is too long for any file.
    ValueError
        If `path` contains a null byte.
    """
    # A pipe without a writer would keep even the opening waiting.
    flags = ("O_RDONLY", "O_NONBLOCK", "O_CLOEXEC", *(() if follow else ("O_NOFOLLOW",)))
    try:
        descriptor = os.open(path, open_flags(*flags))
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        raise FileNotFoundError(errno.ENOENT, "no such file", os.fspath(path)) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    return os.fdopen(descriptor, "rb")


def read_regular(path: str | os.PathLike[str], limit_bytes: int = TEXT_LIMIT_BYTES) -> bytes:
    """Return the content of a regular file; raises as ``open_regular``, and above the limit."""
    with open_regular(path) as stream:
        data = read_most(stream, limit_bytes + 1)
    if len(data) > limit_bytes:
        raise OSError(errno.EINVAL, f"larger than {limit_bytes} bytes", os.fspath(path))
    return data


def read_most(stream: BufferedReader, nbytes: int) -> bytes:
    """Return the rest of a file, up to `nbytes`.

    Memory is allocated for what the file has, not for `nbytes`. A file that the system generates on
    reading has no size beforehand, and is read to its end.
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


KEPT_FROM_BYTES = 2**24
"""Minimum size of files whose digest is kept, in bytes."""

SETTLED_S = 2.0
"""Seconds since a file was changed after which a further change alters its time stamps."""


def sha256_of(path: str | os.PathLike[str] | BufferedReader) -> str:
    """Return the SHA-256, in hex, of a regular file; raises as ``open_regular``."""
    with path if isinstance(path, BufferedReader) else open_regular(path) as stream:
        found = os.fstat(stream.fileno())
        return kept_sha256(found, lambda: hashlib.file_digest(stream, "sha256").hexdigest())


def kept_sha256(found: os.stat_result, made: Callable[[], str]) -> str:
    """Return a file's SHA-256, in hex: the one in the cache, or else the result of `made`.

    Digests of large files are kept in the cache folder by device, inode, size and the times of
    change that are `found` before reading. A file changed within SETTLED_S is not kept.
    """
    settled = time.time() - max(found.st_mtime, found.st_ctime) > SETTLED_S
    large = found.st_size >= KEPT_FROM_BYTES
    folder = private_folder("digests") if large and settled else None
    if folder is None:
        return made()
    state = found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
    place = folder / "-".join(map(str, state))
    with suppress(OSError, ValueError):
        known = read_regular(place, _DIGEST_DIGITS).decode("ascii")
        if len(known) == _DIGEST_DIGITS and int(known, 16) >= 0:
            return known
    digest = made()
    with suppress(OSError), whole_file(place) as file:
        file.write(digest.encode("ascii"))
    return digest


_DIGEST_DIGITS = 64


def create(path: str | os.PathLike[str]) -> BufferedWriter:
    """Return a new file, open for writing. Raises FileExistsError if the name is taken."""
    return open(path, "xb", opener=_unfollowed)


def append(path: str | os.PathLike[str]) -> FileIO:
    """Return a regular file, open for unbuffered appending, created if it does not exist.

    Raises OSError for everything else of that name, such as a symbolic link or a pipe.
    """
    descriptor = _unfollowed(path, open_flags("O_WRONLY", "O_APPEND", "O_CREAT", "O_CLOEXEC"))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    return FileIO(descriptor, "ab")


def _unfollowed(path: str | os.PathLike[str], flags: int) -> int:
    return os.open(path, flags | open_flags("O_NOFOLLOW", "O_NONBLOCK"), 0o666)


@contextmanager
def whole_file(path: Path) -> Iterator[BufferedWriter]:
    """Yield a temporary file next to `path`, renamed to `path` unless the block raises.

    If it raises, the file is deleted, and a file at `path` stays as it was.
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
    """Yield a new temporary folder in the parent of `path`, which is created if it is missing.

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
