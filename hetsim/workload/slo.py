"""Service level objectives: how many requests must be answered in which time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from hetsim.core import checks
from hetsim.core.checks import number
from hetsim.core.units import format_seconds
from hetsim.errors import WorkloadError

HINT = "write p99=50ms, or 99.9%<=50ms"
_UNITS = {"s": 0, "ms": -3, "us": -6, "ns": -9}
_NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_FORM = re.compile(
    rf"\s*(?:[pP](?P<p>{_NUMBER})\s*(?:<=|=|<)|(?P<share>{_NUMBER})\s*%\s*(?:<=|<))"
    rf"\s*(?P<time>{_NUMBER})\s*+(?P<unit>[A-Za-zµ]*)\s*+"
)


@dataclass(frozen=True, slots=True)
class Slo:
    """At least this share of the requests is to be answered within this latency.

    "p99 at most 50 ms" and "99 % within 50 ms" say the same.

    Attributes
    ----------
    share : float
        Of requests on time, above 0 and below 1.
    latency_s : float
        From arrival to answer.
    """

    share: float
    latency_s: float

    def __post_init__(self) -> None:
        number(finite=False)(self.share, "share")
        number(above=0)(self.latency_s, "latency_s")
        if not 0 < self.share < 1:
            raise WorkloadError(
                f"a share of {self.share:g} on time is no objective",
                hint="it is above 0 and below 1, e.g. 0.99",
            )

    @classmethod
    def at_percentile(cls, percentile: float, latency_s: float) -> Slo:
        """Return the objective for a latency at a percentile above 0 and below 100."""
        number(finite=False)(percentile, "percentile")
        if not 0 < percentile < 100:
            raise WorkloadError(
                f"a percentile of {percentile:g} is no objective",
                hint="it is above 0 and below 100, e.g. 99",
            )
        # 99.9 means the share 0.999, not the product of what binary numbers make of it.
        return cls(float(Decimal(repr(float(percentile))) / 100), latency_s)

    @property
    def percentile(self) -> float:
        """The percentile of latencies that is to be at most `latency_s`."""
        return percentile_of(self.share)

    def __str__(self) -> str:
        return f"p{self.percentile:g} <= {format_seconds(self.latency_s)}"


def percentile_of(share: float) -> float:
    """Return the percentile that a share on time means: 99.9 of 0.999, to the last digit."""
    return float(Decimal(repr(share)) * 100)


def parse_slo(text: str) -> Slo:
    """Return the objective that `text` means: ``p99=50ms``, ``p99<=0.05s`` or ``99.9%<=50ms``.

    Raises WorkloadError where it means none.
    """
    checks.text(text, "an objective")
    form = _FORM.fullmatch(text)
    if form is None:
        raise WorkloadError(f"'{text}' is no objective", hint=HINT)
    unit = form["unit"].replace("µ", "u")
    if unit not in _UNITS:
        what = f"no unit '{form['unit']}' of time" if unit else "the time has no unit"
        raise WorkloadError(f"{what} in '{text}'", hint=f"{HINT}; s, ms, us or ns")
    # As a decimal number 50ms is 0.05, whatever the unit: both have the same bits.
    latency_s = float(Decimal(form["time"]).scaleb(_UNITS[unit]))
    if not 0 < latency_s < float("inf"):
        raise WorkloadError(f"the time of '{text}' is not above 0", hint=HINT)
    try:
        return Slo.at_percentile(float(form["p"] or form["share"]), latency_s)
    except WorkloadError as error:
        raise WorkloadError(f"in '{text}' {error.what}", hint=error.hint) from None
