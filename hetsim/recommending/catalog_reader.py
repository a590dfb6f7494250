"""Catalogs read: from a file, or as names of boards and devices."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hetsim.base.checks import path, takes
from hetsim.base.files import sha256_of
from hetsim.errors import InvalidInput, PlatformError
from hetsim.hardware.files.catalog_files import find, is_path, names
from hetsim.hardware.files.complaints import broken, parse
from hetsim.hardware.files.json_schema import definitions_of, document
from hetsim.hardware.files.yaml_source import Complaint, Source, read_yaml
from hetsim.recommending.catalog import Catalog, Entry
from hetsim.recommending.catalog_schema import CatalogModel


@takes(source=path)
def load_catalog(source: str | os.PathLike[str]) -> Catalog:
    """Return what can be had: of a YAML file, or of names with commas between them.

    A name is that of a platform or a device of the catalog of hardware, or the path of its file:
    each a node of its own, of which there is any number. Paths in a file start from its folder.

    Raises
    ------
    PlatformError
        Where something in it is wrong or not there, with file, line and what to do.
    """
    given = os.fspath(source)
    each = [part.strip() for part in given.split(",")]
    if len(each) == 1 and is_path(given):
        read = read_yaml(Path(given), given, holds="what can be had")
        if read.data.keys() & {"kinds", "hosts"}:
            return _of_file(read, given)
    kinds = tuple(Entry(_name_of(one), one) for one in each)
    for one in kinds:
        find("device" if one.source in names("device") else "platform", one.source)
    return Catalog(kinds, source=given)


def _name_of(given: str) -> str:
    return Path(given).stem if is_path(given) else given


def _of_file(source: Source, given: str) -> Catalog:
    model, complaints = parse(CatalogModel, source, source.data)
    folder = source.path.parent
    for part, key in (("kinds", "device"), ("kinds", "platform"), ("hosts", "platform")):
        for name, entry in _entries(source, part).items():
            named = entry.get(key) if isinstance(entry, Mapping) else None
            if isinstance(named, str):
                complaints += _found(source, (part, name, key), named, key, folder)
    for name, entry in _entries(source, "kinds").items():
        link = entry.get("link") if isinstance(entry, Mapping) else None
        link = link.get("link") if isinstance(link, Mapping) else link
        if isinstance(link, str):
            complaints += _found(source, ("kinds", name, "link"), link, "link", folder)
    wrong = broken(source, complaints)
    if wrong is not None:
        raise wrong.whole
    assert model is not None
    links = {name: _link(entry.get("link")) for name, entry in _entries(source, "kinds").items()}
    try:
        return Catalog(
            tuple(one.to_record(name, links[name]) for name, one in model.kinds.items()),
            tuple(one.to_record(name) for name, one in model.hosts.items()),
            folder,
            given,
            sha256_of(source.path),
        )
    except InvalidInput as error:
        raise source.error(("kinds",), error.what, error.hint) from None


def _link(given: Any) -> Mapping[str, Any]:
    if given is None:
        return {}
    return {"link": given} if isinstance(given, str) else dict(given)


def _found(
    source: Source, at: tuple[str, ...], given: str, key: str, folder: Path
) -> list[Complaint]:
    """What is wrong with a name or path in a file."""
    try:
        if key == "link":
            find("link", given, folder)
        elif key == "platform" and given not in names("device"):
            find("platform", given, folder)
        else:
            find("device", given, folder)
    except PlatformError as error:
        what = f"{error.where}: {error.what}" if error.where else error.what
        return [Complaint(source.line(at), str(what), error.hint or "")]
    return []


def _entries(source: Source, key: str) -> Mapping[str, Any]:
    entries = source.data.get(key)
    return entries if isinstance(entries, Mapping) else {}


def catalog_schema() -> dict[str, Any]:
    """Return the JSON Schema, draft 2020-12, of a catalog file."""
    title = "hetsim catalog of what can be had"
    return document(title, definitions_of(CatalogModel), CatalogModel)
