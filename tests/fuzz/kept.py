"""Cases on disk: a folder with the files, and ``words.json``, the command lines that take them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

MADE = "out"
WORDS, FOUND = "words.json", "found.json"


def read_words(folder: Path) -> list[list[str]]:
    """The command lines of a case that was kept."""
    words: list[list[str]] = json.loads((folder / WORDS).read_text())
    return words


def keep(case: Path, words: Sequence[Sequence[str]], found: object, folder: Path) -> None:
    """Copy a case's files to `folder`, with its command lines and what was found."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for entry in case.iterdir():
        # What calls write on purpose has names that begin so.
        if entry.name.startswith(MADE):
            continue
        if entry.is_dir():
            shutil.copytree(entry, folder / entry.name)
        else:
            shutil.copyfile(entry, folder / entry.name)
    (folder / WORDS).write_text(json.dumps([list(line) for line in words], indent=1) + "\n")
    (folder / FOUND).write_text(json.dumps(found, indent=1) + "\n")


def cases_in(folder: Path) -> list[Path]:
    """The folders of cases below `folder`, in order."""
    return sorted(path.parent for path in folder.glob(f"*/{WORDS}"))


def files_of(folder: Path) -> set[str]:
    """Paths of all files below, from there."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}
