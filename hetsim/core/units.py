"""Units: SI inside, scaled units only where people read or write."""

from __future__ import annotations

import math
import re
from decimal import Decimal

KIB = 1024
MIB = 1024**2
GIB = 1024**3

MICRO = 1e-6
GIGA = 1e9
TERA = 1e12

_TIME_STEPS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
_BYTE_STEPS = ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB"))


_SECONDS = {
    unit: Decimal(step)
    for unit, step in (
        ("ns", "1e-9"), ("us", "1e-6"), ("ms", "1e-3"), ("s", "1"), ("min", "60"), ("h", "3600"),
        ("d", "86400"), ("y", "31557600"),
    )
}  # fmt: skip
_NUMBER = r"((?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)"
_DURATION = re.compile(rf"{_NUMBER}\s*({'|'.join(_SECONDS)})")
_RATE = re.compile(rf"{_NUMBER}(?:\s*/\s*(s|min|h))?")


def parse_seconds(text: str) -> float | None:
    """Return the seconds of a duration such as ``10s``, ``5ms`` or ``2h``; None for other text.

    >>> parse_seconds("3ms"), parse_seconds("2h"), parse_seconds("3")
    (0.003, 7200.0, None)
    """
    found = _DURATION.fullmatch(text.strip())
    return None if found is None else float(Decimal(found[1]) * _SECONDS[found[2]])


def parse_per_s(text: str) -> float | None:
    """Return the events per second of a rate such as ``100/s``, ``30/min`` or ``100``, else None.

    >>> parse_per_s("100/s"), parse_per_s("30/min"), parse_per_s("a few")
    (100.0, 0.5, None)
    """
    found = _RATE.fullmatch(text.strip())
    return None if found is None else float(Decimal(found[1]) / _SECONDS[found[2] or "s"])


def in_si(value: float, unit: float) -> float:
    """Return a value given in `unit` in SI units: 5 of 1e-6 is 5e-06."""
    # Dividing rounds right where the unit is a part: 5 / 1e6 is 5e-06, 5 * 1e-6 is not.
    return value * unit if unit >= 1 else value / round(1 / unit)


def significant(value: float, digits: int = 4) -> float:
    """Return `value` rounded to this many significant digits.

    >>> significant(71234.5), significant(0.00123456)
    (71230.0, 0.001235)
    """
    if value == 0 or not math.isfinite(value):
        return value
    return round(value, digits - 1 - math.floor(math.log10(abs(value))))


def format_seconds(seconds: float) -> str:
    """Return `seconds` with three significant digits and a fitting unit.

    >>> format_seconds(0.01234)
    '12.3 ms'
    """
    if seconds == 0:
        return "0 s"
    for step, unit in _TIME_STEPS:
        if abs(seconds) >= step:
            return f"{three_digits(seconds / step)} {unit}"
    return f"{three_digits(seconds / 1e-9)} ns"


def format_percentile(percentile: float) -> str:
    """Return the name of a percentile in full.

    >>> format_percentile(99.0), format_percentile(99.99999)
    ('p99', 'p99.99999')
    """
    return f"p{percentile:.12g}"


def format_bytes(count: float) -> str:
    """Return `count` bytes with three significant digits and a binary unit.

    >>> format_bytes(3 * 1024**2)
    '3.00 MiB'
    """
    for step, unit in _BYTE_STEPS:
        if abs(count) >= step:
            return f"{three_digits(count / step)} {unit}"
    return f"{count:.0f} B"


def format_flops(count: float) -> str:
    """Return a FLOP count with three significant digits and an SI prefix.

    >>> format_flops(8.2e9)
    '8.20 GFLOP'
    """
    for step, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(count) >= step:
            return f"{three_digits(count / step)} {unit}FLOP"
    return f"{count:.0f} FLOP"


def three_digits(value: float) -> str:
    """Return a number below a thousand with three significant digits.

    >>> three_digits(9.5)
    '9.50'
    """
    magnitude = abs(value)
    if magnitude >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if magnitude >= 9.995 else f"{value:.2f}"
