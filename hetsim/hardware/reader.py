"""Descriptions of devices and platforms read, checked as a whole, and turned into records."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from hetsim.errors import PlatformError, nearest
from hetsim.hardware.catalog import find, in_catalog
from hetsim.hardware.complaints import parse, parse_file
from hetsim.hardware.schema import (
    MICROSECONDS,
    DeviceModel,
    DeviceUse,
    LinkModel,
    LinkUse,
    PlatformModel,
    overridden,
)
from hetsim.hardware.spec import DeviceSpec, Link, Platform
from hetsim.hardware.yaml_source import Complaint, Source, YamlPath, read_yaml
from hetsim.units import GIGA


def read_device(path: Path, shown: str) -> DeviceSpec:
    """Return the device that the file at `path` describes; `shown` is its name in errors."""
    model = parse_file(DeviceModel, read_yaml(path, shown), catalog=in_catalog(path))
    return model.to_spec(model.name or path.stem)


def read_platform(path: Path, shown: str, given: str) -> Platform:
    """Return the platform that the file at `path` describes.

    Parameters
    ----------
    path : Path
    shown : str
        The file's name in errors.
    given : str
        How the user named it, for ``Platform.source``.

    Raises
    ------
    PlatformError
        For everything that is wrong in this file at once; else for the first device or
        link file that it names and that is broken.
    """
    source = read_yaml(path, shown)
    model = parse_file(PlatformModel, source, catalog=in_catalog(path))
    names = tuple(model.devices)
    complaints: list[Complaint] = []
    if model.host not in names:
        line = source.line(("host",))
        complaints.append(
            Complaint(line, f"unknown host '{model.host}'", nearest(model.host, names))
        )
    devices: dict[str, DeviceSpec] = {}
    for name, use in model.devices.items():
        spec = _device(source, name, use, complaints)
        if spec is not None:
            devices[name] = spec
    complaints += _link_complaints(source, model.links, names)
    links = [_link(source, index, use, complaints) for index, use in enumerate(model.links)]
    if not complaints:
        complaints += _unreachable(source, model)
    source.refuse(complaints)
    platform = Platform(
        name=model.name or path.stem,
        devices=devices,
        links=tuple(link for link in links if link is not None),
        host=model.host,
        source=given,
        sha256="",
    )
    return dataclasses.replace(platform, sha256=digest(platform))


def digest(platform: Platform) -> str:
    """SHA-256, in hex, of everything in `platform` but where it was read from."""
    record = {
        "name": platform.name,
        # A list, for the order of devices is part of the platform.
        "devices": [[name, dataclasses.asdict(spec)] for name, spec in platform.devices.items()],
        "links": [dataclasses.asdict(link) for link in platform.links],
        "host": platform.host,
    }
    # What JSON cannot write are the frozensets of op types and dtypes.
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), default=sorted)
    return hashlib.sha256(text.encode()).hexdigest()


def _device(
    source: Source, name: str, use: DeviceUse, complaints: list[Complaint]
) -> DeviceSpec | None:
    """Return the device that an entry of a platform means, or add to `complaints`."""
    at: YamlPath = ("devices", name)
    catalog = in_catalog(source.path)
    model: DeviceModel | None
    if isinstance(use.device, str):
        found = _find(source, "device", use.device, at, complaints)
        if found is None:
            return None
        path, shown = found
        model = parse_file(DeviceModel, read_yaml(path, shown), catalog=in_catalog(path))
        kind = model.name or path.stem
    else:
        inline = (*at, "device")
        model, wrong = parse(DeviceModel, source, use.device, at=inline, catalog=catalog)
        complaints += wrong
        if model is None:
            return None
        kind = model.name or name
    if use.overrides:
        changed = overridden(model, use.overrides)
        model, wrong = parse(DeviceModel, source, changed, at=(*at, "overrides"), catalog=catalog)
        complaints += wrong
    return None if model is None else model.to_spec(kind)


def _find(
    source: Source, sort: str, given: str, at: YamlPath, complaints: list[Complaint]
) -> tuple[Path, str] | None:
    """Return the file that the name or path `given` at `at` means, or add to `complaints`."""
    try:
        return find("device" if sort == "device" else "link", given, source.path.parent)
    except PlatformError as error:
        what = f"{error.where}: {error.what}" if error.where else error.what
        line = source.line((*at, sort))
        complaints.append(Complaint(line, what, error.hint or ""))
        return None


def _link_complaints(
    source: Source, uses: Sequence[LinkUse], devices: Sequence[str]
) -> list[Complaint]:
    complaints: list[Complaint] = []
    lines_by_name: dict[str, int] = {}
    for index, use in enumerate(uses):
        at: YamlPath = ("links", index)
        for position, end in enumerate(use.between):
            if end not in devices:
                line = source.line((*at, "between", position))
                what = f"link to an unknown device '{end}'"
                complaints.append(Complaint(line, what, nearest(end, devices)))
        a, b = use.between
        if a == b:
            line = source.line((*at, "between"))
            what = f"link of '{a}' with itself"
            complaints.append(Complaint(line, what, "name two devices that differ"))
        name = _link_name(use)
        line = source.line((*at, "name"))
        if name in lines_by_name:
            hint = f"the other is on line {lines_by_name[name]}: give each a 'name' of its own"
            complaints.append(Complaint(line, f"two links named '{name}'", hint))
        lines_by_name.setdefault(name, line)
    return complaints


def _link_name(use: LinkUse) -> str:
    return use.name or "-".join(use.between)


def _link(source: Source, index: int, use: LinkUse, complaints: list[Complaint]) -> Link | None:
    """Return the link that an entry of a platform means, or add to `complaints`.

    What the entry states goes before what its catalog link states.
    """
    known: LinkModel | None = None
    if use.link is not None:
        found = _find(source, "link", use.link, ("links", index), complaints)
        if found is None:
            return None
        path, shown = found
        known = parse_file(LinkModel, read_yaml(path, shown), catalog=in_catalog(path))
    latency = use.latency_us or (known.latency_us if known else None)
    bandwidth = use.bandwidth_gbytes_s or (known.bandwidth_gbytes_s if known else None)
    if latency is None or bandwidth is None:
        raise AssertionError("LinkUse lets no entry pass that has neither a link nor both figures")
    # Without a catalog link, the bandwidth is the one that transfers reach.
    efficiency = use.efficiency or (known.efficiency if known else None)
    duplex = use.duplex if use.duplex is not None else known.duplex if known else True
    return Link(
        name=_link_name(use),
        a=use.between[0],
        b=use.between[1],
        latency_s=latency.value / MICROSECONDS,
        bytes_per_s=bandwidth.value * GIGA * (efficiency.value if efficiency else 1.0),
        duplex=duplex,
        bus=use.bus,
    )


def _unreachable(source: Source, model: PlatformModel) -> list[Complaint]:
    neighbours: dict[str, list[str]] = {name: [] for name in model.devices}
    for use in model.links:
        a, b = use.between
        neighbours[a].append(b)
        neighbours[b].append(a)
    reached = {model.host}
    pending = [model.host]
    while pending:
        for other in neighbours[pending.pop()]:
            if other not in reached:
                reached.add(other)
                pending.append(other)
    return [
        Complaint(
            source.line(("devices", name)),
            f"no link leads from the host '{model.host}' to '{name}'",
            f"add a link with between: [{model.host}, {name}]",
        )
        for name in model.devices
        if name not in reached
    ]
