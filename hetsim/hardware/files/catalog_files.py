"""Locations of device, link and platform files: by catalog name or path."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from hetsim.errors import PlatformError, nearest

Sort = Literal["device", "platform", "link", "fitted", "kin", "prices"]

_FOLDERS: Mapping[Sort, str] = {
    "device": "",
    "platform": "platforms",
    "link": "links",
    "fitted": "fitted",
    "kin": "fitted/kin",
    "prices": "prices",
}
_INSTALLED = Path(__file__).parents[1] / "devices"
_CHECKOUT = Path(__file__).parents[3] / "devices"


def catalog_folder() -> Path:
    """Folder of the catalog: in the installed package, or beside it in a checkout."""
    return _INSTALLED if _INSTALLED.is_dir() else _CHECKOUT


def in_catalog(path: Path) -> bool:
    """Whether the file at `path` belongs to the catalog."""
    return path.resolve().is_relative_to(catalog_folder().resolve())


def fitted_beside(path: Path) -> Path | None:
    """Return the file of fitted figures for the catalog's device at `path`, where there is one."""
    path = path.resolve()
    if path.parent != catalog_folder().resolve():
        return None
    fitted = path.parent / _FOLDERS["fitted"] / path.name
    return fitted if fitted.is_file() else None


def kin_file(path: Path, kin: str) -> Path | None:
    """Return the file of the device family of the catalog's device at `path`, if there is one."""
    path = path.resolve()
    if path.parent != catalog_folder().resolve() or is_path(kin):
        return None
    found = path.parent / _FOLDERS["kin"] / f"{kin}.yaml"
    return found if found.is_file() else None


def find(sort: Sort, given: str, base: Path | None = None) -> tuple[Path, str]:
    """Return the file that `given` refers to, and its name in errors.

    - `given`: A catalog name or a path.
    - `base`: folder that relative paths start from; absent: the working directory.

    Raises PlatformError where there is none, with the nearest name of the catalog.
    """
    if not is_path(given):
        known = names(sort)
        if given in known:
            inside = Path(_FOLDERS[sort]) / f"{given}.yaml"
            return catalog_folder() / inside, (Path("devices") / inside).as_posix()
        # The name of a device stands for the platform of it alone.
        devices = names("device") if sort == "platform" else ()
        close = difflib.get_close_matches(given, devices, n=1)
        hint = f"{nearest(given, (*known, *close))} (a path ends in .yaml)"
        what = f"no {sort} '{given}' in the catalog"
        raise PlatformError(what, hint=hint, missing=base is None)
    path = Path(given) if base is None else base / given
    if not os.path.exists(path):
        hint = f"in the catalog, {nearest(Path(given).stem, names(sort))}"
        what = "no such file"
        raise PlatformError(what, where=str(path), hint=hint, missing=base is None)
    return path, str(path)


def names(sort: Sort) -> tuple[str, ...]:
    """Names in the catalog of one kind of file, sorted."""
    folder = catalog_folder() / _FOLDERS[sort]
    files = os.listdir(folder) if folder.is_dir() else []
    return tuple(sorted(file[: -len(".yaml")] for file in files if file.endswith(".yaml")))


def is_path(given: str) -> bool:
    """Whether `given` is a path, not a catalog name."""
    separators = {"/", os.sep, os.altsep or os.sep}
    return given.endswith((".yaml", ".yml")) or any(mark in given for mark in separators)
