"""Platforms made of so many of each kind: as a file says them, and read like any other file.

Requests come to the host of what is chosen. Where there is none, they come to a *front* that
computes nothing and costs nothing; nodes without a link of their own hang on it by
one that takes no time to speak of (a megabyte in a femtosecond).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hetsim.errors import PlatformError
from hetsim.hardware.files.catalog_files import find, is_path, names
from hetsim.hardware.files.reader import describes_device, survey
from hetsim.hardware.files.yaml_source import Source, read_yaml
from hetsim.hardware.price import Price
from hetsim.hardware.spec import Platform
from hetsim.provisioning.platforms.catalog import Catalog, Entry, HostEntry

FRONT = "front"

_FRONT: Mapping[str, Any] = {
    "device": {
        "kind": "cpu",
        "full_name": "Where requests come; it computes nothing",
        "peak_tflops": {"float32": 1.0},
        "memory_bandwidth_gbytes_s": 1.0,
        "memory_gib": 1024.0,
        "launch_us": 0.0,
        "dispatch_us": 0.0,
        "streams": 1,
        "idle_w": 0.0,
        "busy_w": 0.0,
        "efficiency": {"default": 1.0},
        "memory_efficiency": 1.0,
        "support": {"ops": []},
    }
}

_NO_COST: Mapping[str, Any] = {"latency_us": 0.0, "bandwidth_gbytes_s": 1e12}


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """What one kind brings to a platform, as a platform file says it.

    Attributes
    ----------
    name : str
        Of the kind.
    devices : mapping of str to entry
        By its own names of them; a device alone has the name "".
    links, memories : tuple of mapping
        Between its own devices.
    host : str
        The one of its devices where requests come.
    link : mapping
        To the host of all; empty of a host.
    is_host : bool
    price : Price or None
        Of all of it, as its file says.
    """

    name: str
    devices: Mapping[str, Any]
    links: tuple[Mapping[str, Any], ...]
    memories: tuple[Mapping[str, Any], ...]
    host: str
    link: Mapping[str, Any] = field(default_factory=dict)
    is_host: bool = False
    price: Price | None = None

    def names(self, unit: int) -> dict[str, str]:
        """Return what its devices are called on a platform, by its own names of them."""
        if self.is_host:
            return {own: own or self.name for own in self.devices}
        return {
            own: f"{self.name}-{own.replace('.', '-')}.{unit}" if own else f"{self.name}.{unit}"
            for own in self.devices
        }


def pieces_of(catalog: Catalog) -> tuple[Pieces, ...]:
    """Return what each kind brings, then what each host does.

    Raises PlatformError where a file cannot be read.
    """
    kinds = [_of_entry(one, catalog.folder) for one in catalog.kinds]
    hosts = [_of_entry(one, catalog.folder) for one in catalog.hosts]
    return (*kinds, *hosts)


def _of_entry(entry: Entry | HostEntry, folder: Path) -> Pieces:
    is_host = isinstance(entry, HostEntry)
    link: Mapping[str, Any] = {}
    if isinstance(entry, Entry):
        link = dict(entry.link) or _NO_COST
        named = link.get("link")
        if isinstance(named, str):
            link = {**link, "link": _absolute(named, folder)}
    lone = entry.source in names("device")
    if lone or (isinstance(entry, Entry) and entry.on_link):
        return Pieces(
            entry.name, {"": _absolute(entry.source, folder)}, (), (), "", link, is_host=is_host
        )
    path, shown = find("platform", entry.source, folder)
    read = read_yaml(path, shown)
    data = read.data
    if describes_device(data):
        return Pieces(entry.name, {"": str(path.resolve())}, (), (), "", link, is_host=is_host)
    # What is wrong with the file is said of the file.
    platform, wrong = survey(read, entry.source)
    if platform is None:
        raise wrong[0].whole
    base = path.parent
    devices = {own: _device(use, base) for own, use in data["devices"].items()}
    links = tuple(
        {**use, **({"link": _absolute(use["link"], base)} if "link" in use else {})}
        for use in data.get("links", ())
    )
    return Pieces(
        entry.name,
        devices,
        links,
        tuple(data.get("memories", ())),
        platform.host,
        link,
        is_host=is_host,
        price=platform.price,
    )


def _device(use: Any, base: Path) -> Any:
    if isinstance(use, str):
        return _absolute(use, base)
    if isinstance(use.get("device"), str):
        return {**use, "device": _absolute(use["device"], base)}
    return use


def _absolute(given: str, base: Path) -> str:
    return str((base / given).resolve()) if is_path(given) else given


def description(pieces: Sequence[Pieces], counts: Sequence[int], name: str) -> dict[str, Any]:
    """Return what the file of a platform of so many of each kind says."""
    devices: dict[str, Any] = {}
    links: list[Any] = []
    memories: list[Any] = []
    host = next((one for one, n in zip(pieces, counts, strict=True) if one.is_host and n), None)
    front = FRONT
    if host is None:
        devices[FRONT] = dict(_FRONT)
    else:
        called = host.names(0)
        front = called[host.host]
        devices.update({called[own]: use for own, use in host.devices.items()})
        links += [dict(one) for one in host.links]
        memories += [dict(one) for one in host.memories]
    for one, count in zip(pieces, counts, strict=True):
        for unit in range(0 if one.is_host else count):
            called = one.names(unit)
            for own_name, use in one.devices.items():
                if called[own_name] in devices:
                    raise PlatformError(
                        f"two devices are called '{called[own_name]}'",
                        where=f"kind '{one.name}'",
                        hint="rename the kind",
                    )
                devices[called[own_name]] = use
            links.append({"between": [front, called[one.host]], **one.link})
            for link in one.links:
                inside = {**link, "between": [called[end] for end in link["between"]]}
                for key in ("bus", "name"):
                    if key in link:
                        inside[key] = f"{one.name}-{link[key]}.{unit}"
                links.append(inside)
            memories += [
                {**memory, "devices": [called[end] for end in memory["devices"]]}
                for memory in one.memories
            ]
    found: dict[str, Any] = {"name": name, "host": front, "devices": devices}
    if links:
        found["links"] = links
    if memories:
        found["memories"] = memories
    return found


def composed(pieces: Sequence[Pieces], counts: Sequence[int], name: str) -> Platform:
    """Return the platform of so many of each kind. Raises PlatformError where it cannot be."""
    data = description(pieces, counts, name)
    platform, wrong = survey(Source(Path(f"{name}.yaml"), name, data, {(): 1}), name)
    if platform is None:
        raise wrong[0].whole
    return platform
