"""Devices, links and platforms loaded, by catalog name or path."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hetsim.core import checks
from hetsim.hardware.files.catalog_files import find, names
from hetsim.hardware.files.runtimes import platform_by_runtime
from hetsim.hardware.spec import DeviceSpec, Platform

if TYPE_CHECKING:
    from hetsim.hardware.files.platform_schema import LinkModel
    from hetsim.hardware.kin import Kin
    from hetsim.hardware.price import Offer


@checks.takes(source=checks.path)
def load_device(source: str | os.PathLike[str]) -> DeviceSpec:
    """Return a device by catalog name, or from a YAML file.

    Text with a path separator, or ending in ``.yaml`` or ``.yml``, is a path.

    Raises
    ------
    PlatformError
        If there is no such device, or its description is invalid: with file, line and the nearest
        valid name.
    """
    from hetsim.hardware.files.reader import read_device

    path, shown = find("device", os.fspath(source))
    return read_device(path, shown)


@checks.takes(source=checks.path, runtime=checks.mapping(checks.text, checks.text))
def load_platform(
    source: str | os.PathLike[str], runtime: Mapping[str, str] | None = None
) -> Platform:
    """Return a platform by catalog name, or from a YAML file.

    Text with a path separator, or ending in ``.yaml`` or ``.yml``, is a path. Devices and links
    given by path in the file are relative to it. The name or file of a device stands for a platform
    with only that device, named by its kind.

    `runtime` selects by device the runtime whose figures are used, ``"*"`` for all devices that
    have figures for it; absent: the one in the device's file.

    Raises
    ------
    UsageError
        If `runtime` names an unknown device, or a runtime without figures for it.
    PlatformError
        If there is no such platform; if its description, or that of a device or link in it, is
        invalid; if a link names an unknown device, or a device has no link: with file, line and the
        nearest valid name.
    """
    from hetsim.hardware.files.reader import read_platform

    given = os.fspath(source)
    lone = given in names("device") and given not in names("platform")
    path, shown = find("device" if lone else "platform", given)
    platform = read_platform(path, shown, given)
    return platform_by_runtime(platform, runtime) if runtime else platform


def load_catalog_platforms() -> tuple[Platform, ...]:
    """Return all platforms of the catalog, then one for each device that belongs to none."""
    platforms = tuple(map(load_platform, platform_names()))
    used = {spec.name for platform in platforms for spec in platform.devices.values()}
    return (*platforms, *(load_platform(name) for name in device_names() if name not in used))


def load_link(source: str | os.PathLike[str]) -> LinkModel:
    """Return a link by catalog name, or from a YAML file; figures in the units of its keys.

    Raises PlatformError as `load_device`.
    """
    from hetsim.hardware.files.reader import read_link

    path, shown = find("link", os.fspath(source))
    return read_link(path, shown)


def kin_names() -> tuple[str, ...]:
    """Return the names of the catalog's device families, sorted."""
    return names("kin")


def load_kin(name: str) -> Kin:
    """Return the catalog's record of a device family, by name.

    Raises PlatformError as `load_device`.
    """
    from hetsim.hardware.files.reader import read_kin

    path, shown = find("kin", name)
    return read_kin(path, shown)


def offers(name: str) -> tuple[Offer, ...]:
    """Return the offers, to buy or to rent, of a device or platform of the catalog.

    First those sold or rented as `name`, then products that contain it. A platform without either
    that consists of devices for sale has one offer: the sum of their prices. Empty if no price is
    known, and for files outside the catalog.

    Raises PlatformError if a price list of the catalog is invalid.
    """
    from hetsim.hardware.files.prices_schema import offers_by_name, sum_of_parts

    known = offers_by_name()
    if name in known or name not in names("platform"):
        return known.get(name, ())
    parts = [known.get(spec.name, ()) for spec in load_platform(name).devices.values()]
    whole = sum_of_parts(name, parts)
    return () if whole is None else (whole,)


def device_names() -> tuple[str, ...]:
    """Names of the catalog's devices, sorted."""
    return names("device")


def platform_names() -> tuple[str, ...]:
    """Names of the catalog's platforms, sorted."""
    return names("platform")


def link_names() -> tuple[str, ...]:
    """Names of the catalog's links, sorted."""
    return names("link")
