"""Devices, links and platforms found by catalog name or path, and loaded."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hetsim import checks
from hetsim.errors import PlatformError, nearest
from hetsim.hardware.spec import DeviceSpec, Platform

if TYPE_CHECKING:
    from hetsim.hardware.platform_schema import LinkModel

Sort = Literal["device", "platform", "link"]

_FOLDERS: Mapping[Sort, str] = {"device": "", "platform": "platforms", "link": "links"}
_INSTALLED = Path(__file__).parent / "devices"
_CHECKOUT = Path(__file__).parents[2] / "devices"


@checks.takes(name_or_path=checks.path)
def load_device(name_or_path: str | os.PathLike[str]) -> DeviceSpec:
    """Return a device by catalog name, or from a YAML file.

    What has a path separator or ends in ``.yaml`` or ``.yml`` is a path.

    Raises
    ------
    PlatformError
        Where there is no such device, or its description is broken: with file, line and
        the nearest valid name.
    """
    from hetsim.hardware.reader import read_device

    path, shown = find("device", os.fspath(name_or_path))
    return read_device(path, shown)


@checks.takes(name_or_path=checks.path)
def load_platform(name_or_path: str | os.PathLike[str]) -> Platform:
    """Return a platform by catalog name, or from a YAML file.

    What has a path separator or ends in ``.yaml`` or ``.yml`` is a path. Devices and links
    that the file names by path are looked up relative to it.

    Raises
    ------
    PlatformError
        Where there is no such platform; where its description, or that of a device or link
        it names, is broken; where a link names an unknown device or no link leads to a
        device: with file, line and the nearest valid name.
    """
    from hetsim.hardware.reader import read_platform

    given = os.fspath(name_or_path)
    path, shown = find("platform", given)
    return read_platform(path, shown, given)


def load_link(name_or_path: str | os.PathLike[str]) -> LinkModel:
    """Return a link by catalog name, or from a YAML file; figures in the units of its keys.

    Raises PlatformError as `load_device` does.
    """
    from hetsim.hardware.reader import read_link

    path, shown = find("link", os.fspath(name_or_path))
    return read_link(path, shown)


def device_names() -> tuple[str, ...]:
    """Names of the catalog's devices, sorted."""
    return _names("device")


def platform_names() -> tuple[str, ...]:
    """Names of the catalog's platforms, sorted."""
    return _names("platform")


def link_names() -> tuple[str, ...]:
    """Names of the catalog's links, sorted."""
    return _names("link")


def catalog_folder() -> Path:
    """Folder of the catalog: inside the installed package, else beside it in a checkout."""
    return _INSTALLED if _INSTALLED.is_dir() else _CHECKOUT


def in_catalog(path: Path) -> bool:
    """Whether the file at `path` belongs to the catalog."""
    return path.resolve().is_relative_to(catalog_folder().resolve())


def find(sort: Sort, given: str, base: Path | None = None) -> tuple[Path, str]:
    """Return the file that `given` means, and what errors call it.

    Parameters
    ----------
    sort : "device", "platform" or "link"
    given : str
        A catalog name or a path.
    base : Path, optional
        Folder that relative paths start from; absent: the working directory.

    Raises
    ------
    PlatformError
        Where there is none, with the nearest name of the catalog.
    """
    if not is_path(given):
        names = _names(sort)
        if given in names:
            inside = Path(_FOLDERS[sort]) / f"{given}.yaml"
            return catalog_folder() / inside, (Path("devices") / inside).as_posix()
        hint = f"{nearest(given, names)} (a path ends in .yaml)"
        raise PlatformError(f"no {sort} '{given}' in the catalog", hint=hint)
    path = Path(given) if base is None else base / given
    if not path.exists():
        hint = nearest(Path(given).stem, _names(sort))
        raise PlatformError("no such file", where=str(path), hint=f"in the catalog, {hint}")
    return path, str(path)


def _names(sort: Sort) -> tuple[str, ...]:
    folder = catalog_folder() / _FOLDERS[sort]
    return tuple(sorted(path.stem for path in folder.glob("*.yaml")))


def is_path(given: str) -> bool:
    """Whether `given` is meant as a path, not as a name of the catalog."""
    separators = {"/", os.sep, os.altsep or os.sep}
    return given.endswith((".yaml", ".yml")) or any(mark in given for mark in separators)
