"""What a trace says of when a request came, as a number of equal steps."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from hetsim.workload.checks import LARGEST

Unit = Literal["s", "ms", "us", "ns", "date"]
UNITS: tuple[Unit, ...] = ("s", "ms", "us", "ns", "date")

PER_S: Mapping[Unit, float] = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9, "date": 1e9}
"""Steps of one second, by unit; dates are told in nanoseconds."""

Told = Callable[[Any], float]
"""From what a file has to a number of steps; ValueError where it is none, with what it must be."""

_DATE = re.compile(
    r"(\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}:\d{2})(?:\.(\d{1,9}))?(Z|[+-]\d{2}:\d{2})?", re.ASCII
)


def told_by(unit: Unit) -> Told:
    """Return what reads a time of this unit."""
    return _date() if unit == "date" else _number(PER_S[unit])


def _number(per_s: float) -> Told:
    most = LARGEST * per_s

    def told(given: Any) -> float:
        if isinstance(given, bool) or not isinstance(given, str | int | float):
            raise ValueError("no number")
        if isinstance(given, str) and (not given.isascii() or "_" in given):
            raise ValueError("no number")
        try:
            # Whole numbers of nanoseconds since 1970 do not fit a float.
            value = int(given) if not isinstance(given, float) else given
        except ValueError:
            try:
                value = float(given)
            except ValueError:
                raise ValueError("no number") from None
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError("not finite")
        if value < 0:
            raise ValueError("negative")
        if value > most:
            raise ValueError(f"above {LARGEST:g} s")
        return value

    return told


def _date() -> Told:
    # Many requests come within one second: its date is read once.
    known: dict[str, int] = {}

    def told(given: Any) -> float:
        if isinstance(given, str) and given[19:20] == "." and len(given) <= 29:
            second_ns, fraction = known.get(given[:19]), given[20:]
            if second_ns is not None and fraction.isdecimal() and fraction.isascii():
                return second_ns + int(fraction.ljust(9, "0"))
        form = _DATE.fullmatch(given.strip()) if isinstance(given, str) else None
        if form is None:
            raise ValueError("no date such as 2023-11-16 18:17:03.979")
        second, fraction, zone = form.groups()
        key = second + (zone or "")
        if key not in known:
            known.clear()
            offset = "+00:00" if zone in (None, "Z") else zone
            since = datetime.fromisoformat(second + offset) - datetime(1970, 1, 1, tzinfo=UTC)
            known[key] = (since.days * 86_400 + since.seconds) * 10**9
        return known[key] + int((fraction or "0").ljust(9, "0"))

    return told
