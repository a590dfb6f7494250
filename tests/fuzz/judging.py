"""What one call of the command line did, and whether that is right whatever it was given."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

SECONDS = 30.0
"""Of a processor, after which a call hangs; one that waits does after ten times as many."""

WAITS = 10

NBYTES = 2 * 10**9
"""The memory that a process may hold while it answers."""

CODES = {0: "ok", 2: "usage", 3: "invalid input", 4: "infeasible", 5: "missed", 6: "undecided"}
"""Exit codes that a file may lead to; 1 only where a run failed, and then said so."""

FAILED = 1
_FAILURE = "error: "
_STRAY = ("warning: ", "Traceback (most recent call last)", "internal error", "Exception ignored")
_KEPT = "\n\xa0"
_SHOWN = 2000


@dataclass(frozen=True, slots=True)
class Call:
    """What came of one call.

    Attributes
    ----------
    words : tuple of str
        The command line, without the program.
    code : int or None
        Exit code; None where the process died, or was ended.
    fault : str
        What is wrong with the answer; empty where nothing is.
    said : str
        The beginning of what it said on stderr, or how it died.
    seconds : float
    peak_bytes : int
    """

    words: tuple[str, ...]
    code: int | None
    fault: str
    said: str
    seconds: float = 0.0
    peak_bytes: int = 0

    def sort(self) -> str:
        """What is alike of faults: verb, fault and words, without names and numbers."""
        line = self.said.strip().split("\n")[-1]
        alike = re.sub(r"'[^']*'|\"[^\"]*\"|[0-9.]+|\S*[./]\S*", "_", line)
        return f"{self.words[0]}: {self.fault}: {alike[:120]}"


def fault_of(
    code: int | None, out: bytes, err: bytes, left: Sequence[str], named: Collection[str]
) -> str:
    """What is wrong with an answer; empty where nothing is.

    Parameters
    ----------
    code : int or None
        Exit code; None where an exception passed the program.
    out, err : bytes
        All that came on stdout and stderr, of libraries in other languages, too.
    left : sequence of str
        Files and processes that are there, and were not before.
    named : collection of str
        Of which an error in a file has to name one.
    """
    said = err.decode(errors="surrogateescape")
    if code is None:
        return "exception"
    for text in _STRAY:
        if text in said:
            return text.split(" (")[0].strip(" :").lower()
    if code == FAILED and not said.startswith(_FAILURE):
        return "internal error"
    if code not in CODES and code != FAILED:
        return f"exit code {code}"
    if code and not said.strip():
        return "no word"
    if left:
        return f"left behind: {', '.join(left[:5])}"
    told = said + out.decode(errors="surrogateescape")
    where = said.removeprefix(_FAILURE).partition(": ")[0]
    if code == 3 and not any(name in told for name in named) and not _is_a_place(where, said):
        return "no file named"
    for stream in (out, err):
        try:
            text = stream.decode()
        except UnicodeDecodeError:
            return "no text"
        if steering(text):
            return "control characters"
    return ""


def _is_a_place(where: str, said: str) -> bool:
    """Whether an error is about a file that another one names, or about one of two folders."""
    if "no such file" in said.lower():
        return True
    return all(len(one) < 256 and os.path.lexists(one) for one in where.split(" or "))


def steering(text: str) -> str:
    """The characters that steer a terminal."""
    if text.replace("\n", "").isprintable():
        return ""
    return "".join(sorted({char for char in text if not char.isprintable()} - set(_KEPT)))


def shown(err: bytes) -> str:
    """The beginning and the end of what was said."""
    text = err.decode(errors="backslashreplace")
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN // 2]} ... {text[-_SHOWN // 2 :]}"
