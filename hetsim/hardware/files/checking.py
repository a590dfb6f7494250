"""A file of the user's checked: what it describes, or everything that is wrong with it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from hetsim.errors import InvalidInput, PlatformError
from hetsim.hardware.files.catalog_files import Sort, in_catalog
from hetsim.hardware.files.device_schema import DeviceModel
from hetsim.hardware.files.kernels_schema import FittedModel, KinModel
from hetsim.hardware.files.platform_schema import LinkModel, PlatformModel
from hetsim.hardware.files.reader import read_description, survey
from hetsim.hardware.files.schema import Broken, broken, parse
from hetsim.hardware.files.yaml_source import Complaint, Source, read_yaml
from hetsim.hardware.spec import DeviceSpec, Platform

M = TypeVar("M", bound=BaseModel)

_MODELS: Mapping[Sort, type[BaseModel]] = {
    "fitted": FittedModel,
    "device": DeviceModel,
    "platform": PlatformModel,
    "link": LinkModel,
    "kin": KinModel,
}
_KEYS = {
    sort: frozenset(field.alias or name for name, field in model.model_fields.items())
    for sort, model in _MODELS.items()
}


@dataclass(frozen=True, slots=True)
class Checked:
    """What became of one file.

    Attributes
    ----------
    file : str
        As the user gave it.
    sort : "device", "link", "platform", "fitted", "kin" or None
        What it describes, or is meant to; None where that cannot be told.
    name : str or None
        What it calls itself, else the name of the file; None where it is broken.
    found : DeviceSpec, LinkModel, Platform, FittedModel, KinModel or None
        What was read; None where it is broken.
    errors : tuple of InvalidInput
        All that is wrong, by line; then what is wrong with the files that it names.
    """

    file: str
    sort: Sort | None
    name: str | None
    found: DeviceSpec | LinkModel | Platform | FittedModel | KinModel | None
    errors: tuple[InvalidInput, ...]


def check_file(given: str) -> Checked:
    """Read the file at the path `given` as what its keys say it is. Raises nothing for bad input.

    Of a file that is no YAML the first error is all that can be told.
    """
    path = Path(given)
    try:
        source = read_yaml(path, given, holds="a device, a link or a platform")
    except PlatformError as error:
        return Checked(given, None, None, None, (error,))
    sort = sort_of(source.data)
    if sort is None:
        unknown = PlatformError(
            "this describes no device, link or platform",
            where=f"{given}:{source.line(())}",
            hint="a device has 'kind', a link 'latency_us', a platform 'devices'",
        )
        return Checked(given, None, None, None, (unknown,))
    found: DeviceSpec | LinkModel | Platform | FittedModel | KinModel | None
    if sort == "platform":
        found, wrong = survey(source, given)
        name = None if found is None else found.name
    elif sort == "device":
        device, broken_files = read_description(DeviceModel, path, given)
        wrong = () if broken_files is None else (broken_files,)
        name = path.stem if device is None else device.name or path.stem
        found = None if device is None else device.to_spec(name)
    elif sort == "fitted":
        found, wrong = _parsed(FittedModel, source)
        name = path.stem
    elif sort == "kin":
        found, wrong = _parsed(KinModel, source)
        name = path.stem
    else:
        found, wrong = _parsed(LinkModel, source)
        name = path.stem
    errors = tuple(error for file in wrong for error in file.each)
    return Checked(given, sort, None if errors else name, found, errors)


def sort_of(data: Mapping[str, object]) -> Sort | None:
    """Return what a file with the keys of `data` is meant to describe, or None."""
    every = sorted(frozenset().union(*_KEYS.values()))
    keys = set()
    for key in data:
        keys.update(difflib.get_close_matches(key, every, n=1, cutoff=0.75))
    best: tuple[int, int] = (0, 0)
    found: Sort | None = None
    for sort, known in _KEYS.items():
        others = frozenset().union(*(_KEYS[other] for other in _KEYS if other != sort))
        score = len(keys & (known - others)), len(keys & known)
        if score > best:
            best, found = score, sort
    return found


def _parsed(model: type[M], source: Source) -> tuple[M | None, tuple[Broken, ...]]:
    complaints: list[Complaint]
    read, complaints = parse(model, source, source.data, catalog=in_catalog(source.path))
    wrong = broken(source, complaints)
    return read, () if wrong is None else (wrong,)
