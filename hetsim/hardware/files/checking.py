"""Check of a user's hardware file: what it describes, or all of its errors."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from hetsim.errors import InvalidInput, PlatformError
from hetsim.hardware.datasheet import doubtful_peaks
from hetsim.hardware.files.catalog_files import Sort, in_catalog
from hetsim.hardware.files.device_schema import DeviceModel
from hetsim.hardware.files.kernels_schema import FittedModel, KinModel
from hetsim.hardware.files.platform_schema import MODELS, LinkModel
from hetsim.hardware.files.prices_schema import PricesModel
from hetsim.hardware.files.reader import read_description, survey
from hetsim.hardware.files.schema import BrokenFile, broken, parse
from hetsim.hardware.files.yaml_source import read_yaml
from hetsim.hardware.spec import DeviceSpec, Platform

_KEYS = {
    sort: frozenset(field.alias or name for name, field in MODELS[sort].model_fields.items())
    # What was fitted goes before a device, which may have the same keys.
    for sort in sorted(MODELS, key=lambda sort: sort != "fitted")
}


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """Result of the check of one file.

    - `file`: as the user gave it.
    - `sort`: what it describes, or is meant to; None where that cannot be told.
    - `name`: what it calls itself, else the name of the file; None where it is broken.
    - `found`: what was read; None where it is broken.
    - `doubts`: peaks of a device that may not be dense rates of the precision.
    - `errors`: all that is wrong, by line; then what is wrong with the files that it names.
    """

    file: str
    sort: Sort | None
    name: str | None
    found: DeviceSpec | LinkModel | Platform | FittedModel | KinModel | PricesModel | None
    errors: tuple[InvalidInput, ...]
    doubts: tuple[str, ...] = ()


def check_file(given: str) -> CheckedFile:
    """Check the file at the path `given` as what its keys describe. Raises nothing for bad input.

    Of a file that is no YAML the first error is all that can be told.
    """
    path = Path(given)
    try:
        source = read_yaml(path, given, holds="a device, a link or a platform")
    except PlatformError as error:
        return CheckedFile(given, None, None, None, (error,))
    sort = sort_of(source.data)
    if sort is None:
        unknown = PlatformError(
            "no key of this file says what it describes",
            where=f"{given}:{source.line(())}",
            hint="a device has 'kind', a link 'latency_us', a platform 'devices', a workload "
            "'streams', a deployment 'models', a catalog 'kinds'",
        )
        return CheckedFile(given, None, None, None, (unknown,))
    found: DeviceSpec | LinkModel | Platform | FittedModel | KinModel | PricesModel | None
    name: str | None = path.stem
    wrong: tuple[BrokenFile | None, ...]
    doubts: tuple[str, ...] = ()
    if sort == "platform":
        found, wrong = survey(source, given)
        name = None if found is None else found.name
    elif sort == "device":
        device, broken_file = read_description(DeviceModel, path, given)
        wrong = (broken_file,)
        name = path.stem if device is None else device.name or path.stem
        found = None if device is None else device.to_spec(name)
        if found is not None and not in_catalog(path):
            doubts = tuple(said for _, said in doubtful_peaks(found.flops_per_s))
    else:
        in_its_folder = in_catalog(source.path)
        read, complaints = parse(MODELS[sort], source, source.data, catalog=in_its_folder)
        found = cast("LinkModel | FittedModel | KinModel | PricesModel | None", read)
        wrong = (broken(source, complaints),)
    errors = tuple(error for file in wrong if file is not None for error in file.each)
    return CheckedFile(given, sort, None if errors else name, found, errors, doubts)


def sort_of(data: Mapping[str, object]) -> Sort | None:
    """Return the kind of hardware that a file with the keys of `data` describes, or None."""
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
