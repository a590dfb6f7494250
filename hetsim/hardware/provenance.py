"""How sure a figure is: where it is from, in one word."""

from __future__ import annotations

from collections.abc import Iterable

STATUSES = ("measured", "datasheet", "fitted", "secondary", "derived", "prior", "estimate")
"""From the surest to the weakest: measured on the device itself; its maker's word; fitted to
published measurements of the device; another's word; computed of other figures; what devices of
its kin have; a guess."""

WHAT_IF = "what if"
"""Weaker than all of them: supposed, see ``hetsim.what_if``. No file may say so."""


def weakest(statuses: Iterable[str]) -> str:
    """Return the weakest of one or more statuses.

    >>> weakest(["fitted", "prior", "datasheet"])
    'prior'
    """
    return max(statuses, key=(*STATUSES, WHAT_IF).index)
