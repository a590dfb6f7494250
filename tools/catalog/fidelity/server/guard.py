"""Which served rates are predicted worse than they were: result by result."""

from __future__ import annotations

from collections.abc import Iterable

from catalog.fidelity.server.judged import GOAL
from catalog.fidelity.server.points import ServerPoint

ROUNDING = 1e-3
"""By which errors may differ: figures of the file, and what they rest on, have five digits."""


def missed(old: Iterable[ServerPoint], new: Iterable[ServerPoint]) -> tuple[str, ...]:
    """Return the results that had a rate and lost it, or were within `GOAL` and no longer are."""
    now = {point.key: point for point in new}
    lines = []
    for was in sorted(old, key=lambda one: one.key):
        before = was.off(was.anchored_per_s)
        if before is None:
            continue
        point = now.get(was.key)
        after = None if point is None else point.off(point.anchored_per_s)
        if after is None:
            lines.append(f"{was.system}: no rate")
        elif abs(before) <= GOAL and abs(after) > GOAL + ROUNDING:
            lines.append(f"{was.system}: off by {after:+.0%}, was {before:+.0%}")
    return tuple(lines)
