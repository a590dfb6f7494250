"""Price lists of the catalog: their schema, and the offers in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from pydantic import Field, StrictStr, model_validator

from hetsim.hardware.files.catalog_files import catalog_folder, find, names
from hetsim.hardware.files.schema import (
    Matching,
    Name,
    OneOf,
    Positive,
    Strict,
    Text,
    parse_file,
    refusal,
)
from hetsim.hardware.files.yaml_source import read_yaml
from hetsim.hardware.price import CHECKED, OFFER_KINDS, Offer

Month = Annotated[
    StrictStr,
    Matching("a month", r"20[0-9][0-9]-(0[1-9]|1[0-2])", "write the year and the month: 2024-06"),
]
Page = Annotated[StrictStr, Matching("a page", r"https?://[^ ]+", "write the address of the page")]


class OfferModel(Strict):
    """An offer: a product for sale, or a machine for rent."""

    name: Name
    """Platform or device of the catalog that it buys."""
    covers: tuple[Name, ...] = ()
    """Devices of the catalog that are part of the product."""
    usd: Positive | None = None
    """Purchase price in US dollars."""
    usd_per_hour: Positive | None = None
    """Rent with electricity: US dollars an hour."""
    machine: Text | None = None
    """Of rent: the provider's name of the machine, the region and the terms."""
    what: Text
    """The product as sold."""
    month: Month
    """Of the price, e.g. 2024-06."""
    kind: Annotated[StrictStr, OneOf("kind of price", OFFER_KINDS)]
    """Price at launch, of a list, of a retailer, or of a cloud on demand."""
    checked: Annotated[StrictStr, OneOf("check", CHECKED)]
    """Whether the page was read when the price was entered."""
    source: Page
    """Page that states the price."""

    @model_validator(mode="after")
    def _one(self) -> OfferModel:
        if (self.usd is None) == (self.usd_per_hour is None):
            raise refusal(
                "an offer has one of 'usd' and 'usd_per_hour'",
                "write what all or what an hour costs",
            )
        if (self.machine is None) != (self.usd_per_hour is None):
            raise refusal(
                "'machine' is of what is rented, and of all that is",
                "name the machine beside usd_per_hour",
            )
        return self


class PricesModel(Strict):
    """A price list."""

    offers: Annotated[tuple[OfferModel, ...], Field(min_length=1)]
    """The first one of a name is the price of its device or platform in simulations."""


def listed_offers() -> tuple[Offer, ...]:
    """Return the offers of all price lists of the catalog, in the order of files and lines.

    Raises PlatformError where a list is broken: with file and line.
    """
    return _listed(catalog_folder())


@lru_cache(maxsize=4)
def _listed(folder: Path) -> tuple[Offer, ...]:
    read = (read_yaml(*find("prices", name), holds="offers") for name in names("prices"))
    return tuple(
        Offer(**one.model_dump())
        for source in read
        for one in parse_file(PricesModel, source).offers
    )


def offers_by_name() -> Mapping[str, tuple[Offer, ...]]:
    """Return the offers by name of the catalog: those that buy it, then those that cover it."""
    return _by_name(listed_offers())


@lru_cache(maxsize=4)
def _by_name(offers: tuple[Offer, ...]) -> Mapping[str, tuple[Offer, ...]]:
    found: dict[str, list[Offer]] = {}
    for offer in offers:
        found.setdefault(offer.name, []).append(offer)
    for offer in offers:
        for name in offer.covers:
            found.setdefault(name, []).append(offer)
    return {name: tuple(each) for name, each in found.items()}


def sum_of_parts(name: str, parts: Sequence[Sequence[Offer]]) -> Offer | None:
    """Return the offer of a platform whose devices are bought one by one.

    Each device by the first offer that sells it alone; None where one has none. Its month is the
    oldest of theirs, and its source all of theirs.
    """
    chosen = []
    for offers in parts:
        sold = next((one for one in offers if one.usd is not None), None)
        if sold is None:
            return None
        chosen.append(sold)
    each = dict.fromkeys(chosen)
    counts = {one: chosen.count(one) for one in each}
    return Offer(
        name,
        (),
        " + ".join(f"{counts[one]} x {one.what}" if counts[one] > 1 else one.what for one in each),
        min(one.month for one in each),
        "parts",
        "page" if all(one.checked == "page" for one in each) else "no",
        " ".join(dict.fromkeys(one.source for one in each)),
        usd=sum(one.usd or 0.0 for one in chosen),
    )
