"""Cost of a workload's requests: rent, or depreciation and electricity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from hetsim.errors import UsageError, nearest
from hetsim.hardware.price import Price
from hetsim.hardware.spec import Platform
from hetsim.simulation.service.replicas import seconds_of_any, used_by
from hetsim.simulation.service.service import Service

WHOLE = "platform"
"""Key of the whole platform among given prices."""

JOULES_A_KWH = 3.6e6
SECONDS_AN_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class ServicePrices:
    """Prices given by the user.

    `of` has them by name or pattern of devices, or ``platform``; for a catalog, by kind or pattern
    of kinds. They override prices in files; the last match wins. `depreciation_years` are those of
    all hardware; absent: those of each price.
    """

    of: Mapping[str, Price] = field(default_factory=dict, hash=False)
    tariff_usd_per_kwh: float | None = None
    depreciation_years: float | None = None


@dataclass(frozen=True, slots=True)
class Charge:
    """Cost of one device, or of the whole platform, over a run.

    `hourly_usd` is None if its depreciation period is unknown. `energy_j` is paid separately, 0 if
    rented. `rented_s` are the seconds that are paid for: for a rented device used only by
    autoscaled replicas, those with a living replica; otherwise the whole run.
    """

    name: str
    price: Price
    hourly_usd: float | None
    energy_j: float
    rented_s: float


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of a run, and the devices whose cost is unknown.

    Those `unpriced` have no price, those `unspread` no depreciation period. `hardware_usd` is None
    if part of it is unknown; `electricity_usd` is 0 if all is rented, None if the tariff is
    unknown. `on_time` requests were answered in time over the run.
    """

    charges: tuple[Charge, ...]
    unpriced: tuple[str, ...]
    unspread: tuple[str, ...]
    tariff_usd_per_kwh: float | None
    hardware_usd: float | None
    electricity_usd: float | None
    on_time: int

    @property
    def usd(self) -> float | None:
        """Cost of the run for hardware and electricity; None if either is unknown."""
        if self.hardware_usd is None or self.electricity_usd is None:
            return None
        return self.hardware_usd + self.electricity_usd

    def per_1000(self, usd: float | None) -> float | None:
        """Return these dollars per thousand requests on time; None without any."""
        return None if usd is None or not self.on_time else 1000 * usd / self.on_time


def priced(platform: Platform, prices: ServicePrices) -> Platform:
    """Return the platform with the given prices.

    Raises UsageError if a price matches nothing of the platform, or if both the platform and one
    of its devices have a price.
    """
    devices = dict(platform.devices)
    # A platform's own price would hide those of its devices.
    whole = None if prices.of else platform.price
    if WHOLE in prices.of and len(prices.of) > 1:
        raise UsageError(
            "a price of the platform counts for all its devices, and devices have prices, too",
            hint=f"leave out the price of {WHOLE}, or those of devices",
        )
    for pattern, price in prices.of.items():
        if pattern == WHOLE:
            whole = price
            continue
        fits = [name for name in devices if fnmatchcase(name, pattern)]
        if not fits:
            raise UsageError(
                f"a price for '{pattern}', which the platform does not have",
                hint=nearest(pattern, [WHOLE, *devices]),
            )
        for name in fits:
            devices[name] = replace(devices[name], price=price)
    return replace(platform, devices=devices, price=whole)


def cost_of(service: Service, platform: Platform, prices: ServicePrices | None = None) -> Cost:
    """Return the cost of a run on `platform`, for its duration.

    A platform's own price covers all its devices; otherwise the device prices add up, used or not.
    Purchased hardware costs the same every hour of its depreciation period, plus electricity, idle
    or busy, at the tariff; rent includes electricity. A rented device used only by autoscaled
    replicas is paid for while one of them starts, runs or stops there.

    Raises UsageError if a price matches nothing of the platform.
    """
    prices = ServicePrices() if prices is None else prices
    platform = priced(platform, prices)
    if platform.price is not None:
        stated: dict[str, Price | None] = {WHOLE: platform.price}
        energy = {WHOLE: service.energy_j}
    else:
        stated = {name: spec.price for name, spec in platform.devices.items()}
        energy = {name: use.energy_j for name, use in service.devices.items()}
    rented_s = _rented_s(service)
    charges = tuple(
        Charge(
            name,
            price,
            price.hourly_usd(prices.depreciation_years),
            0.0 if price.rented else energy[name],
            rented_s.get(name, service.duration_s) if price.rented else service.duration_s,
        )
        for name, price in stated.items()
        if price is not None
    )
    unpriced = tuple(name for name, price in stated.items() if price is None)
    unspread = tuple(one.name for one in charges if one.hourly_usd is None)
    hardware = electricity = None
    hourly = [(one.hourly_usd, one.rented_s) for one in charges if one.hourly_usd is not None]
    if not unpriced and not unspread:
        if all(seconds == service.duration_s for _, seconds in hourly):
            hardware = sum(usd for usd, _ in hourly) * service.duration_s / SECONDS_AN_HOUR
        else:
            hardware = sum(usd * seconds for usd, seconds in hourly) / SECONDS_AN_HOUR
    joules = sum(one.energy_j for one in charges)
    if joules == 0 and not unpriced:
        electricity = 0.0
    elif prices.tariff_usd_per_kwh is not None and not unpriced:
        electricity = joules / JOULES_A_KWH * prices.tariff_usd_per_kwh
    return Cost(
        charges,
        unpriced,
        unspread,
        prices.tariff_usd_per_kwh,
        hardware,
        electricity,
        service.on_time,
    )


def _rented_s(service: Service) -> dict[str, float]:
    """Return by name the seconds for which devices used only by autoscaled replicas are needed."""
    always, found = set(), dict[str, list[tuple[float, float]]]()
    scaled = {one.model: one for one in service.scaled}
    for one in service.resolved:
        problem = one.problem
        if problem.host is not None:
            always.add(problem.devices[problem.host])
        if one.served.model not in scaled:
            always.update(name for names in used_by(one) for name in names)
            continue
        names = used_by(one)
        for each in names:
            for name in each:
                found.setdefault(name, [])
        for replica in scaled[one.served.model].lived:
            for name in names[replica.instance]:
                found[name].append((replica.start_s, replica.gone_s))
    return {name: seconds_of_any(each) for name, each in found.items() if name not in always}
