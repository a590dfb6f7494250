"""What hardware costs: rented by the hour, or bought for some years. Data, with its source."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from hetsim.errors import UsageError

HOURS_A_YEAR = 365.25 * 24
ASKED = "as asked"
"""The source of a price that a user gives."""

_TEXT = re.compile(r"([0-9.]+)(?:/h|/([0-9.]+)y)?")


@dataclass(frozen=True, slots=True)
class Price:
    """What a device, or a whole platform, costs in US dollars.

    Attributes
    ----------
    usd_per_hour : float, optional
        Rented, with the electricity that it takes.
    usd : float, optional
        Bought; what it takes costs more.
    years : float, optional
        For which it is bought; absent: whoever asks says it.
    of : str
        The date of the price: year, month or day.
    source : str
    """

    usd_per_hour: float | None = None
    usd: float | None = None
    years: float | None = None
    of: str = ""
    source: str = ASKED

    @property
    def rented(self) -> bool:
        """Whether it is paid for by the hour."""
        return self.usd_per_hour is not None

    def hourly_usd(self, lifetime_years: float | None = None) -> float | None:
        """Return what an hour costs; None where it is bought for nobody knows how long.

        Bought, its price is spread evenly over all hours of its years, in use or not.
        """
        if self.usd_per_hour is not None:
            return self.usd_per_hour
        years = self.years if lifetime_years is None else lifetime_years
        if years is None or self.usd is None:
            return None
        return self.usd / (years * HOURS_A_YEAR)


def parse_price(text: str) -> Price:
    """Read ``0.53/h`` (rented), ``1600/3y`` (bought for three years) or ``1600`` (bought)."""
    match = _TEXT.fullmatch(text.strip())
    number = _positive(match[1]) if match else None
    years = _positive(match[2]) if match and match[2] else None
    if match is None or number is None or (match[2] and years is None):
        raise UsageError(
            f"'{text}' is no price", hint="write 0.53/h, 1600/3y or 1600, in US dollars"
        )
    if text.strip().endswith("/h"):
        return Price(usd_per_hour=number)
    return Price(usd=number, years=years)


def _positive(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value < math.inf else None
