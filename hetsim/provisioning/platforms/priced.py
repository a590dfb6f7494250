"""Catalog of priced offers: boards and machines for sale, cards in a host, machines for rent."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

from hetsim.errors import UsageError, nearest
from hetsim.hardware.catalog import (
    device_names,
    load_device,
    load_platform,
    offers,
    platform_names,
)
from hetsim.hardware.files.inventory import (
    BOARD_LINK,
    MACHINE_LINK,
    MACHINE_W,
    Catalog,
    InventoryEntry,
    network_link,
)
from hetsim.hardware.files.prices_schema import listed_offers
from hetsim.hardware.price import Offer, Price
from hetsim.hardware.spec import DeviceSpec
from hetsim.provisioning.platforms.question import Aim
from hetsim.simulation.service.cost import ServicePrices

LIFETIME_YEARS = 3.0
"""Depreciation period of purchased hardware if none is given."""

TARIFF_USD_PER_KWH = 0.127
TARIFF_OF = "US average of all sectors, 2023"
TARIFF_SOURCE = "https://www.eia.gov/electricity/annual/secrev-map.php"
"""Source of the default electricity price: Electric Power Annual of the EIA, October 2024."""

HOST_PARTS_USD = 600.0
HOST_PARTS = "board, 32 GiB of memory, disk, case and power supply of a host: assumed"
"""Further parts that turn a processor sold alone into a machine: an assumption."""

CARD_LINK = "pcie4-x16"


class PricedOffer(NamedTuple):
    """Kind of the priced catalog: its offer, and the host of a card."""

    offer: Offer
    host: Offer | None = None

    @property
    def rented(self) -> bool:
        """Whether it is paid by the hour."""
        return self.offer.usd_per_hour is not None

    @property
    def month(self) -> str:
        """Month of its price: the oldest."""
        return min(one.month for one in (self.offer, self.host) if one is not None)

    @property
    def what(self) -> str:
        """Product as sold, or the rented machine."""
        product = self.offer.machine or self.offer.what
        return product if self.host is None else f"{product}, in a host with {self.host.what}"


Standing = Literal["meets", "misses", "slow", "refused", "many", "weak", "dearer", "open"]
"""Status of a kind alone: see ``SingleKind``."""


@dataclass(frozen=True, slots=True)
class SingleKind:
    """Kind alone as the answer to a rate.

    It costs `hourly_usd` per hour with depreciation and electricity, and `usd` to buy, None for
    rent. By the bound at least `least` copies are needed; `copies` meet; `figure` of a slow kind is
    the shortest latency of a request in seconds. Its `standing` is

    - "meets" with `copies` in simulation; "misses" in simulation with any number that was played;
    - "slow": no plan answers one request in time; "refused": no device runs the model;
    - "many": more copies are needed than allowed; "weak": by the bound the copies needed cost no
      less than the answer; "dearer": one costs no less than the answer, so it was not priced;
    - "open": the time was over before.
    """

    kind: str
    hourly_usd: float
    usd: float | None
    standing: Standing
    least: int | None = None
    copies: int | None = None
    figure: float | None = None


class KindMix(NamedTuple):
    """Mix that meets in simulation.

    `usd` is the purchase price, None if all is rented; `latency_s` that of the objective nearest to
    its limit, at its `percentile`; `utilization` the rate over the bound on its sustained rate
    within the limit.
    """

    label: str
    counts: Mapping[str, int]
    usd: float | None
    hourly_usd: float
    percentile: float
    latency_s: float
    utilization: float


@dataclass(frozen=True, slots=True)
class Purchase:
    """Purchase or rent: the part of a recommendation for one model at a rate.

    `had` is the offer of each kind, empty for a catalog file; `singles` are all kinds, cheapest
    first; `unpriced` is hardware without a price. No mix that meets costs less than
    `least_hourly_usd` per hour.

    Of priced kinds `cheaper` mixes cost less than the answer, None: too many to count; of these
    `missed` miss by every simulated policy, and `left_open` were not decided: among them `unplayed`
    are the first neither excluded nor simulated at the time limit. `complete`: none is open.
    `choices` are the best, the next best, and the cheapest bought and rented, cheapest first.
    `seconds` are wall-clock time.
    """

    had: Mapping[str, PricedOffer]
    singles: tuple[SingleKind, ...]
    unpriced: tuple[str, ...]
    lifetime_years: float
    tariff_usd_per_kwh: float
    least_hourly_usd: float
    cheaper: int | None
    missed: int
    unplayed: tuple[Mapping[str, int], ...]
    left_open: int
    choices: tuple[KindMix, ...]
    complete: bool
    seconds: float

    @property
    def proved(self) -> int | None:
        """Number of cheaper mixes excluded by bounds; None: too many to count."""
        return None if self.cheaper is None else self.cheaper - self.missed - self.left_open


@dataclass(frozen=True, slots=True)
class PricedCatalog:
    """Kinds that can be bought or rented, with the cheapest offer of each.

    `had` is by kind; the `unpriced` devices and platforms have no usable offer.
    """

    catalog: Catalog
    had: Mapping[str, PricedOffer]
    unpriced: tuple[str, ...] = ()


def priced_catalog(only: Sequence[str] = ()) -> PricedCatalog:
    """Return the catalog of dated price lists; `only` restricts it to hardware or machines by name.

    - A platform for sale, or a device that is sold as a board: a node, behind 1 Gbit/s Ethernet.
      From ``MACHINE_W`` on it is a machine, behind 10 Gbit/s.
    - A card for sale stands in a host of its own: the cheapest processor that is sold alone, with
      ``HOST_PARTS_USD`` for the rest of the machine.
    - A machine for rent: a node behind 10 Gbit/s. Of a device its processor is not counted.
    - Of several offers of the same hardware the cheapest for sale and the cheapest for rent.

    Raises UsageError if a name of `only` is not in the catalog or has no price, and PlatformError
    if a price list is invalid.
    """
    found = _every()
    if not only:
        return found
    chosen: dict[str, InventoryEntry] = {}
    for name in only:
        mine = [
            one for one in found.catalog.kinds if name in (one.name, found.had[one.name].offer.name)
        ]
        if not mine:
            every = [*platform_names(), *device_names()]
            if name in every:
                hint = "give it a price in a catalog file, or leave it out"
                wholes = {kind: way.offer.name for kind, way in found.had.items()}
                platforms = {kind: one for kind, one in wholes.items() if one in platform_names()}
                around = [kind for kind, one in platforms.items() if name in _parts(one)]
                if around:
                    hint = f"write {' or '.join(around)}, of which it is a part"
                raise UsageError(f"'{name}' has no price of its own in the catalog", hint=hint)
            known = [*(one.name for one in found.catalog.kinds), *every]
            raise UsageError(f"no hardware or machine '{name}'", hint=nearest(name, known))
        chosen |= {one.name: one for one in mine}
    kinds = tuple(chosen.values())
    had = {one.name: found.had[one.name] for one in kinds}
    return PricedCatalog(replace(found.catalog, kinds=kinds, source=",".join(only)), had)


def _every() -> PricedCatalog:
    platforms, devices = platform_names(), device_names()
    listed = listed_offers()
    host = _host(listed)
    cheapest: dict[tuple[str, bool], Offer] = {}
    parts = [one for name in platforms for one in offers(name) if one.kind == "parts"]
    # A rented machine that the catalog has as a platform is that platform.
    whole = {one.machine for one in listed if one.name in platforms}
    for one in (*listed, *parts):
        if one.machine is not None and one.machine in whole and one.name not in platforms:
            continue
        key = (one.name, one.usd is None)
        if key not in cheapest or _amount(one) < _amount(cheapest[key]):
            cheapest[key] = one
    kinds: list[InventoryEntry] = []
    had: dict[str, PricedOffer] = {}
    for one in cheapest.values():
        entry, way = _entry(one, platforms, host)
        if entry is not None:
            if entry.name in had:
                entry = replace(entry, name=f"{entry.name}-{one.name}")
            kinds.append(entry)
            had[entry.name] = way
    there = {way.offer.name for way in had.values()}
    covered = {name for way in had.values() for name in way.offer.covers}
    # A platform composed of a host and a card is that card in its host.
    pairs = {frozenset(_parts(one.name)) for one in parts}
    kinds = [one for one in kinds if not one.host or frozenset({one.host, one.source}) not in pairs]
    within = {name for one in there & set(platforms) for name in _parts(one)}
    unpriced = tuple(
        name for name in (*platforms, *devices) if name not in there | covered | within
    )
    source = "priced offers of the catalog"
    return PricedCatalog(Catalog(tuple(kinds), folder=Path(), source=source), had, unpriced)


@lru_cache(maxsize=1 << 8)
def _specs(platform: str) -> tuple[DeviceSpec, ...]:
    """Return the devices of a platform of the catalog."""
    return tuple(load_platform(platform).devices.values())


def _parts(platform: str) -> list[str]:
    return [spec.name for spec in _specs(platform)]


def _amount(offer: Offer) -> float:
    return offer.usd_per_hour if offer.usd_per_hour is not None else offer.usd or 0.0


def _host(listed: Sequence[Offer]) -> Offer | None:
    """Return the cheapest processor that is sold alone, or None."""
    alone = [one for one in listed if _is_processor(one)]
    return min(alone, key=_amount, default=None)


def _is_processor(offer: Offer) -> bool:
    if offer.usd is None or offer.covers or offer.name not in device_names():
        return False
    spec = load_device(offer.name)
    return spec.kind == "cpu" and spec.busy_w >= MACHINE_W


def _entry(
    offer: Offer, platforms: Sequence[str], host: Offer | None
) -> tuple[InventoryEntry | None, PricedOffer]:
    """Return the kind of an offer with its host; None if it cannot be used."""
    if offer.usd_per_hour is not None:
        name = machine_name(offer.machine or offer.name)
        price = Price(usd_per_hour=offer.usd_per_hour, of=offer.month, source=offer.source)
        return InventoryEntry(name, offer.name, {"link": MACHINE_LINK}, price=price), PricedOffer(
            offer
        )
    price = Price(usd=offer.usd, of=offer.month, source=offer.source)
    link, bare, stands_in = MACHINE_LINK, False, None
    if offer.name in platforms:
        link = network_link(_specs(offer.name))
        bare = link == MACHINE_LINK and offer.kind == "parts"
    elif _is_processor(offer):
        bare = True
    elif load_device(offer.name).kind == "cpu" or offer.covers:
        link = BOARD_LINK
    elif host is None:
        return None, PricedOffer(offer)
    else:
        stands_in, bare = host, True
        both = f"{offer.source} {host.source} {HOST_PARTS}"
        usd = (offer.usd or 0.0) + (host.usd or 0.0)
        price = Price(usd=usd, of=min(offer.month, host.month), source=both)
    if bare:
        price = replace(price, usd=(price.usd or 0.0) + HOST_PARTS_USD)
    entry = InventoryEntry(offer.name, offer.name, {"link": link}, price=price)
    if stands_in is not None:
        entry = replace(entry, host=stands_in.name, inside=CARD_LINK)
    return entry, PricedOffer(offer, stands_in)


def with_listed_prices(
    catalog: Catalog, terms: ServicePrices, aim: Aim
) -> tuple[Catalog, ServicePrices]:
    """Return the catalog with listed prices, and the default tariff, where none are given.

    A kind without a price gets its cheapest listed purchase, depreciated over ``LIFETIME_YEARS``,
    else its cheapest rent. A catalog file is unchanged, as is one for another aim than cost.
    """
    if aim != "cost" or catalog.sha256:
        return catalog, terms
    kinds = []
    for kind in catalog.kinds:
        listed = [one.price for one in offers(kind.source)]
        best = min(listed, key=lambda one: (one.rented, one.usd or one.usd_per_hour), default=None)
        if best is not None and not best.rented:
            best = replace(best, years=LIFETIME_YEARS)
        kinds.append(replace(kind, price=kind.price or best))
    if terms.tariff_usd_per_kwh is None:
        terms = replace(terms, tariff_usd_per_kwh=TARIFF_USD_PER_KWH)
    return replace(catalog, kinds=tuple(kinds)), terms


def machine_name(machine: str) -> str:
    """Return the kind name of a machine: ``aws-g4dn.xlarge`` of ``AWS g4dn.xlarge, us-east-1``.

    >>> machine_name("Lambda 1x H100 SXM, on demand")
    'lambda-1x-h100-sxm'
    """
    return re.sub(r"[^a-z0-9_.]+", "-", machine.partition(",")[0].lower()).strip("-")
