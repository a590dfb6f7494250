"""The verb ``what_if``: a platform as if its figures were others, or parts of it not there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hetsim.core import checks
from hetsim.errors import UsageError
from hetsim.hardware.changing.amounts import Amount, read_amount
from hetsim.hardware.changing.device import changed_device, factor_of, figure_after
from hetsim.hardware.changing.figures import OF_LINK, OF_PLATFORM, SPEED, figure_called
from hetsim.hardware.changing.named import chosen, split
from hetsim.hardware.routes import unreached
from hetsim.hardware.spec import Link, Platform, Supposed

_PLATFORM = checks.instance("hetsim.hardware.spec:Platform")
_TEXTS = checks.sequence(checks.text)


def what_if(platform: Platform, *changes: str, without: Sequence[str] = ()) -> Platform:
    """Return the platform as if figures of it were others, and parts of it were not there.

    Parameters
    ----------
    platform : Platform
    *changes : str
        ``WHAT.FIGURE AMOUNT`` each: ``gpu.memory =64GB``, ``link pcie4-x16.bandwidth x2``,
        ``npu.speed +10%``, ``*.dispatch /2``. WHAT is a device or a link by name or pattern, a link
        by its kind, too, or ``platform``; FIGURE a number of its file by its key or the first word
        of it, and ``speed``, all that a device or a link does; AMOUNT is ``x2``, ``/2``,
        ``+10%``, ``-10%``, ``=VALUE`` or ``+VALUE`` with its unit. They hold one after another.
    without : sequence of str
        Devices or links, by name or pattern, that are not there.

    Returns
    -------
    Platform
        Its `supposed` says what is supposed of it, and its `sha256` what was read.

    Raises
    ------
    UsageError
        For a name or figure that is not there, with those that are; an amount that cannot be;
        where the host would be gone, or a device could not be reached.

    Complexity: O(changes (P + L)).
    """
    _PLATFORM(platform, "platform")
    _TEXTS(changes, "changes")
    _TEXTS(without, "without")
    for text in changes:
        platform = _changed(platform, text)
    for text in without:
        platform = _without(platform, text)
    return platform


def idle_changes(platform: Platform, changes: Sequence[str]) -> tuple[str, ...]:
    """Return those of the changes, each after those before it, that change no figure at all.

    Raises as ``what_if``.
    """
    found = []
    for text in changes:
        after = _changed(platform, text)
        if replace(after, supposed=platform.supposed) == platform:
            found.append(text)
        platform = after
    return tuple(found)


def _changed(platform: Platform, text: str) -> Platform:
    where = f"what if '{text}'"
    what, amount = read_amount(text)
    sort, names, figure = split(what, platform, where)
    if sort == "platform":
        made = _of_platform(platform, figure, amount, where)
    elif sort == "link":
        links = tuple(
            _link(link, figure, amount, where) if link.name in names else link
            for link in platform.links
        )
        made = replace(platform, links=links)
    else:
        devices = {
            name: changed_device(spec, figure, amount, where) if name in names else spec
            for name, spec in platform.devices.items()
        }
        made = replace(platform, devices=devices)
    before = platform.supposed or Supposed()
    after = replace(
        before,
        changes=(*before.changes, " ".join(text.split())),
        devices=before.devices | (set(names) if sort == "device" else set()),
        links=before.links | (set(names) if sort == "link" else set()),
    )
    return replace(made, supposed=after)


def _link(link: Link, figure: str, amount: Amount, where: str) -> Link:
    if figure == SPEED:
        factor = factor_of(amount, where)
        return replace(
            link, latency_s=link.latency_s / factor, bytes_per_s=link.bytes_per_s * factor
        )
    known = figure_called(figure, OF_LINK, (SPEED,), f"link '{link.name}'", where)
    key_unit = known.key_unit if figure == known.key else None
    after = figure_after(getattr(link, known.field), known, amount, key_unit, where)
    changed: dict[str, Any] = {known.field: after}
    return replace(link, **changed)


def _of_platform(platform: Platform, figure: str, amount: Amount, where: str) -> Platform:
    known = figure_called(figure, OF_PLATFORM, (), f"platform '{platform.name}'", where)
    if known.field == "memories":
        if not platform.memories:
            raise UsageError(
                f"{platform.name} states no memory that devices share",
                where=where,
                hint="change the bandwidth of a device",
            )
        memories = tuple(
            replace(
                memory, bytes_per_s=figure_after(memory.bytes_per_s, known, amount, None, where)
            )
            for memory in platform.memories
        )
        return replace(platform, memories=memories)
    if platform.power_w is None and amount.sign != "=":
        raise UsageError(
            f"{platform.name} states no power of its devices together",
            where=where,
            hint="write platform.power =30W",
        )
    key_unit = known.key_unit if figure == known.key else None
    after = figure_after(platform.power_w or 0.0, known, amount, key_unit, where)
    return replace(platform, power_w=after)


def _without(platform: Platform, text: str) -> Platform:
    where = f"without '{text}'"
    sort, names = chosen(text, platform, where)
    if sort == "device":
        made = _without_devices(platform, names, where)
    else:
        links = tuple(link for link in platform.links if link.name not in names)
        made = replace(platform, links=links)
    lost = unreached(made.host, made.devices, made.links)
    if lost:
        also = " ".join(f"--without {name}" for name in lost)
        raise UsageError(
            f"nothing would lead from the host '{made.host}' to {', '.join(lost)}",
            where=where,
            hint=f"take away what cannot be reached as well ({also})",
        )
    before = platform.supposed or Supposed()
    after = replace(before, without=(*before.without, " ".join(text.split())))
    return replace(made, supposed=after)


def _without_devices(platform: Platform, names: Sequence[str], where: str) -> Platform:
    if platform.host in names:
        raise UsageError(
            f"'{platform.host}' is the host, where inputs start and outputs end",
            where=where,
            hint="write a platform with another host",
        )
    memories = tuple(
        replace(memory, devices=tuple(name for name in memory.devices if name not in names))
        for memory in platform.memories
    )
    return replace(
        platform,
        devices={name: spec for name, spec in platform.devices.items() if name not in names},
        links=tuple(link for link in platform.links if not {link.a, link.b} & set(names)),
        memories=tuple(memory for memory in memories if len(memory.devices) > 1),
    )
