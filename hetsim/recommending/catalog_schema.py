"""What a catalog file may say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import (
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    StrictBool,
    StrictInt,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from hetsim.hardware.files.figures import (
    FractionFigure,
    Name,
    NotNegativeFigure,
    PositiveFigure,
    Strict,
    Text,
    refusal,
)
from hetsim.hardware.files.price_schema import PriceModel
from hetsim.recommending.catalog import Entry, HostEntry

MOST = 1024
"""More of one kind than anything is found for."""

Many = Annotated[StrictInt, Field(ge=1, le=MOST)]


class CatalogLinkModel(Strict):
    """What joins a kind to its host: a link of the catalog, own figures, or both."""

    link: Text | None = None
    latency_us: NotNegativeFigure | None = None
    bandwidth_gbytes_s: PositiveFigure | None = None
    efficiency: FractionFigure | None = None
    duplex: StrictBool | None = None

    @model_validator(mode="before")
    @classmethod
    def _named(cls, given: Any) -> Any:
        return {"link": given} if isinstance(given, str) else given

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        full = dict(handler.resolve_ref_schema(handler(schema)))
        return {"anyOf": [{"type": "string", "description": "A link of the catalog."}, full]}

    @model_validator(mode="after")
    def _whole(self) -> CatalogLinkModel:
        if self.link is None and (self.latency_us is None or self.bandwidth_gbytes_s is None):
            raise refusal(
                "KEY names no link, and lacks figures",
                "write link: NAME of the catalog, or latency_us and bandwidth_gbytes_s",
            )
        return self


def _link(given: Any) -> Any:
    if given is not None and not isinstance(given, str | Mapping):
        raise refusal("KEY must be a name or a mapping", "write link: pcie4-x16")
    return given


class KindModel(Strict):
    """One entry of ``kinds:``: a device on a link, or a platform as a node."""

    device: Text | None = None
    """A device of the catalog, or the path of its file, in a slot of a host."""
    platform: Text | None = None
    """A platform of the catalog, or the path of its file, as a node of its own."""
    link: Annotated[CatalogLinkModel | None, BeforeValidator(_link)] = None
    """What joins it to its host; of a node, absent: requests come to it at no cost."""
    most: Many | None = None
    """How many there are; absent: any number."""
    price: PriceModel | None = None
    """What one costs; absent: what its file says."""

    @model_validator(mode="after")
    def _one(self) -> KindModel:
        if (self.device is None) == (self.platform is None):
            has = "neither" if self.device is None else "both"
            raise refusal(f"KEY has {has} of 'device' and 'platform'", "write one of them")
        if self.device is not None and self.link is None:
            raise refusal(
                "KEY has a device without a link",
                "write link: NAME, or platform: in the place of device: for a node of its own",
            )
        return self

    def to_record(self, name: str, link: Mapping[str, Any]) -> Entry:
        """Return the record; `link` as the file has it."""
        return Entry(
            name,
            self.device or self.platform or "",
            link,
            self.device is not None,
            self.most,
            None if self.price is None else self.price.to_price(),
        )


class HostModel(Strict):
    """One entry of ``hosts:``."""

    platform: Text
    """A platform of the catalog, or the path of its file."""
    slots: Many
    """How many devices it takes."""
    price: PriceModel | None = None
    """What it costs; absent: what its file says."""

    def to_record(self, name: str) -> HostEntry:
        """Return the record."""
        price = None if self.price is None else self.price.to_price()
        return HostEntry(name, self.platform, self.slots, price)


class CatalogModel(Strict):
    """A catalog file."""

    kinds: Annotated[dict[Name, KindModel], Field(min_length=1)]
    """What can be had, by name: devices in slots of a host, boards as nodes."""
    hosts: dict[Name, HostModel] = Field(default_factory=dict)
    """Platforms in which devices stand; one of them is chosen where a device is."""

    @model_validator(mode="after")
    def _hosted(self) -> CatalogModel:
        for name in self.hosts:
            if name in self.kinds:
                raise refusal(f"KEY has a kind and a host called '{name}'", "rename one")
        for name, kind in self.kinds.items():
            if kind.device is not None and not self.hosts:
                raise refusal(
                    f"'{name}' is a device on a link, and there is no host",
                    "write hosts:, or platform: in the place of device:",
                )
        return self
