"""Reader of device, link and platform files: parsed, checked, converted to records."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from hetsim.core.files import sha256_of
from hetsim.core.units import GIGA, MICRO, in_si
from hetsim.errors import PlatformError, UsageError, nearest
from hetsim.hardware.files.catalog_files import (
    Sort,
    find,
    fitted_beside,
    in_catalog,
    kin_file,
)
from hetsim.hardware.files.device_schema import DeviceModel
from hetsim.hardware.files.kernels_schema import FittedModel, KinModel, MeasuredModel
from hetsim.hardware.files.platform_schema import (
    DeviceUse,
    LinkModel,
    LinkUse,
    PlatformModel,
    overridden,
)
from hetsim.hardware.files.prices_schema import offers_by_name
from hetsim.hardware.files.runtimes import by_runtime
from hetsim.hardware.files.schema import BrokenFile, broken, parse, read_file
from hetsim.hardware.files.yaml_source import Complaint, YamlFile, YamlPath, read_yaml
from hetsim.hardware.kernel_figures import KernelFigures
from hetsim.hardware.kin import Kin, Limits
from hetsim.hardware.price import Price
from hetsim.hardware.routes import unreached
from hetsim.hardware.spec import DeviceSpec, Link, Platform, SharedMemory
from hetsim.hardware.variants import executing, rescaled

M = TypeVar("M", bound=BaseModel)


def read_description(model: type[M], path: Path, shown: str) -> tuple[M | None, BrokenFile | None]:
    """Read the file at `path` as a `model`: return it, or the file's errors."""
    beside = fitted_beside(path) if model is DeviceModel else None
    if not path.is_file() or not in_catalog(path):
        return _described(model, path, shown, beside)
    stamps = tuple(one.stat().st_mtime_ns for one in (path, beside) if one is not None)
    return _described_once(model, path, shown, beside, stamps)


@lru_cache(maxsize=1 << 9)
def _described_once(
    model: type[M], path: Path, shown: str, beside: Path | None, _: tuple[int, ...]
) -> tuple[M | None, BrokenFile | None]:
    """A file of the catalog, read again only where it or its fitted figures changed."""
    return _described(model, path, shown, beside)


def _described(
    model: type[M], path: Path, shown: str, beside: Path | None
) -> tuple[M | None, BrokenFile | None]:
    read, wrong = read_file(model, path, shown, catalog=in_catalog(path))
    if beside is None:
        return read, wrong
    name = (Path(shown).parent / beside.relative_to(path.resolve().parent)).as_posix()
    fitted, fit_wrong = _read_fitted(beside, name, read)
    if wrong is not None or fit_wrong is not None:
        each = [error for one in (wrong, fit_wrong) if one is not None for error in one.each]
        first = wrong or fit_wrong
        assert first is not None
        return None, BrokenFile(first.whole, tuple(each))
    assert isinstance(read, DeviceModel)
    assert fitted is not None
    runtimes = {
        name: one.model_copy(update={"kernels": {**one.kernels, **fitted.runtimes[name].kernels}})
        if name in fitted.runtimes
        else one
        for name, one in read.runtimes.items()
    }
    kernels = {**read.kernels, **fitted.kernels}
    return read.model_copy(update={"kernels": kernels, "runtimes": runtimes}), None


def _read_fitted(
    path: Path, shown: str, device: BaseModel | None
) -> tuple[FittedModel | None, BrokenFile | None]:
    """Read what was fitted for `device`, which states no figures of the same precisions."""
    try:
        source = read_yaml(path, shown, holds="figures fitted for a device")
    except PlatformError as error:
        return None, BrokenFile(error, (error,))
    fitted, complaints = parse(FittedModel, source, source.data, catalog=True)
    if fitted is not None and isinstance(device, DeviceModel):
        complaints += [
            Complaint(
                source.line(("kernels", precision)),
                f"'kernels.{precision}' is also in devices/{path.name}",
                "keep fitted figures out of hand-written files",
            )
            for precision in fitted.kernels
            if precision in device.kernels
        ]
    wrong = broken(source, complaints)
    return (fitted, None) if wrong is None else (None, wrong)


def _link_complaints(
    source: YamlFile, entries: Sequence[Any], devices: Collection[str]
) -> list[Complaint]:
    """What is wrong with the ends and names of ``links:``, as far as entries can be read."""
    complaints: list[Complaint] = []
    lines: dict[str, int] = {}
    for index, entry in enumerate(entries):
        at: YamlPath = ("links", index)
        ends = entry.get("between") if isinstance(entry, Mapping) else None
        if not isinstance(ends, list) or len(ends) != 2 or {*map(type, ends)} != {str}:
            continue
        for position, end in enumerate(ends):
            if devices and end not in devices:
                line = source.line((*at, "between", position))
                what = f"link to an unknown device '{end}'"
                complaints.append(Complaint(line, what, nearest(end, devices)))
        if ends[0] == ends[1]:
            line = source.line((*at, "between"))
            what = f"link of '{ends[0]}' with itself"
            complaints.append(Complaint(line, what, "name two different devices"))
        name, line = entry.get("name") or "-".join(ends), source.line((*at, "name"))
        if isinstance(name, str):
            if name in lines:
                hint = f"the other is on line {lines[name]}: give each a unique 'name'"
                complaints.append(Complaint(line, f"two links named '{name}'", hint))
            lines.setdefault(name, line)
    return complaints


def _memory_complaints(source: YamlFile, entries: Any, devices: Collection[str]) -> list[Complaint]:
    """What is wrong with the devices of ``memories:``, as far as entries can be read."""
    complaints: list[Complaint] = []
    lines: dict[str, int] = {}
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        named = entry.get("devices") if isinstance(entry, Mapping) else None
        for position, name in enumerate(named if isinstance(named, list) else ()):
            if not isinstance(name, str):
                continue
            line = source.line(("memories", index, "devices", position))
            if devices and name not in devices:
                what = f"memory of an unknown device '{name}'"
                complaints.append(Complaint(line, what, nearest(name, devices)))
            elif name in lines:
                what = f"'{name}' already has a memory, on line {lines[name]}"
                complaints.append(Complaint(line, what, "name each device once"))
            lines.setdefault(name, line)
    return complaints


def read_device(path: Path, shown: str) -> DeviceSpec:
    """Return the device that the file at `path` describes; `shown` is its name in errors."""
    model = _read(DeviceModel, path, shown)
    spec = of_its_kin(model.to_spec(model.name or path.stem), model, path, shown)
    return _with_list_price(_measured_beside(spec, path, shown), path)


def _measured_beside(spec: DeviceSpec, path: Path, shown: str) -> DeviceSpec:
    """Return a device whose measured networks are found beside the file that states them."""
    each = tuple(one.beside(path.parent, shown) for one in spec.measurements)
    return dataclasses.replace(spec, measurements=each)


def _with_list_price(spec: DeviceSpec, path: Path) -> DeviceSpec:
    """Return a device of the catalog with its purchase price, where its file states none."""
    if spec.price is not None or not in_catalog(path):
        return spec
    mine = (one for one in offers_by_name().get(path.stem, ()) if one.name == path.stem)
    return dataclasses.replace(
        spec, price=next((one.price for one in mine if one.usd is not None), None)
    )


def _platform_price(name: str, path: Path) -> Price | None:
    """Return the price of a platform of the catalog: that of its first offer."""
    offers = offers_by_name().get(name, ()) if in_catalog(path) else ()
    return next((one.price for one in offers if one.name == name), None)


def read_link(path: Path, shown: str) -> LinkModel:
    """Return the link that the file at `path` describes; `shown` is its name in errors."""
    return _read(LinkModel, path, shown)


def read_kin(path: Path, shown: str) -> Kin:
    """Return the device family that the file at `path` describes; `shown` is its name in errors."""
    return _read(KinModel, path, shown).to_kin(path.stem)


def of_its_kin(spec: DeviceSpec, model: DeviceModel, path: Path | None, shown: str) -> DeviceSpec:
    """Return the device of `model`, completed by its device family."""

    def completed(
        kernels: Mapping[str, KernelFigures], measured: Mapping[str, MeasuredModel]
    ) -> dict[str, KernelFigures]:
        found = {}
        for precision, figures in kernels.items():
            file = None if path is None else kin_file(path, figures.kin)
            likeness = "" if file is None else sha256_of(file)
            found[precision] = dataclasses.replace(figures, likeness=likeness)
        if path is None or not in_catalog(path):
            for precision, told in measured.items():
                if precision in found:
                    continue
                by_kin = _by_kin(model, precision, told)
                if by_kin is not None:
                    found[precision] = by_kin
        return found

    return dataclasses.replace(
        spec,
        kernels=completed(spec.kernels, model.measured),
        runtimes={
            name: completed(spec.runtimes[name], one.measured)
            for name, one in model.runtimes.items()
        },
    )


def _by_kin(model: DeviceModel, precision: str, told: MeasuredModel) -> KernelFigures | None:
    """Return the figures of a device that nobody measured: those of its kin at its datasheet."""
    name = told.kin
    file, said = find("kin", name)
    kin = read_kin(file, said)
    if kin.by_datasheet is None:
        return None
    of_kin = kin.by_datasheet.precision
    bandwidth = model.memory_bandwidth_gbytes_s.value * GIGA
    limits = Limits.of(model.peak(name, of_kin, told.computes), bandwidth)
    figures = kin.figures(precision, model.datasheet(name, of_kin), limits)
    return dataclasses.replace(figures, likeness=sha256_of(file))


def _read(model: type[M], path: Path, shown: str) -> M:
    read, wrong = read_description(model, path, shown)
    if wrong is not None:
        raise wrong.whole
    assert read is not None
    return read


def read_platform(path: Path, shown: str, given: str) -> Platform:
    """Return the platform that the file at `path` describes."""
    source = read_yaml(path, shown)
    if describes_device(source.data):
        spec = read_device(path, shown)
        lone = alone(spec, given)
        if spec.price is None:
            return dataclasses.replace(lone, price=_platform_price(path.stem, path))
        return lone
    platform, wrong = survey(source, given)
    if platform is None:
        raise wrong[0].whole
    return platform


def describes_device(data: Mapping[str, Any]) -> bool:
    """Whether a file's keys are those of a device, not of a platform."""
    return "devices" not in data and "peak_tflops" in data


def alone(spec: DeviceSpec, given: str) -> Platform:
    """Return the platform of one device, named after it: inputs start and outputs end on it."""
    platform = Platform(
        name=spec.name, devices={spec.kind: spec}, links=(), host=spec.kind, source=given, sha256=""
    )
    return dataclasses.replace(platform, sha256=digest(platform))


def survey(source: YamlFile, given: str) -> tuple[Platform | None, tuple[BrokenFile, ...]]:
    """Read a platform completely: return it, or all of its errors.

    A mistake in one entry hides none in another. This file goes before those that it names.
    """
    parts = _Parts(source, in_catalog(source.path))
    model, complaints = parse(PlatformModel, source, source.data, catalog=parts.catalog)
    parts.complaints += complaints
    devices = parts.devices()
    links = parts.links()
    host, names = source.data.get("host"), source.entries("devices")
    if isinstance(host, str) and names:
        if host not in names:
            line, what = source.line(("host",)), f"unknown host '{host}'"
            parts.complaints.append(Complaint(line, what, nearest(host, names)))
        elif links is not None:
            parts.complaints += [
                Complaint(
                    source.line(("devices", name)),
                    f"no link connects the host '{host}' to '{name}'",
                    f"add a link with between: [{host}, {name}]",
                )
                for name in unreached(host, names, links)
            ]
    parts.complaints += _memory_complaints(source, source.data.get("memories"), names)
    own = broken(source, parts.complaints)
    wrong = (*(() if own is None else (own,)), *parts.elsewhere.values())
    if wrong:
        return None, wrong
    assert model is not None
    assert links is not None
    platform = Platform(
        name=model.name or source.path.stem,
        devices=devices,
        links=tuple(links),
        host=model.host,
        source=given,
        sha256="",
        power_w=None if model.power_w is None else model.power_w.value,
        memories=tuple(
            SharedMemory(
                memory.devices,
                memory.bandwidth_gbytes_s.value * GIGA,
                memory.bandwidth_gbytes_s.stated,
            )
            for memory in model.memories
        ),
        power_provenance=("estimate", "") if model.power_w is None else model.power_w.stated,
        price=_platform_price(source.path.stem, source.path)
        if model.price is None
        else model.price.to_price(),
    )
    return dataclasses.replace(platform, sha256=digest(platform)), ()


_NO_PART = ("price", "availability", "measurements", "falls_back", "factor")
"""What of a device and its figures is no part of its platform's digest as it stands: prices, file
paths, and what its runtime and the values of figures say already."""


def _as_json(value: Any) -> Any:
    """Return a record's parts, or a set of op types or dtypes in order, as JSON can write them."""
    if dataclasses.is_dataclass(value):
        names = [one.name for one in dataclasses.fields(value) if one.name not in _NO_PART]
        return {name: getattr(value, name) for name in names}
    return sorted(value)


def digest(platform: Platform) -> str:
    """SHA-256, in hex, of `platform` without file paths, prices and availabilities."""
    record: dict[str, Any] = {
        "name": platform.name,
        # A list, for the order of devices is part of the platform.
        "devices": [*platform.devices.items()],
        "links": [dataclasses.asdict(link) for link in platform.links],
        "host": platform.host,
    }
    measured = {
        name: [
            [Path(one.model).name, one.seconds, one.precision, one.batch, one.threads]
            for one in spec.measurements
        ]
        for name, spec in platform.devices.items()
        if spec.measurements
    }
    if measured:
        record["measurements"] = measured
    if platform.power_w is not None:
        record["power_w"] = platform.power_w
    if platform.memories:
        record["memories"] = [dataclasses.asdict(memory) for memory in platform.memories]
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), default=_as_json)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(slots=True)
class _Parts:
    """The parts of one platform file, and what is wrong with them.

    `known` are files that it names, by what they should describe and path; those in `elsewhere` are
    broken.
    """

    source: YamlFile
    catalog: bool
    complaints: list[Complaint] = field(default_factory=list)
    known: dict[tuple[str, Path], Any] = field(default_factory=dict)
    elsewhere: dict[tuple[str, Path], BrokenFile] = field(default_factory=dict)

    def devices(self) -> dict[str, DeviceSpec]:
        """Return those devices that can be read."""
        found: dict[str, DeviceSpec] = {}
        for name, entry in self.source.entries("devices").items():
            # What is wrong with the entry itself is said of the platform as a whole.
            use, _ = parse(DeviceUse, self.source, entry, catalog=self.catalog)
            if use is None:
                self.named("device", DeviceModel, entry, ("devices", name))
                continue
            spec = self.device(name, use)
            if spec is not None:
                found[name] = spec
        return found

    def device(self, name: str, use: DeviceUse) -> DeviceSpec | None:
        """Return the device that an entry of ``devices:`` means."""
        at: YamlPath = ("devices", name)
        model: DeviceModel | None
        path: tuple[Path, str] | None = None
        if isinstance(use.device, str):
            path = self.find("device", use.device, at)
            model = None if path is None else self.read(DeviceModel, *path)
            stem = name if path is None else path[0].stem
        else:
            model = self.parse(DeviceModel, use.device, (*at, "device"))
            stem = name
        base = model
        if model is not None and use.overrides:
            model = self.parse(DeviceModel, overridden(model, use.overrides), (*at, "overrides"))
        if model is None or base is None:
            return None
        spec = model.to_spec(model.name or stem)
        if base is not model:
            spec = rescaled(spec, base.to_spec(stem), use.overrides)
        if "kernels" not in use.overrides:
            try:
                spec = of_its_kin(spec, model, path and path[0], path[1] if path else name)
            except PlatformError as error:
                line = self.source.line(at)
                self.complaints.append(Complaint(line, str(error.what), error.hint or ""))
                return None
        stated = path
        if stated is None or "measurements" in use.overrides:
            stated = (self.source.path, self.source.shown)
        spec = _measured_beside(spec, *stated)
        if path is not None:
            spec = _with_list_price(spec, path[0])
        for key, given, variant in (
            ("runtime", use.runtime, by_runtime),
            ("execute", use.execute, executing),
        ):
            if given is not None:
                try:
                    spec = variant(spec, given, "")
                except UsageError as error:
                    what = f"'devices.{name}.{key}': {error.what}"
                    line = self.source.line((*at, key))
                    self.complaints.append(Complaint(line, what, error.hint or ""))
                    return None
        return spec

    def links(self) -> list[Link] | None:
        """Return the links, or None where one of them cannot be read."""
        entries = self.source.data.get("links", ())
        if not isinstance(entries, Sequence) or isinstance(entries, str):
            return None
        before = len(self.complaints), len(self.elsewhere)
        self.complaints += _link_complaints(self.source, entries, self.source.entries("devices"))
        links: list[Link] = []
        for index, entry in enumerate(entries):
            use, _ = parse(LinkUse, self.source, entry, catalog=self.catalog)
            if use is None:
                self.named("link", LinkModel, entry, ("links", index))
                continue
            link = self.link(index, use)
            if link is not None:
                links.append(link)
        if len(links) < len(entries) or before != (len(self.complaints), len(self.elsewhere)):
            return None
        return links

    def link(self, index: int, use: LinkUse) -> Link | None:
        """Return the link that an entry of ``links:`` means."""
        known: LinkModel | None = None
        if use.link is not None:
            path = self.find("link", use.link, ("links", index))
            known = None if path is None else self.read(LinkModel, *path)
            if known is None:
                return None
        latency = use.latency_us or (known.latency_us if known else None)
        bandwidth = use.bandwidth_gbytes_s or (known.bandwidth_gbytes_s if known else None)
        assert latency is not None
        assert bandwidth is not None
        # Without a catalog link, the bandwidth is the one that transfers reach.
        efficiency = use.efficiency or (known.efficiency if known else None)
        sd = use.sd if use.sd is not None else known.sd if known else None
        duplex = use.duplex if use.duplex is not None else known.duplex if known else True
        return Link(
            name=use.name or "-".join(use.between),
            a=use.between[0],
            b=use.between[1],
            latency_s=in_si(latency.value, MICRO),
            bytes_per_s=bandwidth.value * GIGA * (efficiency.value if efficiency else 1.0),
            duplex=duplex,
            bus=use.bus,
            of=use.link or "",
            sd=sd,
            provenance={
                name: figure.stated
                for name, figure in (
                    ("latency_s", latency),
                    ("bytes_per_s", bandwidth),
                    ("efficiency", efficiency),
                )
                if figure is not None
            },
        )

    def named(self, sort: Sort, model: type[BaseModel], entry: Any, at: YamlPath) -> None:
        """Look at the file that an entry names which is wrong in itself."""
        given = entry.get(sort) if isinstance(entry, Mapping) else None
        path = self.find(sort, given, at) if isinstance(given, str) else None
        if path is not None:
            self.read(model, *path)

    def parse(self, model: type[M], data: Any, at: YamlPath) -> M | None:
        """Read what stands at `at` of this file."""
        read, wrong = parse(model, self.source, data, at=at, catalog=self.catalog)
        self.complaints += wrong
        return read

    def find(self, sort: Sort, given: str, at: YamlPath) -> tuple[Path, str] | None:
        """Return the file that the name or path `given` at `at` means."""
        try:
            return find(sort, given, self.source.path.parent)
        except PlatformError as error:
            self.complaints.append(self.source.complaint((*at, sort), error))
            return None

    def read(self, model: type[M], path: Path, shown: str) -> M | None:
        """Read a file that this one names; each only once."""
        key = (model.__name__, path)
        if key not in self.known:
            self.known[key], wrong = read_description(model, path, shown)
            if wrong is not None:
                self.elsewhere[key] = wrong
        read: M | None = self.known[key]
        return read
