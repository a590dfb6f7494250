"""Which share of its time a device is up. Data, with its source."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from hetsim.errors import UsageError

ASKED = "as asked"
"""The source of what a user gives."""


@dataclass(frozen=True, slots=True)
class DeviceAvailability:
    """Which share of its time a device is up.

    Attributes
    ----------
    share : Fraction
        Above 0, 1 at most.
    source : str
    """

    share: Fraction
    source: str = ASKED


def of_times(mtbf: float, mttr: float) -> Fraction:
    """Return the share of its time that a device is up which works, and is repaired, so long.

    Both are means, in one unit, and taken as the decimals that they are written as.

    >>> of_times(999.0, 1.0)
    Fraction(999, 1000)
    """
    works, down = exactly(mtbf), exactly(mttr)
    return works / (works + down)


def exactly(value: float) -> Fraction:
    """Return the number that is written so.

    >>> exactly(0.995)
    Fraction(199, 200)
    """
    return Fraction(repr(float(value)))


def parse_share(text: str) -> Fraction:
    """Read ``0.999`` or ``99.9%``, exactly.

    >>> parse_share("99.9%")
    Fraction(999, 1000)

    Raises UsageError for what is no share above 0 and 1 at most.
    """
    number = text.strip()
    percents = number.endswith("%")
    try:
        if not math.isfinite(float(number.removesuffix("%"))):
            raise ValueError
        share = Fraction(number.removesuffix("%")) / (100 if percents else 1)
    except ValueError:
        share = Fraction(0)
    if not 0 < share <= 1:
        raise UsageError(f"'{text}' is no share of time", hint="write 0.999 or 99.9%")
    return share
