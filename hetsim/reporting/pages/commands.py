"""The command line that says what a slider says: the reader's own, with other options."""

from __future__ import annotations

from collections.abc import Sequence

FLAGS = ("--force", "--json", "--quiet", "-q", "--debug", "--sensitivities", "--wide", "--run",
         "--explain")  # fmt: skip
"""Options without a value that change nothing of an answer."""

VALUES = ("--report", "--out", "--trace", "--certificate")
"""Options with one that only leave files."""

RATE = ("--rate", "--requests", "--duration", "--within", "--slo", "--faster", "--target-rate")
"""Options that a slider says, or that say how long a run is."""


def without(command: Sequence[str], verb: str, options: Sequence[str] = ()) -> list[str]:
    """Return the command line, program first, as one of another verb without these options.

    Those that leave files, or only say how an answer is printed, are left out as well.
    """
    found = ["hetsim", verb]
    gone = (*VALUES, *options)
    words = iter(_after_verb(command))
    for word in words:
        if word in FLAGS:
            continue
        if word in gone:
            next(words, None)
            continue
        if any(word.startswith(f"{option}=") for option in gone):
            continue
        found.append(word)
    return found


def _after_verb(command: Sequence[str]) -> list[str]:
    words = list(command[1:])
    while words and words[0].startswith("-"):
        del words[0]
    return words[1:]
