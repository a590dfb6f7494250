"""Schema of link and platform files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    StrictBool,
    StrictStr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from hetsim.hardware.files.catalog_files import Sort
from hetsim.hardware.files.device_schema import DeviceModel, PriceModel
from hetsim.hardware.files.kernels_schema import FittedModel, KinModel, Precision
from hetsim.hardware.files.prices_schema import PricesModel
from hetsim.hardware.files.schema import (
    Figure,
    FractionFigure,
    Name,
    NotNegativeFigure,
    Positive,
    PositiveFigure,
    Strict,
    Text,
    refusal,
    refusals,
    spread,
)

TABLES = ("peak_tflops", "efficiency", "execution_dtype")
"""Keys of a device that overrides change entry by entry; all others they change whole."""


class LinkModel(Strict):
    """Link file: bandwidth of one direction, and the share of it that transfers reach."""

    full_name: Text
    """What people call it."""
    latency_us: NotNegativeFigure
    """Of one transfer, in microseconds."""
    bandwidth_gbytes_s: PositiveFigure
    """Of one direction, in 1e9 bytes/s."""
    efficiency: FractionFigure
    """Fraction of the bandwidth that a transfer reaches."""
    duplex: StrictBool = True
    """Whether both directions carry a transfer at the same time."""
    sd: Positive | None = None
    """Standard deviation of the logarithm of the factor that transfers are off by."""


def _two_ends(ends: Any) -> Any:
    if not isinstance(ends, list) or len(ends) != 2:
        raise refusal("'between' must name two devices", "write between: [cpu, gpu]")
    return ends


class LinkUse(Strict):
    """Entry of a platform's ``links:``: a link of the catalog, own figures, or both."""

    between: Annotated[tuple[StrictStr, StrictStr], BeforeValidator(_two_ends)]
    """The two devices that it joins."""
    name: Name | None = None
    """Unique in the platform; absent: made of the two devices."""
    link: Text | None = None
    """Link of the catalog, or a path; what stands beside it goes before it."""
    latency_us: NotNegativeFigure | None = Field(default=None, validate_default=True)
    """Of one transfer, in microseconds."""
    bandwidth_gbytes_s: PositiveFigure | None = Field(default=None, validate_default=True)
    """Of one direction, in 1e9 bytes/s."""
    efficiency: FractionFigure | None = None
    """Fraction of the bandwidth that a transfer reaches."""
    duplex: StrictBool | None = None
    """Whether both directions carry a transfer at the same time."""
    sd: Positive | None = None
    """Standard deviation of the logarithm of the factor that transfers are off by."""
    bus: Name | None = None
    """Links of one bus carry one transfer at a time together."""

    @field_validator("latency_us", "bandwidth_gbytes_s")
    @classmethod
    def _stated(cls, figure: Figure[float] | None, info: ValidationInfo) -> Figure[float] | None:
        if figure is None and "link" in info.data and info.data["link"] is None:
            key = info.field_name
            what, hint = (
                f"missing key '{key}'",
                (f"add '{key}: ...', or 'link: NAME' from the catalog"),
            )
            raise refusals([(what, hint, ())], "hetsim_missing")
        return figure


def _name_or_description(device: Any) -> Any:
    if not isinstance(device, str | Mapping):
        raise refusal("KEY must be a name, a path or a mapping", "write device: NAME")
    return device


class DeviceUse(Strict):
    """Entry of a platform's ``devices:``: a name, a path or a description, and changes."""

    device: Annotated[Any, BeforeValidator(_name_or_description)]
    overrides: dict[str, Any] = Field(default_factory=dict)
    execute: Precision | None = None
    """What float models are priced in as if: int8 for quantized."""
    runtime: Text | None = None
    """The runtime whose figures are taken."""

    @model_validator(mode="before")
    @classmethod
    def _named(cls, entry: Any) -> Any:
        if isinstance(entry, str):
            return {"device": entry}
        if not isinstance(entry, Mapping):
            raise refusal(
                "KEY must be a name, a path or a mapping", ("write a name from the catalog")
            )
        if "device" not in entry and entry.keys() & DeviceModel.model_fields:
            raise refusal("KEY describes a device outside 'device:'", "write {device: {kind: ...}}")
        return entry


class MemoryUse(Strict):
    """Entry of a platform's ``memories:``: memory that several devices share."""

    devices: Annotated[tuple[StrictStr, ...], Field(min_length=2)]
    """Those that draw on it; each device is in one at most."""
    bandwidth_gbytes_s: PositiveFigure
    """Peak of all of them together, in 1e9 bytes/s."""


class PlatformModel(Strict):
    """A platform file."""

    name: Name | None = None
    """Name of the platform; absent: that of the file."""
    full_name: Text | None = None
    """What people call it."""
    host: StrictStr
    """The device on which inputs start and outputs end."""
    power_w: PositiveFigure | None = None
    """What all devices together may draw for long, in watts."""
    devices: Annotated[dict[Name, DeviceUse], Field(min_length=1)]
    """By the name that plans use: a device of the catalog, a path, or a mapping."""
    links: tuple[LinkUse, ...] = ()
    """How the devices are joined."""
    memories: tuple[MemoryUse, ...] = ()
    """What several devices draw on together."""
    price: PriceModel | None = None
    """Of all of it, in the place of those of its devices."""


def overridden(base: DeviceModel, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the device file `base` with the overrides `changes`."""
    merged: dict[str, Any] = dict(base.model_dump(by_alias=True, exclude_none=True))
    for key, change in changes.items():
        table = spread(change)
        if isinstance(table, Mapping) and key in TABLES:
            merged[key] = {**merged[key], **table}
        else:
            merged[key] = change
    return merged


MODELS: Mapping[Sort, type[BaseModel]] = {
    "device": DeviceModel,
    "link": LinkModel,
    "platform": PlatformModel,
    "fitted": FittedModel,
    "kin": KinModel,
    "prices": PricesModel,
}
"""What each sort of file may say."""
