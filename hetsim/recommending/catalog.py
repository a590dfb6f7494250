"""What can be had: kinds of devices and of whole boards, the hosts of devices, and their prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hetsim.errors import PlatformError
from hetsim.hardware.price import Price

MOST_KINDS = 64


@dataclass(frozen=True, slots=True)
class Entry:
    """One kind that can be had.

    Attributes
    ----------
    name : str
        Its devices are called after it: ``l4.0``, ``l4.1``; of a board ``rock-npu.0``.
    source : str
        Of the catalog of hardware, or a path: a device where `on_link`, else a platform, of which
        each is a node of its own.
    link : mapping
        What joins it to its host, as an entry of ``links:`` of a platform says it, without ends;
        empty of a node to which requests come at no cost.
    on_link : bool
        Whether it is a device in a slot of a host.
    most : int, optional
        How many there are; absent: any number.
    price : Price, optional
        Absent: what its file says.
    """

    name: str
    source: str
    link: Mapping[str, Any] = field(default_factory=dict, hash=False)
    on_link: bool = False
    most: int | None = None
    price: Price | None = None


@dataclass(frozen=True, slots=True)
class HostEntry:
    """One platform in which devices can stand.

    Attributes
    ----------
    name : str
    source : str
        As of ``Entry``.
    slots : int
        How many devices it takes.
    price : Price, optional
        Absent: what its file says.
    """

    name: str
    source: str
    slots: int
    price: Price | None = None


@dataclass(frozen=True, slots=True)
class Catalog:
    """What can be had.

    Attributes
    ----------
    kinds : tuple of Entry
    hosts : tuple of HostEntry
        One of them is chosen where a device on a link is; none otherwise.
    folder : Path
        Where paths start from.
    source : str
        As the user gave it.
    sha256 : str
        Of the file; empty where there is none.
    """

    kinds: tuple[Entry, ...]
    hosts: tuple[HostEntry, ...] = ()
    folder: Path = Path()
    source: str = ""
    sha256: str = ""

    def __post_init__(self) -> None:
        names = [one.name for one in self.kinds] + [one.name for one in self.hosts]
        if len(names) > MOST_KINDS:
            raise PlatformError(f"{len(names)} kinds, above {MOST_KINDS}", hint="write fewer")
        if not self.kinds:
            raise PlatformError("a catalog without kinds", hint="write one or more under kinds:")
        for name in dict.fromkeys(name for name in names if names.count(name) > 1):
            raise PlatformError(f"two kinds are called '{name}'", hint="rename one")
        if not self.hosts:
            for one in self.kinds:
                if one.on_link:
                    raise PlatformError(
                        f"'{one.name}' is a device on a link, and there is no host",
                        hint="write hosts:, or platform: in the place of device:",
                    )
