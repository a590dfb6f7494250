"""One description read from its file; a device of the catalog with what was fitted for it."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from hetsim.errors import PlatformError
from hetsim.hardware.files.catalog_files import fitted_beside, in_catalog
from hetsim.hardware.files.complaints import Broken, broken, parse, read_file
from hetsim.hardware.files.device_schema import DeviceModel
from hetsim.hardware.files.kernels_schema import FittedModel
from hetsim.hardware.files.yaml_source import Complaint, read_yaml

M = TypeVar("M", bound=BaseModel)


def read_description(model: type[M], path: Path, shown: str) -> tuple[M | None, Broken | None]:
    """Read the file at `path` as a `model`: return it, or what is wrong.

    To a device of the catalog belongs what was fitted for it, in a file of its own.
    """
    read, wrong = read_file(model, path, shown, catalog=in_catalog(path))
    beside = fitted_beside(path) if model is DeviceModel else None
    if beside is None:
        return read, wrong
    name = (Path(shown).parent / beside.relative_to(path.resolve().parent)).as_posix()
    fitted, fit_wrong = _read_fitted(beside, name, read)
    if wrong is not None or fit_wrong is not None:
        each = [error for one in (wrong, fit_wrong) if one is not None for error in one.each]
        first = wrong or fit_wrong
        assert first is not None
        return None, Broken(first.whole, tuple(each))
    assert isinstance(read, DeviceModel)
    assert fitted is not None
    runtimes = {
        name: one.model_copy(update={"kernels": {**one.kernels, **fitted.runtimes[name].kernels}})
        if name in fitted.runtimes
        else one
        for name, one in read.runtimes.items()
    }
    kernels = {**read.kernels, **fitted.kernels}
    return read.model_copy(update={"kernels": kernels, "runtimes": runtimes}), None


def _read_fitted(
    path: Path, shown: str, device: BaseModel | None
) -> tuple[FittedModel | None, Broken | None]:
    """Read what was fitted for `device`, which states no figures of the same precisions."""
    try:
        source = read_yaml(path, shown, holds="what was fitted for a device")
    except PlatformError as error:
        return None, Broken(error, (error,))
    fitted, complaints = parse(FittedModel, source, source.data, catalog=True)
    if fitted is not None and isinstance(device, DeviceModel):
        complaints += [
            Complaint(
                source.line(("kernels", precision)),
                f"'kernels.{precision}' is stated by devices/{path.name} too",
                "keep what is fitted out of files that are written by hand",
            )
            for precision in fitted.kernels
            if precision in device.kernels
        ]
    wrong = broken(source, complaints)
    return (fitted, None) if wrong is None else (None, wrong)
