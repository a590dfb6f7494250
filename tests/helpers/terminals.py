"""``hetsim`` as it prints to a terminal: a pseudo-terminal of some size, or pipes beside it."""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO

ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07|[()][A-Z0-9]|[78=>])")
"""Sequences that steer a terminal."""

IMPATIENT = """
from hetsim.cli import invocation, main
invocation.PATIENCE_S = 0.0
main.main()
"""


@dataclass(frozen=True, slots=True)
class Shown:
    """What a command printed, as the terminal or the pipe got it."""

    out: str
    err: str
    code: int

    @property
    def plain(self) -> str:
        """What went to stdout, without what steers the terminal."""
        return ESCAPES.sub("", self.out)

    @property
    def line(self) -> str:
        """What went to stderr, the same."""
        return ESCAPES.sub("", self.err)


def shown(
    *words: str,
    columns: int = 80,
    out: bool = True,
    err: bool = True,
    env: Mapping[str, str] | None = None,
    at_once: bool = False,
) -> Shown:
    """Run ``hetsim`` with these words.

    Parameters
    ----------
    columns : int
        Of the terminal.
    out, err : bool
        Whether stdout and stderr are terminals, each one of its own, or pipes.
    env : mapping of str to str, optional
        Beside those of this process, without what says how to print.
    at_once : bool
        Whether times are told of what takes no time.
    """
    told = {
        key: value
        for key, value in os.environ.items()
        if key not in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE")
    }
    told |= {"TERM": "xterm-256color", "LANG": "C.UTF-8", "PYTHONUTF8": "0"} | dict(env or {})
    readers = []
    given = []
    for terminal in (out, err):
        if terminal:
            ours, theirs = pty.openpty()
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        else:
            ours, theirs = os.pipe()
        given.append(theirs)
        readers.append(_Reader(os.fdopen(ours, "rb", buffering=0)))
    process = subprocess.Popen(
        [sys.executable, *(("-c", IMPATIENT) if at_once else ("-m", "hetsim")), *words],
        stdin=subprocess.DEVNULL,
        stdout=given[0],
        stderr=given[1],
        env=told,
    )
    for theirs in given:
        os.close(theirs)
    code = process.wait(timeout=300)
    return Shown(readers[0].text(), readers[1].text(), code)


class _Reader(threading.Thread):
    """Reads what comes until nobody writes any more."""

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__(daemon=True)
        self._stream, self._parts = stream, list[bytes]()
        self.start()

    def run(self) -> None:
        """A terminal whose other end is closed says so by an error."""
        with self._stream:
            try:
                while part := self._stream.read(65536):
                    self._parts.append(part)
            except OSError as error:
                if error.errno != errno.EIO:
                    raise

    def text(self) -> str:
        """Return all of it, a line's end as it is in text."""
        self.join(60)
        return b"".join(self._parts).decode("utf-8", "surrogateescape").replace("\r\n", "\n")
