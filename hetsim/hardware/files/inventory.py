"""Catalog of available hardware: kinds of devices and boards, hosts, prices; its files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
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

from hetsim.core.checks import path, takes
from hetsim.core.files import sha256_of
from hetsim.errors import InvalidInput, PlatformError
from hetsim.hardware.files.catalog_files import Sort, find, is_path, names
from hetsim.hardware.files.device_schema import PriceModel
from hetsim.hardware.files.json_schema import definitions_of, document
from hetsim.hardware.files.reader import read_platform
from hetsim.hardware.files.schema import (
    FractionFigure,
    Name,
    NotNegativeFigure,
    PositiveFigure,
    Strict,
    Text,
    broken,
    parse,
    refusal,
)
from hetsim.hardware.files.yaml_source import Complaint, YamlFile, read_yaml
from hetsim.hardware.price import Price
from hetsim.hardware.spec import DeviceSpec

BOARD_LINK, MACHINE_LINK = "eth1", "eth10"
MACHINE_W = 60.0
"""Devices that draw this much or more together are a machine, less is a board."""

MOST_KINDS = 64
"""Kinds and hosts that a catalog file may have."""


@dataclass(frozen=True, slots=True)
class InventoryEntry:
    """One kind of hardware, available `most` times.

    Its devices are called after its `name`: ``l4.0``, ``l4.1``; of a board ``rock-npu.0``. `source`
    names what the catalog of hardware has, or a path: a device in a slot of a host where `on_link`,
    else a platform, of which each is a node of its own. `link` is what joins it to its host, as an
    entry of ``links:`` of a platform without ends; empty where requests come at no cost. A card
    whose own `host` is a device stands in it by the link `inside`, both together a node. A platform
    with `slots` is a host for so many devices on a link.
    """

    name: str
    source: str
    link: Mapping[str, Any] = field(default_factory=dict, hash=False)
    on_link: bool = False
    most: int | None = None
    price: Price | None = None
    host: str = ""
    inside: str = ""
    slots: int = 0


@dataclass(frozen=True, slots=True)
class Catalog:
    """Available hardware.

    One of the `hosts` is chosen where a device on a link is; none otherwise. Paths start from
    `folder`; `source` is the file as the user gave it, with its `sha256`; of names there is no
    digest.
    """

    kinds: tuple[InventoryEntry, ...]
    hosts: tuple[InventoryEntry, ...] = ()
    folder: Path = Path()
    source: str = ""
    sha256: str = ""

    def __post_init__(self) -> None:
        names = [*(one.name for one in self.kinds), *(one.name for one in self.hosts)]
        for name in names:
            if names.count(name) > 1:
                raise PlatformError(f"two kinds are called '{name}'", hint="rename one")


# What a file may say

MOST = 1024
"""More of one kind than anything is found for."""

Many = Annotated[StrictInt, Field(ge=1, le=MOST)]


class CatalogLinkModel(Strict):
    """Link of a kind to its host: a link of the catalog, own figures, or both."""

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
                "write link: NAME, or platform: instead of device: for a node of its own",
            )
        return self

    def to_record(self, name: str, link: Mapping[str, Any]) -> InventoryEntry:
        """Record of it; `link` as the file has it."""
        return InventoryEntry(
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

    def to_record(self, name: str) -> InventoryEntry:
        """Record of it."""
        price = None if self.price is None else self.price.to_price()
        return InventoryEntry(name, self.platform, most=1, price=price, slots=self.slots)


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
                    "write hosts:, or platform: instead of device:",
                )
        return self


# Files read


@takes(source=path)
def load_catalog(source: str | os.PathLike[str]) -> Catalog:
    """Available hardware of a YAML file, or of names with commas between them.

    A name is that of a platform or a device of the catalog of hardware, or the path of its file:
    each a node of its own, of which there is any number, behind 1 Gbit/s Ethernet; behind 10 Gbit/s
    from ``MACHINE_W`` on. Paths in a file start from its folder.

    Raises PlatformError where something in it is wrong or not there, with file, line and what to
    do.
    """
    given = os.fspath(source)
    each = [part.strip() for part in given.split(",")]
    if len(each) == 1 and is_path(given):
        read = read_yaml(Path(given), given, holds="available hardware")
        if read.data.keys() & {"kinds", "hosts"}:
            return _of_file(read, given)
    kinds = []
    for one in each:
        path, shown = find("device" if one in names("device") else "platform", one)
        devices = read_platform(path, shown, one).devices.values()
        name = Path(one).stem if is_path(one) else one
        kinds.append(InventoryEntry(name, one, {"link": network_link(devices)}))
    _check_few(len(kinds))
    return Catalog(tuple(kinds), source=given)


def network_link(devices: Iterable[DeviceSpec]) -> str:
    """Link by which requests reach a node of these devices."""
    return MACHINE_LINK if sum(one.busy_w for one in devices) >= MACHINE_W else BOARD_LINK


def _check_few(kinds: int) -> None:
    if kinds > MOST_KINDS:
        raise PlatformError(f"{kinds} kinds, above {MOST_KINDS}", hint="write fewer")


def _of_file(source: YamlFile, given: str) -> Catalog:
    model, complaints = parse(CatalogModel, source, source.data)
    folder = source.path.parent
    parts: tuple[tuple[str, Sort], ...] = (
        ("kinds", "device"),
        ("kinds", "platform"),
        ("hosts", "platform"),
        ("kinds", "link"),
    )
    for part, key in parts:
        for name, entry in source.entries(part).items():
            named = entry.get(key) if isinstance(entry, Mapping) else None
            if key == "link" and isinstance(named, Mapping):
                named = named.get("link")
            if isinstance(named, str):
                complaints += _found(source, (part, name, key), named, key, folder)
    wrong = broken(source, complaints)
    if wrong is not None:
        raise wrong.whole
    assert model is not None
    links = {name: entry.get("link", {}) for name, entry in source.entries("kinds").items()}
    links |= {name: {"link": one} for name, one in links.items() if isinstance(one, str)}
    try:
        _check_few(len(model.kinds) + len(model.hosts))
        return Catalog(
            tuple(
                one.to_record(name, dict(links[name] or {})) for name, one in model.kinds.items()
            ),
            tuple(one.to_record(name) for name, one in model.hosts.items()),
            folder,
            given,
            sha256_of(source.path),
        )
    except InvalidInput as error:
        raise source.error(("kinds",), error.what, error.hint) from None


def _found(
    source: YamlFile, at: tuple[str, ...], given: str, key: Sort, folder: Path
) -> list[Complaint]:
    """What is wrong with a name or path in a file."""
    try:
        find("device" if key == "platform" and given in names("device") else key, given, folder)
    except PlatformError as error:
        return [source.complaint(at, error)]
    return []


def catalog_schema() -> dict[str, Any]:
    """JSON Schema, draft 2020-12, of a catalog file."""
    title = "hetsim catalog of available hardware"
    return document(title, definitions_of(CatalogModel), CatalogModel)
