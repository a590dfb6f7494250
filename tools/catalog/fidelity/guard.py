"""What has become worse from old points to new ones: point by point, never on a mean."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from catalog.fidelity.points import FidelityPoint

APART = 1.1
"""Times that pairs must be apart to have an order that may not be lost."""
ROUNDING = 2e-4
"""Logarithm by which figures of the file may be off: they have five digits."""


@dataclass(frozen=True, slots=True)
class Losses:
    """What new points have lost, each told in a line.

    Attributes
    ----------
    gone : tuple of str
        Points that were predicted and no longer are.
    uncovered : tuple of str
        Measured times that were inside the 80 % interval and no longer are.
    flipped : tuple of str
        Pairs of devices, measured more than `APART` times apart on one network, that were
        predicted in the right order and no longer are.
    unserved : tuple of str
        Server results whose rate is no longer predicted, or no longer as near as the goal.
    """

    gone: tuple[str, ...]
    uncovered: tuple[str, ...]
    flipped: tuple[str, ...]
    unserved: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.gone or self.uncovered or self.flipped or self.unserved)

    def text(self, most: int = 20) -> str:
        """Return what was lost, of each kind the first `most` lines."""
        parts = []
        for what, lines in (
            ("points are no longer predicted", self.gone),
            ("intervals no longer cover what was measured", self.uncovered),
            ("pairs of devices are now predicted in the wrong order", self.flipped),
            ("served rates are no longer predicted as near", self.unserved),
        ):
            if lines:
                parts.append(f"{len(lines)} {what}:")
                parts += [f"  {line}" for line in lines[:most]]
                if len(lines) > most:
                    parts.append(f"  and {len(lines) - most} more")
        return "\n".join(parts)


def losses(old: Iterable[FidelityPoint], new: Iterable[FidelityPoint]) -> Losses:
    """Return what is worse in `new`, by the measurements of `old`.

    O(n d) for n points and d devices a network.
    """
    now = {point.key: point for point in new}
    gone, uncovered = [], []
    kept: defaultdict[tuple[str, int], list[tuple[FidelityPoint, float, float]]]
    kept = defaultdict(list)
    for was in sorted(old, key=lambda one: one.key):
        if was.shipped is None:
            continue
        point = now.get(was.key)
        if point is None or point.shipped is None:
            gone.append(str(was))
            continue
        before, after = was.shipped, point.shipped
        beyond = abs(math.log(was.measured_s / after.seconds)) - math.log(after.within)
        if before.covers(was.measured_s) and beyond > ROUNDING:
            uncovered.append(
                f"{was}: measured {_ms(was.measured_s)}, predicted {_ms(after.seconds)} within "
                f"{after.within:.3g}x (was {_ms(before.seconds)} within {before.within:.3g}x)"
            )
        kept[was.network, was.batch].append((was, before.seconds, after.seconds))
    flipped = [line for found in kept.values() for line in _flipped(found)]
    return Losses(tuple(gone), tuple(uncovered), tuple(flipped))


def _flipped(found: Sequence[tuple[FidelityPoint, float, float]]) -> list[str]:
    told = []
    for index, (one, one_was, one_is) in enumerate(found):
        for other, other_was, other_is in found[:index]:
            if one.device == other.device:
                continue
            measured = math.log(one.measured_s / other.measured_s)
            sign = math.copysign(1.0, measured)
            if abs(measured) <= math.log(APART) or sign * math.log(one_was / other_was) <= 0:
                continue
            if sign * math.log(one_is / other_is) < -ROUNDING:
                told.append(
                    f"{one} against {other.device} in {other.precision}: measured "
                    f"{_ms(one.measured_s)} and {_ms(other.measured_s)}, predicted {_ms(one_is)} "
                    f"and {_ms(other_is)} (was {_ms(one_was)} and {_ms(other_was)})"
                )
    return told


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.4g} ms"
