"""Processes that are told by a word of their environment, whoever their parent is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def marked(name: str, value: str) -> Iterator[tuple[int, str]]:
    """Yield id and words of the living processes that were started with, or inherited, a mark.

    Parameters
    ----------
    name, value : str
        Of the variable in their environment.
    """
    wanted = f"{name}={value}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (process / "environ").read_bytes().split(b"\0"):
                state = (process / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
                words = (process / "cmdline").read_bytes().replace(b"\0", b" ")
                if state not in ("Z", "X"):
                    yield int(process.name), words.decode(errors="replace").strip()
