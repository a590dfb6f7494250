"""Devices that are down, in words."""

from __future__ import annotations

from collections.abc import Sequence

from hetsim.core.text import plain
from hetsim.provisioning.rates.answer import Choice
from hetsim.reporting.words.like_devices import folded

SHOWN = 3
"""Choices of what is down that a line has room for."""


def choice_text(choice: Choice) -> str:
    """Return ``2 of gpu.0-7 and cpu``; ``none`` where all are up."""
    parts = [
        plain(", ".join(folded(names)))
        if count == len(names)
        else f"{count} of {plain(', '.join(folded(names)))}"
        for count, names in choice
    ]
    return " and ".join(parts) or "none"


def choices_text(choices: Sequence[Choice]) -> str:
    """Return several such choices."""
    shown = [choice_text(one) for one in choices[:SHOWN]]
    if len(choices) > SHOWN:
        shown.append(f"{len(choices) - SHOWN} more")
    return "; or ".join(shown)
