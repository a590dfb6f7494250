"""Lines by room at a revision and today: ``python tools/lines.py [REVISION]``."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import PurePosixPath


def git(*words: str) -> bytes:
    """Return what git prints; its own words on stderr where it fails."""
    return subprocess.run(["git", *words], check=True, stdout=subprocess.PIPE).stdout


def room_of(path: PurePosixPath) -> str | None:
    """Return the room of a source file: a package of hetsim, or a folder at the root."""
    if path.suffix in (".js", ".css") and path.parts[0] == "hetsim":
        return "JavaScript and style"
    if path.suffix != ".py":
        return None
    if path.parts[0] != "hetsim":
        return path.parts[0]
    return f"hetsim/{path.parts[1]}" if len(path.parts) > 2 else "hetsim"


def lines_at(revision: str) -> tuple[Counter[str], Counter[str]]:
    """Return lines and files by room at a revision, with docstrings, comments and empty lines."""
    lines: Counter[str] = Counter()
    files: Counter[str] = Counter()
    listed = git("ls-tree", "-r", "--name-only", "-z", revision).decode().split("\0")
    rooms = [(name, room) for name in listed if name and (room := room_of(PurePosixPath(name)))]
    asked = "".join(f"{revision}:{name}\n" for name, _ in rooms).encode()
    told = subprocess.run(
        ["git", "cat-file", "--batch"], input=asked, check=True, stdout=subprocess.PIPE
    ).stdout
    at = 0
    for _, room in rooms:
        start = told.index(b"\n", at) + 1
        size = int(told[at:start].split()[2])
        lines[room] += told.count(b"\n", start, start + size)
        files[room] += 1
        at = start + size + 1
    package = [room for room in lines if room.split("/")[0] == "hetsim"]
    for count in (lines, files):
        count["the package"] = sum(count[room] for room in package)
    return lines, files


def main(revisions: list[str]) -> None:
    """Print a row for each room: lines and files at each revision, the last one today's."""
    found = [lines_at(revision) for revision in revisions]
    print(f"{'lines (files)':24}" + "".join(f"{one[:12]:>18}" for one in revisions))
    for room in sorted({room for lines, _ in found for room in lines}):
        cells = (f"{lines[room]:,} ({files[room]})" for lines, files in found)
        print(f"{room:24}" + "".join(f"{cell:>18}" for cell in cells))


if __name__ == "__main__":
    main([*sys.argv[1:], "HEAD"])
