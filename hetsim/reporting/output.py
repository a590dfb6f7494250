"""Output files, written whole or not at all, and their manifest."""

from __future__ import annotations

import json
import os
import platform as host
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from hetsim.core.files import create, draft_folder, sha256_of, whole_file
from hetsim.core.room import out_of_room
from hetsim.core.text import fields
from hetsim.errors import InvalidInput, UsageError
from hetsim.version import __version__

if TYPE_CHECKING:
    from hetsim.problem.problem import Problem

Text = str | Iterable[str]
"""Content of a file, as one text or in pieces that are dropped once written."""

OWN_FILES = (
    "plan.json",
    "result.json",
    "trace.json",
    "manifest.json",
    "platform.yaml",
    "deployment.yaml",
)
"""Files that ``--out`` writes and ``--force`` may replace."""


def check_folder(folder: Path, *, force: bool) -> None:
    """Raise UsageError if `folder` is a file, or not empty.

    Called before the work as well as by ``write_folder``, so that users learn of it at once.
    """
    if folder.is_symlink() and not folder.exists():
        raise UsageError("it is a broken link", where=f"--out {folder}")
    if not folder.exists():
        above = next(parent for parent in folder.absolute().parents if parent.exists())
        if not above.is_dir():
            raise UsageError(f"'{above}' is a file", where=f"--out {folder}")
        return
    if not folder.is_dir():
        raise UsageError("it is a file", where=f"--out {folder}", hint="name a folder")
    if force:
        blocked = [name for name in OWN_FILES if (folder / name).is_dir()]
        if blocked:
            raise UsageError(f"'{blocked[0]}' in it is a folder", where=f"--out {folder}")
    elif _listing(folder):
        raise UsageError(
            "it exists and is not empty",
            where=f"--out {folder}",
            hint=f"name another folder, or give --force to replace {', '.join(OWN_FILES)} in it",
        )


def write_folder(folder: Path, files: Mapping[str, Text], *, force: bool = False) -> None:
    """Write `files` (text by name, of ``OWN_FILES``) to `folder`, all of them or none.

    All are written to a folder next to it first. That is then renamed if `folder` is new or empty;
    otherwise, with `force`, its files are moved in one by one, each whole, and nothing else in
    `folder` is touched. Raises UsageError if `folder` is a file, or has files and `force` is not
    given; InvalidInput, OutOfRoom if the disk refuses, or is full.
    """
    unknown = sorted(set(files) - set(OWN_FILES))
    if unknown:
        raise AssertionError(f"'{unknown[0]}' is not one of {OWN_FILES}")
    check_folder(folder, force=force)
    # Through a link the files go to where it leads, and the rename must happen there.
    target = folder.resolve()
    with _written(f"--out {folder}", target), draft_folder(target) as draft:
        for name, text in files.items():
            with create(draft / name) as stream:
                _write(stream, text)
        if target.exists() and _listing(target):
            for name in files:
                (draft / name).replace(target / name)
        else:
            draft.replace(target)


@contextmanager
def _written(where: str, target: Path) -> Iterator[None]:
    """Context in which errors of the disk name `where`."""
    try:
        yield
    except OSError as error:
        raise out_of_room(error, where, path=target) or InvalidInput(
            f"cannot write: {error.strerror or error}", where=where
        ) from error


def check_file(path: Path, *, force: bool, option: str = "--trace") -> None:
    """Raise UsageError if `path` may not be written to: it exists, or has no folder.

    - `option`: the command-line option that sets the path; empty: set in Python.
    """
    where = f"{option} {path}".lstrip()
    replaces = "--force" if option else "force=True"
    if path.is_dir():
        raise UsageError("it is a folder", where=where, hint="name a file")
    if path.exists() and not path.is_file():
        raise UsageError("it is not a regular file", where=where, hint="name a file")
    if (path.exists() or path.is_symlink()) and not force:
        raise UsageError(
            "it exists", where=where, hint=f"name another file, or give {replaces} to replace it"
        )
    if not path.absolute().parent.is_dir():
        raise UsageError(f"there is no folder '{path.parent}'", where=where)


def write_file(path: Path, text: Text, *, force: bool = False, option: str = "--trace") -> None:
    """Write `text` to `path`, whole or not at all; over a file only with `force`.

    Raises UsageError as ``check_file`` does; InvalidInput, OutOfRoom if the disk refuses, or is
    full.
    """
    check_file(path, force=force, option=option)
    # Path.resolve raises RuntimeError for a link that leads to itself.
    target = Path(os.path.realpath(path))
    with _written(f"{option} {path}".lstrip(), target), whole_file(target) as draft:
        _write(draft, text)


def _write(stream: BinaryIO, text: Text) -> None:
    pieces = (text,) if isinstance(text, str) else text
    stream.writelines(piece.encode("utf-8") for piece in pieces)


def _listing(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError as error:
        raise InvalidInput(f"cannot read: {error.strerror}", where=f"--out {folder}") from error


PACKAGES = ("onnx", "onnxruntime", "numpy", "ray")


def manifest_json(
    problem: Problem,
    command: Sequence[str],
    seed: int,
    measured: Mapping[str, float] | None = None,
    *,
    others: Sequence[Problem] = (),
    files: Mapping[str, str] | None = None,
) -> str:
    """Return versions, digests, seed, command line, time in UTC, and measured seconds.

    `seed` is that of the random inputs of a run; `measured` has figures that differ from run to
    run, such as wall-clock seconds; `others` are the problems of further models on the platform,
    `files` the other files that were read, by kind.
    """
    from hetsim.problem.record import given_record, supposed_record

    platform = problem.platform
    model = "model(source sha256 canonical)"
    record: dict[str, Any] = {
        "schema": "hetsim-manifest/1",
        "created_utc": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": list(command),
        "seed": seed,
        **fields(problem, model),
        **({"other_models": [fields(one, model)["model"] for one in others]} if others else {}),
        "platform": platform and {**fields(platform, "source sha256"), **supposed_record(platform)},
        **fields(problem, "profiles(source=profile.source sha256=profile.sha256)"),
        **({"measured_on": given_record(problem.measured)} if problem.measured else {}),
        **({"files": {what: _file(path) for what, path in files.items()}} if files else {}),
        "problem": {"name": problem.name, "fingerprint": problem.fingerprint},
        "versions": {
            "python": host.python_version(),
            "hetsim": __version__,
            **{name: _installed(name) for name in PACKAGES},
        },
        "machine": {"system": host.system(), "architecture": host.machine()},
        "measured": dict(sorted((measured or {}).items())),
    }
    return json.dumps(record, indent=1) + "\n"


def _file(path: str) -> dict[str, str]:
    return {"source": path, "sha256": sha256_of(path)}


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
