"""What one of each kind costs, in whole numbers, by what is aimed at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from fractions import Fraction

from hetsim.errors import UsageError, nearest
from hetsim.hardware.price import HOURS_A_YEAR, Price
from hetsim.hardware.spec import Platform
from hetsim.provisioning.platforms.catalog import Entry, HostEntry
from hetsim.provisioning.platforms.composing import FRONT
from hetsim.provisioning.platforms.question import UNIT, Aim
from hetsim.simulation.service.cost import Prices

WATTS = 1000


@dataclass(frozen=True, slots=True)
class KindCost:
    """What one of a kind costs.

    Attributes
    ----------
    whole : int
        In ``UNIT``.
    parts : mapping of str to str
        What it is made of, as the certificate has it.
    price : Price or None
    """

    whole: int
    parts: Mapping[str, str]
    price: Price | None


def costs_of(
    aim: Aim, entries: Sequence[Entry | HostEntry], alone: Sequence[Platform], terms: Prices
) -> tuple[KindCost, ...]:
    """Return what one of each costs, rounded half to even from the exact fraction.

    - cost: US dollars an hour. What is bought costs the same every hour of its years, and the
      electricity that it takes where all its devices are busy, by the tariff: the most that it
      can come to, and the same whatever comes, so that costs add up over counts.
    - energy: watts where all devices are busy, for the same reason.
    - devices: how many there are, hosts not counted.

    Raises
    ------
    UsageError
        Where a price, its years or the tariff is not known, by the names of the kinds; or one is
        given of nothing that can be had.
    """
    names = [one.name for one in entries]
    for pattern in terms.of:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise UsageError(
                f"a price of '{pattern}', which the catalog does not have",
                hint=nearest(pattern, names),
            )
    if aim == "devices":
        return tuple(
            KindCost(int(isinstance(one, Entry)), {}, _price(one, platform, terms))
            for one, platform in zip(entries, alone, strict=True)
        )
    watts = [
        sum((Fraction(str(spec.busy_w)) for spec in platform.devices.values()), Fraction(0))
        for platform in alone
    ]
    prices = [_price(one, platform, terms) for one, platform in zip(entries, alone, strict=True)]
    if aim == "energy":
        return tuple(
            KindCost(round(watt / UNIT[aim]), {"power_w": _decimal(watt)}, price)
            for watt, price in zip(watts, prices, strict=True)
        )
    _check(names, prices, terms)
    found = []
    for price, watt in zip(prices, watts, strict=True):
        assert price is not None
        parts: dict[str, str] = {}
        if price.usd_per_hour is not None:
            exact = Fraction(str(price.usd_per_hour))
            parts["usd_per_hour"] = str(price.usd_per_hour)
        else:
            years = price.years if terms.lifetime_years is None else terms.lifetime_years
            exact = Fraction(str(price.usd)) / (Fraction(str(years)) * Fraction(HOURS_A_YEAR))
            parts |= {"usd": str(price.usd), "years": str(years)}
            tariff = terms.tariff_usd_per_kwh
            exact += watt / WATTS * Fraction(str(tariff))
            parts |= {"power_w": _decimal(watt), "usd_per_kwh": str(tariff)}
        found.append(KindCost(round(exact / UNIT[aim]), parts, price))
    return tuple(found)


def _check(names: Sequence[str], prices: Sequence[Price | None], terms: Prices) -> None:
    each = list(zip(names, prices, strict=True))
    unpriced = [name for name, price in each if price is None]
    if unpriced:
        raise UsageError(
            f"nothing says what {', '.join(unpriced)} costs",
            hint=f"give --price {unpriced[0]}=0.53/h or {unpriced[0]}=1600/3y, or price: in a "
            "catalog file; or another --objective",
        )
    bought = [(name, price) for name, price in each if price is not None and not price.rented]
    endless = [
        name for name, price in bought if price.years is None and terms.lifetime_years is None
    ]
    if endless:
        raise UsageError(
            f"nothing says for how many years {', '.join(endless)} is bought",
            hint="give --lifetime YEARS",
        )
    if bought and terms.tariff_usd_per_kwh is None:
        raise UsageError(
            f"nothing says what the electricity of {', '.join(name for name, _ in bought)} costs",
            hint="give --tariff USD_PER_KWH",
        )


def _price(entry: Entry | HostEntry, platform: Platform, terms: Prices) -> Price | None:
    """What is asked goes before the catalog's file, and that before those of devices."""
    found = entry.price
    if found is None:
        found = platform.price
    mine = [spec for name, spec in platform.devices.items() if name != FRONT]
    if found is None and len(mine) == 1:
        found = mine[0].price
    for pattern, price in terms.of.items():
        if fnmatchcase(entry.name, pattern):
            found = price
    return found


def _decimal(exact: Fraction) -> str:
    """A fraction of decimal numbers as one."""
    for digits in range(40):
        scaled = exact * 10**digits
        if scaled.denominator == 1:
            whole = str(abs(scaled.numerator)).rjust(digits + 1, "0")
            return whole[:-digits] + "." + whole[-digits:] if digits else whole
    return repr(float(exact))
