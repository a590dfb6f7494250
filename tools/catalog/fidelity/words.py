"""How errors and times are written in the document."""

from __future__ import annotations

from typing import Protocol


class Errors(Protocol):
    """Errors of many predictions: of times, of rates, or as the catalog states them."""

    @property
    def median(self) -> float:
        """Of all of them, as a share."""
        ...

    @property
    def p90(self) -> float:
        """That nine of ten are not above."""
        ...


def errors_of(found: Errors | None) -> str:
    """Return the median and the 90th percentile of errors; a dash where there are none."""
    return "-" if found is None else f"{percent(found.median)} / {percent(found.p90)}"


def percent(part: float) -> str:
    """Return a share as an error in percent, with two digits.

    >>> percent(0.0123), percent(0.5)
    ('1.2 %', '50 %')
    """
    return f"{100 * part:.1f} %" if part < 0.0995 else f"{100 * part:.0f} %"


def share(part: float) -> str:
    """Return a share in percent, as precise as it is far from all."""
    return f"{100 * part:.1f} %" if part > 0.9 else f"{100 * part:.0f} %"


def milliseconds(seconds: float) -> str:
    """Return seconds as milliseconds, with three digits."""
    ms = seconds * 1e3
    return f"{ms:.3g}" if ms < 1000 else f"{ms:.0f}"
