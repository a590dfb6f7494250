"""Whose figure a change is of: devices, links or the platform, by name, kind or pattern."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Literal

from hetsim.errors import UsageError, closest
from hetsim.hardware.changing.figures import KERNELS, OF_DEVICE, OF_LINK, POWER, SPEED
from hetsim.hardware.spec import Link, Platform, numbered

Sort = Literal["device", "link", "platform"]
SORTS: tuple[Sort, ...] = ("device", "link", "platform")

LISTED = 12
"""Names that a message lists."""


def split(text: str, platform: Platform, where: str) -> tuple[Sort, tuple[str, ...], str]:
    """Return of what sort `text`, ``gpu.0.memory``, is, which of the platform, and which figure.

    The longest name that stands for something is taken: what follows its dot is the figure.

    Raises
    ------
    UsageError
        Where nothing is called so, or both devices and links are.
    """
    word, _, rest = text.partition(" ")
    said = next((sort for sort in SORTS if sort == word), None)
    name = rest.strip() if said is not None and rest.strip() else text
    if said is not None and name == text:
        said = None
    dots = [at for at, letter in enumerate(name) if letter == "."]
    if not dots:
        raise UsageError(
            f"'{text}' names no figure", where=where, hint="write NAME.FIGURE, e.g. gpu.memory"
        )
    for at in reversed(dots):
        found = {
            sort: names
            for sort, names in _called(name[:at], platform).items()
            if said in (None, sort) and names
        }
        if len(found) > 1:
            # Of names that stand for both, the figure may tell which is meant.
            found = {sort: found[sort] for sort in found if _has(sort, name[at + 1 :])} or found
        if len(found) > 1:
            raise UsageError(
                f"'{name[:at]}' is a device and a link",
                where=where,
                hint=f"write 'device {text}' or 'link {text}'",
            )
        for sort, names in found.items():
            return sort, names, name[at + 1 :]
    raise unknown(said or "device or link", name[: dots[-1]], platform, where)


def chosen(text: str, platform: Platform, where: str) -> tuple[Sort, tuple[str, ...]]:
    """Return the devices, or links, that `text` stands for: ``gpu.0``, ``gpu``, ``link pcie*``.

    Raises UsageError where there is none, or there are both.
    """
    word, _, rest = text.strip().partition(" ")
    sort: Sort | None = "device" if word == "device" else "link" if word == "link" else None
    name = rest.strip() if sort is not None and rest.strip() else text.strip()
    called = _called(name, platform)
    both = sort is None and called["device"] and called["link"]
    if both and "*" not in name:
        raise UsageError(
            f"'{name}' is a device and a link",
            where=where,
            hint=f"write 'device {name}' or 'link {name}'",
        )
    for each in ("device", "link") if sort is None else (sort,):
        if called[each]:
            return each, called[each]
    raise unknown(sort or "device or link", name, platform, where)


def _has(sort: Sort, figure: str) -> bool:
    """Whether a figure may be one of devices, or of links."""
    first = figure.partition(".")[0]
    known = OF_LINK if sort == "link" else OF_DEVICE
    more = (SPEED,) if sort == "link" else (SPEED, POWER, KERNELS)
    return first in more or any(first in (each.key, each.short) for each in known)


def _called(name: str, platform: Platform) -> dict[Sort, tuple[str, ...]]:
    """What a name or a pattern stands for, by sort."""
    devices = tuple(platform.devices)
    one = devices if name == "*" else _matching(name, devices) or numbered(name, devices)
    links = _matching(name, [link.name for link in platform.links])
    if not links:
        # By the kind of link, where none has the name.
        links = tuple(link.name for link in platform.links if fnmatchcase(link.of, name))
    return {
        "device": tuple(one),
        "link": links,
        "platform": ("platform",) if name in ("platform", platform.name) else (),
    }


def _matching(name: str, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(each for each in names if each == name or fnmatchcase(each, name))


def unknown(sort: str, name: str, platform: Platform, where: str) -> UsageError:
    """Return the error of a name that stands for nothing, with all that there is."""
    there = []
    if sort != "link":
        there.append(f"the devices {_listed(tuple(platform.devices))}")
    if sort != "device":
        kinds = [_shown(link) for link in platform.links]
        there.append(f"the links {_listed(kinds)}" if kinds else "no link")
    names = [] if sort == "link" else list(platform.devices)
    # A device's name alone is as near to each of its links.
    names += [link.name for link in platform.links if "-" in name and sort != "device"]
    return UsageError(
        f"no {sort} '{name}' on {platform.name}",
        where=where,
        hint=f"{closest(name, names)} there are {' and '.join(there)}".lstrip(),
    )


def _shown(link: Link) -> str:
    return f"{link.name} ({link.of})" if link.of else link.name


def _listed(names: Sequence[str]) -> str:
    more = len(names) - LISTED
    return ", ".join(names[:LISTED]) + (f" and {more} more" if more > 0 else "")
