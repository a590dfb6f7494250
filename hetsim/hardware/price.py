"""Price and availability of devices. Data, each with its source."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction

from hetsim.errors import UsageError

HOURS_A_YEAR = 365.25 * 24
ASKED = "as asked"
"""Source of prices given by the user."""

OFFER_KINDS = ("launch", "list", "retailer", "cloud", "parts")
"""Kinds of prices: at launch, maker's list, retailer, cloud on demand, sum of parts."""
CHECKED = ("page", "no")
"""Whether the page of a price was read, or its address and price are from memory."""

_TEXT = re.compile(r"([0-9.]+)(?:/h|/([0-9.]+)y)?")


@dataclass(frozen=True, slots=True)
class Price:
    """Price of a device or a whole platform in US dollars.

    - `usd_per_hour`: hourly rent, including electricity.
    - `usd`: purchase price, without electricity.
    - `years`: depreciation period; absent: given by the caller.
    - `of`: date of the price: year, month or day.
    """

    usd_per_hour: float | None = None
    usd: float | None = None
    years: float | None = None
    of: str = ""
    source: str = ASKED

    @property
    def rented(self) -> bool:
        """Whether it is rented by the hour."""
        return self.usd_per_hour is not None

    def hourly_usd(self, depreciation_years: float | None = None) -> float | None:
        """Return the hourly cost; None if the depreciation period is unknown.

        A purchase price is spread evenly over all hours of its period, in use or not.
        """
        if self.usd_per_hour is not None:
            return self.usd_per_hour
        years = self.years if depreciation_years is None else depreciation_years
        if years is None or self.usd is None:
            return None
        return self.usd / (years * HOURS_A_YEAR)


@dataclass(frozen=True, slots=True)
class Offer:
    """Product for sale or machine for rent, with the month and the page of its price.

    - `name`: platform or device of the catalog that it provides.
    - `covers`: devices of the catalog that are part of the product.
    - `what`: product as sold.
    - `month`: month of the price: YYYY-MM.
    - `kind`: one of ``OFFER_KINDS``.
    - `checked`: one of ``CHECKED``.
    - `machine`: for rent: the provider's name of the machine, the region and the terms.
    """

    name: str
    covers: tuple[str, ...]
    what: str
    month: str
    kind: str
    checked: str
    source: str
    usd: float | None = None
    usd_per_hour: float | None = None
    machine: str | None = None

    @property
    def price(self) -> Price:
        """Price without the offer."""
        return Price(self.usd_per_hour, self.usd, None, self.month, self.source)


def parse_price(text: str) -> Price:
    """Return the price in ``0.53/h`` (rent), ``1600/3y`` (purchase for three years) or ``1600``."""
    match = _TEXT.fullmatch(text.strip())
    number = _positive(match[1]) if match else None
    years = _positive(match[2]) if match and match[2] else None
    if match is None or number is None or (match[2] and years is None):
        raise UsageError(
            f"'{text}' is not a price", hint="write 0.53/h, 1600/3y or 1600, in US dollars"
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


@dataclass(frozen=True, slots=True)
class DeviceAvailability:
    """Share of time that a device is up.

    - `share`: above 0, at most 1.
    """

    share: Fraction
    source: str = ASKED


def availability_of(mtbf: float, mttr: float) -> Fraction:
    """Return the availability of a device with these mean times to failure and to repair.

    Both are means in one unit, taken as the decimals that they are written as.

    >>> availability_of(999.0, 1.0)
    Fraction(999, 1000)
    """
    works, down = exactly(mtbf), exactly(mttr)
    return works / (works + down)


def exactly(value: float) -> Fraction:
    """Return the number of a decimal text exactly.

    >>> exactly(0.995)
    Fraction(199, 200)
    """
    return Fraction(repr(float(value)))


def parse_share(text: str) -> Fraction:
    """Return the exact share in ``0.999`` or ``99.9%``.

    >>> parse_share("99.9%")
    Fraction(999, 1000)

    Raises UsageError for other text, or a share not in (0, 1].
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
        raise UsageError(f"'{text}' is not a share of time", hint="write 0.999 or 99.9%")
    return share
